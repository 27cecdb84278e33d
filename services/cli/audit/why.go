package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/audit"
	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/sessions"
)

// change is a change of a file that a call has made.
type change struct {
	TS       string `json:"ts"`
	Session  string `json:"session,omitzero"`
	Turn     string `json:"turn,omitzero"`
	Tool     string `json:"tool"`
	Message  string `json:"message,omitzero"` // the first words of the user's message
	Approval string `json:"approval,omitzero"`
	Before   string `json:"before,omitzero"` // SHA-256; absent: the file did not exist, or is not known
	After    string `json:"after,omitzero"`
	Now      string `json:"now"` // "same" if the file still has that content, else "changed", or "gone"
	time     string
}

func newWhy(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "why FILE", Short: "print which calls have changed a file", Annotations: command.PrintsJSON,
		Long: `Print the calls of tools that have changed a file, the newest first: when, in which
session and turn, by which tool, the beginning of the message that the turn answers, the
request that a person has approved, the hashes before and after, and whether the file still
has that content. What a command at sandbox level unit has changed is not known. If no call
has changed the file, that is printed, and the exit status is 0.`,
		Example: "  zino audit why src/main.go",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Mistake(cmd, "name one file")
			}
			s, err := find(env)
			if err != nil {
				return err
			}
			path := realPath(args[0])
			var list []change
			err = env.Guard(cmd.Context(), func(ctx context.Context) error {
				m, err := newMessages(ctx, env)
				if err != nil {
					return err
				}
				defer m.close()
				list, err = changesOf(ctx, s, path, m)
				return err
			})
			switch {
			case err != nil:
				return err
			case env.JSON():
				return env.Print(func(w io.Writer) error { return render.JSONList(w, list) })
			case len(list) == 0:
				return env.PrintLine("no recorded change")
			}
			rows := [][]string{{"TIME", "SESSION", "TURN", "TOOL", "APPROVAL", "CHANGE", "NOW", "MESSAGE"}}
			for _, c := range list {
				rows = append(rows, []string{c.time, dash(head(c.Session, 8)), dash(c.Turn), c.Tool, dash(c.Approval), hash(c.Before) + " -> " + hash(c.After), c.Now, dash(c.Message)})
			}
			return env.PrintTable(rows)
		},
	}
}

