package zino_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// onceRounds is the number of turns of TestCallsRunOnce.
var onceRounds = flag.Int("once", 200, "rounds of TestCallsRunOnce")

const (
	onceSteps   = 10
	onceWorkers = 8
)

// onceVictims are the services that TestCallsRunOnce kills.
var onceVictims = []string{"daemon", "agr", "exc", "rtr", "mem"}

// onceScript has, for each round, a turn of ten steps. Each step's command adds a line to
// a counter of its own, and its output asks for the next step.
func onceScript(rounds int) (script []fakellm.Turn) {
	for n := range rounds {
		for step := 1; step <= onceSteps; step++ {
			command := fmt.Sprintf(`echo x >>%[1]d-%[2]d; echo round %[1]d step %[3]d.`, n, step, step+1)
			script = append(script, fakellm.Turn{
				Match: fmt.Sprintf("round %d step %d.", n, step), Times: fakellm.Forever,
				Calls: []fakellm.Call{{Name: "bash", Args: fmt.Sprintf(`{"command":%q}`, command)}},
			})
		}
		script = append(script, fakellm.Turn{Match: fmt.Sprintf("round %d step %d.", n, onceSteps+1), Times: fakellm.Forever, Text: "All steps are done."})
	}
	return append(script, fakellm.Turn{Match: "interrupted", Times: fakellm.Forever, Text: "I stop here."})
}

// TestCallsRunOnce kills services at random times of turns whose calls count how often
// they run. It checks that every turn ends, that a call ran once, or at most once if its
// result says that it was interrupted, and that the log is legal.
func TestCallsRunOnce(t *testing.T) {
	rounds := *onceRounds
	provider := fakellm.New(onceScript(rounds)...)
	defer provider.Close()
	f := startFleet(t, fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host), "ANTHROPIC_API_KEY=test")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	o := &once{fleet: f, root: filepath.Join(f.dir, "work"), ends: map[string]int{}}
	zinotest.Must(t, os.Mkdir(o.root, 0o700))
	var wg sync.WaitGroup
	for worker := range onceWorkers {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(worker)))
			for n := worker; n < rounds; n += onceWorkers {
				o.round(t, n, dice)
			}
		})
	}
	wg.Wait()
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d was not legal: %v\n%s", i, err, r.Body)
		}
	}
	t.Logf("%d turns, ends %v, %d results interrupted", rounds, o.ends, o.interrupted)
	if o.ends[proto.TurnDone] < rounds/2 {
		t.Errorf("too few turns were done: %v", o.ends)
	}
}

// once is the state of TestCallsRunOnce.
type once struct {
	fleet *fleet
	root  string

	mu          sync.Mutex
	ends        map[string]int
	interrupted int
}

// round starts a turn, kills a service meanwhile, and checks the turn.
func (o *once) round(t *testing.T, n int, dice *rand.Rand) {
	session := fmt.Sprintf("round-%d-", n)
	ctx, cancel := context.WithTimeout(t.Context(), 3*zinotest.Timeout) // the third attempt waits for 25 s
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
	start := proto.TurnStart{Message: fmt.Sprintf("round %d step 1.", n), SessionID: session, Root: o.root, RequestID: session}
	err := again(ctx, func() error {
		_, err := rpc.Call(ctx, daemon, proto.DaemonTurnStart, start)
		return err
	})
	if err != nil {
		t.Errorf("round %d (%s killed after %v): turn_start: %v", n, victim, delay, err)
		return
	}
	var seen []int64
	err = again(ctx, func() error {
		end, err := follow(ctx, daemon, session, &seen)
		if err == nil && !proto.TurnEnded(end.State) {
			err = errors.New("turn is " + end.State)
		}
		return err
	})
	<-killed
	if err != nil {
		t.Errorf("round %d (%s killed after %v): turn_follow: %v", n, victim, delay, err)
	}
	var all []int64
	err = again(ctx, func() error { // another round may kill a service meanwhile
		all = nil
		_, err := follow(ctx, daemon, session, &all)
		return err
	})
	if err != nil || !slices.Equal(seen, all) {
		t.Errorf("round %d (%s killed after %v): a follower that connected again got %v, the log has %v, %v", n, victim, delay, seen, all, err)
	}
	o.check(t, n, session, fmt.Sprintf("%s killed after %v", victim, delay))
}

// follow follows a turn from the last of the offsets on, and adds those of the packets.
func follow(ctx context.Context, daemon *rpc.Client, session string, offsets *[]int64) (proto.Followed, error) {
	from := int64(0)
	if n := len(*offsets); n > 0 {
		from = (*offsets)[n-1]
	}
	return rpc.CallEvents(ctx, daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: session, From: &from}, func(typ string, payload []byte) error {
		var place struct{ Next int64 }
		if err := json.Unmarshal(payload, &place); err != nil {
			return err
		}
		if place.Next > 0 && typ != proto.TypeLive {
			*offsets = append(*offsets, place.Next)
		}
		return nil
	})
}

// again repeats a request until it succeeds or ctx ends.
func again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || errors.Is(err, proto.ErrInvalid) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// check compares the counters of a round with the session's log.
func (o *once) check(t *testing.T, n int, session, what string) {
	data := zinotest.Read(t, filepath.Join(o.fleet.dir, "data", "sessions", session+".jsonl"))
	var lines []string
	var offsets []int64
	end, interrupted := int64(0), map[int]bool{}
	results := map[int]bool{}
	for line := range strings.Lines(data) {
		end += int64(len(line))
		lines, offsets = append(lines, line), append(offsets, end)
	}
	list := proto.Raw("[" + strings.Join(lines, ",") + "]")
	log := turnlog.New(session, 0)
	for raw, next := range turnlog.Events(list, offsets) {
		log.Add(raw, next)
		step := 0
		if strings.Contains(string(raw), `"type":"tool_result"`) {
			_, after, _ := strings.Cut(string(raw), `"step":`)
			fmt.Sscan(strings.TrimRight(after, ",}"), &step)
			results[step] = true
			interrupted[step] = strings.Contains(string(raw), `"code":"interrupted"`) || strings.Contains(string(raw), `"interrupted":true`)
		}
	}
	report := func(format string, args ...any) {
		t.Errorf("round %d (%s): %s\n%s", n, what, fmt.Sprintf(format, args...), data)
	}
	if err := turnlog.Check(session, turnlog.Events(list, offsets)); err != nil {
		report("%v", err)
	}
	if len(log.Turns) != 1 || log.Turns[0].End == 0 {
		report("%d turns, open: %v", len(log.Turns), len(log.Open()))
		return
	}
	for step := 1; step <= onceSteps; step++ {
		counter, err := os.ReadFile(filepath.Join(o.root, fmt.Sprintf("%d-%d", n, step)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			report("%v", err)
		}
		ran := strings.Count(string(counter), "x")
		if results[step] && !interrupted[step] && ran != 1 || ran > 1 || !results[step] && ran > 0 {
			report("step %d ran %d times, result %v, interrupted %v", step, ran, results[step], interrupted[step])
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends[log.Turns[0].State]++
	for _, is := range interrupted {
		if is {
			o.interrupted++
		}
	}
}
