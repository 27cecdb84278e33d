package daemon

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/trust"
)

// promptTimeout limits the requests to sys and ctx for a prompt.
const promptTimeout = 10 * time.Second

// A turn asks promptTries times for its prompt, with promptPause between two tries.
const (
	promptTries = 3
	promptPause = 3 * time.Second
)

// bytesPerToken is the estimated number of bytes of a token.
const bytesPerToken = 4

// prompt contains the parts before the user's message. A part that failed is empty and
// its error is set.
type prompt struct {
	system  proto.SystemPrompt
	sysErr  error
	context proto.Raw // a list of messages, or nil
	offer   proto.Raw // the last event tools of the session, or nil
	ctxErr  error

	project    trust.Project
	projectErr error // nothing of the project is used
	hooked     []proto.Notice
}

// prompt calls sys and, unless build is nil, ctx concurrently. Meanwhile rtr is asked
// for the hints of the keys that are masked in the results of the turn's calls.
func (s *Service) prompt(ctx context.Context, get proto.GetPrompt, build *proto.Build) prompt {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	var p prompt
	sysAnswered := make(chan struct{})
	go func() {
		defer close(sysAnswered)
		if p.system, p.sysErr = rpc.Call(ctx, s.sys, proto.SysGet, get); p.sysErr != nil {
			p.system = proto.SystemPrompt{} // drop a part of a malformed answer
		}
	}()
	hinted := make(chan struct{})
	go func() {
		defer close(hinted)
		s.refreshHints(ctx)
	}()
	if build != nil {
		p.context, p.offer, p.ctxErr = s.context(ctx, *build)
	}
	<-sysAnswered
	<-hinted
	return p
}

// assemble returns the prompt of a session's turn. Unlike for a plain message no part of
// it may be missing: the model needs the earlier messages, unless build is nil, and its
// instructions. A service
// that cannot be reached is asked promptTries times. It loads the trusted files of the
// project, for the user uid: a turn has them as they are when it starts or is resumed.
func (s *Service) assemble(ctx context.Context, req proto.Chat, uid int, build *proto.Build) (prompt, error) {
	project, projectErr := s.projectOf(req.Root, uid)
	if s.servers.Any() || len(project.MCP) > 0 || len(req.MCPServers) > 0 {
		go s.wakeServers(ctx)
	}
	for n := 1; ; n++ {
		p := s.prompt(ctx, getPrompt(req, project), build)
		p.project, p.projectErr = project, projectErr
		err := p.sysErr
		if err == nil && p.ctxErr != nil {
			err = sessionError(p.ctxErr)
		}
		if err == nil || n == promptTries || errorPacket(err).Code != proto.CodeUnavailable {
			return p, err
		}
		select {
		case <-time.After(s.promptPause):
		case <-ctx.Done():
			return p, err
		}
	}
}

// context calls ctx. It checks the edges of the list: rtr, which reads the messages,
// validates them.
func (s *Service) context(ctx context.Context, build proto.Build) (messages, offer proto.Raw, err error) {
	reply, err := rpc.Call(ctx, s.ctx, proto.CtxBuild, build)
	if err != nil || reply.Messages == nil {
		return nil, nil, err
	}
	if _, err := message.Inner(reply.Messages); err != nil {
		return nil, nil, fmt.Errorf("field %q: %w", "messages", err)
	}
	return reply.Messages, reply.Offer, nil
}

// getPrompt returns the request to sys for a message.
func getPrompt(req proto.Chat, project trust.Project) proto.GetPrompt {
	return proto.GetPrompt{
		Root: req.Root, SystemPrompt: req.SystemPrompt, Session: req.SessionID != "", Sandbox: req.Sandbox, Network: req.Network,
		ProjectSkills: project.Skills,
	}
}

// messages returns the whole prompt [system?, …context, user, …what hooks add].
func (p prompt) messages(text string, files []proto.Attachment, blocks ...string) proto.Raw {
	// The context can be long: it is copied once. Escapes make texts longer.
	list := wire.Buffer(len(p.context) + (len(p.system.Content)+len(text))*5/4 + 256)
	if p.system.Content != "" {
		list = message.Append(list, proto.RoleSystem, p.system.Content)
	}
	list = append(message.BeginWith(message.Join(list, p.context), proto.RoleUser, text, files), '}')
	for _, block := range blocks {
		list = message.Append(list, proto.RoleUser, block)
	}
	return message.Close(list)
}

