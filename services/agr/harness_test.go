package agr

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"zino/pkg/attach/kind"
	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// env is an agent over a fake rtr, exc and mem, all on real sockets.
type env struct {
	t       *testing.T
	dir     string
	cfg     *config.Config
	path    string // the agent's socket
	service *Service
	server  *rpc.Server
	cat     *catalog.Catalog
	rtr     *router
	exc     *executor
	mem     *memory
}

// withTodo is the kit of a turn as configured by default, withPages the same while repl
// listens.
var withTodo, withPages = kit{todo: true}, kit{todo: true, pages: true}

// ownNames lists the tools of every session, as in the answer to a call of an unknown tool.
var ownNames = strings.Join(toolNames(offered(&catalog.Snapshot{}, withTodo)), ", ")

// newEnv starts an agent. The script answers rtr's inferences in order.
func newEnv(t *testing.T, script ...reply) *env {
	t.Helper()
	return startEnv(t, func(*config.Config) {}, script...)
}

func startEnv(t *testing.T, adjust func(*config.Config), script ...reply) *env {
	t.Helper()
	e := &env{t: t, dir: zinotest.Dir(t), cfg: config.Default(), rtr: &router{script: script}, exc: &executor{}, mem: &memory{}}
	zinotest.WriteFiles(t, e.dir, map[string]string{
		"tools/bash.json":    `{"meta":{"executor":"bash","file_extension":".sh"}}`,
		"tools/python.json":  `{"meta":{"executor":"python3","file_extension":".py"}}`,
		"skills/disk.json":   `{"interpreter":[{"role":"system","content":"restate <it>"},{"role":"user","content":"e","name":"kept"}],"fabricator":[{"role":"system","content":"write"}]}`,
		"skills/snake.json":  `{"meta":{"executor":"python3"},"interpreter":[],"fabricator":[]}`,
		"skills/broken.json": `{"meta":`,
	})
	for _, name := range []string{"rtr", "exc", "mem", "repl", "sys"} {
		*e.cfg.SocketOf(name) = filepath.Join(e.dir, name)
	}
	adjust(e.cfg)
	rpctest.New(t, "rtr", e.cfg.Rtr.Socket, e.rtr.register)
	rpctest.New(t, "exc", e.cfg.Exc.Socket, e.exc.register)
	rpctest.New(t, "mem", e.cfg.Mem.Socket, e.mem.register)
	log := slog.New(slog.DiscardHandler)
	var err error
	e.cat, err = catalog.Open(filepath.Join(e.dir, "tools"), filepath.Join(e.dir, "skills"), log)
	zinotest.Must(t, err)
	s := New(e.cfg, e.cat, log)
	e.service = s
	t.Cleanup(func() { zinotest.Must(t, s.Close()) })
	e.path, e.server = rpctest.New(t, "agr", filepath.Join(e.dir, "agr"), s.Register)
	return e
}

const (
	question   = `[{"role":"user","content":"hi"}]`
	inSession  = `,"session_id":"s-1"`
	withEvents = `,"events":true`
)

// request returns a run of messages with additional fields.
func request(messages string, more string) string {
	return `{"type":"run","messages":` + messages + `,"temperature":0.3,"top_p":0.9` + more + `}`
}

// ask sends one request and reads its answer.
func (e *env) ask(payload string) (streamed string, last rpctest.Packet) {
	e.t.Helper()
	c := rpctest.Dial(e.t, e.path)
	c.Send(payload)
	return c.Finish()
}

// excServes replaces exc.
func (e *env) excServes(register func(*rpc.Server)) {
	e.t.Helper()
	zinotest.Must(e.t, os.Remove(e.cfg.Exc.Socket))
	rpctest.New(e.t, "exc", e.cfg.Exc.Socket, register)
}

