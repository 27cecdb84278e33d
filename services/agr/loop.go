// Package agr is the agent's loop: it asks the model, carries out the tool calls
// of the answer, appends the results to the conversation, and asks again until an
// answer has no calls. It neither runs code nor has keys itself: exc runs code,
// mem stores memories, and repl, where one runs, reaches live pages.
//
// A plain run finds the calls in the model's text, as <tool_call> and <task>
// blocks, and carries out each one as soon as it is complete. A turn of a session
// offers tools in the providers' own form; blocks in its text are calls like native
// ones. Its calls are carried out after the end of the answer, and each result is
// appended as a message.
package agr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/attach"
	"zino/pkg/attach/kind"
	"zino/pkg/audit"
	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/hook"
	"zino/pkg/mask"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// Service answers run and tools.
type Service struct {
	limit        int         // inferences of a plain run
	sessionLimit int         // inferences of a session's turn
	todo         bool        // offer the tool todo
	propose      bool        // remember proposes memories
	loopWarn     int         // equal calls until the model is warned, 0: never
	loopStop     int         // equal calls until the turn is stopped, 0: never
	outputBytes  int         // limit for the output of bash in a result of a session
	sandbox      proto.Level // the level of a turn that names none
	cat          *catalog.Catalog
	rtr          *rpc.Client
	exc          *rpc.Client
	mem          *rpc.Client
	repl         *rpc.Client
	sys          *rpc.Client
	mcp          *rpc.Client
	servers      *config.Servers
	guard        *gate.Guard
	excGone      time.Duration // how long exc may be gone during a call of a turn
	masks        *mask.Source
	audit        *audit.Log // nil: nothing is recorded
	log          *slog.Logger

	mu    sync.Mutex
	turns map[string]*barrier // the runs of turns, by the turn's id
}

// New returns the agent. It owns cat, and connects to the other services when needed.
func New(cfg *config.Config, cat *catalog.Catalog, log *slog.Logger) *Service {
	return &Service{
		limit:        cfg.Agr.MaxIterations,
		sessionLimit: cfg.Agr.SessionIterations,
		todo:         cfg.Agr.Todo,
		propose:      cfg.Mem.Remember == "propose",
		loopWarn:     cfg.Agr.LoopWarn,
		loopStop:     cfg.Agr.LoopStop,
		outputBytes:  cfg.Agr.ToolOutputBytes,
		sandbox:      cfg.Exc.Sandbox,
		cat:          cat,
		rtr:          &rpc.Client{Service: "rtr", Path: cfg.Rtr.Socket},
		exc:          &rpc.Client{Service: "exc", Path: cfg.Exc.Socket},
		mem:          &rpc.Client{Service: "mem", Path: cfg.Mem.Socket},
		repl:         &rpc.Client{Service: "repl", Path: cfg.Repl.Socket},
		sys:          &rpc.Client{Service: "sys", Path: cfg.Sys.Socket},
		mcp:          &rpc.Client{Service: "mcp", Path: cfg.MCP.Socket},
		servers:      config.ServersOf(cfg),
		guard:        gate.NewGuard(cfg),
		excGone:      30 * time.Second,
		masks:        mask.NewSource(cfg.Mask, log),
		log:          log,
		turns:        map[string]*barrier{},
	}
}

// UseAudit has the calls that agr itself carries out recorded in l. It must be called before
// the first request.
func (s *Service) UseAudit(l *audit.Log) { s.audit = l }

// Register adds the service's methods to s.
func (s *Service) Register(srv *rpc.Server) {
	rpc.HandleText(srv, proto.AgrRun, s.run)
	rpc.Handle(srv, proto.AgrProceed, s.proceed)
	srv.BeforeShutdown(s.finishTurns)
	rpc.Handle(srv, proto.AgrTools, s.tools)
	rpc.Handle(srv, proto.AgrPrepare, func(_ context.Context, req proto.FileData) (proto.Prepared, error) {
		file, _, err := attach.Prepare(req)
		return proto.Prepared(file), err
	})
	srv.OnStats(func(stats *proto.Stats) {
		stats.Problems = append(stats.Problems, s.cat.Snapshot().Problems...)
	})
}

