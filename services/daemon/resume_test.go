package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// runScript plays one run of a fake agr.
type runScript func(r *run) (proto.Text, error)

// run is a run of a fake agr.
type run struct {
	proto.Run
	t       *testing.T
	ctx     context.Context
	out     *rpc.Out
	proceed <-chan proto.Proceed
}

// send sends packets.
func (r *run) send(packets ...string) error {
	var errs []error
	for _, p := range packets {
		errs = append(errs, r.out.Frame([]byte(p)))
	}
	return errors.Join(append(errs, r.out.Flush())...)
}

// at waits at a checkpoint.
func (r *run) at(step int, point string, batch ...string) (proto.Proceed, error) {
	if err := r.out.Event(proto.TypeCheckpoint, proto.Checkpoint{Turn: r.Turn, Step: step, Point: point, Batch: batch}); err != nil {
		return proto.Proceed{}, err
	}
	select {
	case p := <-r.proceed:
		return p, nil
	case <-r.ctx.Done():
		return proto.Proceed{}, r.ctx.Err()
	}
}

// answer is the last inference of a run.
func answer(r *run) (proto.Text, error) {
	step := max(r.FirstStep, 1)
	err := r.send(`{"type":"assistant_final","text":"all done"}`, `{"type":"usage","input_tokens":7,"output_tokens":3}`)
	if err == nil {
		_, err = r.at(step, proto.PointEnd)
	}
	return proto.Text{Content: "all done", Iterations: new(1), StopReason: "stop", Usage: &proto.Usage{InputTokens: 7, OutputTokens: 3}}, err
}

// resumeEnv is a daemon with a real mem, and an agr that plays a script for each run.
type resumeEnv struct {
	*realEnv
	scripts  chan runScript
	each     runScript // of every run, instead of scripts
	requests rpctest.Record[proto.Run]
	proceeds rpctest.Record[proto.Proceed]
	waiting  sync.Map // by turn: the channel of its last run for proceeds
}

func newResumeEnv(t *testing.T, scripts ...runScript) *resumeEnv {
	t.Helper()
	return newResumeEnvIn(t, zinotest.Dir(t), scripts...)
}

// newResumeEnvIn is newResumeEnv with the data directory of mem.
func newResumeEnvIn(t *testing.T, dir string, scripts ...runScript) *resumeEnv {
	t.Helper()
	e := &resumeEnv{scripts: make(chan runScript, 10)}
	for _, s := range scripts {
		e.scripts <- s
	}
	e.realEnv = newRealEnvIn(t, dir, nil)
	e.service.resumePauses = []time.Duration{time.Millisecond}
	rpctest.New(t, "agr", e.cfg.Agr.Socket, func(s *rpc.Server) {
		rpc.HandleText(s, proto.AgrRun, func(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
			req.Messages, req.Client = bytes.Clone(req.Messages), bytes.Clone(req.Client)
			for i := range req.Calls {
				req.Calls[i].Input = bytes.Clone(req.Calls[i].Input)
			}
			e.requests.Add(req)
			proceed := make(chan proto.Proceed, 1)
			e.waiting.Store(req.Turn, proceed)
			if e.each != nil {
				return e.each(&run{req, t, ctx, out, proceed})
			}
			select {
			case script := <-e.scripts:
				return script(&run{req, t, ctx, out, proceed})
			default:
				t.Error("an unexpected run")
				return proto.Text{}, errors.New("no script")
			}
		})
		rpc.Handle(s, proto.AgrProceed, func(_ context.Context, req proto.Proceed) (proto.Empty, error) {
			for id, result := range req.Results {
				req.Results[id] = bytes.Clone(result)
			}
			e.proceeds.Add(req)
			run, ok := e.waiting.Load(req.Turn)
			if !ok {
				return proto.Empty{}, proto.Errorf(proto.CodeNotFound, "no run of turn %s", req.Turn)
			}
			run.(chan proto.Proceed) <- req
			return proto.Empty{}, nil
		})
	})
	return e
}

// write writes a session with the present time in its events.
func (e *resumeEnv) write(id string, lines ...string) {
	e.t.Helper()
	var all strings.Builder
	all.WriteString(`{"type":"meta","schema_version":1,"ts":"2026-11-22T10:00:00Z","root":"/r"}` + "\n")
	for _, line := range lines {
		line = strings.ReplaceAll(line, "NOW", timestamp())
		all.WriteString(strings.TrimSuffix(line, "}") + `,"ts":"` + timestamp() + `"}` + "\n")
	}
	zinotest.Write(e.t, filepath.Join(e.sessions, id+".jsonl"), all.String())
}

