package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/daemon/approval"
)

// killedAsk is a turn of one call that a person allows, whose daemon is killed.
type killedAsk struct {
	*killedTurn
	data string // directory of the daemon
}

func newKilledAsk(t *testing.T) *killedAsk {
	k := &killedAsk{killedTurn: &killedTurn{resumeEnv: newResumeEnv(t), socket: filepath.Join(zinotest.Dir(t), "d"), ran: map[string]int{}}}
	k.data = filepath.Join(filepath.Dir(k.cfg.Mem.Socket), "data")
	k.each = k.run
	return k
}

// run asks about the call, unless it ran already, and carries it out with a valid token.
func (k *killedAsk) run(r *run) (proto.Text, error) {
	step, recover := 1, false
	switch {
	case len(r.Calls) > 0:
		step, recover = r.Calls[0].Step, r.Calls[0].Action == proto.ActionRecover
	case r.FirstStep > 1:
		return answer(r)
	default:
		if err := r.send(`{"type":"assistant_final","text":"step"}`, `{"type":"tool_requested","id":"c1","name":"bash","input":{}}`, `{"type":"usage","input_tokens":1,"output_tokens":1}`); err != nil {
			return proto.Text{}, err
		}
	}
	if !recover {
		if _, err := r.at(step, proto.PointCalls, "c1"); err != nil {
			return proto.Text{}, err
		}
	}
	k.mu.Lock()
	ran := k.ran[r.SessionID+" c1"] > 0
	k.mu.Unlock()
	if !ran {
		p, err := r.approval(step, "c1", neededFor(r, "make"))
		if err != nil || p.Stop != "" {
			return proto.Text{StopReason: p.Stop}, err
		}
		token, err := gate.NewVerifier(k.socket, k.data).VerifyGrant(p.Grants["c1"], time.Now())
		if key := r.SessionID + "/" + r.Turn + "/1/c1"; err != nil || token.Key != key {
			k.t.Errorf("token of %s: %+v, %v", key, token, err)
		}
	}
	if err := r.send(k.call(r, "c1", recover)); err != nil {
		return proto.Text{}, err
	}
	if _, err := r.at(step, proto.PointInfer); err != nil {
		return proto.Text{}, err
	}
	r.FirstStep = step + 1
	return answer(r)
}

// round carries out a turn. The daemon kills itself at a fault point, or is killed when the
// request is stored, or when it is answered; then the next one runs.
func (k *killedAsk) round(t *testing.T, point int, when string) (name string) {
	t.Helper()
	id := fmt.Sprintf("s-%d-%s", point, when)
	p := k.daemon(point)
	daemon := &rpc.Client{Service: "daemon", Path: k.socket}
	defer daemon.Close()
	store := approval.New(k.data, nil, time.Now, k.log.Logger())
	defer store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), zinotest.Timeout)
	defer cancel()
	restart := func() {
		zinotest.Receive(t, "the end of the daemon", p.Done())
		name = strings.TrimSpace(p.Out.String())
		if when == "key" {
			zinotest.Must(t, os.Remove(filepath.Join(k.data, gate.KeyName)))
		}
		p = k.daemon(0)
	}
	state, killed := "", false
	zinotest.Eventually(t, "the end of the turn", func() bool {
		started, err := rpc.Call(ctx, daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "hi", SessionID: id, Root: "/r", RequestID: "a", Reachable: true})
		if err == nil {
			state = started.State
			list, listErr := store.List("all", id)
			zinotest.Must(t, listErr)
			switch {
			case len(list) == 0:
			case !killed && when == "stored":
				killed = true
				p.Kill()
				restart()
				return false
			case list[0].State == proto.ApprovalPending:
				_, err = rpc.Call(ctx, daemon, proto.DaemonApprove, proto.Approve{ID: list[0].ID, Digest: list[0].Digest, Answer: "once"})
				if err == nil && !killed && (when == "answered" || when == "key") {
					killed = true
					p.Kill()
					restart()
					return false
				}
			}
		}
		if err != nil && codeOf(err) != proto.CodeInvalid {
			restart()
		}
		return proto.TurnEnded(state)
	})
	p.Kill()
	zinotest.Receive(t, "the end of the daemon", p.Done())
	where := fmt.Sprintf("killed at %d, %s: ", point, when)
	turn := k.read(id).Turns[0]
	zinotest.Equal(t, where+"state", turn.State, proto.TurnDone)
	zinotest.Equal(t, where+"runs", k.ran[id+" c1"], 1)
	list, err := store.List("all", id)
	zinotest.Must(t, err)
	zinotest.Equal(t, where+"requests", len(list), 1)
	if state := list[0].State; state != proto.ApprovalUsed && state != proto.ApprovalApproved {
		t.Errorf("%sthe request is %s", where, state)
	}
	return name
}

// TestApprovalKilledAtEachWrite kills the daemon between every two writes of a turn whose
// call is asked about. It checks that the call runs once, with one question.
func TestApprovalKilledAtEachWrite(t *testing.T) {
	k := newKilledAsk(t)
	points := 0
	for k.round(t, points+1, "never") != "" {
		points++
	}
	if points < 12 {
		t.Errorf("%d fault points", points)
	}
}

// TestApprovalOutlivesTheDaemon kills the daemon while a request waits, and between the
// answer and the call, also with another key behind it.
func TestApprovalOutlivesTheDaemon(t *testing.T) {
	k := newKilledAsk(t)
	for _, when := range []string{"stored", "answered", "key"} {
		for range 5 {
			k.round(t, 0, when)
			zinotest.Must(t, os.RemoveAll(filepath.Join(k.data, "approvals.jsonl")))
			zinotest.Must(t, os.Remove(filepath.Join(k.sessions, "s-0-"+when+".jsonl")))
			clear(k.ran)
		}
	}
}
