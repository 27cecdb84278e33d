package constellation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/constellation"
)

// agentsEnv is a constellation with a scripted model.
type agentsEnv struct {
	t        *testing.T
	cfg      *config.Config
	provider *fakellm.Server
	daemon   *rpc.Client
	root     string
	logs     zinotest.Buffer
	stop     func()
}

func newAgents(t *testing.T, set func(*config.Config), script ...fakellm.Turn) *agentsEnv {
	t.Helper()
	t.Setenv("ANTHROPIC_API_KEY", "test")
	provider := fakellm.New(script...)
	t.Cleanup(provider.Close)
	e := &agentsEnv{t: t, provider: provider, root: t.TempDir()}
	e.cfg = configWith(t, fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host))
	set(e.cfg)
	e.daemon = rpctest.Client(t, "daemon", e.cfg.Daemon.Socket)
	t.Cleanup(func() { e.stop() })
	e.start()
	return e
}

// start starts the services, which stop stops.
func (e *agentsEnv) start() {
	e.t.Helper()
	c, err := constellation.Start(e.cfg, e.logs.Logger())
	zinotest.Must(e.t, err)
	e.stop = func() {
		e.stop = func() {}
		zinotest.Must(e.t, c.Close())
	}
}

// begin starts a turn of the session parent.
func (e *agentsEnv) begin(more proto.TurnStart) {
	e.t.Helper()
	more.Message, more.SessionID, more.Root = "begin", "parent", e.root
	_, err := rpc.Call(e.t.Context(), e.daemon, proto.DaemonTurnStart, more)
	zinotest.Must(e.t, err)
}

// end waits for the end of the turn of a session.
func (e *agentsEnv) end(session string) (end proto.Followed) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), zinotest.Timeout)
	defer cancel()
	end, err := rpc.CallEvents(ctx, e.daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: session}, func(string, []byte) error { return nil })
	zinotest.Must(e.t, err)
	return end
}

// turns lists all turns.
func (e *agentsEnv) turns(req proto.ListTurns) []proto.TurnInfo {
	e.t.Helper()
	list, err := rpc.Call(e.t.Context(), e.daemon, proto.DaemonTurns, req)
	zinotest.Must(e.t, err)
	return list.Turns
}

// count returns the number of listed sub-agents with one of the states.
func (e *agentsEnv) count(states string) (n int) {
	e.t.Helper()
	for _, turn := range e.turns(proto.ListTurns{All: true}) {
		if turn.Parent != nil && strings.Contains(states, turn.State) {
			n++
		}
	}
	return n
}

// asked waits until the model has had n requests.
func (e *agentsEnv) asked(n int) {
	e.t.Helper()
	zinotest.Eventually(e.t, fmt.Sprint(n, " requests"), func() bool { return len(e.provider.Requests()) >= n })
}

// event is what is compared of an event of a session log.
type event struct {
	Type      string         `json:"type"`
	ToolUseID string         `json:"tool_use_id"`
	State     string         `json:"state"`
	Reason    string         `json:"reason"`
	Output    proto.Raw      `json:"output"`
	Synthetic bool           `json:"synthetic"`
	Usage     *proto.Usage   `json:"usage"`
	Request   map[string]any `json:"request"`
}

func (e *agentsEnv) file(session string) string {
	return filepath.Join(e.cfg.Mem.DataDir, "sessions", session+".jsonl")
}

// log reads the events of a type.
func (e *agentsEnv) log(session, typ string) (events []event) {
	e.t.Helper()
	for line := range strings.Lines(zinotest.Read(e.t, e.file(session))) {
		var next event
		zinotest.Must(e.t, json.Unmarshal([]byte(line), &next))
		if next.Type == typ {
			events = append(events, next)
		}
	}
	return events
}

// states are the states of the turn of a session in their order.
func (e *agentsEnv) states(session string) string {
	e.t.Helper()
	var states []string
	for _, turn := range e.log(session, proto.TypeTurn) {
		states = append(states, strings.TrimSuffix(turn.State+" "+turn.Reason, " "))
	}
	return strings.Join(states, ", ")
}

// agents lists the sessions of the sub-agents, the first one first.
func (e *agentsEnv) agents() (sessions []string) {
	e.t.Helper()
	names, err := filepath.Glob(e.file("*"))
	zinotest.Must(e.t, err)
	for _, name := range names {
		if id := strings.TrimSuffix(filepath.Base(name), ".jsonl"); id != "parent" {
			sessions = append(sessions, id)
		}
	}
	return sessions
}