// read returns the log of a session, which must be legal.
func (e *resumeEnv) read(id string) *turnlog.Log {
	e.t.Helper()
	log := turnlog.New(id, 0)
	page, err := e.service.readPage(e.t.Context(), id, 0)
	zinotest.Must(e.t, err)
	for event, next := range turnlog.Events(page.Events, page.Offsets) {
		log.Add(event, next)
	}
	if err := turnlog.Check(id, turnlog.Events(page.Events, page.Offsets)); err != nil {
		e.t.Errorf("%v in\n%s", err, strings.Join(e.file(id), "\n"))
	}
	return log
}

// ended waits for the end of a turn.
func (e *resumeEnv) ended(id, turn string) *turnlog.Turn {
	e.t.Helper()
	var t *turnlog.Turn
	zinotest.Eventually(e.t, "the end of turn "+turn, func() bool {
		t = e.read(id).Turn(turn)
		return t != nil && t.End > 0
	})
	return t
}

const (
	openTurn   = `{"type":"turn","turn":"t-1","session_id":"s-1","state":"running","lifetime":"persistent","by":{"uid":7},"request":{"root":"/r","model":"m","on_limit":"park"}}`
	openAsked  = `{"type":"message","role":"user","text":"count","turn":"t-1"}`
	openSay    = `{"type":"say","say":"s-1","turn":"t-1","mode":"steer","text":"quick"}`
	openText   = `{"type":"message","role":"assistant","text":"I count.","turn":"t-1","step":1}`
	openCallA  = `{"type":"tool_use","id":"a","name":"bash","input":{"command":"x"},"turn":"t-1","step":1}`
	openCallB  = `{"type":"tool_use","id":"b","name":"read","input":{"path":"y"},"turn":"t-1","step":1}`
	openUsage  = `{"type":"usage","input_tokens":10,"output_tokens":5,"turn":"t-1","step":1}`
	openResult = `{"type":"tool_result","tool_use_id":"a","name":"bash","output":{"ok":true},"ok":true,"duration_ms":1,"turn":"t-1","step":1}`
	openNext   = `{"type":"turn","turn":"t-2","session_id":"s-1","state":"queued","lifetime":"persistent","request":{"root":"/r"},"message":"then","say":"s-2"}`
	openOther  = `{"type":"turn","turn":"t-3","session_id":"s-1","state":"queued","lifetime":"persistent","request":{"root":"/r"},"message":"last"}`
	finishedB  = `{"type":"tool_finished","id":"b","name":"read","ok":true,"result":{"ok":true,"data":{}},"duration_ms":2}`
)