// Close closes the connections to other services and stops watching the catalog.
func (s *Service) Close() error {
	s.rtr.Close()
	s.exc.Close()
	s.mem.Close()
	s.repl.Close()
	s.sys.Close()
	s.mcp.Close()
	return s.cat.Close()
}

// tools answers with the tools that a session's turn would offer now.
func (s *Service) tools(ctx context.Context, req proto.ToolsRequest) (proto.Tools, error) {
	k := s.kitOf()
	k.agents, k.skill = req.Agents, req.Skill
	k.mcp, _, _ = s.offerOf(ctx, proto.ListServers{Root: req.Root, Project: req.Project}, req.Offer)
	return proto.Tools{Tools: offer(s.cat.Snapshot(), k)}, nil
}

// kitOf returns the kit of a turn that starts now. repl may start and stop while agr
// runs.
func (s *Service) kitOf() kit {
	return kit{todo: s.todo, propose: s.propose, pages: s.repl.Bound()}
}

// turn is the state of one request that all of its inferences share.
type turn struct {
	*Service
	ctx context.Context
	req proto.Run
	out *rpc.Out

	session bool
	tools   proto.Raw // of a session: what the model is offered
	kit     kit       // of a session

	unstored *proto.ToolOffer // of a session: to be reported with the first answer

	barrier    *barrier     // of a session's turn: where it waits for the caller
	open       []call       // of a session's turn: those of an earlier attempt
	inferences int          // that were answered
	usage      *proto.Usage // of a session: the sum over its inferences, nil while unknown
	loops      loops        // of a session: the last calls
	mask       turnMask
	files      attachments
	send       sync.Mutex // serializes the events of concurrent calls

	renewed atomic.Pointer[string] // the token of the last proceed that had one
	asking  sync.Mutex             // serializes questions about concurrent calls
	stopped error                  // that ended the run at such a question; guarded by asking

	hooks   *hook.Set              // of calls
	hookEnd atomic.Pointer[string] // why a hook ends the run
}

// token returns the token of the turn.
func (t *turn) token() string {
	if token := t.renewed.Load(); token != nil {
		return *token
	}
	return t.req.Token
}

// root returns the working directory of the tools.
func (t *turn) root() string { return cmp.Or(t.req.Root, t.req.Cwd) }

// inference is one request to the model with the calls of its answer.
type inference struct {
	*turn
	step   int  // its number in the turn
	last   bool // the limit is reached: no further inference can see results
	parser Parser

	text []byte // the model's text; in a plain run with the blocks and their results
	said []byte // of a plain run with events: the model's text without blocks

	answer proto.Text // of a session: the end of the answer as rtr sent it
	calls  []call     // of a session
	called bool       // there was a call
}

