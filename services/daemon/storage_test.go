package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

const fullNotice = `{"type":"notice","kind":"storage","text":"session \"s-1\": no space left on device","turn":"t-1"}`

// big fills more than a page of a disk, so that no event fits into a full one.
var big = strings.Repeat("x", 8<<10)

// fullDisk is a turn that stops before an append, and goes on when the disk is full.
type fullDisk struct {
	*resumeEnv
	disk   string
	before chan struct{} // closed when the append is next
	full   chan struct{} // closed when the disk is full
}

// wait is called by a run before the packets of the append.
func (f *fullDisk) wait(r *run) error {
	close(f.before)
	return rpctest.Until(r.ctx, f.full)
}

// began counts how often agr was allowed to go on with calls or an inference.
func (f *fullDisk) began() (n int) {
	for _, p := range f.proceeds.All() {
		if p.Point != proto.PointEnd { // the end is stored when agr has answered
			n++
		}
	}
	return n
}

// TestFullDiskInTurn fills the disk before each append of a turn. The followers must
// get a notice, also one that comes later, no call may start, and the turn must go on
// when there is room again.
func TestFullDiskInTurn(t *testing.T) {
	disk, done := zinotest.OnSmallDisk(t, "size=1m")
	if done {
		return
	}
	call := `{"type":"tool_requested","id":"c1","name":"bash","input":{"command":"` + big + `"}}`
	result := `{"type":"tool_finished","id":"c1","name":"bash","ok":true,"result":{"ok":true,"data":"` + big + `"},"duration_ms":1}`
	asksOne := func(r *run) error {
		err := r.send(call)
		if err == nil {
			_, err = r.at(1, proto.PointCalls, "c1")
		}
		return err
	}
	answers := func(r *run) (proto.Text, error) {
		r.FirstStep = 2
		return answer(r)
	}
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name  string
		lines []string
		do    func(f *fullDisk, r *run) (proto.Text, error)
		state string // at the end
	}{
		{"A2", nil, func(f *fullDisk, r *run) (proto.Text, error) {
			if err := errors.Join(f.wait(r), asksOne(r), r.send(result)); err != nil {
				return proto.Text{}, err
			}
			if _, err := r.at(1, proto.PointInfer); err != nil {
				return proto.Text{}, err
			}
			return answers(r)
		}, proto.TurnDone},
		{"A3", nil, func(f *fullDisk, r *run) (proto.Text, error) {
			if err := errors.Join(asksOne(r), f.wait(r), r.send(result)); err != nil {
				return proto.Text{}, err
			}
			if _, err := r.at(1, proto.PointInfer); err != nil {
				return proto.Text{}, err
			}
			return answers(r)
		}, proto.TurnDone},
		{"A4", nil, func(f *fullDisk, r *run) (proto.Text, error) {
			err := errors.Join(f.wait(r), r.send(`{"type":"assistant_final","text":"`+big+`"}`))
			if err == nil {
				_, err = r.at(1, proto.PointEnd)
			}
			return proto.Text{Content: big, Iterations: new(1), StopReason: "stop"}, err
		}, proto.TurnDone},
		{"A5", nil, func(f *fullDisk, r *run) (proto.Text, error) {
			err := errors.Join(r.send(`{"type":"assistant_delta","text":"`+big+`"}`), f.wait(r))
			return proto.Text{}, errors.Join(err, &proto.Error{Code: proto.CodeDenied, Message: "no key"})
		}, proto.TurnError},
		{"A6", nil, func(f *fullDisk, r *run) (proto.Text, error) {
			err := errors.Join(asksOne(r), f.wait(r), r.send(result))
			return proto.Text{}, errors.Join(err, &proto.Error{Code: proto.CodeLimit, Details: later.UTC().Format(time.RFC3339)})
		}, proto.TurnParked},
		{"A7", []string{
			`{"type":"tool_use","id":"c1","name":"bash","input":{},"turn":"t-1","step":1}`,
		}, func(f *fullDisk, r *run) (proto.Text, error) {
			if err := errors.Join(f.wait(r), r.send(strings.Replace(result, `"ok":true`, `"recovered":true,"ok":true`, 1))); err != nil {
				return proto.Text{}, err
			}
			if _, err := r.at(1, proto.PointInfer); err != nil {
				return proto.Text{}, err
			}
			return answers(r)
		}, proto.TurnDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fullDisk{disk: disk, before: make(chan struct{}), full: make(chan struct{})}
			f.resumeEnv = newResumeEnvIn(t, disk, func(r *run) (proto.Text, error) { return c.do(f, r) })
			f.write("s-1", append([]string{openTurn, openAsked}, c.lines...)...)
			defer func() { zinotest.Must(t, os.Remove(filepath.Join(f.sessions, "s-1.jsonl"))) }()
			f.service.lot.put(parkedOf(&turnlog.Turn{}, "s-1"))
			zinotest.Receive(t, "the run", f.before)
			first, second := f.dial(), f.dial()
			first.Send(`{"type":"turn_follow","session_id":"s-1"}`)
			zinotest.Eventually(t, "live", func() bool { return first.Next().Type == "live" })
			free, proceeds := zinotest.Fill(t, disk), f.began()
			close(f.full)
			isNotice := func(p rpctest.Packet) bool { return p.Type == "notice" && strings.Contains(p.Raw, "storage") }
			read := func(c *rpctest.Conn) (p rpctest.Packet) {
				zinotest.Eventually(t, "the notice", func() bool { p = c.Next(); return isNotice(p) })
				return p
			}
			zinotest.Equal(t, "the notice", read(first).Raw, fullNotice)
			second.Send(`{"type":"turn_follow","session_id":"s-1"}`)
			zinotest.Equal(t, "the notice of a later follower", read(second).Raw, fullNotice)
			if f.began() > proceeds {
				t.Error("agr may go on before the events are stored")
			}
			free()
			if c.state == proto.TurnParked {
				zinotest.Eventually(t, "the turn is parked", func() bool { return f.read("s-1").Turn("t-1").State == c.state })
				return
			}
			zinotest.Equal(t, "the end", f.ended("s-1", "t-1").State, c.state)
			for _, conn := range []*rpctest.Conn{first, second} {
				packets := f.followed(conn)
				for _, p := range packets {
					if isNotice(p) {
						t.Errorf("one more notice: %s", p.Raw)
					}
				}
				zinotest.Contains(t, "the end", packets[len(packets)-1].Raw, `"type":"followed"`, `"state":"`+c.state+`"`)
			}
		})
	}
}