// realPath returns the absolute path of a file, its directory without symbolic links.
func realPath(path string) string {
	path = connect.Absolute(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// hash returns the beginning of a hash.
func hash(sum string) string {
	if sum == "" {
		return "none"
	}
	return head(sum, 12)
}

// changesOf returns the changes of a file, the newest first.
func changesOf(ctx context.Context, s source, path string, m *messages) (list []change, err error) {
	now := ""
	if data, err := os.Open(path); err == nil {
		h := sha256.New()
		if _, err := io.Copy(h, data); err == nil {
			now = hex.EncodeToString(h.Sum(nil))
		}
		data.Close()
	}
	err = s.records(ctx, proto.ReadAudit{}, func(r line.Record, _ []byte) error {
		var call audit.Call
		if r.Kind != proto.AuditCall && r.Kind != proto.AuditJob || wire.DecodeReply(r.Data, &call) != nil {
			return nil
		}
		for _, f := range call.Files {
			if f.Path != path {
				continue
			}
			c := change{TS: r.TS, Session: r.Session, Turn: r.Turn, Tool: call.Tool, Approval: call.Approval, Before: f.Before, After: f.After, Now: "changed", time: clock(&r)}
			switch {
			case f.After == now:
				c.Now = "same"
			case now == "":
				c.Now = "gone"
			}
			list = append(list, c)
		}
		return nil
	})
	for i := range list {
		list[i].Message = m.of(ctx, list[i].Session, list[i].Turn)
	}
	slices.Reverse(list)
	return list, err
}

// wordsMax is the length of the beginning of a message in bytes.
const wordsMax = 60

// read reads the messages of a session, from the daemon or from its file.
func (m *messages) read(ctx context.Context, session string) map[string]string {
	found := map[string]string{}
	see := func(event []byte) {
		var e struct {
			Type string `json:"type"`
			Role string `json:"role"`
			Text string `json:"text"`
			Turn string `json:"turn"`
		}
		if json.Unmarshal(event, &e) == nil && e.Type == proto.TypeMessage && e.Role == proto.RoleUser && found[e.Turn] == "" {
			found[e.Turn] = text.Clip(text.OneLine(e.Text), wordsMax)
		}
	}
	if m.d != nil {
		_ = sessions.Pieces(ctx, m.d, session, func(piece proto.SessionEvents) error {
			for event := range wire.Items(piece.Events) {
				see(event)
			}
			return nil
		}) // a session that is gone has no message to show
		return found
	}
	if proto.CheckSessionID(session) != nil {
		return found
	}
	data, err := os.ReadFile(filepath.Join(m.cfg.Mem.SessionsDir, session+".jsonl"))
	if err == nil {
		for event := range bytes.Lines(data) {
			see(event)
		}
	}
	return found
}

// what says what a record is about, for people.
func what(r *line.Record) string {
	var call audit.Call
	switch r.Kind {
	case proto.AuditCall, proto.AuditDenied, proto.AuditJob:
		if wire.DecodeReply(r.Data, &call) != nil || call.Tool == "" {
			break
		}
		state := "ok"
		if !call.OK {
			state = call.Code
		}
		if call.Exit != nil && *call.Exit != 0 {
			state = fmt.Sprintf("exit %d", *call.Exit)
		}
		list := []string{call.Tool, state, call.Input}
		if call.Reason != "" {
			list = append(list, call.Reason)
		}
		if n := len(call.Files) + call.MoreFiles; n > 0 {
			list = append(list, text.Count(n, "file")+" changed")
		}
		return text.Clip(text.OneLine(strings.Join(list, " ")), 160)
	case proto.AuditTurn:
		var t audit.Turn
		if wire.DecodeReply(r.Data, &t) == nil {
			return strings.TrimSpace(strings.Join([]string{t.State, t.Mode, t.Reason}, " "))
		}
	case proto.AuditApproval:
		var a audit.Approval
		if wire.DecodeReply(r.Data, &a) == nil {
			s := a.ID + " " + a.State + " " + a.Tool
			if a.By >= 0 {
				s += fmt.Sprintf(" by uid %d", a.By)
			}
			return s
		}
	case proto.AuditInfer:
		var i audit.Infer
		if wire.DecodeReply(r.Data, &i) == nil {
			s := strings.TrimSpace(i.Provider+" "+i.Model) + " " + i.Code
			if i.Usage != nil {
				s += fmt.Sprintf(" %d tokens in, %d out", i.Usage.InputTokens, i.Usage.OutputTokens)
			}
			return text.OneLine(s)
		}
	case proto.AuditStart, proto.AuditStop:
		var life struct {
			Version string `json:"version"`
			PID     int    `json:"pid"`
		}
		if wire.DecodeReply(r.Data, &life) == nil && life.Version != "" {
			s := "version " + life.Version
			if life.PID > 0 {
				s += fmt.Sprintf(", process %d", life.PID)
			}
			return text.OneLine(s)
		}
	case proto.AuditConfig, proto.AuditPolicy:
		var hashed struct {
			Files []audit.File `json:"files"`
		}
		if wire.DecodeReply(r.Data, &hashed) == nil && len(hashed.Files) > 0 {
			var list []string
			for _, f := range hashed.Files {
				list = append(list, f.Path+" "+head(f.After, 12))
			}
			return text.Clip(text.OneLine(strings.Join(list, ", ")), 160)
		}
	}
	return text.Clip(string(r.Data), 160)
}

// mirrored returns the checkpoints that were copied, nil for none.
func (s source) mirrored(ctx context.Context) ([]byte, error) {
	switch s.mirror {
	case config.MirrorNone:
		return nil, nil
	case config.MirrorJournal:
		return fromJournal(ctx)
	}
	return os.ReadFile(s.mirror)
}

// fromJournal reads the checkpoints in the journal, which may have dropped old ones.
func fromJournal(ctx context.Context) (notes []byte, err error) {
	path, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, "--quiet", "--no-pager", "--output=json", "--output-fields=ZINO_NOTE", "--unit=zino-audit.service")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var entry struct {
			Note string `json:"ZINO_NOTE"`
		}
		if json.Unmarshal(in.Bytes(), &entry) == nil && entry.Note != "" {
			notes = append(append(notes, entry.Note...), '\n')
		}
	}
	return notes, errors.Join(in.Err(), cmd.Wait())
}