// run is the loop. Its text is that of the last inference, with results.
func (s *Service) run(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
	t := &turn{Service: s, ctx: ctx, req: req, out: out, session: req.SessionID != ""}
	limit := s.limit
	if t.session {
		limit = s.sessionLimit
	}
	if req.MaxIterations != nil {
		limit = *req.MaxIterations
	}
	if limit <= 0 || len(req.Messages) == 0 || req.Messages[0] != '[' {
		if _, err := wire.Elements(req.Messages); err != nil {
			return proto.Text{}, proto.Errorf(proto.CodeInvalid, "Invalid request: field %q: %v", "messages", err)
		}
		return proto.Text{Iterations: new(int)}, nil
	}
	if t.session {
		t.hooks, _ = hook.Compile(req.Hooks) // the daemon has reported the problems
		t.kit = s.kitOf()
		t.kit.agents, t.kit.readOnly, t.kit.skill = req.Agents && req.Turn != "", req.ReadOnly, req.Skill
		if !req.ReadOnly {
			if err := t.offerMCP(); err != nil {
				return proto.Text{}, err
			}
		}
		t.tools = offer(s.cat.Snapshot(), t.kit)
	}
	for _, f := range req.Files {
		t.files.put(kind.ID(f.Data), f.Data)
	}
	if req.Turn == "" && len(req.Calls) == 0 {
		return t.loop(limit)
	}
	if req.Turn == "" || !t.session || !req.Events || req.FirstStep < 0 {
		return proto.Text{}, proto.Errorf(proto.CodeInvalid, "Invalid request: a run with a turn or calls needs turn, session_id, events, and a first_step from 1")
	}
	calls, err := openCalls(req.Calls)
	if err != nil {
		return proto.Text{}, proto.Errorf(proto.CodeInvalid, "Invalid request: field %q: %v", "calls", err)
	}
	t.open = calls
	if t.ctx, t.barrier, err = s.enter(ctx, req.Turn); err != nil {
		return proto.Text{}, err
	}
	defer s.leave(req.Turn, t.barrier)
	text, err := t.loop(limit)
	if reason, ok := errors.AsType[stopped](err); ok {
		return proto.Text{Iterations: &t.inferences, StopReason: string(reason), Usage: t.usage}, nil
	}
	return text, err
}

