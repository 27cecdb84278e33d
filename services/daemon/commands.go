package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"zino/pkg/attach/kind"
	"zino/pkg/gate"
	"zino/pkg/keys"
	"zino/pkg/mention"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/slash"
	"zino/services/daemon/trust"
)

// Limits of what the body of a command runs and reads.
const (
	expandSeconds = 10
	expandRead    = 64 << 10
	expandReadAll = 256 << 10
	modelsTimeout = 3 * time.Second
)

// hostCommands is the directory of the host's commands.
const hostCommands = "/etc/zino/commands"

// commandsOf returns the slash commands of a root for a user; of those with one name the
// first one wins. Sources join here. Files that are not trusted come last: they hide none.
func (s *Service) commandsOf(ctx context.Context, root string, uid int) ([]slash.Command, error) {
	var p trust.Project
	var project, untrusted, user []slash.Command
	var err error
	if ownProject(uid) {
		if root != "" {
			var files []proto.TrustFile
			if p, files, err = trust.Load(root, os.Getenv("HOME"), s.answers); err == nil {
				project, untrusted = projectCommands(p, files)
			}
		}
		if base, err := keys.Base(os.Getenv); err == nil {
			user = slash.Dir(filepath.Join(base, "commands"), proto.CommandUser)
		}
		if home := os.Getenv("HOME"); filepath.IsAbs(home) {
			user = append(user, slash.Dir(filepath.Join(home, ".claude", "commands"), proto.CommandUser)...)
		}
	}
	return slash.Merge(project, user, slash.Dir(hostCommands, proto.CommandHost), s.skillCommands(ctx, p), s.promptCommands(ctx, root, p), untrusted), err
}

// projectCommands returns the commands of a project, and those that are not trusted yet.
func projectCommands(p trust.Project, files []proto.TrustFile) (list, untrusted []slash.Command) {
	for _, c := range p.Commands {
		list = append(list, slash.New(c.Name, c.Path, proto.CommandProject, c.Content))
	}
	for _, f := range files {
		name, source := trust.CommandName(f.Path), proto.CommandProject
		if f.Kind == proto.TrustSkill {
			name, source = filepath.Base(f.Path), proto.CommandSkill
		}
		if (f.Kind == proto.TrustCommand || f.Kind == proto.TrustSkill) && f.SHA256 != "" && f.State != proto.TrustTrusted && slash.Name.MatchString(name) {
			untrusted = append(untrusted, slash.Command{Name: name, Path: f.Path, Source: source, Untrusted: true})
		}
	}
	return list, untrusted
}

// commands lists the slash commands of a root.
func (s *Service) commands(ctx context.Context, req proto.ListCommands) (proto.CommandList, error) {
	list := proto.CommandList{Commands: []proto.CommandInfo{}}
	if err := checkPlace("", req.Root); err != nil {
		return list, err
	}
	all, err := s.commandsOf(ctx, req.Root, rpc.PeerUID(ctx))
	if err != nil {
		s.log.Warn("the commands of a project are not listed", "error", err, "trace", rpc.Trace(ctx))
	}
	for _, c := range all {
		list.Commands = append(list.Commands, proto.CommandInfo{
			Name: c.Name, Description: c.Description, ArgumentHint: c.Hint, Source: c.Source, Path: c.Path, Untrusted: c.Untrusted, Problem: c.Problem,
		})
	}
	return list, nil
}

