package daemon

import (
	"bytes"
	"context"

	"zino/pkg/rpc"
	"zino/proto"
)

// bytesPerToken is how many bytes are taken for one token.
const bytesPerToken = 4

// preview tells what a turn of a session would send, part by part.
func (s *Service) preview(ctx context.Context, req proto.Preview) (proto.ContextReport, error) {
	report := proto.ContextReport{}
	if err := checkPlace(req.SessionID, req.Root); err != nil {
		return report, err
	}
	var build *proto.Build // a new session has no messages
	if req.SessionID != "" {
		build = &proto.Build{SessionID: req.SessionID}
	}
	p := s.parts(ctx, proto.GetPrompt{
		Root: req.Root, SystemPrompt: req.SystemPrompt, Session: true, Sandbox: req.Sandbox, Network: req.Network,
	}, build)
	if p.sysErr != nil {
		return report, p.sysErr
	}
	if p.ctxErr != nil {
		return report, sessionError(p.ctxErr)
	}
	tools, err := rpc.Call(ctx, s.agr, proto.AgrTools, proto.ToolsRequest{})
	if err != nil {
		return report, err
	}
	addPrompt(&report, p.system)
	addList(&report, "tools", tools.Tools)
	addList(&report, "messages", p.middle)
	report.Warnings = p.system.Warnings
	report.Template, report.TemplateMissing = p.system.Template, p.system.TemplateMissing
	return report, nil
}

// addPrompt adds the system prompt, which its files end, and each of them. If
// their sizes cannot be true the prompt stays in one piece.
func addPrompt(r *proto.ContextReport, p proto.SystemPrompt) {
	rest := p.Content
	var files []proto.ContextPart
	for i := len(p.Files) - 1; i >= 0; i-- {
		file := p.Files[i]
		if file.Bytes < 0 || file.Bytes > int64(len(rest)) {
			rest, files = p.Content, nil
			break
		}
		start := len(rest) - int(file.Bytes)
		files = append(files, proto.ContextPart{Name: file.Path, Content: rest[start:]})
		rest = rest[:start]
	}
	addPart(r, "system prompt", rest)
	for i := len(files) - 1; i >= 0; i-- {
		addPart(r, files[i].Name, files[i].Content)
	}
}

// addList adds a part in JSON, unless it is a list without elements.
func addList(r *proto.ContextReport, name string, list proto.Raw) {
	if inner := bytes.Trim(list, "[] \t\r\n"); len(inner) > 0 {
		addPart(r, name, string(list))
	}
}

// addPart adds a part, unless it is empty, to the list and the sum.
func addPart(r *proto.ContextReport, name, content string) {
	if content == "" {
		return
	}
	tokens := int64(len(content)+bytesPerToken-1) / bytesPerToken
	r.Parts = append(r.Parts, proto.ContextPart{Name: name, Tokens: tokens, Content: content})
	r.Tokens += tokens
}