// offerMCP finds out what the turn offers of MCP servers.
func (t *turn) offerMCP() error {
	offer, fresh, notices := t.offerOf(t.ctx, proto.ListServers{Root: t.req.Root, Project: t.req.Project, Client: t.req.Client}, t.req.Offer)
	t.kit.mcp = offer
	if fresh {
		t.unstored = offer
	}
	for _, text := range notices {
		if err := t.report(t.out.Event, proto.TypeNotice, proto.Notice{Kind: proto.NoticeWarning, Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// loop asks the model until it asks for no tool, at most limit times.
func (t *turn) loop(limit int) (proto.Text, error) {
	messages, err := t.settle()
	if err != nil {
		return proto.Text{}, err
	}
	if ends, err := t.hookEnds(); ends || err != nil {
		return t.endedByHook(0), err
	}
	for n := 1; ; n++ {
		in := &inference{turn: t, step: max(t.req.FirstStep, 1) + n - 1, last: n >= limit}
		if err := in.infer(messages); err != nil {
			return proto.Text{}, err
		}
		t.inferences = n
		var next proto.Proceed
		switch {
		case in.called && in.last && t.session:
			return proto.Text{}, t.limitReached(n)
		case !in.called || in.last:
			if next, err = t.wait(proto.Checkpoint{Turn: t.req.Turn, Step: in.step, Point: proto.PointEnd, StopReason: in.answer.StopReason}); err == nil && len(next.Says) == 0 {
				return in.end(n), nil
			}
		case t.session:
			// All calls are known and none has started.
			var ends bool
			if err = in.perform(in.calls); err == nil {
				ends, err = t.hookEnds()
			}
			if ends && err == nil {
				return t.endedByHook(n), nil
			}
			if err == nil {
				next, err = t.checkpoint(in.step, proto.PointInfer)
			}
		}
		if err != nil {
			return proto.Text{}, err
		}
		if messages, err = in.appendTo(messages); err != nil {
			return proto.Text{}, err
		}
		if messages, err = appendSays(messages, next.Says); err != nil {
			return proto.Text{}, err
		}
	}
}

// endedByHook returns the terminal packet of a turn that a hook has ended behind the
// results of its calls.
func (t *turn) endedByHook(iterations int) proto.Text {
	return proto.Text{Iterations: &iterations, StopReason: proto.StopHook, Usage: t.usage}
}

// infer sends messages to the model and reads its answer. In a plain run, each block
// is carried out as soon as it is complete.
func (in *inference) infer(messages proto.Raw) error {
	if err := in.out.Flush(); err != nil { // the caller reads the last results while the model works
		return err
	}
	answer, err := in.ask(proto.Infer{Messages: messages, Tools: in.tools, Stream: in.req.Chunks(), Events: in.req.Events, OutputSchema: in.req.OutputSchema}, in)
	if err == nil && !in.req.Streaming() {
		err = in.Text([]byte(answer.Content))
	}
	if err == nil {
		err = in.apply(in.parser.End())
	}
	if err == nil && in.session {
		err = in.readCalls(answer)
	}
	if err != nil {
		return in.fail(err)
	}
	for i := range in.calls {
		in.calls[i].step = in.step
	}
	if !in.last {
		if err := in.preHooks(); err != nil {
			return in.fail(err)
		}
	}
	return in.reportAnswer(answer)
}

// ask sends a request to rtr, with the options that the main loop and skills have in
// common, and adds up the usage.
func (t *turn) ask(req proto.Infer, sink rpc.Sink) (proto.Text, error) {
	r := t.req
	req.Temperature, req.TopP, req.NeedModel = r.Temperature, r.TopP, r.NeedModel
	req.Provider, req.Model, req.MaxTokens, req.SessionID, req.Effort = r.Provider, r.Model, r.MaxTokens, cmp.Or(r.UsageSession, r.SessionID), r.Effort
	req.NoSave, req.OnLimit = r.NoSave, r.OnLimit
	if err := t.audit.Ready(); err != nil {
		return proto.Text{}, err
	}
	answer, err := rpc.CallText(t.ctx, t.rtr, proto.RtrInfer, req, sink)
	// rtr forgets attachments when it restarts, or when others were used since.
	const tries = 3
	for n := 0; n < tries && unheld(err) != nil; n++ {
		if err := t.hold(t.ctx, unheld(err)); err != nil {
			return answer, err
		}
		answer, err = rpc.CallText(t.ctx, t.rtr, proto.RtrInfer, req, sink)
	}
	if answer.Usage != nil && t.session {
		t.spend(*answer.Usage)
	}
	return answer, err
}

// spend counts usage for the turn.
func (t *turn) spend(u proto.Usage) {
	if t.usage == nil {
		t.usage = &proto.Usage{}
	}
	t.usage.Add(u)
}

// fail sends the text that the parser held back and returns the error for the caller.
// An error of rtr keeps its code, status and details.
func (in *inference) fail(err error) error {
	for _, e := range in.parser.End() {
		if sendErr := in.sendText(e.Body); sendErr != nil && in.ctx.Err() == nil {
			return sendErr
		}
	}
	origin, ok := errors.AsType[*proto.Error](err)
	switch {
	case in.ended() != nil: // not an error of rtr
		return err
	case !ok:
		return fmt.Errorf("rtr: %w", err)
	}
	e := *origin
	if e.Message = "Agentic runtime error: rtr error: " + err.Error(); errors.Is(err, rpc.ErrConnect) {
		e.Message = "Agentic runtime error: " + err.Error()
	}
	if in.barrier != nil && (errors.Is(err, rpc.ErrConnect) || errors.Is(err, rpc.ErrHungUp) || e.Code == proto.CodeCanceled) {
		e.Kind = proto.ErrorKindTransport // rtr went away, or stops: the daemon resumes the turn
	}
	return &e
}

// Text implements rpc.Sink for a piece of the model's text.
func (in *inference) Text(delta []byte) error { return in.apply(in.parser.Feed(delta)) }

// Flush implements rpc.Sink.
func (in *inference) Flush() error { return in.out.Flush() }

func (in *inference) apply(events []Event) error {
	for _, e := range events {
		var err error
		switch {
		case e.Kind == Text:
			in.text = append(in.text, e.Body...)
			if !in.session && in.req.Events {
				in.said = append(in.said, e.Body...)
			}
			err = in.sendText(e.Body)
		case in.session: // handled like a native call, and not part of the text
			in.calls = append(in.calls, blockCall(e))
		default:
			err = in.respond(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// respond carries out a block of a plain run. The block becomes part of the text but
// is not streamed. The result becomes part of the text and is streamed, except to
// callers with events, which get it as an event only.
func (in *inference) respond(e Event) error {
	in.called = true
	tag := tags[e.Kind-1]
	in.text = append(append(append(in.text, tag.open...), e.Body...), tag.close...)
	if err := in.out.Flush(); err != nil { // the caller reads the text while the tool runs
		return err
	}
	c := blockCall(e)
	c.identify(map[string]bool{})
	if err := in.report(in.out.Packet, proto.TypeToolRequested, proto.ToolRequested{ID: c.id, Name: c.name, Input: c.input}); err != nil {
		return err
	}
	started := time.Now()
	if err := in.reportStart(&c); err != nil {
		return err
	}
	r := in.masked(in.carryOutBlock(e))
	if err := in.ended(); err != nil {
		return err
	}
	if err := in.reportEnd(&c, r, started); err != nil {
		return err
	}
	response := "\n<" + tag.response + ">\n" + r.plain() + "\n</" + tag.response + ">\n"
	in.text = append(in.text, response...)
	if in.req.Events {
		return nil
	}
	return in.out.Text([]byte(response))
}

// end returns the terminal packet of a turn. For a plain run at its limit, the text
// ends with the results of the last blocks.
func (in *inference) end(iterations int) proto.Text {
	text := proto.Text{Content: string(in.text), Iterations: &iterations}
	if in.session {
		text.StopReason, text.Provider, text.Model = in.answer.StopReason, in.answer.Provider, in.answer.Model
		text.Usage = in.usage
	}
	return text
}

// limitReached returns the error for a session whose last inference still calls
// tools. No inference would see the results, so the calls are neither carried out
// nor reported. The error's code is one that callers do not retry.
func (t *turn) limitReached(limit int) error {
	notice := proto.Notice{Kind: proto.NoticeLimit, Text: fmt.Sprintf("The limit of %d inferences is reached; what the last answer asked for was not carried out.", limit)}
	if err := t.report(t.out.Event, proto.TypeNotice, notice); err != nil {
		return err
	}
	return proto.Errorf(proto.CodeTooLarge,
		"The turn has reached its limit of %d inferences and the model still asks for tools: tell it to go on, or raise session_iterations in [agr].", limit)
}

// appendTo returns messages with the answer appended: for a plain run its text, for
// a session the text, the calls with the unchanged reasoning state, and a result for
// each call. The messages are copied, not decoded.
func (in *inference) appendTo(messages proto.Raw) (proto.Raw, error) {
	room := len(in.text) + len(in.answer.State) + around
	for _, c := range in.calls {
		room += len(c.raw) + len(c.result) + len(c.id) + around
	}
	list, err := reopen(messages, room+room/8)
	if err != nil {
		return nil, err
	}
	if !in.session {
		return message.Close(message.Append(list, proto.RoleAssistant, in.text)), nil
	}
	if len(in.calls) == 0 && len(in.text) == 0 {
		return messages, nil
	}
	list = message.Begin(list, proto.RoleAssistant, in.text)
	for i, c := range in.calls {
		if i == 0 {
			list = append(list, `,"tool_calls":[`...)
		} else {
			list = append(list, ',')
		}
		list = append(list, c.raw...)
	}
	if len(in.calls) > 0 {
		list = append(list, ']')
	}
	if len(in.answer.State) > 0 {
		list = append(append(list, `,"reasoning_state":`...), in.answer.State...)
	}
	return message.Close(appendResults(append(list, '}'), in.calls)), nil
}

// appendResults appends the results of calls to a list under construction.
func appendResults(list []byte, calls []call) []byte {
	for _, c := range calls {
		list = append(message.BeginWith(list, proto.RoleTool, []byte(c.result), c.files), `,"tool_call_id":`...)
		list = append(wire.AppendString(list, c.id), `,"ok":`...) // rtr strips it
		list = append(strconv.AppendBool(list, succeeded(proto.Raw(c.result))), '}')
	}
	return list
}

const around = 96 // bytes of the names and brackets of a message

// reopen copies messages to a list under construction, with room for more bytes.
func reopen(messages proto.Raw, room int) ([]byte, error) {
	list, err := message.Reopen(messages, room)
	if err != nil {
		return nil, proto.Errorf(proto.CodeInvalid, `Invalid request: field "messages": %v`, err)
	}
	return list, nil
}

// Callers that asked for events get an event for every call; those that asked
// for a stream get the text alone, which in a plain run has the results in it.

// sendText sends a piece of the model's text with the next Flush.
func (t *turn) sendText(text []byte) error {
	if t.req.Events {
		t.send.Lock()
		defer t.send.Unlock()
		return t.out.Delta(text)
	}
	return t.out.Text(text)
}

// report sends an event to a caller that asked for them: with out.Event at once,
// with out.Packet with the next Flush.
func (t *turn) report(send func(string, any) error, typ string, v any) error {
	if !t.req.Events {
		return nil
	}
	t.send.Lock()
	defer t.send.Unlock()
	return send(typ, v)
}

// Event implements rpc.EventSink: it forwards rtr's notices and reasoning.
func (t *turn) Event(typ string, payload []byte) error {
	if !t.req.Events || typ != proto.TypeNotice && typ != proto.TypeReasoning {
		return nil
	}
	return t.out.Frame(payload)
}

// reportAnswer reports an inference's text, calls and usage. Calls that will not
// be carried out are not reported, so that no session has a call without a
// result; the reasoning state belongs to them and is left out with them.
func (in *inference) reportAnswer(answer proto.Text) error {
	text, calls, state := in.text, in.calls, in.answer.State
	if !in.session {
		text = in.said
	}
	if in.last && len(calls) > 0 {
		calls, state = nil, nil
	}
	if in.unstored != nil {
		if err := in.report(in.out.Packet, proto.TypeTools, *in.unstored); err != nil {
			return err
		}
		in.unstored = nil
	}
	if len(text) > 0 {
		if err := in.report(in.out.Packet, proto.TypeAssistantFinal, proto.AssistantFinal{Text: string(text), State: state}); err != nil {
			return err
		}
		state = nil
	}
	for _, c := range calls {
		if err := in.report(in.out.Packet, proto.TypeToolRequested, c.requested(state)); err != nil {
			return err
		}
		state = nil
	}
	return in.reportUsage(answer)
}

func (t *turn) reportUsage(answer proto.Text) error {
	u := answer.Usage
	if u == nil {
		return nil
	}
	return t.report(t.out.Event, proto.TypeUsage, proto.InferenceUsage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, ReasoningTokens: u.ReasoningTokens,
		CostUSD: u.CostUSD, Provider: answer.Provider, Model: answer.Model, ContextWindow: answer.ContextWindow,
	})
}

// ended returns why the request has ended. A deadline counts as soon as it has passed:
// the service that was called has the same one, and its answer can come before ctx's
// timer fires.
func (t *turn) ended() error {
	if deadline, ok := t.ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return t.ctx.Err()
}

// reportStart reports the start of a call.
func (t *turn) reportStart(c *call) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	return t.report(t.out.Event, proto.TypeToolStarted, proto.ToolStarted{ID: c.id, Name: c.name})
}

// reportEnd reports the result of a call.
func (t *turn) reportEnd(c *call, r result, started time.Time) error {
	envelope := r.envelope()
	if err := t.noticeMasked(envelope); err != nil {
		return err
	}
	return t.report(t.out.Event, proto.TypeToolFinished, proto.ToolFinished{
		ID: c.id, Name: c.name, OK: succeeded(envelope), Result: envelope,
		DurationMS: time.Since(started).Milliseconds(), Diff: r.diff, Confinement: r.confined,
		Attachments: r.kept, Recovered: r.recovered, Synthetic: r.lost, Usage: c.usage,
	})
}
