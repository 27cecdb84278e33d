package daemon

import (
	"cmp"
	"context"
	"errors"
	"time"

	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/daemon/trust"
)

// historyTimeout is how long mem may take to store the exchange of a plain
// message.
const historyTimeout = 30 * time.Second

// plain answers a message without a session. It leaves out a part of the prompt that is
// not available, but a template or system_prompt_file that cannot be read is an error.
// The terminal packet is sent after the exchange has been stored.
func (s *Service) plain(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	p := s.prompt(ctx, getPrompt(req, trust.Project{}), &proto.Build{ChannelID: req.ChannelID, UserMessage: req.Message})
	if errors.Is(p.sysErr, proto.ErrInvalid) {
		return proto.Text{}, p.sysErr
	}
	if p.sysErr != nil {
		s.log.Warn("turn without system prompt", "error", p.sysErr, "trace", rpc.Trace(ctx))
	}
	if p.ctxErr != nil {
		s.log.Warn("turn without context", "error", p.ctxErr, "trace", rpc.Trace(ctx))
	}
	if err := p.announce(req, out); err != nil {
		return proto.Text{}, err
	}
	files, err := s.references(ctx, req, false)
	if err != nil {
		return proto.Text{}, err
	}
	messages := p.messages(req.Message, files)
	rpc.Recycle(ctx, p.context)
	rpc.Recycle(ctx, messages)
	text, err := s.ask(ctx, req, messages, out)
	if err != nil {
		return proto.Text{}, err
	}
	if req.ChannelID != "" && text.Content != "" && !req.NoSave {
		if err := out.Flush(); err != nil { // send the text before mem stores the exchange
			s.log.Debug("the caller has hung up before the turn was stored", "error", err, "trace", rpc.Trace(ctx))
		}
		text.NotStored = s.store(ctx, req.ChannelID, req.Message, text.Content)
	}
	text = shape(text, req)
	if !req.Events {
		text.Warnings = p.system.Warnings
	}
	return text, nil
}

// ask calls agr, or rtr if agr cannot be reached. An error of agr itself is returned.
func (s *Service) ask(ctx context.Context, req proto.Chat, messages proto.Raw, out *rpc.Out) (proto.Text, error) {
	var sink rpc.Sink = out
	r := &relay{out: out, events: true}
	if req.Events {
		sink = r
	}
	run := s.run(req, trust.Project{}, messages, s.cfg.Agr.MaxIterations)
	uid := rpc.PeerUID(ctx)
	run.Owner = ownerOf(uid)
	token, err := s.token(req, "", uid)
	if err != nil {
		return proto.Text{}, err
	}
	run.Token = token
	text, err := rpc.CallText(ctx, s.agr, proto.AgrRun, run, sink)
	if errors.Is(err, rpc.ErrConnect) {
		s.log.Warn("agr cannot be reached, asking the model directly", "error", err, "trace", rpc.Trace(ctx))
		infer := proto.Infer{
			Messages: messages, Temperature: run.Temperature, TopP: run.TopP, Stream: run.Chunks(), NeedModel: run.NeedModel,
			Provider: run.Provider, Model: run.Model, MaxTokens: run.MaxTokens, Effort: run.Effort, Events: run.Events,
		}
		text, err = rpc.CallText(ctx, s.rtr, proto.RtrInfer, infer, sink)
	}
	if err != nil {
		return text, err
	}
	return text, r.finish()
}

// run returns the request to agr for a message. A plain message has no project.
func (s *Service) run(req proto.Chat, project trust.Project, messages proto.Raw, iterations int) proto.Run {
	return proto.Run{
		Messages: messages, Temperature: s.cfg.Agent.Temperature, TopP: s.cfg.Agent.TopP,
		MaxIterations: &iterations, Stream: &req.Stream, NeedModel: req.NeedModel, SessionID: req.SessionID, NoSave: req.NoSave,
		Provider: req.Provider, Model: req.Model, MaxTokens: req.MaxTokens, Root: req.Root, Events: req.Events,
		Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, Effort: cmp.Or(req.Effort, s.cfg.Agent.Effort),
		Mask: s.masking(), Project: project.MCP, ProjectSkills: project.Skills, OutputSchema: req.OutputSchema,
		Files: req.Files, Client: req.MCPServers, ClientFiles: req.ClientFiles,
	}
}

// store appends the exchange to the channel, also if the caller disconnects meanwhile.
// An error does not fail the request: it is logged and returned as a text for the
// caller.
func (s *Service) store(ctx context.Context, channel, user, assistant string) (problem string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTimeout)
	defer cancel()
	list := message.Append(message.Append(nil, proto.RoleUser, user), proto.RoleAssistant, assistant)
	if _, err := rpc.Call(ctx, s.mem, proto.MemAppendHistory, proto.AppendHistory{ChannelID: channel, Messages: message.Close(list)}); err != nil {
		s.log.Error("the turn could not be stored", "channel", channel, "error", err, "trace", rpc.Trace(ctx))
		return err.Error()
	}
	return ""
}