// TestFullDiskAtStart checks that a turn is not accepted, neither as running nor as
// queued, while it cannot be stored, nor a message.
func TestFullDiskAtStart(t *testing.T) {
	disk, done := zinotest.OnSmallDisk(t, "size=1m")
	if done {
		return
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	e := newResumeEnvIn(t, disk, func(r *run) (proto.Text, error) {
		close(reached)
		if err := rpctest.Until(r.ctx, goOn); err != nil {
			return proto.Text{}, err
		}
		return answer(r)
	}, answer)
	start := `{"type":"turn_start","session_id":"s-1","message":"` + big + `"}`
	refused := func(request string) {
		t.Helper()
		free := zinotest.Fill(t, disk)
		defer free()
		if _, last := e.ask(request); last.Type != "error" || !strings.Contains(last.Raw, `"kind":"session"`) || !strings.Contains(last.Message, "no space left on device") {
			t.Errorf("%.40s: %s", request, last.Raw)
		}
	}
	refused(start) // A1
	zinotest.Equal(t, "sessions", len(e.requests.All()), 0)
	first := e.startTurn("hi", "")
	zinotest.Receive(t, "the run", reached)
	refused(start) // A0
	refused(`{"type":"turn_say","session_id":"s-1","text":"` + big + `"}`)
	queued := e.startTurn("next", "")
	zinotest.Equal(t, "the next turn", queued.State, proto.TurnQueued)
	close(goOn)
	for _, turn := range []string{first.Turn, queued.Turn} {
		zinotest.Equal(t, "the end", e.ended("s-1", turn).State, proto.TurnDone)
	}
	zinotest.Equal(t, "turns", len(e.read("s-1").Turns), 2)
}

// TestChangedLog checks that a turn whose log was edited by hand ends for its followers,
// also for one that comes later, that nothing is written, and that the next turn ends the
// crashed one first.
func TestChangedLog(t *testing.T) {
	const theirs = `{"type":"message","role":"user","text":"mine","ts":"2026-11-21T10:00:00Z"}` + "\n"
	for name, edit := range map[string]func(text string) string{
		"a line more": func(text string) string { return text + theirs },
		"a torn line": func(text string) string { return text + theirs[:20] + "\n" },
		"a line less": func(text string) string { return text[:strings.LastIndex(text[:len(text)-1], "\n")+1] },
	} {
		t.Run(name, func(t *testing.T) {
			reached, goOn := make(chan struct{}), make(chan struct{})
			e := newResumeEnv(t, func(r *run) (proto.Text, error) {
				err := r.send(`{"type":"tool_requested","id":"b","name":"read","input":{}}`)
				if err == nil {
					_, err = r.at(1, proto.PointCalls, "b")
				}
				if err != nil {
					return proto.Text{}, err
				}
				close(reached)
				if err := errors.Join(rpctest.Until(r.ctx, goOn), r.send(finishedB)); err != nil {
					return proto.Text{}, err
				}
				_, err = r.at(1, proto.PointInfer)
				return proto.Text{}, err
			}, answer)
			started := e.startTurn("hi", "")
			zinotest.Receive(t, "the run", reached)
			follower := e.dial()
			follower.Send(`{"type":"turn_follow","session_id":"s-1"}`)
			zinotest.Eventually(t, "live", func() bool { return follower.Next().Type == "live" })
			file := filepath.Join(e.sessions, "s-1.jsonl")
			changed := edit(zinotest.Read(t, file))
			zinotest.Must(t, os.WriteFile(file, []byte(changed), 0o600))
			close(goOn)
			ended := fmt.Sprintf(`{"type":"turn_ended","turn":%q,"state":"error","reason":"busy","result":{"type":"error","message":"session \"s-1\" was changed by another process during the turn","code":"busy","kind":"session"}}`, started.Turn)
			packets := e.followed(follower)
			zinotest.Equal(t, "the end", packets[max(len(packets)-2, 0)].Raw, ended)
			zinotest.Contains(t, "the last packet", packets[len(packets)-1].Raw, `"type":"followed"`, `"state":"error"`)
			zinotest.Eventually(t, "the session leaves the memory", e.idle)
			if text := zinotest.Read(t, file); text != changed {
				t.Errorf("the file is\n%swant\n%s", text, changed)
			}
			later := e.dial()
			later.Send(`{"type":"turn_follow","session_id":"s-1","turn":"` + started.Turn + `"}`)
			packets = e.followed(later)
			zinotest.Equal(t, "the end for a later follower", packets[max(len(packets)-2, 0)].Raw, ended)
			zinotest.Contains(t, "the last packet", packets[len(packets)-1].Raw, `"type":"followed"`, `"state":"error"`)

			next := e.startTurn("next", "")
			zinotest.Equal(t, "the next turn", e.ended("s-1", next.Turn).State, proto.TurnDone)
			if last := e.read("s-1").Turn(started.Turn); last.State != proto.TurnInterrupted || last.Reason != "crashed" {
				t.Errorf("the first turn is %s, %s", last.State, last.Reason)
			}
		})
	}
}

// TestStoragePauses checks when a turn that cannot be stored is tried again, and when it
// is given up: after a minute every 10 s, for 10 minutes. Its followers get the error.
func TestStoragePauses(t *testing.T) {
	zinotest.Equal(t, "limits", fmt.Sprint(storeTimeout, storageEvery, storageFor), "1m0s 10s 10m0s")
	reached, goOn := make(chan struct{}), make(chan struct{})
	e := newResumeEnv(t, func(r *run) (proto.Text, error) {
		close(reached)
		if err := rpctest.Until(r.ctx, goOn); err != nil {
			return proto.Text{}, err
		}
		return answer(r)
	}, answer)
	e.service.storeTimeout, e.service.storageEvery, e.service.storageFor = 20*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	started := e.startTurn("hi", "")
	zinotest.Receive(t, "the run", reached)
	follower := e.dial()
	follower.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	zinotest.Eventually(t, "live", func() bool { return follower.Next().Type == "live" })
	e.stop()
	close(goOn)
	packets := e.followed(follower)
	notices := 0
	for _, p := range packets[:len(packets)-1] {
		if strings.Contains(p.Raw, `"kind":"storage"`) {
			notices++
		}
	}
	if notices == 0 {
		t.Errorf("no notice: %s", rpctest.Raws(packets))
	}
	if last := packets[len(packets)-1]; last.Type != "error" || !strings.Contains(last.Raw, `"kind":"session"`) {
		t.Errorf("the last packet is %s", last.Raw)
	}
	zinotest.Eventually(t, "the turn is given up", func() bool { return !e.service.openTurns() })
	e.startMem()
	zinotest.Equal(t, "the log", e.read("s-1").Turn(started.Turn).State, proto.TurnRunning)
	zinotest.Must(t, e.service.Close())
	next := New(e.cfg, e.log.Logger())
	t.Cleanup(func() { zinotest.Must(t, next.Close()) })
	next.resumePauses = []time.Duration{time.Millisecond}
	next.Resume()
	zinotest.Equal(t, "the next daemon", e.ended("s-1", started.Turn).State, proto.TurnDone)
}
