package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// endedTurn are the lines of a turn that has ended, and parkedTurn of one that waits.
func endedTurn(session, turn string) []string {
	return rename(session, turn, openTurn, openAsked, openText, openUsage, `{"type":"turn","turn":"t-1","session_id":"s-1","state":"done"}`)
}

func parkedTurn(session, turn, reason string) []string {
	return rename(session, turn, openTurn, openAsked, openUsage, `{"type":"turn","turn":"t-1","session_id":"s-1","state":"parked","approval":"ap-7","reason":"`+reason+`","until":"2030-01-01T10:00:00Z"}`)
}

func rename(session, turn string, lines ...string) []string {
	for i := range lines {
		lines[i] = strings.NewReplacer(`"session_id":"s-1"`, `"session_id":"`+session+`"`, `"t-1"`, `"`+turn+`"`).Replace(lines[i])
	}
	return lines
}

// turnsOf returns a list as texts.
func (e *resumeEnv) turnsOf(req proto.ListTurns) (all []string) {
	e.t.Helper()
	list, err := e.service.turns(e.t.Context(), req)
	zinotest.Must(e.t, err)
	for _, i := range list.Turns {
		all = append(all, values(i.SessionID, i.Turn, i.State, i.Activity, i.Text, i.InputTokens, i.Queued))
	}
	return all
}

// TestListParked checks the list of parked turns, with what is queued behind them, those
// first that were started last, and that of a long log no more than the turn is read.
func TestListParked(t *testing.T) {
	e := newResumeEnv(t)
	for i, reason := range []string{"approval", "limit", "budget"} {
		id := fmt.Sprint("s-", i)
		e.write(id, slices.Concat(endedTurn(id, "t-a"), parkedTurn(id, "t-b", reason), rename(id, "t-1", openOther))...)
		log := e.read(id)
		p := parkedOf(log.Turn("t-b"), id)
		zinotest.Equal(t, "the turn begins behind the other", p.first, log.Turn("t-a").End)
		p.started += int64(i)
		e.service.lot.put(p)
	}
	e.service.lot.put(parked{session: "gone", turn: "t-z", reason: "limit", started: 1})
	all := []string{
		"s-2 t-b parked budget count 10 1", "s-2 t-3 queued  last 0 0",
		"s-1 t-b parked provider limit count 10 1", "s-1 t-3 queued  last 0 0",
		"s-0 t-b parked approval ap-7 count 10 1", "s-0 t-3 queued  last 0 0",
		"gone t-z parked   0 0",
	}
	equalLists(t, "all", sorted(e.turnsOf(proto.ListTurns{})), sorted(all))
	equalLists(t, "of a session", e.turnsOf(proto.ListTurns{SessionID: "s-1"}), all[2:4])
	equalLists(t, "the last ones", sorted(e.turnsOf(proto.ListTurns{Limit: 2})), sorted(all[:2]))
	ended := append(slices.Clone(all), "s-0 t-a done  count 10 0", "s-1 t-a done  count 10 0", "s-2 t-a done  count 10 0")
	equalLists(t, "with those that have ended", sorted(e.turnsOf(proto.ListTurns{All: true})), sorted(ended))

	e.service.allBytes = 1
	zinotest.Equal(t, "with few bytes", len(e.turnsOf(proto.ListTurns{All: true})), len(all)+1)
}

func sorted(list []string) []string {
	return slices.Sorted(slices.Values(list))
}

// TestListResumed checks how a turn is listed that was resumed, and that only jobs in the
// background are counted.
func TestListResumed(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		if err := r.send(`{"type":"tool_started","id":"b","name":"read"}`); err != nil {
			return proto.Text{}, err
		}
		close(reached)
		<-release
		if err := r.send(finishedB); err != nil {
			return proto.Text{}, err
		}
		return answer(r)
	})
	rpctest.New(t, "exc", e.cfg.Exc.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.ExcJobs, func(context.Context, proto.ListJobs) (proto.JobList, error) {
			return proto.JobList{Jobs: []proto.JobInfo{
				{ID: "j-1", SessionID: "s-1", State: proto.JobRunning, Background: true},
				{ID: "j-2", SessionID: "s-1", State: proto.JobRunning},
				{ID: "j-3", SessionID: "s-1", State: proto.JobExited, Background: true},
				{ID: "j-4", SessionID: "s-2", State: proto.JobRunning, Background: true},
			}}, nil
		})
	})
	e.write("s-1", openTurn, openAsked, openText, openCallB, openUsage)
	e.service.Resume()
	zinotest.Receive(t, "the run", reached)
	var i proto.TurnInfo
	zinotest.Eventually(t, "the start of the call", func() bool {
		list, err := e.service.turns(t.Context(), proto.ListTurns{})
		zinotest.Must(t, err)
		i = list.Turns[0]
		return i.Activity != "inference"
	})
	zinotest.Equal(t, "listed", values(i.State, i.Text, i.Activity, i.Root, i.Jobs, i.By.UID), "running count read: y /r 1 7")
	close(release)
	e.ended("s-1", "t-1")
}

// TestDiscardedByStop checks that the text of an inference that a planned stop ended is
// kept, and that messages follow the event of the resumed turn.
func TestDiscardedByStop(t *testing.T) {
	reached := make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		if err := r.send(`{"type":"assistant_delta","text":"I th"}`, `{"type":"assistant_delta","text":"ink"}`); err != nil {
			return proto.Text{}, err
		}
		close(reached)
		<-r.ctx.Done()
		return proto.Text{}, r.ctx.Err()
	}, answer)
	e.write("s-1", openTurn, openAsked)
	e.service.Resume()
	zinotest.Receive(t, "the run", reached)
	zinotest.Eventually(t, "the text", func() bool {
		sess := e.service.enter("s-1")
		defer sess.leave()
		sess.mu.Lock()
		defer sess.mu.Unlock()
		return string(sess.turns[0].relay.text) == "I think"
	})
	if _, err := e.say(`"text":"quick"`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stopMargin+time.Millisecond)
	defer cancel()
	e.service.parkAll(ctx)
	zinotest.Must(t, e.service.Close())

	next := New(e.cfg, e.log.Logger())
	t.Cleanup(func() { zinotest.Must(t, next.Close()) })
	next.Resume()
	zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, proto.TurnDone)
	var got []string
	for _, line := range e.file("s-1")[5:9] {
		got = append(got, sayID.ReplaceAllString(line, `"s"`))
	}
	equalLists(t, "the session", got, []string{
		`{"type":"turn","turn":"t-1","session_id":"s-1","state":"parked","reason":"restart","discarded":"I think"}`,
		`{"type":"turn","turn":"t-1","session_id":"s-1","state":"resumed","reason":"restart","discarded":"I think"}`,
		`{"type":"message","role":"user","text":"quick","turn":"t-1","say":"s","via":"steer"}`,
		`{"type":"message","role":"assistant","text":"all done","turn":"t-1","step":1}`,
	})
	log := turnlog.New("s-1", 0)
	page, err := e.service.readPage(t.Context(), "s-1", 0)
	zinotest.Must(t, err)
	for event, next := range turnlog.Events(page.Events, page.Offsets) {
		p, _ := log.Packet(nil, event, next, true)
		if strings.Contains(string(p), "discarded") != strings.Contains(string(p), `"resumed","reason":"restart"`) {
			t.Errorf("packet %s", p)
		}
	}
}