// leave sends a request, hangs up when another service works on it, and waits until
// that work is canceled.
func (e *env) leave(payload string, b *rpctest.Block) {
	e.t.Helper()
	c := rpctest.Dial(e.t, e.path)
	c.Send(payload)
	b.Begun(e.t)
	c.Close()
	b.Canceled(e.t)
	rpctest.WaitIdle(e.t, e.path)
}

// checkRan checks the number of inferences and the executed code.
func (e *env) checkRan(inferences int, code ...string) {
	e.t.Helper()
	if n, ran := len(e.rtr.asked()), e.exc.code(); n != inferences || !slices.Equal(ran, code) {
		e.t.Errorf("%d inferences, executed %q; want %d and %q", n, ran, inferences, code)
	}
}

// writeTool adds a file to the agent's tools.
func (e *env) writeTool(name, text string) {
	e.t.Helper()
	zinotest.Write(e.t, filepath.Join(e.dir, "tools", name+".json"), text)
	if problems := e.cat.Reload().Problems; len(problems) != 1 { // the broken skill
		e.t.Fatalf("problems %q", problems)
	}
}

// withMemory adds the built-in tools of the memory.
func (e *env) withMemory() *env {
	e.t.Helper()
	e.writeTool("remember", `{"name":"remember","description":"keeps <it>","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"builtin":"remember"}`)
	e.writeTool("recall", `{"name":"recall","builtin":"recall"}`)
	return e
}

// reply answers one inference.
type reply func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error)

// router is a fake rtr: it records requests and plays a script.
type router struct {
	script   []reply
	requests rpctest.Record[proto.Infer]
}

func (r *router) register(s *rpc.Server) {
	rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
		req.Messages, req.Tools = bytes.Clone(req.Messages), bytes.Clone(req.Tools) // they are in the connection's buffer
		n := r.requests.Add(req)
		if n > len(r.script) {
			return proto.Text{}, fmt.Errorf("no reply for inference %d", n)
		}
		return r.script[n-1](ctx, req, out)
	})
}

// asked returns the requests so far.
func (r *router) asked() []proto.Infer { return r.requests.All() }

// emit sends and flushes one piece.
func emit(out *rpc.Out, piece string) error {
	return errors.Join(out.Text([]byte(piece)), out.Flush())
}

// says replies with text, each piece in a packet of its own in a stream.
func says(pieces ...string) reply {
	return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		for _, piece := range pieces {
			if err := emit(out, piece); err != nil {
				return proto.Text{}, err
			}
		}
		return proto.Text{Content: strings.Join(pieces, "")}, nil
	}
}

// replies answers with all fields of a text.
func replies(text proto.Text) reply {
	return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		return text, emit(out, text.Content)
	}
}

// asks answers with text and native calls.
func asks(text string, calls ...string) reply {
	return replies(proto.Text{Content: text, ToolCalls: callList(calls...), StopReason: "tool_calls"})
}

// fails answers with an error after the pieces.
func fails(err error, pieces ...string) reply {
	return func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
		_, sendErr := says(pieces...)(ctx, req, out)
		return proto.Text{}, cmp.Or(sendErr, err)
	}
}

// blocks answers with text and then blocks until it is canceled or released.
func blocks(b *rpctest.Block, text string) reply {
	return func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		return proto.Text{Content: text}, cmp.Or(emit(out, text), b.Wait(ctx))
	}
}

// echo answers with the last message's content, so that a test's question is the
// model's answer.
func echo(_ context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
	content, err := lastMessage(req)
	return proto.Text{Content: content}, errors.Join(err, out.Text([]byte(content)))
}

// lastMessage returns the content of a request's last message.
func lastMessage(req proto.Infer) (string, error) {
	var messages []struct{ Content string }
	err := json.Unmarshal(req.Messages, &messages)
	if err != nil || len(messages) == 0 {
		return "", fmt.Errorf("no last message in %s: %w", req.Messages, err)
	}
	return messages[len(messages)-1].Content, nil
}

