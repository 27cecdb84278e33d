package zino_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

const (
	agentRounds  = 32
	agentWorkers = 4
	agentCalls   = 3 // sub-agents of a turn
)

// agentScript has, for each round, a turn that starts sub-agents. Each one runs a command
// that adds a line to a counter of its own.
func agentScript() (script []fakellm.Turn) {
	for n := range agentRounds {
		var calls []fakellm.Call
		for k := range agentCalls {
			calls = append(calls, fakellm.Call{Name: "task", Args: fmt.Sprintf(`{"skill":"agent","request":"count %d of round %d.","write":true}`, k, n)})
			command := fmt.Sprintf(`echo x >>%d-%d; echo counted %[2]d of round %[1]d.`, n, k)
			script = append(script,
				fakellm.Turn{Match: fmt.Sprintf("count %d of round %d.", k, n), Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "bash", Args: fmt.Sprintf(`{"command":%q}`, command)}}},
				fakellm.Turn{Match: fmt.Sprintf("counted %d of round %d.", k, n), Times: fakellm.Forever, Text: "It is done."})
		}
		script = append(script, fakellm.Turn{Match: fmt.Sprintf("begin round %d.", n), Times: fakellm.Forever, Calls: calls})
	}
	return append(script, fakellm.Turn{Match: "ok", Times: fakellm.Forever, Text: "All have ended."})
}

// TestAgentsRunOnce kills services at random times of turns with sub-agents. It checks
// that a call has one sub-agent, that its command ran once, or at most once if it was
// interrupted, that no turn stays open, and that all logs are legal.
func TestAgentsRunOnce(t *testing.T) {
	provider := fakellm.New(agentScript()...)
	defer provider.Close()
	f := startFleet(t, fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host), "ANTHROPIC_API_KEY=test")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	o := &once{fleet: f, root: filepath.Join(f.dir, "work"), ends: map[string]int{}}
	zinotest.Must(t, os.Mkdir(o.root, 0o700))
	var wg sync.WaitGroup
	for worker := range agentWorkers {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(worker)))
			for n := worker; n < agentRounds; n += agentWorkers {
				o.agents(t, n, dice)
			}
		})
	}
	wg.Wait()
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d was not legal: %v\n%s", i, err, r.Body)
		}
	}
	o.checkAgents(t)
	t.Logf("%d turns, ends %v, %d results without an answer", agentRounds, o.ends, o.interrupted)
	if o.ends[proto.TurnDone] < agentRounds/2 {
		t.Errorf("too few turns were done: %v", o.ends)
	}
}

// agents starts the turn of a round, kills a service meanwhile, and waits for its end.
func (o *once) agents(t *testing.T, n int, dice *rand.Rand) {
	session := agentRound(n)
	ctx, cancel := context.WithTimeout(t.Context(), 3*zinotest.Timeout)
	defer cancel()
	daemon := &rpc.Client{Service: "daemon", Path: o.fleet.socket("daemon")}
	defer daemon.Close()
	killed := make(chan struct{})
	delay, victim := time.Duration(dice.IntN(600))*time.Millisecond, onceVictims[dice.IntN(len(onceVictims))]
	go func() {
		defer close(killed)
		select {
		case <-time.After(delay):
			o.fleet.kill(victim)
		case <-ctx.Done():
		}
	}()
	start := proto.TurnStart{Message: fmt.Sprintf("begin round %d.", n), SessionID: session, Root: o.root, RequestID: session}
	err := again(ctx, func() error {
		_, err := rpc.Call(ctx, daemon, proto.DaemonTurnStart, start)
		return err
	})
	if err == nil {
		err = again(ctx, func() error {
			end, err := rpc.CallEvents(ctx, daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: session}, func(string, []byte) error { return nil })
			if err == nil && !proto.TurnEnded(end.State) {
				err = errors.New("turn is " + end.State)
			}
			return err
		})
	}
	<-killed
	if err != nil {
		t.Errorf("round %d (%s killed after %v): %v", n, victim, delay, err)
	}
}

func agentRound(n int) string { return fmt.Sprintf("agents-%d-", n) }

// checkAgents compares the logs of all sessions with the counters.
func (o *once) checkAgents(t *testing.T) {
	agents := map[proto.LogParent]int{} // sub-agents, by their call
	answered := map[proto.LogParent]bool{}
	names, err := filepath.Glob(filepath.Join(o.fleet.dir, "data", "sessions", "*.jsonl"))
	zinotest.Must(t, err)
	for _, name := range names {
		id := strings.TrimSuffix(filepath.Base(name), ".jsonl")
		log, events := readLog(t, name, id)
		if len(log.Turns) != 1 || log.Turns[0].End == 0 {
			t.Errorf("session %s has %d turns, open: %d\n%s", id, len(log.Turns), len(log.Open()), zinotest.Read(t, name))
			continue
		}
		if log.Meta.Parent != nil {
			agents[*log.Meta.Parent]++
			o.checkCounter(t, log, events)
			continue
		}
		o.ends[log.Turns[0].State]++
		for _, e := range events {
			if e.Type == proto.TypeToolResult {
				answered[proto.LogParent{SessionID: id, Turn: log.Turns[0].ID, Call: e.ToolUseID}] = e.OK
			}
		}
	}
	for call, ok := range answered {
		if n := agents[call]; n > 1 || ok && n != 1 {
			t.Errorf("call %+v has %d sub-agents, answered %v", call, n, ok)
		}
		if !ok {
			o.interrupted++
		}
	}
	for call := range maps.Keys(agents) {
		if _, ok := answered[call]; !ok {
			t.Errorf("the sub-agent of %+v has no result", call)
		}
	}
}

// checkCounter checks how often the command of a sub-agent ran.
func (o *once) checkCounter(t *testing.T, log *turnlog.Log, events []logEvent) {
	var n, k int
	_, err := fmt.Sscanf(log.Turns[0].Text, "count %d of round %d.", &k, &n)
	zinotest.Must(t, err)
	counter, err := os.ReadFile(filepath.Join(o.root, fmt.Sprintf("%d-%d", n, k)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	ran, finished := strings.Count(string(counter), "x"), false
	for _, e := range events {
		if e.Type == proto.TypeToolResult {
			finished = e.OK && !strings.Contains(string(e.Output), `"interrupted":true`)
		}
	}
	if ran > 1 || finished && ran != 1 {
		t.Errorf("%q ran %d times, finished %v", log.Turns[0].Text, ran, finished)
	}
}

// logEvent is what is compared of an event in a session log.
type logEvent struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	OK        bool   `json:"ok"`

	Output json.RawMessage `json:"output"`
}

// readLog reads and checks a session log.
func readLog(t *testing.T, path, id string) (*turnlog.Log, []logEvent) {
	t.Helper()
	var lines []string
	var offsets []int64
	var events []logEvent
	end := int64(0)
	for line := range strings.Lines(zinotest.Read(t, path)) {
		end += int64(len(line))
		lines, offsets = append(lines, line), append(offsets, end)
		var e logEvent
		zinotest.Must(t, json.Unmarshal([]byte(line), &e))
		events = append(events, e)
	}
	list := proto.Raw("[" + strings.Join(lines, ",") + "]")
	log := turnlog.New(id, 0)
	for raw, next := range turnlog.Events(list, offsets) {
		log.Add(raw, next)
	}
	if err := turnlog.Check(id, turnlog.Events(list, offsets)); err != nil {
		t.Errorf("session %s: %v\n%s", id, err, list)
	}
	return log, events
}
