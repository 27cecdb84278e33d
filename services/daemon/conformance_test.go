package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// followedBlock is a turn_follow that does not end by itself.
type followedBlock struct{ b *env }

func (f followedBlock) Begun(t testing.TB) {
	zinotest.Eventually(t, "the follower", func() bool { return f.b.followers() == 1 })
}

func (f followedBlock) Canceled(t testing.TB) {
	zinotest.Eventually(t, "the end of the follower", func() bool { return f.b.followers() == 0 })
}

func (b *env) followers() int {
	b.service.table.mu.Lock()
	defer b.service.table.mu.Unlock()
	return b.service.table.followers
}

// TestTurnConformance covers the methods of turns with an ended turn in session s-1, and
// one in s-2 that runs and has as many messages as it may have.
func TestTurnConformance(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, answer, func(r *run) (proto.Text, error) {
		close(begun)
		return proto.Text{}, rpctest.Until(r.ctx, end)
	})
	rpctest.New(t, "exc", e.cfg.Exc.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.ExcJobs, func(context.Context, proto.ListJobs) (proto.JobList, error) {
			return proto.JobList{Jobs: []proto.JobInfo{}}, nil
		})
		rpc.Handle(s, proto.ExcJobStop, func(context.Context, proto.JobID) (proto.JobInfo, error) {
			return proto.JobInfo{}, proto.Errorf(proto.CodeNotFound, "no job j-none")
		})
	})
	first := e.startTurn("hi", `,"request_id":"r1"`)
	e.ended("s-1", first.Turn)
	var open proto.TurnStarted
	if err := e.call(`{"type":"turn_start","session_id":"s-2","message":"hi","request_id":"r2"}`, &open); err != nil {
		t.Fatal(err)
	}
	zinotest.Receive(t, "the run", begun)
	for range saysMax {
		if err := e.call(`{"type":"turn_say","session_id":"s-2","text":"x"}`, new(proto.Said)); err != nil {
			t.Fatal(err)
		}
	}
	log := e.read("s-1")
	reply := func(next int64, ended bool) string {
		b, err := json.Marshal(struct {
			Type string `json:"type"`
			proto.TurnStarted
		}{"turn", proto.TurnStarted{SessionID: "s-1", Turn: first.Turn, State: proto.TurnDone, Next: next, Ended: ended}})
		zinotest.Must(t, err)
		return string(b)
	}
	again, ended := reply(first.Next, false), reply(log.Turns[0].End, true)
	const unknownTurn = "t-aaaaaaaaaaaa"
	on := func(typ, session, more string) string {
		return fmt.Sprintf(`{"type":%q,"session_id":%q%s}`, typ, session, more)
	}
	forward := func(service, request string) string {
		return `{"type":"forward","service":"` + service + `","request":` + request + `}`
	}
	badName := `invalid session name "../x"…`
	noTurn := func(turn string) string { return "no turn " + turn + " in session s-1" }
	cases := []rpctest.Case{
		{Name: "start again", Request: on("turn_start", "s-1", `,"message":"hi","request_id":"r1"`), Reply: again},
		{Name: "start of a running turn again", Request: on("turn_start", "s-2", `,"message":"other","request_id":"r2"`)},
		{Name: "start, busy", Request: on("turn_start", "s-2", `,"message":"hi","on_busy":"error"`), Code: "busy", Message: "session s-2 has an open turn " + open.Turn + " (running)"},
		{Name: "start without storing", Request: on("turn_start", "s-1", `,"message":"hi","no_save":true`), Code: "invalid", Message: "turn_start stores the turn: no_save is not possible"},
		{Name: "start without a message", Request: on("turn_start", "s-1", ""), Code: "invalid", Message: "Empty message."},
		{Name: "start with a number", Request: `{"type":"turn_start","message":5}`, Code: "invalid", Message: `Invalid request: field "message"…`},
		{Name: "start outside", Request: on("turn_start", "../x", `,"message":"hi"`), Code: "invalid", Message: badName},
		{Name: "start with a long request_id", Request: fmt.Sprintf(`{"type":"turn_start","message":"hi","request_id":"%065d"}`, 0), Code: "invalid", Message: "invalid request_id…"},

		{Name: "follow an unknown session", Request: on("turn_follow", "none", ""), Code: "not_found", Message: `There is no session "none". See zino sessions list.`},
		{Name: "follow an unknown turn", Request: on("turn_follow", "s-1", `,"turn":"`+unknownTurn+`"`), Code: "not_found", Message: noTurn(unknownTurn)},
		{Name: "follow a turn of another session", Request: on("turn_follow", "s-1", `,"turn":"`+open.Turn+`"`), Code: "not_found", Message: noTurn(open.Turn)},
		{Name: "follow from inside a line", Request: on("turn_follow", "s-1", `,"from":17`), Code: "invalid", Message: "from 17 is not the start of an event"},
		{Name: "follow from inside a line of a running turn", Request: on("turn_follow", "s-2", `,"from":17`), Code: "invalid", Message: "from 17 is not the start of an event"},
		{Name: "follow from behind the end", Request: on("turn_follow", "s-1", fmt.Sprintf(`,"from":%d`, log.Next+1)), Code: "invalid", Message: fmt.Sprintf("from %d is not the start of an event", log.Next+1)},
		{Name: "follow until something else", Request: on("turn_follow", "s-1", `,"until":"done"`), Code: "invalid", Message: "invalid until…"},
		{Name: "follow outside", Request: on("turn_follow", "../x", ""), Code: "invalid", Message: badName},
		{Name: "follow for ever", Request: on("turn_follow", "s-2", `,"until":"close"`), Block: followedBlock{e.env}},
		{Name: "follow all turns", Request: on("turn_follow", "s-1", `,"until":"close"`), Block: followedBlock{e.env}},

		{Name: "say behind the end", Request: on("turn_say", "s-1", `,"text":"x"`), Code: "not_found", Message: "no turn is open in session s-1"},
		{Name: "say in no session", Request: on("turn_say", "none", `,"text":"x"`), Code: "not_found", Message: "no turn is open in session none"},
		{Name: "say to another turn", Request: on("turn_say", "s-2", `,"text":"x","turn":"`+first.Turn+`"`), Code: "not_found", Message: "no turn is open in session s-2"},
		{Name: "the 33rd message", Request: on("turn_say", "s-2", `,"text":"x"`), Code: "busy", Message: "too many undelivered messages (32)"},
		{Name: "say nothing", Request: on("turn_say", "s-2", `,"text":" "`), Code: "invalid", Message: "Empty message."},
		{Name: "withdraw an unknown message", Request: on("turn_say", "s-2", `,"text":"","say":"s-aaaaaaaa"`), Code: "not_found", Message: "no undelivered message s-aaaaaaaa in session s-2"},
		{Name: "say outside", Request: on("turn_say", "../x", `,"text":"x"`), Code: "invalid", Message: badName},

		{Name: "cancel an ended turn", Request: on("turn_cancel", "s-1", `,"turn":"`+first.Turn+`"`), Reply: ended},
		{Name: "cancel the last turn", Request: on("turn_cancel", "s-1", ""), Reply: ended},
		{Name: "cancel an unknown turn", Request: on("turn_cancel", "s-1", `,"turn":"`+unknownTurn+`"`), Code: "not_found", Message: noTurn(unknownTurn)},
		{Name: "cancel a turn of another session", Request: on("turn_cancel", "s-1", `,"turn":"`+open.Turn+`"`), Code: "not_found", Message: noTurn(open.Turn)},
		{Name: "cancel in no session", Request: on("turn_cancel", "none", ""), Code: "not_found", Message: `There is no session "none". See zino sessions list.`},
		{Name: "cancel outside", Request: on("turn_cancel", "../x", ""), Code: "invalid", Message: badName},

		{Name: "turns of a session", Request: on("turns", "s-1", ""), Reply: `{"type":"turn_list","turns":[]}`},
		{Name: "all turns", Request: `{"type":"turns","all":true,"limit":1}`},
		{Name: "turns, not a number", Request: `{"type":"turns","limit":"many"}`, Code: "invalid", Message: `Invalid request: field "limit"…`},

		{Name: "undo during a turn", Request: on("undo", "s-2", ""), Code: "busy", Message: "session s-2 has an open turn " + open.Turn + "…"},
		{Name: "redo during a turn", Request: on("redo", "s-2", ""), Code: "busy", Message: "session s-2 has an open turn " + open.Turn + "…"},
		{Name: "diff during a turn", Request: on("diff", "s-2", ""), Code: "busy", Message: "session s-2 has an open turn " + open.Turn + "…"},
		{Name: "undo in no session", Request: on("undo", "none", ""), Code: "not_found", Message: `no session "none"…`},
		{Name: "redo outside", Request: on("redo", "../x", ""), Code: "invalid", Message: badName},

		{Name: "jobs", Request: forward("exc", `{"type":"jobs"}`), Reply: `{"type":"job_list","jobs":[]}`},
		{Name: "stop of a job", Request: forward("exc", `{"type":"job_stop","job":"j-none"}`), Code: "not_found", Message: "no job j-none"},
		{Name: "append_session", Request: forward("mem", `{"type":"append_session","session_id":"s-1","events":[]}`), Code: "denied", Message: "forward: …"},
		{Name: "open_turns", Request: forward("mem", `{"type":"open_turns"}`), Code: "denied", Message: "forward: …"},
		{Name: "proceed", Request: forward("agr", `{"type":"proceed","turn":"`+open.Turn+`","step":1,"point":"end"}`), Code: "denied", Message: "forward: …"},
		{Name: "stop_turn", Request: forward("exc", `{"type":"stop_turn","session_id":"s-2","turn":"`+open.Turn+`"}`), Code: "denied", Message: "forward: …"},
	}
	rpctest.Conformance(t, e.cfg.Daemon.Socket, cases)
	zinotest.Equal(t, "runs", len(e.requests.All()), 2)
	close(end)
}