// checkSeen checks the last message of a request to the model, only its beginning if
// want ends with "…".
func (e *env) checkSeen(inference int, want string) {
	e.t.Helper()
	got, err := lastMessage(e.rtr.asked()[inference-1])
	if beginning, open := strings.CutSuffix(want, "…"); err != nil || got != want && !(open && strings.HasPrefix(got, beginning)) {
		e.t.Errorf("inference %d: the model sees\n%q, want\n%q, %v", inference, got, want, err)
	}
}

// executor is a fake exc: it records code and calls.
type executor struct {
	runs  rpctest.Record[proto.Execute]
	calls rpctest.Record[proto.Call]

	mu   sync.Mutex
	run  func(ctx context.Context, req proto.Execute) (proto.Result, error)
	call func(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error)
}

func (x *executor) register(s *rpc.Server) {
	rpc.Handle(s, proto.ExcExecute, func(ctx context.Context, req proto.Execute) (proto.Result, error) {
		x.runs.Add(req)
		x.mu.Lock()
		run := x.run
		x.mu.Unlock()
		if run == nil {
			return proto.Result{}, nil
		}
		return run(ctx, req)
	})
	rpc.HandleEvents(s, proto.ExcCall, func(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error) {
		req.Input = bytes.Clone(req.Input) // it is in the connection's buffer
		x.calls.Add(req)
		x.mu.Lock()
		call := x.call
		x.mu.Unlock()
		if call == nil {
			return proto.CallResult{Result: said("")}, nil
		}
		return call(ctx, req, out)
	})
}

// onRun sets the function that runs code.
func (x *executor) onRun(run func(ctx context.Context, req proto.Execute) (proto.Result, error)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.run = run
}

// returns sets the result of code; the default is empty.
func (x *executor) returns(result proto.Result) {
	x.onRun(func(context.Context, proto.Execute) (proto.Result, error) { return result, nil })
}

// blocks makes code run until it is canceled or released.
func (x *executor) blocks(b *rpctest.Block) {
	x.onRun(func(ctx context.Context, _ proto.Execute) (proto.Result, error) { return proto.Result{}, b.Wait(ctx) })
}

// onCall sets the function that carries out calls.
func (x *executor) onCall(call func(ctx context.Context, req proto.Call, out *rpc.Out) (proto.CallResult, error)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.call = call
}

// answers sets the results of calls; the default is an empty text.
func (x *executor) answers(result func(proto.Call) proto.Raw) {
	x.onCall(func(_ context.Context, req proto.Call, _ *rpc.Out) (proto.CallResult, error) {
		return proto.CallResult{Result: result(req)}, nil
	})
}

func (x *executor) ran() []proto.Execute { return x.runs.All() }

func (x *executor) called() []proto.Call { return x.calls.All() }

// code returns the executed code, each as executor:code.
func (x *executor) code() (all []string) {
	for _, r := range x.ran() {
		all = append(all, r.Executor+":"+r.Code)
	}
	return all
}

// memory is a fake mem: it records stored memories, with ids from 7.
type memory struct {
	old bool // it cannot list memories; set before the first call

	mu      sync.Mutex
	stored  []proto.StoreHard
	queries rpctest.Record[proto.SearchHard]
	search  func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error)
	err     error // the error of storing and listing

	recalls  rpctest.Record[proto.RecallSessions]
	passages atomic.Pointer[proto.SessionPassages] // nil: none
}