// expand replaces the command of a request by its text. A request without one stays.
func (s *Service) expand(ctx context.Context, req *proto.Chat) error {
	if req.Command == "" {
		return nil
	}
	uid := rpc.PeerUID(ctx)
	all, err := s.commandsOf(ctx, req.Root, uid)
	i := slices.IndexFunc(all, func(c slash.Command) bool { return c.Name == req.Command })
	switch {
	case i < 0 && err != nil:
		return err
	case i < 0:
		return proto.Errorf(proto.CodeNotFound, "unknown command /%s: write it to .claude/commands/%s.md, or send the text with a blank in front", req.Command, req.Command)
	case all[i].Untrusted:
		return proto.Errorf(proto.CodeDenied, "the command /%s is not trusted: zino trust add %s", req.Command, text.VisibleLine(all[i].Path))
	case all[i].Problem != "":
		return proto.Errorf(proto.CodeInvalid, "the command /%s cannot be used: %s: %s", req.Command, text.VisibleLine(all[i].Path), all[i].Problem)
	}
	c := all[i]
	b := &expansion{s: s, req: *req, uid: uid, room: expandReadAll}
	if c.Text != nil {
		message, files, err := c.Text(ctx, req.Arguments)
		for _, f := range files {
			if err := b.attach(ctx, f); err != nil {
				message += "\n\n[" + text.VisibleLine(err.Error()) + "]"
			}
		}
		req.Message, req.Files = message, append(req.Files, b.files...)
		return err
	}
	body, err := c.Expand(ctx, req.Arguments, slash.Host{Run: b.run, Read: b.read})
	if err != nil {
		if _, ok := errors.AsType[*proto.Error](err); !ok && ctx.Err() == nil {
			err = proto.Errorf(proto.CodeInvalid, "%v", err)
		}
		return err
	}
	req.Message, req.Files = body, append(req.Files, b.files...)
	if c.Model != "" && req.Model == "" && s.hasModel(ctx, req.Provider, c.Model) {
		req.Model = c.Model
	}
	return nil
}

// hasModel reports whether a provider lists a model. The names in commands that were
// written for another agent need not exist here.
func (s *Service) hasModel(ctx context.Context, provider, model string) bool {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	list, err := rpc.Call(ctx, s.rtr, proto.RtrModels, proto.ModelsRequest{})
	if err == nil && slices.ContainsFunc(list.Models, func(m proto.Model) bool {
		return m.Name == model && (provider == "" || m.Provider == provider)
	}) {
		return true
	}
	s.log.Info("the model of a command is not used: no provider lists it", "model", model, "trace", rpc.Trace(ctx))
	return false
}

// expansion is what the body of a command may do: as the user, with the confinement of the
// turn. A person has agreed to the file, so the mode asks about nothing; rules that deny
// hold, and so does plan.
type expansion struct {
	s     *Service
	req   proto.Chat
	uid   int
	room  int              // bytes of files
	files []proto.FileData // images and PDF files
}

// call runs a tool of exc.
func (b *expansion) call(ctx context.Context, tool string, input proto.Raw, outputBytes int) (proto.CallResult, error) {
	req := b.req
	req.SessionID = ""
	if modeOf(req) != gate.Plan {
		req.Mode = string(gate.Yolo)
	}
	token, err := b.s.token(req, "", b.uid)
	if err != nil {
		return proto.CallResult{}, err
	}
	b.s.refreshHints(ctx)
	return rpc.CallEvents(ctx, b.s.services["exc"], proto.ExcCall, proto.Call{
		Tool: tool, Input: input, Root: req.Root, Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask,
		OutputBytes: outputBytes, Events: true, Token: token, Mask: b.s.masking(),
	}, func(string, []byte) error { return nil })
}

func (b *expansion) run(ctx context.Context, command string) (output, failed string, err error) {
	return b.bash(ctx, command, b.s.cfg.Agr.ToolOutputBytes)
}

func (b *expansion) bash(ctx context.Context, command string, outputBytes int) (output, failed string, err error) {
	input := fmt.Appendf(wire.AppendString(proto.Raw(`{"command":`), command), `,"timeout_s":%d}`, expandSeconds)
	answer, err := b.call(ctx, bashTool, input, outputBytes)
	if e, ok := errors.AsType[*proto.Error](err); ok && (e.Code == proto.CodeDenied || e.Code == proto.CodeApproval) {
		return "", "denied: " + text.OneLine(e.Message), nil
	}
	if err != nil {
		return "", "", err
	}
	result := commandResult(answer.Result)
	d := result.Data
	switch {
	case !result.OK:
		return "", text.OneLine(result.Error.Message), nil
	case d.TimedOut:
		failed = fmt.Sprintf("no end within %d s", expandSeconds)
	case d.ExitCode < 0:
		failed = fmt.Sprintf("signal %d", -d.ExitCode)
	case d.ExitCode > 0:
		failed = fmt.Sprintf("exit %d", d.ExitCode)
	default:
		return d.Stdout, "", nil
	}
	return d.Stdout + d.Stderr, failed, nil
}