// delegate is a call of the model that starts a sub-agent.
func delegate(request, more string) fakellm.Call {
	return fakellm.Call{Name: "task", Args: fmt.Sprintf(`{"skill":"agent","request":%q%s}`, request, more)}
}

func forever(match string, reply fakellm.Turn) fakellm.Turn {
	reply.Match, reply.Times = match, fakellm.Forever
	return reply
}

// envelope is the result of a sub-agent.
type envelope struct {
	OK   bool
	Data struct {
		Text      *string
		SessionID string `json:"session_id"`
		Truncated bool
	}
	Error proto.ToolError
	Note  string
}

// results decodes the results in the log of the parent.
func (e *agentsEnv) results() (list []envelope) {
	e.t.Helper()
	for _, r := range e.log("parent", proto.TypeToolResult) {
		var env envelope
		zinotest.Must(e.t, json.Unmarshal(r.Output, &env))
		list = append(list, env)
	}
	return list
}

// TestAgentResults checks the results of sub-agents that end in each way, and that their
// usage counts for the turn. One running turn is allowed: sub-agents need no place.
func TestAgentResults(t *testing.T) {
	long := "a" + strings.Repeat("é", 20000)
	const loop = "This one calls tools for ever."
	e := newAgents(t, func(cfg *config.Config) { cfg.Daemon.RunningMax, cfg.Agr.LoopWarn, cfg.Agr.LoopStop = 1, 0, 0 },
		fakellm.Turn{Match: "begin", Usage: &fakellm.Usage{In: 10, Out: 1}, Calls: []fakellm.Call{delegate("short", ""), delegate("long", `,"write":true`), delegate("refused", ""), delegate(loop, "")}},
		fakellm.Turn{Match: "short", Text: "Here it is.", Usage: &fakellm.Usage{In: 10, Out: 1}},
		fakellm.Turn{Match: "long", Text: long, Usage: &fakellm.Usage{In: 10, Out: 1}},
		forever("refused", fakellm.Turn{Status: 400, Text: `{"type":"error","error":{"type":"invalid_request_error","message":"I refuse"}}`}),
		fakellm.Turn{Match: "answer", Text: "All are back.", Usage: &fakellm.Usage{In: 10, Out: 1}},
		forever("", fakellm.Turn{Usage: &fakellm.Usage{}, Calls: []fakellm.Call{{Name: "read", Args: `{"path":"nothing"}`}}}))
	mem := rpctest.Client(t, "mem", e.cfg.Mem.Socket)
	_, err := rpc.Call(t.Context(), mem, proto.MemCreateSession, proto.CreateSession{SessionID: "parent", Header: proto.Raw(`{"uid":7,"recall":false}`)})
	zinotest.Must(t, err)
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	list := e.results()
	first, _, _ := strings.Cut(zinotest.Read(t, e.file(list[0].Data.SessionID)), "\n")
	zinotest.Contains(t, "first line of a sub-agent", first, `,"uid":7,"recall":false}`)
	zinotest.Equal(t, "results", len(list), 4)
	zinotest.Equal(t, "answer", *list[0].Data.Text, "Here it is.")
	zinotest.Equal(t, "note", list[0].Note, "This is the sub-agent's last answer. Its session is "+list[0].Data.SessionID+".")
	cut := *list[1].Data.Text
	if len(cut) != 32<<10-1 || !utf8.ValidString(cut) || !list[1].Data.Truncated {
		t.Errorf("%d bytes of %d, truncated %v", len(cut), len(long), list[1].Data.Truncated)
	}
	zinotest.Contains(t, "note", list[1].Note, "which has 40001 bytes", "zino undo "+list[1].Data.SessionID)
	zinotest.Contains(t, "error", list[2].Error.Message, "The sub-agent failed: ", "I refuse", "Its session is "+list[2].Data.SessionID)
	zinotest.Contains(t, "error", list[3].Error.Message, "The sub-agent was stopped at its limit of 50 inferences.")
	zinotest.Equal(t, "ok", fmt.Sprint(list[0].OK, list[1].OK, list[2].OK, list[3].OK), "true true false false")
	zinotest.Equal(t, "inferences at the limit", len(e.log(list[3].Data.SessionID, proto.TypeUsage)), 50)

	// The 50 inferences of the last one count a token each.
	ends := e.log("parent", proto.TypeTurn)
	used := ends[len(ends)-1].Usage
	zinotest.Equal(t, "usage of done", fmt.Sprint(used.InputTokens, used.OutputTokens), "40 54")
	turns := e.turns(proto.ListTurns{SessionID: "parent", All: true})
	zinotest.Equal(t, "tokens in the list", fmt.Sprint(turns[0].InputTokens, turns[0].OutputTokens), "40 54")
	report, err := rpc.Call(t.Context(), rpctest.Client(t, "rtr", e.cfg.Rtr.Socket), proto.RtrUsage, proto.UsageRequest{By: "session"})
	zinotest.Must(t, err)
	if len(report.Rows) != 1 || report.Rows[0].Usage.InputTokens != 40 {
		t.Errorf("usage by session: %+v", report.Rows)
	}
	var request struct {
		Messages []struct{ Content any }
		System   any
	}
	zinotest.Must(t, json.Unmarshal(e.provider.Requests()[1].Body, &request))
	zinotest.Equal(t, "messages of a sub-agent", len(request.Messages), 1)
	for i, request := range e.provider.Requests()[1:] {
		if agents := strings.Contains(string(request.Body), `"agent"`); agents && !strings.Contains(string(request.Body), "begin") {
			t.Errorf("request %d of a sub-agent offers sub-agents", i+1)
		}
	}
}