func (m *memory) register(s *rpc.Server) {
	files := map[string][]byte{}
	rpc.Handle(s, proto.MemPutAttachment, func(_ context.Context, req proto.PutAttachment) (proto.Attachment, error) {
		a, err := kind.TextReference(req.Name, req.Data)
		files[req.SessionID+a.ID] = req.Data
		return a, err
	})
	rpc.Handle(s, proto.MemGetAttachment, func(_ context.Context, req proto.GetAttachment) (proto.AttachmentData, error) {
		if files[req.SessionID+req.ID] == nil {
			return proto.AttachmentData{}, proto.Errorf(proto.CodeNotFound, "no attachment")
		}
		return proto.AttachmentData{ID: req.ID, Data: files[req.SessionID+req.ID]}, nil
	})
	rpc.Handle(s, proto.MemStoreHard, func(_ context.Context, req proto.StoreHard) (proto.Stored, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if req.Proposed {
			req.Messages = bytes.Clone(req.Messages)
			m.stored = append(m.stored, req)
			return proto.Stored{ID: len(m.stored), Proposed: true}, m.err
		}
		i := slices.IndexFunc(m.stored, func(s proto.StoreHard) bool { return bytes.Equal(s.Messages, req.Messages) && s.Tag == req.Tag })
		if i < 0 {
			i = len(m.stored)
			req.Messages = bytes.Clone(req.Messages) // they are in the connection's buffer
			m.stored = append(m.stored, req)
		}
		return proto.Stored{ID: 7 + i}, m.err
	})
	rpc.Handle(s, proto.MemSearchHard, func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error) {
		m.queries.Add(req)
		m.mu.Lock()
		search := m.search
		m.mu.Unlock()
		if search == nil {
			return proto.HardMemories{Results: []proto.HardMemory{}}, nil
		}
		return search(ctx, req)
	})
	rpc.Handle(s, proto.MemRecallSessions, func(_ context.Context, req proto.RecallSessions) (proto.SessionPassages, error) {
		m.recalls.Add(req)
		if found := m.passages.Load(); found != nil {
			return *found, nil
		}
		return proto.SessionPassages{Results: []proto.SessionPassage{}}, nil
	})
	if m.old {
		return
	}
	rpc.Handle(s, proto.MemListHard, func(_ context.Context, req proto.ListHard) (proto.HardList, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if req.Limit != 1 || len(m.stored) == 0 {
			return proto.HardList{Items: []proto.HardItem{}}, m.err
		}
		newest := len(m.stored) - 1
		return proto.HardList{Items: []proto.HardItem{{ID: 7 + newest, Messages: m.stored[newest].Messages}}}, m.err
	})
}

// onSearch sets the function that searches.
func (m *memory) onSearch(search func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.search = search
}

// finds sets the results of searches.
func (m *memory) finds(results ...proto.HardMemory) {
	m.onSearch(func(context.Context, proto.SearchHard) (proto.HardMemories, error) {
		return proto.HardMemories{Results: results}, nil
	})
}

// kept returns the stored memories.
func (m *memory) kept() []proto.StoreHard {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.stored)
}

// asked returns the searches so far.
func (m *memory) asked() []proto.SearchHard { return m.queries.All() }

// pages is a fake repl with one page. It records code.
type pages struct {
	evals    rpctest.Record[proto.Eval]
	logs     rpctest.Record[proto.ReadPageLog]
	outlines rpctest.Record[proto.OutlinePage]

	mu     sync.Mutex
	eval   func(ctx context.Context, req proto.Eval) (proto.Evaluated, error)
	events []proto.PageEvent
}

var shop = proto.Page{ID: "1a2b", Name: "shop", File: "debug/shop-1a2b.md", Lang: "js", Kind: "page", State: "idle", LastSeen: "2026-11-21T14:03:07Z"}

// withPages starts a repl. gone removes its socket, so that it counts as stopped.
func (e *env) withPages() (p *pages, gone func()) {
	e.t.Helper()
	p = &pages{}
	rpctest.New(e.t, "repl", e.cfg.Repl.Socket, p.register)
	gone = sync.OnceFunc(func() {
		// After this ping all earlier connections have been accepted.
		rpctest.Dial(e.t, e.cfg.Repl.Socket).Ask(`{"type":"ping"}`)
		zinotest.Must(e.t, os.Remove(e.cfg.Repl.Socket))
	})
	e.t.Cleanup(gone)
	return p, gone
}