func (b *expansion) read(ctx context.Context, path string) (content string, ok bool, err error) {
	if rest, isHome := cutHome(path); isHome && ownProject(b.uid) {
		path = rest
	}
	answer, err := b.call(ctx, "read", append(wire.AppendString(proto.Raw(`{"path":`), path), '}'), 2*expandRead)
	if err != nil {
		if e, ok := errors.AsType[*proto.Error](err); ok && e.Code != proto.CodeUnavailable {
			return "", false, nil // it stays as written
		}
		return "", false, err
	}
	var result struct {
		OK   bool `json:"ok"`
		Data struct {
			Content   string `json:"content,omitzero"`
			Bytes     int64  `json:"bytes,omitzero"`
			Truncated bool   `json:"truncated,omitzero"`
		} `json:"data,omitzero"`
		Error proto.Error `json:"error,omitzero"`
	}
	if err := wire.DecodeReply(answer.Result, &result); err != nil {
		return "", false, nil
	}
	if result.Error.Code == "EISDIR" {
		return b.list(ctx, path)
	}
	if !result.OK {
		return "", false, nil
	}
	if len(answer.Attachments) > 0 {
		if err := b.attach(ctx, answer.Attachments[0]); err != nil {
			return text.VisibleLine(err.Error()), true, nil
		}
		return "", false, nil // only its name is in the text
	}
	if result.Data.Truncated || len(result.Data.Content) > min(expandRead, b.room) {
		return fmt.Sprintf("%s, named only", text.Bytes(result.Data.Bytes)), true, nil
	}
	b.room -= len(result.Data.Content)
	return result.Data.Content, true, nil
}

// list returns the first names in a directory.
func (b *expansion) list(ctx context.Context, path string) (content string, ok bool, err error) {
	command := fmt.Sprintf("LC_ALL=C ls -Ap -- %s | sed -n '1,%dp;$='", slash.Quote(path), mention.NamesMax)
	output, failed, err := b.bash(ctx, command, expandRead)
	if err != nil || failed != "" {
		return "", false, err
	}
	names := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	all, _ := strconv.Atoi(names[len(names)-1]) // the number of lines; none: it is empty
	content = mention.Listing(names[:len(names)-1], all)
	if len(content) > b.room {
		return text.Bytes(int64(len(content))) + ", named only", true, nil
	}
	b.room -= len(content)
	return content, true, nil
}

// attach attaches an image or PDF file to the message, as agr prepares it: the daemon does
// not link the decoders. The error says why it is left out.
func (b *expansion) attach(ctx context.Context, f proto.FileData) error {
	name := kind.Name(f.Name)
	if len(b.req.Files)+len(b.req.Attachments)+len(b.files) == proto.AttachmentsMax {
		return fmt.Errorf("%s is left out: a prompt has at most %d files", name, proto.AttachmentsMax)
	}
	ready, err := rpc.Call(ctx, b.s.agr, proto.AgrPrepare, f)
	if err != nil {
		return fmt.Errorf("%s is left out: %w", name, err)
	}
	size := len(ready.Data)
	for _, other := range slices.Concat(b.req.Files, b.files) {
		size += len(other.Data)
	}
	if size > filesMax {
		return fmt.Errorf("%s is left out: the files of a prompt have more than %s", name, text.Bytes(filesMax))
	}
	b.files = append(b.files, proto.FileData(ready))
	return nil
}

// cutHome returns the path that ~/ at the start of a path stands for.
func cutHome(path string) (string, bool) {
	if len(path) < 2 || path[:2] != "~/" {
		return path, false
	}
	home := os.Getenv("HOME")
	return filepath.Join(home, path[2:]), filepath.IsAbs(home)
}
