package agr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

const inTurn = inSession + withEvents + `,"turn":"t-1"`

// follower is a daemon: it reads the packets of a turn's run and calls proceed.
type follower struct {
	*env
	*rpctest.Conn
	proceed *rpctest.Conn
}

// follow starts a run of the turn t-1.
func (e *env) follow(messages, more string) *follower {
	e.t.Helper()
	f := &follower{e, rpctest.Dial(e.t, e.path), rpctest.Dial(e.t, e.path)}
	f.Send(request(messages, inTurn+more))
	return f
}

// until reads packets up to a checkpoint or the terminal one.
func (f *follower) until() (packets []string, at proto.Checkpoint) {
	f.t.Helper()
	for {
		p := f.Next()
		packets = append(packets, durations.ReplaceAllString(withoutIDs([]byte(p.Raw)), `"duration_ms":0`))
		switch p.Type {
		case proto.TypeCheckpoint:
			zinotest.Must(f.t, json.Unmarshal([]byte(p.Raw), &at))
			return packets, at
		case proto.TypeDone, proto.TypeError, "":
			return packets, at
		}
	}
}

// ok answers a checkpoint. more are further fields.
func (f *follower) ok(at proto.Checkpoint, more string) {
	f.t.Helper()
	batch, err := json.Marshal(at.Batch)
	zinotest.Must(f.t, err)
	zinotest.Equal(f.t, "answer of proceed", f.proceed.Ask(fmt.Sprintf(`{"type":"proceed","turn":%q,"step":%d,"point":%q,"batch":%s%s}`, at.Turn, at.Step, at.Point, batch, more)), `{"type":"ok"}`)
}

// finish answers every checkpoint and returns the terminal packet.
func (f *follower) finish() string {
	f.t.Helper()
	for {
		packets, at := f.until()
		if at.Point == "" {
			return packets[len(packets)-1]
		}
		f.ok(at, "")
	}
}

func checkpoint(step int, point string, batch ...string) string {
	list := ""
	if len(batch) > 0 {
		list = `,"batch":["` + strings.Join(batch, `","`) + `"]`
	}
	return fmt.Sprintf(`{"type":"checkpoint","turn":"t-1","step":%d,"point":%q%s}`, step, point, list)
}

// TestCheckpoints checks every packet of a turn with three batches, and that nothing
// starts before proceed has been called.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	e := newEnv(t,
		asks("Look.", native("a", "read", `{"path":"1"}`), native("b", "read", `{"path":"2"}`), native("c", "bash", `{"command":"x"}`)),
		asks("", nativeBash("d", "y")), says("Done."))
	f := e.follow(question, `,"first_step":4`)
	for _, stage := range []struct {
		inferences, calls int
		runs              []string
		packets           []string
	}{
		{1, 0, nil, []string{
			delta("Look."), final("Look."), requested("a", "read", `{"path":"1"}`), requested("b", "read", `{"path":"2"}`), requested("c", "bash", `{"command":"x"}`),
			checkpoint(4, "calls", "a", "b"),
		}},
		{1, 2, nil, nil}, // the order of concurrent calls is free
		{1, 3, nil, []string{begun("c", "bash"), finished("c", "bash", string(said(""))), checkpoint(4, "infer")}},
		{2, 3, nil, []string{requested("d", "execute_bash", `{"code":"y"}`), checkpoint(5, "calls", "d")}},
		{2, 3, []string{"bash:y"}, []string{begun("d", "execute_bash"), finished("d", "execute_bash", ran("")), checkpoint(5, "infer")}},
		{3, 3, []string{"bash:y"}, []string{delta("Done."), final("Done."), checkpoint(6, "end")}},
	} {
		packets, at := f.until()
		if stage.packets != nil {
			compare(t, packets, stage.packets...)
		} else if len(packets) != 5 || packets[4] != checkpoint(4, "calls", "c") {
			t.Fatalf("packets %q", packets)
		}
		if n := len(e.exc.called()); n != stage.calls {
			t.Errorf("%d calls before %v", n, at)
		}
		e.checkRan(stage.inferences, stage.runs...)
		f.ok(at, "")
	}
	packets, _ := f.until()
	compare(t, packets, `{"type":"done","full_text":"Done.","iterations":3}`)
}