func (p *pages) register(s *rpc.Server) {
	rpc.Handle(s, proto.ReplPages, func(context.Context, proto.PagesRequest) (proto.Pages, error) {
		return proto.Pages{Pages: []proto.Page{shop}}, nil
	})
	rpc.Handle(s, proto.ReplEval, func(ctx context.Context, req proto.Eval) (proto.Evaluated, error) {
		p.evals.Add(req)
		p.mu.Lock()
		eval := p.eval
		p.mu.Unlock()
		if eval == nil {
			return proto.Evaluated{OK: true, Kind: "json", Value: new("25"), Background: []proto.PageEvent{}, DurationMS: 17, File: shop.File}, nil
		}
		return eval(ctx, req)
	})
	rpc.Handle(s, proto.ReplLog, func(_ context.Context, req proto.ReadPageLog) (proto.PageLog, error) {
		p.logs.Add(req)
		if req.Page != "shop" {
			return proto.PageLog{}, unknownPage
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		n := min(len(p.events), req.Limit)
		return proto.PageLog{Events: p.events[:n], Next: fmt.Sprint("e-", n), LeftOut: 2}, nil
	})
	rpc.Handle(s, proto.ReplOutline, func(_ context.Context, req proto.OutlinePage) (proto.Outline, error) {
		p.outlines.Add(req)
		if req.Page != "shop" {
			return proto.Outline{}, unknownPage
		}
		if req.Depth == 100 {
			return proto.Outline{Text: strings.Repeat("x", 1<<20)}, nil
		}
		return proto.Outline{Text: "main\n  button \"Pay\" #pay\n"}, nil
	})
}

var unknownPage = &proto.Error{Code: proto.CodeNotFound, Message: `No page "none" is connected.`}

func (p *pages) onEval(eval func(ctx context.Context, req proto.Eval) (proto.Evaluated, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eval = eval
}

// asked returns the evaluations so far.
func (p *pages) asked() []proto.Eval { return p.evals.All() }

// Contents of texts and messages.

func quote(s string) string { return string(wire.AppendString(nil, s)) }

// block returns a block that calls a function with code.
func block(function, code string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": {\"code\": %q}}\n</tool_call>", function, code)
}

// bash is a block that runs code.
func bash(code string) string { return block("execute_bash", code) }

// delegate is a block that hands a request to a skill.
func delegate(skill, request string) string {
	return "<task>\n{\"skill\": \"" + skill + "\", \"request\": \"" + request + "\"}\n</task>"
}

// response and taskResponse follow a block.
func response(result string) string {
	return "\n<tool_response>\n" + result + "\n</tool_response>\n"
}

func taskResponse(result string) string {
	return "\n<task_response>\n" + result + "\n</task_response>\n"
}

// native returns a call as rtr sends it, with arguments as the model wrote them.
func native(id, function, arguments string) string {
	return `{"id":` + quote(id) + `,"type":"function","function":{"name":` + quote(function) + `,"arguments":` + quote(arguments) + `}}`
}

// nativeBash is a native call that runs code.
func nativeBash(id, code string) string {
	return native(id, "execute_bash", `{"code":`+quote(code)+`}`)
}

func callList(calls ...string) proto.Raw { return proto.Raw("[" + strings.Join(calls, ",") + "]") }

// assistant returns the message of an answer.
func assistant(content string) string {
	return `{"role":"assistant","content":` + quote(content) + `}`
}

// calling is the message of an answer with calls.
func calling(text, state string, calls ...string) string {
	if state != "" {
		state = `,"reasoning_state":` + state
	}
	return `{"role":"assistant","content":` + quote(text) + `,"tool_calls":` + string(callList(calls...)) + state + `}`
}

func answering(id, content string) string {
	return `{"role":"tool","content":` + quote(content) + `,"tool_call_id":` + quote(id) + `,"ok":` + strconv.FormatBool(succeeded(proto.Raw(content))) + `}`
}

// said returns the envelope of a text.
func said(text string) proto.Raw { return result{text: text}.envelope() }

func failedWith(code, message string) string {
	return string(result{err: &toolError{code: code, message: message}}.envelope())
}

// ran returns the envelope of code that printed a text.
func ran(stdout string) string {
	return string(result{ran: &proto.Result{Stdout: stdout}}.envelope())
}

// brief shortens an envelope: the text of a success, or code and message.
func brief(t *testing.T, envelope string) string {
	t.Helper()
	var r struct {
		OK    *bool
		Data  struct{ Text, Stdout, Content string }
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(envelope), &r); err != nil || r.OK == nil {
		t.Errorf("%q is not an envelope: %v", envelope, err)
		return ""
	}
	if *r.OK {
		return r.Data.Text + r.Data.Stdout + r.Data.Content
	}
	return r.Error.Code + ": " + r.Error.Message
}

// toolResults returns the contents of the messages that answer calls.
func toolResults(t *testing.T, req proto.Infer) (list []string) {
	t.Helper()
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal(req.Messages, &messages); err != nil {
		t.Fatalf("%s: %v", req.Messages, err)
	}
	for _, m := range messages {
		if m.Role == "tool" {
			list = append(list, m.Content)
		}
	}
	return list
}

// checkResults compares the shortened results of calls with want; if a string ends
// with "…", only its beginning is compared.
func (e *env) checkResults(inference int, want ...string) {
	e.t.Helper()
	results := toolResults(e.t, e.rtr.asked()[inference-1])
	if len(results) != len(want) {
		e.t.Fatalf("%d results, want %d: %q", len(results), len(want), results)
	}
	for i, w := range want {
		got := brief(e.t, results[i])
		beginning, open := strings.CutSuffix(w, "…")
		if !open && got != w || open && !hasReason(got, beginning) {
			e.t.Errorf("result %d is\n%q, want\n%q", i, got, w)
		}
	}
}

// hasReason reports whether s is one line with more text after beginning.
func hasReason(s, beginning string) bool {
	reason, ok := strings.CutPrefix(s, beginning)
	return ok && strings.TrimSpace(reason) != "" && !strings.Contains(s, "\n")
}

// Helpers for callers with events.

var (
	madeUp    = regexp.MustCompile(`"((?:tool_call_)?id)":"[A-Z2-7]{9}"`)
	durations = regexp.MustCompile(`"duration_ms":\d+`)
)

// withoutIDs empties generated identifiers.
func withoutIDs(messages []byte) string {
	return string(madeUp.ReplaceAll(messages, []byte(`"$1":""`)))
}

// watch sends one request and returns the packets of its answer, the terminal one
// last, without durations and generated identifiers.
func (e *env) watch(payload string) []string {
	e.t.Helper()
	c := rpctest.Dial(e.t, e.path)
	c.Send(payload)
	return rest(c)
}

// rest returns the packets up to the terminal one, and checks that it is the last.
func rest(c *rpctest.Conn) (packets []string) {
	for _, p := range c.Rest() {
		packets = append(packets, durations.ReplaceAllString(withoutIDs([]byte(p.Raw)), `"duration_ms":0`))
	}
	return packets
}

// compare compares packets with want.
func compare(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("packet %d\n got %.400s\nwant %.400s\nall:\n%s", i+1, strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""),
				strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""), strings.Join(got, "\n"))
		}
	}
}

func delta(text string) string { return `{"type":"assistant_delta","text":` + quote(text) + `}` }
func final(text string) string { return `{"type":"assistant_final","text":` + quote(text) + `}` }

func requested(id, name, input string) string {
	return `{"type":"tool_requested","id":` + quote(id) + `,"name":` + quote(name) + `,"input":` + input + `}`
}

func begun(id, name string) string {
	return `{"type":"tool_started","id":` + quote(id) + `,"name":` + quote(name) + `}`
}

func finished(id, name, result string) string {
	return `{"type":"tool_finished","id":` + quote(id) + `,"name":` + quote(name) + `,"ok":` + strconv.FormatBool(strings.HasPrefix(result, `{"ok":true`)) + `,"result":` + result + `,"duration_ms":0}`
}