// TestAgentLimits checks that a turn starts 16 sub-agents, 4 at a time.
func TestAgentLimits(t *testing.T) {
	var calls []fakellm.Call
	for n := range 17 {
		calls = append(calls, delegate(fmt.Sprintf("task %d.", n), ""))
	}
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Match: "begin", Calls: calls}, forever("task", fakellm.Turn{Wait: "go", Text: "Here."}), forever("Here", fakellm.Turn{Text: "All are back."}))
	e.begin(proto.TurnStart{})
	e.asked(5)
	zinotest.Equal(t, "running sub-agents", e.count("running queued"), 4)
	zinotest.Equal(t, "listed turns", len(e.turns(proto.ListTurns{})), 1)
	zinotest.Equal(t, "activity", e.turns(proto.ListTurns{})[0].Activity, "task: task 0.")
	e.provider.Open("go")
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	list := e.results()
	zinotest.Equal(t, "results", len(list), 17)
	zinotest.Equal(t, "sub-agents", len(e.agents()), 16)
	zinotest.Equal(t, "error", list[16].Error, proto.ToolError{Code: "too_many_calls", Message: "Not started: a turn starts at most 16 sub-agents."})
}

// TestAgentReadOnly checks that a sub-agent changes nothing unless write is set, and that
// write gives it no more than its parent has.
func TestAgentReadOnly(t *testing.T) {
	write := fakellm.Turn{Calls: []fakellm.Call{
		{Name: "write", Args: `{"path":"made.txt","content":"x"}`}, {Name: "bash", Args: `{"command":"echo x >command.txt"}`},
	}}
	for _, test := range []struct {
		name, more, level string
		written           bool
	}{
		{"reads", "", "off", false},
		{"writes", `,"write":true`, "off", true},
		{"writes in a parent that reads", `,"write":true`, "read-only", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{delegate("change it", test.more)}}, forever("change it", write), forever("", fakellm.Turn{Text: "It is over."}))
			e.begin(proto.TurnStart{Sandbox: proto.Level(test.level)})
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			for _, name := range []string{"made.txt", "command.txt"} {
				if _, err := os.Stat(filepath.Join(e.root, name)); (err == nil) != test.written {
					t.Errorf("%s: %v\n%s", name, err, zinotest.Read(t, e.file(e.agents()[0])))
				}
			}
			request := e.log(e.agents()[0], proto.TypeTurn)[0].Request
			if confined := request["sandbox"] == "read-only" || request["read_only"] == true; confined == test.written {
				t.Errorf("the request of the sub-agent is %v", request)
			}
		})
	}
}