// TestResume checks that a turn of a daemon that was killed goes on from its last stored
// step, with its open calls, its message, its environment, and the turns behind it.
func TestResume(t *testing.T) {
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		if err := r.send(finishedB); err != nil {
			return proto.Text{}, err
		}
		p, err := r.at(1, proto.PointInfer)
		if len(p.Says) != 1 || p.Says[0] != (proto.Say{Say: "s-1", Text: "quick"}) {
			t.Errorf("proceed %+v, %v", p, err)
		}
		return answer(r)
	}, answer, answer)
	e.write("s-1", openTurn, openAsked, openText, openCallA, openCallB, openUsage, openResult, openSay, openNext, openOther)
	e.service.Resume()
	turn := e.ended("s-1", "t-1")
	zinotest.Equal(t, "state", turn.State, proto.TurnDone)
	e.ended("s-1", "t-2")
	e.ended("s-1", "t-3")
	req := e.requests.All()[0]
	zinotest.Equal(t, "run", fmt.Sprint(req.Turn, req.FirstStep, *req.MaxIterations, req.Root, req.Model, req.OnLimit, len(req.Says)), "t-12 199/rmpark0")
	calls, err := json.Marshal(req.Calls)
	zinotest.Must(t, err)
	zinotest.Equal(t, "calls", timed.ReplaceAllString(string(calls), ""), `[{"id":"b","step":1,"name":"read","input":{"path":"y"},"action":"recover","since":"`+req.Calls[0].Since+`"}]`)
	zinotest.Equal(t, "messages", string(req.Messages), `[{"role":"system","content":"Be <brief>."},{"role":"user","content":"count"},`+
		`{"role":"assistant","content":"I count.","tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{\"command\":\"x\"}"}},`+
		`{"id":"b","type":"function","function":{"name":"read","arguments":"{\"path\":\"y\"}"}}]},{"role":"tool","tool_call_id":"a","content":"{\"ok\":true}","ok":true}]`)
	equalLists(t, "the session", e.file("s-1")[11:19], []string{
		`{"type":"tool_result","tool_use_id":"b","output":{"ok":true,"data":{}},"ok":true,"duration_ms":2,"name":"read","turn":"t-1","step":1}`,
		`{"type":"turn","turn":"t-1","session_id":"s-1","state":"resumed","reason":"crashed","attempt":1}`,
		`{"type":"message","role":"user","text":"quick","turn":"t-1","say":"s-1","via":"steer"}`,
		`{"type":"message","role":"assistant","text":"all done","turn":"t-1","step":2}`,
		`{"type":"usage","input_tokens":7,"output_tokens":3,"turn":"t-1","step":2}`,
		`{"type":"turn","turn":"t-1","session_id":"s-1","state":"done","stop_reason":"stop","iterations":2,"usage":{"input_tokens":17,"output_tokens":8}}`,
		e.file("s-1")[17],
		`{"type":"message","role":"user","text":"then","turn":"t-2","say":"s-2","via":"queue"}`,
	})
	zinotest.Eventually(t, "the session leaves the memory", func() bool { return !e.service.openTurns() && e.idle() })
}

// idle reports whether no session is in memory.
func (e *resumeEnv) idle() bool {
	e.service.table.mu.Lock()
	defer e.service.table.mu.Unlock()
	return len(e.service.table.sessions) == len(e.service.table.idle) && e.service.table.open == 0 && e.service.table.running == 0
}

// TestNotResumed checks which open turns are ended, and what goes back to the user.
func TestNotResumed(t *testing.T) {
	parked := `{"type":"turn","turn":"t-1","session_id":"s-1","state":"parked","reason":"limit"}`
	for _, c := range []struct {
		name, reason string
		lines        []string
		runs         int
	}{
		{"attached", "crashed", []string{strings.Replace(openTurn, `"by"`, `"attached":true,"by"`, 1), openAsked, openCallA}, 0},
		{"of a private constellation", "crashed", []string{strings.Replace(openTurn, "persistent", "private", 1), openAsked, openSay}, 0},
		{"without its message", "crashed", []string{openTurn}, 0},
		{"what turn_say queued", "crashed", []string{openTurn, openSay, openNext, openOther}, 1},
		{"superseded", "superseded", []string{openTurn, openAsked, openCallA, parked, `{"type":"message","role":"user","text":"else"}`}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newResumeEnv(t, answer)
			e.write("s-1", c.lines...)
			if c.reason == "superseded" {
				e.service.lot.put(parkedOf(&turnlog.Turn{State: proto.TurnRunning}, "s-1"))
			} else {
				e.service.Resume()
			}
			turn := e.ended("s-1", "t-1")
			zinotest.Equal(t, "end", turn.State+" "+turn.Reason, "interrupted "+c.reason)
			if c.runs > 0 {
				zinotest.Equal(t, "the say's turn", e.ended("s-1", "t-2").Reason, "withdrawn")
				zinotest.Equal(t, "the other turn", e.ended("s-1", "t-3").State, "done")
			}
			zinotest.Eventually(t, "the session leaves the memory", e.idle)
			zinotest.Equal(t, "runs", len(e.requests.All()), c.runs)
		})
	}
	t.Run("too old", func(t *testing.T) {
		e := newResumeEnv(t)
		e.cfg.Daemon.ResumeWindow = "0s"
		e.write("s-1", openTurn, openAsked)
		e.service.Resume()
		zinotest.Equal(t, "reason", e.ended("s-1", "t-1").Reason, "too old")
	})
	t.Run("in a private constellation", func(t *testing.T) {
		e := newResumeEnv(t)
		e.service.lifetime = proto.LifetimePrivate
		e.write("s-1", openTurn, openAsked)
		e.service.Resume()
		zinotest.Equal(t, "open turns", e.service.openTurns(), false)
		zinotest.Equal(t, "state", e.read("s-1").Turn("t-1").State, "running")
	})
}

