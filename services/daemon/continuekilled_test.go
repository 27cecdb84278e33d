package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestContinueKilledAtEachWrite kills the daemon between every two writes of a turn that
// goes on in a new session, and the next daemon between every two writes of its resume.
func TestContinueKilledAtEachWrite(t *testing.T) {
	k := &killedTurn{resumeEnv: newResumeEnv(t), socket: filepath.Join(zinotest.Dir(t), "d"), ran: map[string]int{}}
	k.each = func(r *run) (proto.Text, error) {
		if !strings.HasPrefix(r.SessionID, "s-") {
			return answer(r)
		}
		var err error
		open := proto.OpenCall{ID: "c1", Step: max(r.FirstStep, 1)}
		if len(r.Calls) > 0 {
			open = r.Calls[0]
		} else if err = r.send(`{"type":"tool_requested","id":"c1","name":"bash","input":{}}`, inferred(600, 1, 1000)); err == nil {
			_, err = r.at(open.Step, proto.PointCalls, "c1")
		}
		if err == nil {
			err = r.send(k.call(r, "c1", len(r.Calls) > 0))
		}
		if err != nil {
			return proto.Text{}, err
		}
		p, err := r.at(open.Step, proto.PointInfer)
		return proto.Text{StopReason: p.Stop}, err
	}
	var names []string
	for first := 1; ; first++ {
		name := k.continued(t, first, 0)
		if name == "" {
			break
		}
		names = append(names, name)
	}
	want := []string{"before an append", "behind an append"} // A1
	for range 2 {                                            // A2 and A3
		want = append(want, "before an append", "behind an append", "before proceed", "behind proceed")
	}
	for range 2 { // A1 of the new session, and the end in the old one
		want = append(want, "before an append", "behind an append")
	}
	want = append(want, "before proceed", "behind proceed", "before an append", "behind an append") // A4
	equalLists(t, "fault points", names, want)
	for _, first := range []int{11, 12, 13} { // around A1 of the new session
		for second := 1; k.continued(t, first, second) != ""; second++ {
		}
	}
}

// continued carries out a turn whose daemon is killed at a fault point, and the next one
// at another. It returns the name of the last fault point, empty if it was not reached.
func (k *killedTurn) continued(t *testing.T, first, second int) (name string) {
	t.Helper()
	id := fmt.Sprintf("s-%d-%d", first, second)
	where := fmt.Sprintf("killed at %d, then at %d: ", first, second)
	p := k.daemon(first)
	daemon := &rpc.Client{Service: "daemon", Path: k.socket}
	defer daemon.Close()
	ctx, cancel := context.WithTimeout(t.Context(), zinotest.Timeout)
	defer cancel()
	points, now, state := []int{second, 0}, id, ""
	for !proto.TurnEnded(state) && ctx.Err() == nil {
		_, err := rpc.Call(ctx, daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "hi", SessionID: id, Root: "/r", RequestID: "a"})
		if err == nil {
			var end proto.Followed
			var moved proto.Continued
			end, err = rpc.CallEvents(ctx, daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: now}, func(typ string, payload []byte) error {
				if typ != proto.TypeContinued {
					return nil
				}
				return json.Unmarshal(payload, &moved)
			})
			if state = end.State; state == proto.TurnContinued {
				now, state = moved.SessionID, ""
			}
		}
		if err != nil && len(points) > 0 {
			zinotest.Receive(t, where+"the end of the daemon", p.Done())
			if name = strings.TrimSpace(p.Out.String()); name == "" {
				t.Fatalf("%sthe daemon ended by itself: %v\n%s", where, err, p.Err)
			}
			p, points = k.daemon(points[0]), points[1:]
		}
	}
	p.Kill()
	zinotest.Receive(t, where+"the end of the daemon", p.Done())
	old := k.read(id).Turns[0]
	to, toTurn := continuationIDs(id, old.ID, 0)
	zinotest.Equal(t, where+"end", values(old.State, old.To, old.ToTurn, now), values(proto.TurnContinued, to, toTurn, to))
	next := k.read(to).Turns
	zinotest.Equal(t, where+"the new session", values(len(next), next[0].ID, next[0].State), values(1, toTurn, proto.TurnDone))
	zinotest.Equal(t, where+"starts", strings.Count(strings.Join(k.file(to), "\n"), `"state":"running"`), 1)
	zinotest.Equal(t, where+"calls", k.ran[id+" c1"], 1)
	if second > 0 && len(points) > 0 {
		return ""
	}
	return name
}