// TestAgentsCanceled checks that the end of a turn ends its sub-agents and their commands.
func TestAgentsCanceled(t *testing.T) {
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{delegate("think", ""), delegate("run", `,"write":true`)}},
		fakellm.Turn{Match: "think", Pause: "never", Text: "I think"}, fakellm.Turn{Match: "run", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo x >started; exec sleep 6174.1"}`}}})
	e.begin(proto.TurnStart{})
	e.asked(3)
	zinotest.Eventually(t, "the command", func() bool {
		_, err := os.Stat(filepath.Join(e.root, "started"))
		return err == nil
	})
	turn, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnCancel, proto.TurnCancel{SessionID: "parent"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", turn.State, proto.TurnInterrupted)
	zinotest.Equal(t, "interrupted sub-agents", e.count("interrupted"), 2)
	zinotest.Eventually(t, "the end of the command", func() bool { return len(zinotest.Processes("sleep 6174.1")) == 0 })
	results := e.log("parent", proto.TypeToolResult)
	zinotest.Equal(t, "results", len(results), 2)
	used := int64(0)
	for _, r := range results {
		if !r.Synthetic {
			t.Errorf("result %s is not synthetic", r.Output)
		}
		if r.Usage != nil {
			used += r.Usage.InputTokens
		}
	}
	if used == 0 {
		t.Error("the usage of the sub-agents is lost")
	}
}

// TestAgentsRestart checks that a planned stop parks a turn with its sub-agents, and that
// the next start goes on with both.
func TestAgentsRestart(t *testing.T) {
	const stopped = "running, parked restart, resumed restart, done"
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{delegate("count", `,"write":true`), delegate("wait", "")}},
		forever("count", fakellm.Turn{Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo x >>count; cat count"}`}}}),
		forever("wait", fakellm.Turn{Wait: "go", Text: "Waited."}), forever("exit_code", fakellm.Turn{Wait: "go", Text: "Counted."}), forever("", fakellm.Turn{Text: "Both are back."}))
	e.begin(proto.TurnStart{})
	e.asked(4)
	e.stop()
	for _, session := range append(e.agents(), "parent") {
		zinotest.Equal(t, "states of "+session, e.states(session), strings.TrimSuffix(stopped, ", resumed restart, done"))
	}
	e.start()
	e.provider.Open("go")
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "sub-agents", len(e.agents()), 2)
	for _, session := range append(e.agents(), "parent") {
		zinotest.Equal(t, "states of "+session, e.states(session), stopped)
	}
	zinotest.Equal(t, "count", zinotest.Read(t, filepath.Join(e.root, "count")), "x\n")
	for _, r := range e.results() {
		zinotest.Equal(t, "ok", r.OK, true)
	}
}

// until is the end of a pause in an event.
var until = regexp.MustCompile(`"until":"[0-9]{4}`)

// TestAgentsParked checks that a turn waits with a sub-agent for the end of a limit, that
// both go on then, and that a cancel ends both.
func TestAgentsParked(t *testing.T) {
	limited := fakellm.Turn{Match: "look", Status: 429, Text: `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, Header: []string{"Retry-After: 3600"}}
	for _, cancel := range []bool{false, true} {
		t.Run(fmt.Sprint("cancel ", cancel), func(t *testing.T) {
			e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Match: "begin", Calls: []fakellm.Call{delegate("look", "")}}, limited, fakellm.Turn{Match: "look", Text: "Here."}, fakellm.Turn{Match: "Here", Text: "It is back."})
			e.begin(proto.TurnStart{OnLimit: proto.OnLimitPark})
			zinotest.Eventually(t, "the turn to be parked", func() bool {
				turns := e.turns(proto.ListTurns{})
				return len(turns) == 1 && turns[0].State == proto.TurnParked && turns[0].Reason == proto.ParkedLimit && turns[0].Until != ""
			})
			child := e.agents()[0]
			zinotest.Equal(t, "states of the sub-agent", e.states(child), "running, parked limit")
			if cancel {
				_, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnCancel, proto.TurnCancel{SessionID: "parent"})
				zinotest.Must(t, err)
				zinotest.Equal(t, "states", e.states("parent"), "running, parked limit, interrupted canceled")
				zinotest.Equal(t, "states of the sub-agent", e.states(child), "running, parked limit, interrupted canceled")
				return
			}
			e.stop()
			for _, session := range []string{"parent", child} { // the pause is over
				log := zinotest.Read(t, e.file(session))
				zinotest.Write(t, e.file(session), until.ReplaceAllString(log, `"until":"2020`))
			}
			e.start()
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			zinotest.Equal(t, "sub-agents", len(e.agents()), 1)
			zinotest.Equal(t, "states", e.states("parent"), "running, parked limit, resumed limit, done")
			zinotest.Equal(t, "states of the sub-agent", e.states(child), "running, parked limit, resumed limit, done")
		})
	}
}