// lost is a run that ends in the middle of an inference, since rtr went away.
func lost(r *run) (proto.Text, error) {
	err := r.send(`{"type":"assistant_delta","text":"I thi"}`, `{"type":"assistant_final","text":"I thi"}`)
	return proto.Text{}, cmp.Or(err, error(&proto.Error{Code: proto.CodeUnavailable, Kind: proto.ErrorKindTransport, Message: "rtr hung up"}))
}

// asks is a run that asks for two calls, and ends before they are carried out.
func asks(r *run) (proto.Text, error) {
	err := r.send(`{"type":"tool_requested","id":"a","name":"bash","input":{}}`, `{"type":"tool_requested","id":"b","name":"bash","input":{}}`,
		`{"type":"usage","input_tokens":1,"output_tokens":1}`)
	if err == nil {
		_, err = r.at(r.FirstStep, proto.PointCalls, "a")
	}
	if err == nil {
		err = r.send(`{"type":"tool_finished","id":"a","name":"bash","ok":true,"result":{"ok":true},"duration_ms":2}`)
	}
	return proto.Text{}, cmp.Or(err, error(proto.Errorf(proto.CodeCanceled, "agr stops")))
}

// settles carries out the call b and answers.
func settles(r *run) (proto.Text, error) {
	err := r.send(finishedB)
	if err == nil {
		_, err = r.at(r.FirstStep-1, proto.PointInfer)
	}
	if err != nil {
		return proto.Text{}, err
	}
	return answer(r)
}

// TestResumeAfterAgr checks that a run that is lost is followed by another one, that text
// of the lost inference is kept, that results of a batch are stored, and that a stored
// step resets the count of attempts.
func TestResumeAfterAgr(t *testing.T) {
	e := newResumeEnv(t, lost, lost, asks, lost, settles)
	e.write("s-1", openTurn, openAsked)
	e.service.Resume()
	turn := e.ended("s-1", "t-1")
	zinotest.Equal(t, "state", turn.State, proto.TurnDone)
	var got []string
	for _, line := range e.file("s-1")[3:] {
		got = append(got, strings.NewReplacer(`"type":`, "", `"turn":"t-1",`, "", `"session_id":"s-1",`, "").Replace(line))
	}
	equalLists(t, "the session", got, []string{
		`{"turn","state":"resumed","reason":"crashed","attempt":1}`,
		`{"turn","state":"resumed","reason":"the run was lost","attempt":2,"discarded":"I thi"}`,
		`{"turn","state":"resumed","reason":"the run was lost","attempt":3,"discarded":"I thi"}`,
		`{"tool_use","id":"a","name":"bash","input":{},"step":1}`,
		`{"tool_use","id":"b","name":"bash","input":{},"step":1}`,
		`{"usage","input_tokens":1,"output_tokens":1,"step":1}`,
		`{"tool_result","tool_use_id":"a","output":{"ok":true},"ok":true,"duration_ms":2,"name":"bash","step":1}`,
		`{"tool_result","tool_use_id":"b","output":{"ok":true,"data":{}},"ok":true,"duration_ms":2,"name":"read","step":1}`,
		`{"turn","state":"resumed","reason":"the run was lost","attempt":2,"discarded":"I thi"}`,
		`{"message","role":"assistant","text":"all done","step":2}`,
		`{"usage","input_tokens":7,"output_tokens":3,"step":2}`,
		`{"turn","state":"done","stop_reason":"stop","iterations":2,"usage":{"input_tokens":8,"output_tokens":4}}`,
	})
}

// TestResumeGivesUp checks that a turn is ended after three attempts without a step.
func TestResumeGivesUp(t *testing.T) {
	e := newResumeEnv(t, lost, lost, lost)
	e.write("s-1", openTurn, openAsked, openSay)
	e.service.Resume()
	turn := e.ended("s-1", "t-1")
	zinotest.Equal(t, "end", turn.State+" "+turn.Reason, "interrupted gave up after 3 attempts: rtr hung up")
	zinotest.Eventually(t, "the session leaves the memory", e.idle)
}