// TestSays checks that messages of the user that come with run, infer and end are
// part of the next inference, and that end without one ends the run.
func TestSays(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", nativeBash("a", "x")), replies(proto.Text{Content: "One.", State: proto.Raw(`{"s":1}`)}), replies(proto.Text{}), says("Two."))
	f := e.follow(question, `,"says":[{"say":"s-1","text":"first"}]`)
	for _, says := range []string{
		"", `,"says":[{"say":"s-2","text":"second"},{"say":"s-3","text":"\"third\""}]`, `,"says":[{"say":"s-4","text":"fourth"}]`, `,"says":[{"say":"s-5","text":"fifth"}]`,
	} {
		_, at := f.until()
		f.ok(at, says)
	}
	zinotest.Equal(t, "terminal packet", f.finish(), `{"type":"done","full_text":"Two.","iterations":4}`)
	user := func(text string) string { return `,{"role":"user","content":` + quote(text) + `}` }
	want := strings.TrimSuffix(question, "]") + user("first") + "," + calling("", "", nativeBash("a", "x")) + "," + answering("a", ran("")) + user("second") + user(`"third"`) +
		`,{"role":"assistant","content":"One.","reasoning_state":{"s":1}}` + user("fourth") + user("fifth") + "]" // the empty answer is left out
	zinotest.Equal(t, "messages", string(e.rtr.asked()[3].Messages), want)
}

// TestSayAtTheLimit checks that a say is answered although the last inference was the
// last one of the limit.
func TestSayAtTheLimit(t *testing.T) {
	t.Parallel()
	e := newEnv(t, says("One."), says("Two."))
	f := e.follow(question, `,"max_iterations":1`)
	_, at := f.until()
	f.ok(at, `,"says":[{"say":"s-1","text":"more"}]`)
	zinotest.Equal(t, "terminal packet", f.finish(), `{"type":"done","full_text":"Two.","iterations":2}`)
}

// TestStop checks that stop ends the run at every point with its stop reason, and that
// nothing is carried out afterwards.
func TestStop(t *testing.T) {
	t.Parallel()
	for i, point := range []string{"calls", "infer", "calls", "infer", "end"} {
		e := newEnv(t, asks("", nativeBash("a", "x")), asks("", nativeBash("b", "y")), says("Done."))
		f := e.follow(question, "")
		for range i {
			_, at := f.until()
			f.ok(at, "")
		}
		_, at := f.until()
		zinotest.Equal(t, "point", at.Point, point)
		f.ok(at, `,"stop":"parked"`)
		packets, _ := f.until()
		zinotest.Equal(t, "terminal packet", packets[0], fmt.Sprintf(`{"type":"done","full_text":"","iterations":%d,"stop_reason":"parked"}`, i/2+1))
		e.checkRan(i/2+1, []string{"bash:x", "bash:y"}[:(i+1)/2]...)
	}
}

// TestProceedIsChecked checks which calls of proceed are accepted at a checkpoint.
func TestProceedIsChecked(t *testing.T) {
	t.Parallel()
	block := rpctest.NewBlock()
	e := newEnv(t, asks("", nativeBash("a", "x"), nativeBash("b", "y")), says("Done."))
	e.exc.onRun(func(ctx context.Context, req proto.Execute) (proto.Result, error) {
		if req.Code == "x" {
			return proto.Result{}, block.Wait(ctx)
		}
		return proto.Result{}, nil
	})
	f := e.follow(question, `,"first_step":4`)
	ask := func(more, want string) {
		t.Helper()
		zinotest.Equal(t, more, f.proceed.Ask(`{"type":"proceed"`+more+`}`), want)
	}
	refuse := func(more, message string) {
		t.Helper()
		ask(more, `{"type":"error","message":`+quote(message)+`,"code":"not_found","service":"agr"}`)
	}
	const ok = `{"type":"ok"}`
	first, second := `,"turn":"t-1","step":4,"point":"calls","batch":["a"]`, `,"turn":"t-1","step":4,"point":"calls","batch":["b"]`
	f.until()
	refuse(`,"turn":"t-2","step":4,"point":"calls"`, `turn "t-2" is not running here`)
	refuse(`,"turn":"t-1","step":3,"point":"calls"`, `turn "t-1" waits at step 4, point "calls", not at step 3, point "calls"`)
	refuse(`,"turn":"t-1","step":4,"point":"infer"`, `turn "t-1" waits at step 4, point "calls", not at step 4, point "infer"`)
	refuse(second, `turn "t-1" waits at step 4, point "calls", not at step 4, point "calls"`)
	ask(first, ok)
	block.Begun(t)
	ask(first, ok) // a repeat
	refuse(`,"turn":"t-1","step":4,"point":"infer"`, `turn "t-1" does not wait at step 4, point "infer": it is running`)
	refuse(second, `turn "t-1" does not wait at step 4, point "calls": it is running`)
	block.Release()
	f.until()
	ask(first, ok) // a repeat: the second batch does not start
	e.checkRan(1, "bash:x")
	ask(`,"turn":"t-1","step":4,"point":"calls"`, ok) // without batch
	_, at := f.until()
	zinotest.Equal(t, "point", at.Point, "infer")
	e.checkRan(1, "bash:x", "bash:y")
	f.ok(at, "")
	zinotest.Equal(t, "terminal packet", f.finish(), `{"type":"done","full_text":"Done.","iterations":2}`)
	refuse(`,"turn":"t-1","step":5,"point":"end"`, `turn "t-1" is not running here`)
}

