package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// TestModeIsSigned checks the mode that a turn gets, and the token of its run.
func TestModeIsSigned(t *testing.T) {
	b := newEnv(t, all())
	for _, tt := range []struct {
		more string
		want gate.Mode
	}{
		{``, gate.Yolo},
		{`,"mode":"ask"`, gate.Asks},
		{`,"mode":"derived"`, gate.Yolo},
		{`,"mode":"derived","sandbox":"workspace-write"`, gate.Auto},
	} {
		b.ask(`{"message":"hi","root":"/r"` + tt.more + `}`)
		runs := b.runs.All()
		turn, err := gate.NewVerifier(b.cfg.Daemon.Socket, b.cfg.Daemon.DataDir).Verify(runs[len(runs)-1].Token, time.Now())
		zinotest.Must(t, err)
		zinotest.Equal(t, "the mode with "+tt.more, turn.Mode, tt.want)
		zinotest.Equal(t, "the root", turn.Root, "/r")
	}
	if e := b.call(`{"type":"turn_start","message":"hi","mode":"root"}`, new(proto.TurnStarted)); e == nil || e.Code != proto.CodeInvalid {
		t.Errorf("an unknown mode: %v", e)
	}
}

// TestModeOfARunningTurn checks that another mode holds from the next step on, that one with
// another level of confinement begins another run, and that a resume keeps it.
func TestModeOfARunningTurn(t *testing.T) {
	e := newResumeEnv(t)
	rpctest.New(t, "exc", e.cfg.Exc.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.ExcCapabilities, func(context.Context, proto.CapabilitiesRequest) (proto.ExecutorCapabilities, error) {
			return proto.ExecutorCapabilities{Sandbox: proto.LevelOff, Sandboxes: proto.Levels}, nil
		})
	})
	token := func(s string) string {
		turn, err := gate.NewVerifier(e.cfg.Daemon.Socket, e.cfg.Daemon.DataDir).Verify(s, time.Now())
		if err != nil {
			return err.Error()
		}
		return values(turn.Mode, turn.Sandbox)
	}
	modes := []string{"auto", "plan", "yolo"}
	var seen []string
	e.each = func(r *run) (proto.Text, error) {
		step := max(r.FirstStep, 1)
		seen = append(seen, "run "+values(step, r.Sandbox, token(r.Token)))
		for ; len(modes) > 0; step++ {
			id := fmt.Sprint("c", step)
			err := r.send(`{"type":"tool_requested","id":"`+id+`","name":"read","input":{}}`, `{"type":"usage","input_tokens":1,"output_tokens":1}`)
			if err == nil {
				_, err = r.at(step, proto.PointCalls, id)
			}
			if err != nil {
				return proto.Text{}, err
			}
			reply, err := rpc.Call(r.ctx, rpctest.Client(t, "daemon", e.cfg.Daemon.Socket), proto.DaemonTurnMode, proto.TurnMode{SessionID: "s-1", Mode: modes[0]})
			if err != nil || reply.Mode != modes[0] || reply.Turn != r.Turn {
				t.Errorf("turn_mode: %+v, %v", reply, err)
			}
			modes = modes[1:]
			if err := r.send(`{"type":"tool_finished","id":"` + id + `","name":"read","ok":true,"result":{"ok":true},"duration_ms":1}`); err != nil {
				return proto.Text{}, err
			}
			p, err := r.at(step, proto.PointInfer)
			seen = append(seen, "infer "+values(step, p.Stop, token(p.Token)))
			if err != nil || p.Stop != "" {
				return proto.Text{StopReason: p.Stop}, err
			}
		}
		r.FirstStep = step
		return answer(r)
	}
	started := e.startTurn("hi", `,"root":"/r","mode":"ask","sandbox":"workspace-write"`)
	zinotest.Equal(t, "state", e.ended("s-1", started.Turn).State, proto.TurnDone)
	equalLists(t, "steps", seen, []string{
		"run 1 workspace-write ask workspace-write",
		"infer 1  auto workspace-write",
		"infer 2 parked plan workspace-write",
		"run 3 read-only plan read-only",
		"infer 3 parked yolo read-only",
		"run 4 workspace-write yolo workspace-write",
	})
	var events []string
	for _, line := range e.file("s-1") {
		if strings.HasPrefix(line, `{"type":"mode"`) || strings.Contains(line, `"resumed"`) {
			events = append(events, byPacket.ReplaceAllString(line, ""))
		}
	}
	const id = `"turn":"t"`
	equalLists(t, "events", events, []string{
		`{"type":"mode",` + id + `,"mode":"auto","sandbox":"workspace-write"}`,
		`{"type":"mode",` + id + `,"mode":"plan","sandbox":"read-only"}`,
		`{"type":"turn",` + id + `,"session_id":"s-1","state":"resumed","reason":"mode"}`,
		`{"type":"mode",` + id + `,"mode":"yolo","sandbox":"workspace-write"}`,
		`{"type":"turn",` + id + `,"session_id":"s-1","state":"resumed","reason":"mode"}`,
	})
	if e := e.call(`{"type":"turn_mode","session_id":"s-1","mode":"auto"}`, new(proto.TurnStarted)); e == nil || e.Code != proto.CodeNotFound {
		t.Errorf("behind the end: %v", e)
	}

	e.each = func(r *run) (proto.Text, error) {
		seen = append(seen, "resumed "+values(r.Sandbox, token(r.Token)))
		return settles(r)
	}
	e.write("s-2", rename("s-2", "t-1", strings.Replace(openTurn, `"root":"/r"`, `"root":"/r","mode":"ask","sandbox":"off"`, 1), openAsked, openCallB, openUsage,
		`{"type":"mode","turn":"t-1","mode":"plan","sandbox":"read-only"}`)...)
	e.service.Resume()
	e.ended("s-2", "t-1")
	zinotest.Equal(t, "the resumed run", seen[len(seen)-1], "resumed read-only plan read-only")
}

// TestModeOfAParkedTurn checks that a parked turn goes on with another mode.
func TestModeOfAParkedTurn(t *testing.T) {
	e := newAskEnv(t)
	e.service.asked.wait = time.Millisecond
	started := e.begin("s-1", true)
	a := e.pending("s-1")
	zinotest.Eventually(t, "the turn is parked", func() bool { return e.service.lot.size() == 1 && e.idle() })
	reply, err := rpc.Call(t.Context(), e.client(), proto.DaemonTurnMode, proto.TurnMode{SessionID: "s-1", Turn: started.Turn, Mode: "ask"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "reply", values(reply.State, reply.Mode), "parked ask")
	zinotest.Eventually(t, "the turn is parked", func() bool { return e.service.lot.size() == 1 && e.idle() })
	_, err = e.answer(a, "once", nil)
	zinotest.Must(t, err)
	e.ended("s-1", started.Turn)
	turn, err := e.verifier().Verify(e.requests.All()[1].Token, time.Now())
	zinotest.Must(t, err)
	zinotest.Equal(t, "mode", turn.Mode, gate.Asks)
}