// TestResumeErrorEndsTurn checks that an error of the model is not repeated.
func TestResumeErrorEndsTurn(t *testing.T) {
	e := newResumeEnv(t, func(*run) (proto.Text, error) {
		return proto.Text{}, &proto.Error{Code: proto.CodeDenied, Message: "no key"}
	})
	e.write("s-1", openTurn, openAsked)
	e.service.Resume()
	turn := e.ended("s-1", "t-1")
	zinotest.Equal(t, "end", turn.State+" "+turn.Reason, "error denied")
}

// TestPlannedStopParks checks that a running turn is parked at its next checkpoint when
// the daemon stops, that its calls were not started, and that the next daemon resumes it
// without counting an attempt.
func TestPlannedStopParks(t *testing.T) {
	reached, stopping := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		close(reached)
		<-stopping
		err := r.send(`{"type":"tool_requested","id":"b","name":"read","input":{}}`)
		if err != nil {
			return proto.Text{}, err
		}
		p, err := r.at(1, proto.PointCalls, "b")
		return proto.Text{StopReason: p.Stop}, err
	}, func(r *run) (proto.Text, error) {
		zinotest.Equal(r.t, "action", r.Calls[0].Action, proto.ActionRun)
		return settles(r)
	})
	e.write("s-1", openTurn, openAsked)
	e.service.Resume()
	zinotest.Receive(t, "the run", reached)
	stopped := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), zinotest.Timeout)
	defer cancel()
	go func() {
		e.service.parkAll(ctx)
		close(stopped)
	}()
	zinotest.Eventually(t, "the stop", func() bool { return e.service.stopping.Err() != nil })
	close(stopping)
	zinotest.Receive(t, "the end of the stop", stopped)
	turn := e.read("s-1").Turn("t-1")
	zinotest.Equal(t, "parked", values(turn.State, turn.Reason, turn.Pending, turn.Attempts), "parked restart [b] 0")
	zinotest.Must(t, e.service.Close())

	next := New(e.cfg, e.log.Logger())
	t.Cleanup(func() { zinotest.Must(t, next.Close()) })
	next.Resume()
	zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, proto.TurnDone)
	if !slices.Contains(e.file("s-1"), `{"type":"turn","turn":"t-1","session_id":"s-1","state":"resumed","reason":"restart"}`) {
		t.Errorf("no resumed event in\n%s", strings.Join(e.file("s-1"), "\n"))
	}
}

// TestPlannedStopParksWithoutModel checks that a turn whose model goes before the daemon,
// as when the host shuts down, is parked and asks again later.
func TestPlannedStopParksWithoutModel(t *testing.T) {
	reached, stopping := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		if err := r.send(`{"type":"assistant_delta","text":"I thi"}`); err != nil {
			return proto.Text{}, err
		}
		close(reached)
		<-stopping
		return proto.Text{}, &proto.Error{Code: proto.CodeUnavailable, Service: "rtr", Message: "cannot reach the model"}
	})
	e.write("s-1", openTurn, openAsked)
	e.service.Resume()
	zinotest.Receive(t, "the run", reached)
	stopped := make(chan struct{})
	go func() {
		e.service.parkAll(t.Context())
		close(stopped)
	}()
	zinotest.Eventually(t, "the stop", func() bool { return e.service.stopping.Err() != nil })
	close(stopping)
	zinotest.Receive(t, "the end of the stop", stopped)
	turn := e.read("s-1").Turn("t-1")
	zinotest.Equal(t, "turn", values(turn.State, turn.Reason, turn.Attempts, turn.Discarded), "parked restart 1 I thi")
}

// TestPlannedStopAfterInterruptedCommand checks that a turn whose command is interrupted
// just before the daemon is stopped, as at a logout, is parked before the model is asked.
func TestPlannedStopAfterInterruptedCommand(t *testing.T) {
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		err := r.send(`{"type":"tool_finished","id":"a","name":"bash","ok":true,"result":{"ok":true,"data":{"stdout":"","interrupted":true}},"duration_ms":2}`)
		if err != nil {
			return proto.Text{}, err
		}
		p, err := r.at(1, proto.PointInfer)
		return proto.Text{StopReason: p.Stop}, err
	})
	e.write("s-1", openTurn, openAsked, openText, openCallA, openUsage)
	e.service.Resume()
	zinotest.Eventually(t, "the result", func() bool { return strings.Contains(strings.Join(e.file("s-1"), ""), `"interrupted":true`) })
	e.service.parkAll(t.Context())
	turn := e.read("s-1").Turn("t-1")
	zinotest.Equal(t, "turn", values(turn.State, turn.Reason), "parked restart")
}