// announce sends the notices to a caller of events.
func (p prompt) announce(req proto.Chat, out *rpc.Out) error {
	if !req.Events {
		return nil
	}
	for _, notice := range p.notices() {
		if err := out.Packet(proto.TypeNotice, notice); err != nil {
			return sent(err)
		}
	}
	return sent(out.Flush())
}

// notices returns the warnings of sys and the names of the loaded AGENTS.md files.
func (p prompt) notices() (notices []proto.Notice) {
	for _, warning := range p.system.Warnings {
		notices = append(notices, proto.Notice{Kind: proto.NoticeWarning, Text: warning})
	}
	var paths []string
	for _, file := range p.system.Files {
		paths = append(paths, file.Path)
	}
	if len(paths) > 0 {
		notices = append(notices, proto.Notice{Kind: proto.NoticeAgents, Text: "Loaded AGENTS.md from: " + strings.Join(paths, ", ")})
	}
	if p.projectErr != nil {
		notices = append(notices, proto.Notice{Kind: proto.NoticeWarning, Text: "No file of the project is used: " + p.projectErr.Error()})
	}
	return append(notices, p.hooked...)
}

// preview returns the parts of the prompt that a turn of a session would send.
func (s *Service) preview(ctx context.Context, req proto.Preview) (proto.ContextReport, error) {
	report := proto.ContextReport{}
	if err := checkPlace(req.SessionID, req.Root); err != nil {
		return report, err
	}
	var build *proto.Build // a new session has no messages
	if req.SessionID != "" {
		build = &proto.Build{SessionID: req.SessionID}
	}
	project, err := s.projectOf(req.Root, rpc.PeerUID(ctx))
	if err != nil {
		report.Warnings = append(report.Warnings, "No file of the project is used: "+err.Error())
	}
	p := s.prompt(ctx, proto.GetPrompt{
		Root: req.Root, SystemPrompt: req.SystemPrompt, Session: true, Sandbox: req.Sandbox, Network: req.Network, ProjectSkills: project.Skills,
	}, build)
	if p.sysErr != nil {
		return report, p.sysErr
	}
	if p.ctxErr != nil {
		return report, sessionError(p.ctxErr)
	}
	tools, err := rpc.Call(ctx, s.agr, proto.AgrTools, proto.ToolsRequest{Agents: true, Skill: p.system.OfferSkill, Root: req.Root, Project: project.MCP, Offer: p.offer})
	if err != nil {
		return report, err
	}
	addPrompt(&report, p.system)
	for _, part := range []struct {
		name string
		list proto.Raw
	}{{"tools", tools.Tools}, {"messages", p.context}} {
		if len(bytes.Trim(part.list, "[] \t\r\n")) > 0 {
			addPart(&report, part.name, string(part.list))
		}
	}
	report.Skills, report.Warnings = p.system.Skills, append(report.Warnings, p.system.Warnings...)
	report.Template, report.TemplateMissing = p.system.Template, p.system.TemplateMissing
	return report, nil
}

// addPrompt adds the system prompt and each of the files at its end as a part. If the
// sizes of the files exceed the prompt, it adds the prompt as one part.
func addPrompt(r *proto.ContextReport, p proto.SystemPrompt) {
	start, whole := len(p.Content), true
	starts := make([]int, len(p.Files))
	for i := len(p.Files) - 1; i >= 0 && whole; i-- {
		size := p.Files[i].Bytes
		whole = size >= 0 && size <= int64(start)
		start -= int(size)
		starts[i] = start
	}
	if !whole {
		addPart(r, "system prompt", p.Content)
		return
	}
	addPart(r, "system prompt", p.Content[:start])
	for i, file := range p.Files {
		addPart(r, file.Path, p.Content[starts[i]:starts[i]+int(file.Bytes)])
	}
}

// addPart adds a part and its estimated size, unless it is empty.
func addPart(r *proto.ContextReport, name, content string) {
	if content == "" {
		return
	}
	tokens := int64(len(content)+bytesPerToken-1)/bytesPerToken + int64(message.FileTokens([]byte(content)))
	r.Parts = append(r.Parts, proto.ContextPart{Name: name, Tokens: tokens, Content: content})
	r.Tokens += tokens
}
