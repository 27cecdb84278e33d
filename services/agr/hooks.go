package agr

import (
	"cmp"
	"strings"
	"sync"

	"zino/pkg/hook"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// place returns where and how the hooks of the turn run: as its commands.
func (t *turn) place() hook.Place {
	return hook.Place{
		Root: t.req.Root, Cwd: t.req.Cwd, Sandbox: t.req.Sandbox, Network: t.req.Network, Confined: cmp.Or(t.req.Sandbox, t.sandbox).Confined(),
		Env: t.req.Env, Umask: t.req.Umask, Turn: t.req.Turn, Token: t.token(),
	}
}

// runHooks runs the hooks of a call, and reports what concerns the user and the daemon.
func (t *turn) runHooks(event string, c *call, response proto.Raw) (hook.Result, error) {
	r := t.hooks.Run(t.ctx, t.exc, t.place(), event, hook.Input{
		SessionID: t.req.SessionID, Transcript: t.req.Transcript, Version: rpc.Build, Tool: c.name, ToolInput: c.input, ToolUseID: c.id, ToolResponse: response,
	})
	if err := t.ended(); err != nil {
		return r, err
	}
	for _, line := range r.Notices {
		if err := t.report(t.out.Event, proto.TypeNotice, proto.Notice{Kind: proto.NoticeHook, Text: line}); err != nil {
			return r, err
		}
	}
	for _, ran := range r.Ran {
		if err := t.report(t.out.Event, proto.TypeHook, ran); err != nil {
			return r, err
		}
	}
	if r.Ends {
		t.endByHook(r.Why)
	}
	return r, nil
}

// endByHook has the run end for a reason: the first one counts.
func (t *turn) endByHook(why string) {
	why = t.maskHook(why)
	t.hookEnd.CompareAndSwap(nil, &why)
}

// hookEnds returns why a hook ends the run, and reports it once; false: none does.
func (t *turn) hookEnds() (bool, error) {
	why := t.hookEnd.Load()
	if why == nil {
		return false, nil
	}
	return true, t.report(t.out.Event, proto.TypeNotice, hook.EndNotice(*why))
}

// maskHook masks the secrets in a text of a hook. A text that cannot be masked is left out.
func (t *turn) maskHook(s string) string {
	if s == "" {
		return ""
	}
	m := t.madeMask()
	if m.err != nil {
		return "(the hook's text is left out, since its secrets cannot be masked)"
	}
	return maskText(m.masker, s)
}

// preHooks runs the hooks of the calls of an answer before they are stored.
func (in *inference) preHooks() error {
	if !in.hooks.Any(proto.HookPreTool) {
		return nil
	}
	errs := make([]error, len(in.calls))
	var all sync.WaitGroup
	slots := make(chan struct{}, sideBySide)
	for i := range in.calls {
		if in.calls[i].failure != nil {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = in.preHook(&in.calls[i])
			<-slots
		})
	}
	all.Wait()
	if why := in.hookEnd.Load(); why != nil {
		for i := range in.calls {
			if c := &in.calls[i]; c.failure == nil {
				c.decide(&proto.HookVerdict{Decision: proto.HookDeny, Reason: *why})
			}
		}
	}
	return cmp.Or(errs...)
}

func (in *inference) preHook(c *call) error {
	r, err := in.runHooks(proto.HookPreTool, c, nil)
	if err != nil {
		return err
	}
	v := proto.HookVerdict{Reason: in.maskHook(r.Reason)}
	if r.Decision == proto.HookDeny || r.Decision == proto.HookAsk {
		v.Decision = r.Decision
	}
	if v.Decision == "" {
		v.Reason = ""
	}
	var texts []string
	for _, added := range r.Context {
		texts = append(texts, added.Text)
	}
	v.Context = in.maskHook(strings.Join(texts, "\n"))
	if v != (proto.HookVerdict{}) {
		c.decide(&v)
	}
	if r.Input != nil && v.Decision != proto.HookDeny {
		c.change(r.Input)
	}
	return nil
}

// decide applies the verdict of hooks about a call.
func (c *call) decide(v *proto.HookVerdict) {
	if c.verdict = v; v != nil && v.Decision == proto.HookDeny {
		c.failure = &toolError{code: proto.ToolDenied, message: "hook: " + v.Reason}
	}
}

// change replaces the input of a call by that of a hook.
func (c *call) change(input proto.Raw) {
	c.asked, c.input, c.arguments = c.input, input, input
}

// requested returns the packet about a call.
func (c *call) requested(state proto.Raw) proto.ToolRequested {
	p := proto.ToolRequested{ID: c.id, Name: c.name, Input: c.input, State: state, Hook: c.verdict}
	if c.asked != nil {
		p.Input, p.RunInput = c.asked, c.input
	}
	return p
}

// ask returns why a hook wants a person to be asked about the call; empty: it does not.
func (c *call) ask() string {
	if c.verdict == nil || c.verdict.Decision != proto.HookAsk {
		return ""
	}
	return cmp.Or(c.verdict.Reason, "a hook asks")
}

// hookEnded is the result of a call that is not carried out, because a hook ended the turn.
const hookEnded = "Not run: a hook ended the turn."

// postHooks runs the hooks of a call that has a result, and adds to the result what they,
// and those before the call, have for the model.
func (t *turn) postHooks(c *call, envelope proto.Raw) (proto.Raw, error) {
	var texts []string
	if c.verdict != nil && c.verdict.Context != "" {
		texts = append(texts, c.verdict.Context)
	}
	if c.carried && !c.recovers && !isDenied(envelope) && t.hooks.Any(proto.HookPostTool) {
		r, err := t.runHooks(proto.HookPostTool, c, envelope)
		if err != nil {
			return nil, err
		}
		if added := t.maskHook(r.Text()); added != "" {
			texts = append(texts, added)
		}
	}
	if len(texts) == 0 {
		return envelope, nil
	}
	return withMember(envelope, "hook", strings.Join(texts, "\n")), nil
}

// isDenied reports whether a call was refused, so that nothing has run.
func isDenied(envelope proto.Raw) bool {
	var e proto.Envelope
	return wire.DecodeReply(envelope, &e) == nil && e.Error != nil && e.Error.Code == proto.ToolDenied
}