// TestPlannedStopCutsLateTurns checks that a turn that reaches no checkpoint is parked
// where it is: its call may have run.
func TestPlannedStopCutsLateTurns(t *testing.T) {
	reached := make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		if err := r.send(`{"type":"tool_requested","id":"b","name":"read","input":{}}`); err != nil {
			return proto.Text{}, err
		}
		if _, err := r.at(1, proto.PointCalls, "b"); err != nil {
			return proto.Text{}, err
		}
		close(reached)
		<-r.ctx.Done()
		return proto.Text{}, r.ctx.Err()
	})
	e.write("s-1", openTurn, openAsked)
	e.service.Resume()
	zinotest.Receive(t, "the run", reached)
	ctx, cancel := context.WithTimeout(t.Context(), stopMargin+time.Millisecond)
	defer cancel()
	e.service.parkAll(ctx)
	log := e.read("s-1")
	turn := log.Turn("t-1")
	zinotest.Equal(t, "parked", values(turn.State, turn.Reason, turn.Pending, log.Calls(turn)[0].Action), "parked restart [] recover")
}

// limited is a run that a provider's limit ends.
func limited(until time.Time) runScript {
	return func(*run) (proto.Text, error) {
		return proto.Text{}, &proto.Error{Code: proto.CodeLimit, Message: "come back later", Details: until.UTC().Format(time.RFC3339)}
	}
}

// TestParkForLimit checks that a turn waits for the end of a limit, at most five times,
// and not longer than limit_wait.
func TestParkForLimit(t *testing.T) {
	past, tomorrow := time.Now().Add(-time.Second), time.Now().Add(23*time.Hour)
	e := newResumeEnv(t, limited(past), limited(past), answer, limited(tomorrow))
	e.write("s-1", openTurn, openAsked)
	e.write("s-2", strings.ReplaceAll(openTurn, "s-1", "s-2"), openAsked)
	e.service.lot.put(parkedOf(&turnlog.Turn{}, "s-1"))
	zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, proto.TurnDone)
	zinotest.Equal(t, "tries", e.read("s-1").Turn("t-1").Tries, 2)

	e.service.lot.put(parkedOf(&turnlog.Turn{}, "s-2"))
	zinotest.Eventually(t, "the parked turn leaves the memory", func() bool { return e.service.lot.size() == 1 && e.idle() })
	p := e.service.lot.list()[0]
	zinotest.Equal(t, "parked", values(p.session, p.turn, p.reason, p.until), values("s-2", "t-1", "limit", tomorrow.Unix()))
	zinotest.Equal(t, "until", e.read("s-2").Turn("t-1").Until, tomorrow.UTC().Format(time.RFC3339))
	zinotest.Equal(t, "the daemon stays", e.service.openTurns(), true)

	again := New(e.cfg, e.log.Logger()) // the next daemon knows it, too
	t.Cleanup(func() { zinotest.Must(t, again.Close()) })
	again.Resume()
	zinotest.Eventually(t, "the parked turn", func() bool { return again.lot.size() == 1 })
	zinotest.Equal(t, "parked", fmt.Sprint(again.lot.list()), fmt.Sprint([]parked{p}))
}

func TestParkEnds(t *testing.T) {
	past := time.Now().Add(-time.Second)
	five := slices.Repeat([]runScript{limited(past)}, limitTries+1)
	for _, c := range []struct {
		name    string
		scripts []runScript
		open    string
	}{
		{"after five tries", five, openTurn},
		{"a wait that is too long", []runScript{limited(time.Now().Add(25 * time.Hour))}, openTurn},
		{"on_limit stop", []runScript{limited(past)}, strings.Replace(openTurn, "park", "stop", 1)},
	} {
		e := newResumeEnv(t, c.scripts...)
		e.write("s-1", c.open, openAsked)
		e.service.Resume()
		turn := e.ended("s-1", "t-1")
		zinotest.Equal(t, c.name, turn.State+" "+turn.Reason, "error limit")
		zinotest.Equal(t, c.name+": runs", len(e.requests.All()), len(c.scripts))
	}
}