// TestSecondRunEndsTheFirst checks that a turn never has two runs: the second one
// starts when the call of the first one has ended.
func TestSecondRunEndsTheFirst(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	started := make(chan struct{}, 2)
	e := newEnv(t, asks("", nativeBash("a", "x")), says("Done."))
	e.exc.onRun(func(ctx context.Context, _ proto.Execute) (proto.Result, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		started <- struct{}{}
		<-ctx.Done()
		return proto.Result{}, ctx.Err()
	})
	first := e.follow(question, "")
	_, at := first.until()
	first.ok(at, "")
	zinotest.Receive(t, "the call", started)
	second := e.follow(question, "")
	packets, _ := first.until()
	if last := packets[len(packets)-1]; !strings.Contains(last, `"code":"canceled"`) {
		t.Errorf("the first run ends with %s", last)
	}
	zinotest.Equal(t, "the second run", second.finish(), `{"type":"done","full_text":"Done.","iterations":1}`)
	zinotest.Equal(t, "calls at once", most.Load(), 1)
}

// TestManyRunsOfATurn checks that of many runs that start at once, one at a time
// works, and the last one ends.
func TestManyRunsOfATurn(t *testing.T) {
	t.Parallel()
	const runs = 16
	var running, most atomic.Int32
	e := newEnv(t, slices.Repeat([]reply{func(ctx context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		return proto.Text{Content: "Done."}, nil
	}}, runs)...)
	ends := make(chan string, runs)
	for range runs {
		f := e.follow(question, "")
		go func() {
			packets, at := f.until()
			if at.Point != "" {
				f.proceed.Ask(`{"type":"proceed","turn":"t-1","step":1,"point":"end"}`) // also not_found: another run ended this one
				packets, _ = f.until()
			}
			ends <- packets[len(packets)-1]
		}()
	}
	done := 0
	for range runs {
		end := zinotest.Receive(t, "the end of a run", ends)
		if strings.Contains(end, `"done"`) {
			done++
		} else if !strings.Contains(end, `"canceled"`) {
			t.Errorf("a run ends with %s", end)
		}
	}
	if done == 0 || most.Load() != 1 {
		t.Errorf("%d runs end, %d at once", done, most.Load())
	}
	rpctest.WaitIdle(t, e.path)
}

// TestHangUpAtCheckpoint checks that a run ends when its caller hangs up while proceed
// is called, whichever is first, and that a call runs at most once.
func TestHangUpAtCheckpoint(t *testing.T) {
	t.Parallel()
	for range 30 {
		e := newEnv(t, asks("", nativeBash("a", "x")), says("never"))
		f := e.follow(question, "")
		f.until()
		var both sync.WaitGroup
		both.Go(func() { f.Close() })
		both.Go(func() {
			answer := f.proceed.Ask(`{"type":"proceed","turn":"t-1","step":1,"point":"calls"}`)
			if answer != `{"type":"ok"}` && !strings.Contains(answer, `turn \"t-1\" is not running here`) {
				t.Errorf("proceed: %s", answer)
			}
		})
		both.Wait()
		rpctest.WaitIdle(t, e.path)
		if n := len(e.exc.code()); n > 1 {
			t.Errorf("%d calls", n)
		}
		zinotest.Equal(t, "inferences", len(e.rtr.asked()), 1)
	}
}