// TestEnvOfTurn checks the file of a caller's environment.
func TestEnvOfTurn(t *testing.T) {
	e := newResumeEnv(t, answer, answer)
	e.cfg.Daemon.DataDir = filepath.Join(zinotest.Dir(t), "daemon")
	with := strings.Replace(openTurn, `"model"`, `"has_env":true,"model"`, 1)
	zinotest.Must(t, e.service.keepEnv("t-1", proto.Chat{Env: map[string]string{"A": "b"}, Cwd: "/w", Umask: new(0o22), MCPServers: proto.Raw(`{"mcpServers":{"a":{"command":"a","args":["--token=secret"]}}}`)}))
	path := filepath.Join(e.cfg.Daemon.DataDir, "env", "t-1.json")
	info, err := os.Stat(path)
	zinotest.Must(t, err)
	zinotest.Equal(t, "mode", info.Mode(), 0o600)
	e.write("s-1", with, openAsked)
	e.service.Resume()
	e.ended("s-1", "t-1")
	req := e.requests.All()[0]
	zinotest.Equal(t, "run", values(req.Env, req.Cwd, *req.Umask, string(req.Client)), `map[A:b] /w 18 {"mcpServers":{"a":{"command":"a","args":["--token=secret"]}}}`)
	zinotest.Eventually(t, "the file goes", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	req2 := proto.Chat{}
	zinotest.Equal(t, "notice", e.service.restoreEnv("t-1", &req2), "The environment of this turn is gone ("+path+"): its tools run with that of the services, and without MCP servers of the client.")
	zinotest.Must(t, e.service.keepEnv("t-2", req2))
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "t-2.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a turn without environment has a file: %v", err)
	}
}

// values returns the values with a blank between them.
func values(list ...any) string { return strings.TrimSuffix(fmt.Sprintln(list...), "\n") }

// TestStartIsIdempotentAcrossDaemons checks that a repeated turn_start finds the turn of a
// daemon that was killed, and that a session whose id begins like others is a new one.
func TestStartIsIdempotentAcrossDaemons(t *testing.T) {
	e := newResumeEnv(t, answer)
	e.write("s-1", strings.Replace(openTurn, `"by"`, `"request_id":"r1","by"`, 1), openAsked)
	e.write("s-21")
	e.write("s-22")
	daemon := rpctest.Client(t, "daemon", e.cfg.Daemon.Socket)
	start := proto.TurnStart{SessionID: "s-1", Message: "count", RequestID: "r1"}
	turn, err := rpc.Call(t.Context(), daemon, proto.DaemonTurnStart, start)
	zinotest.Must(t, err)
	zinotest.Equal(t, "the first turn", values(turn.Turn, turn.State), "t-1 running")
	start.SessionID = "s-2"
	turn, err = rpc.Call(t.Context(), daemon, proto.DaemonTurnStart, start)
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", e.ended("s-2", turn.Turn).State, proto.TurnDone)
}

// TestStorage checks that a turn waits in memory while mem cannot be reached, and that the
// next daemon resumes it if that lasts too long.
func TestStorage(t *testing.T) {
	for _, back := range []bool{true, false} {
		stopped := make(chan struct{})
		var e *resumeEnv
		e = newResumeEnv(t, func(r *run) (proto.Text, error) {
			err := r.send(`{"type":"tool_requested","id":"b","name":"read","input":{}}`)
			if err == nil {
				e.stop()
				close(stopped)
				_, err = r.at(1, proto.PointCalls, "b")
			}
			if err != nil {
				return proto.Text{}, err
			}
			r.FirstStep = 2
			return settles(r)
		})
		e.service.storeTimeout, e.service.storageEvery, e.service.storageFor = time.Millisecond, time.Millisecond, zinotest.Timeout
		if !back {
			e.service.storageFor = time.Millisecond
		}
		e.write("s-1", openTurn, openAsked)
		e.service.lot.put(parkedOf(&turnlog.Turn{}, "s-1"))
		zinotest.Receive(t, "the stop of mem", stopped)
		if !back {
			zinotest.Eventually(t, "the turn is given up", func() bool {
				e.service.table.mu.Lock()
				defer e.service.table.mu.Unlock()
				return e.service.table.open == 0
			})
		}
		e.startMem()
		if back {
			zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, proto.TurnDone)
			continue
		}
		turn := e.read("s-1").Turn("t-1")
		zinotest.Equal(t, "state", values(turn.State, turn.End), "resumed 0")
	}
}
