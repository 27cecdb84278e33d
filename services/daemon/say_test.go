package daemon

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// running returns an env with a turn that has reached a place, and a function that lets
// it go on.
func running(t *testing.T, place int) (b *realEnv, goOn func()) {
	t.Helper()
	reached, release := make(chan struct{}), make(chan struct{})
	b = newRealEnv(t, func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		if err := say(wholeTurn[:place]...); err != nil {
			return proto.Text{}, err
		}
		select {
		case <-reached:
		default:
			close(reached)
		}
		if err := rpctest.Until(ctx, release); err != nil {
			return proto.Text{}, err
		}
		return ends(), say(wholeTurn[place:]...)
	})
	b.startTurn("hi", "")
	zinotest.Receive(t, "the step", reached)
	return b, func() { close(release) }
}

// say sends a message to the turn of s-1.
func (b *env) say(more string) (said proto.Said, e *proto.Error) {
	b.t.Helper()
	e = b.call(`{"type":"turn_say","session_id":"s-1",`+more+`}`, &said)
	return said, e
}

// saidTexts returns the texts and origins of the user's messages in a session.
func (b *realEnv) saidTexts() (texts []string) {
	for _, line := range b.file("s-1") {
		if strings.Contains(line, `"role":"user"`) {
			texts = append(texts, sayID.ReplaceAllString(line, `"s"`))
		}
	}
	return texts
}

// TestSay checks that a message joins the next inference, and is stored with the answer.
func TestSay(t *testing.T) {
	b, goOn := running(t, slices.Index(wholeTurn, output))
	said, e := b.say(`"text":" quick ","request_id":"a"`)
	if e != nil || said.Mode != "steer" || said.Position != 1 || !sayID.MatchString(`"`+said.Say+`"`) {
		t.Fatalf("%+v, %v", said, e)
	}
	if again, e := b.say(`"text":"quick","request_id":"a"`); e != nil || again != said {
		t.Errorf("a repeat: %+v, %v", again, e)
	}
	if other, e := b.say(`"text":"now"`); e != nil || other.Position != 2 {
		t.Errorf("another one: %+v, %v", other, e)
	}
	if gone, e := b.say(`"text":"","say":"` + said.Say + `"`); e != nil || gone.Say != said.Say || gone.Position != 0 {
		t.Errorf("withdrawn: %+v, %v", gone, e)
	}
	if _, e := b.say(`"text":"","say":"` + said.Say + `"`); e == nil || e.Code != proto.CodeNotFound {
		t.Errorf("withdrawn twice: %v", e)
	}
	goOn()
	b.follow("")
	equalLists(t, "messages", b.saidTexts(), []string{
		`{"type":"message","role":"user","text":"hi","turn":"t"}`, `{"type":"message","role":"user","text":"now","turn":"t","say":"s","via":"steer"}`,
	})
	file := b.file("s-1")
	at := slices.IndexFunc(file, func(line string) bool { return strings.Contains(line, `"via":"steer"`) })
	zinotest.Equal(t, "the event behind the message", file[at+1], storedC)
}

// TestSayAtTheEnd checks that a turn goes on if a message waits at the end of its answer.
func TestSayAtTheEnd(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, func(_ context.Context, say func(...string) error) (proto.Text, error) {
		if err := say(deltaC, finalC); err != nil {
			return proto.Text{}, err
		}
		close(reached)
		<-release
		return ends(), say(strings.Replace(checkEnd, "2", "1", 1), deltaC, finalC, checkEnd)
	})
	b.startTurn("hi", "")
	zinotest.Receive(t, "the answer", reached)
	if _, e := b.say(`"text":"and now?"`); e != nil {
		t.Fatal(e)
	}
	close(release)
	b.follow("")
	first := strings.Replace(storedC, `"step":2`, `"step":1`, 1)
	file := b.file("s-1")
	for i := range file {
		file[i] = sayID.ReplaceAllString(file[i], `"s"`)
	}
	equalLists(t, "the session", file[4:], []string{
		first, `{"type":"message","role":"user","text":"and now?","turn":"t","say":"s","via":"steer"}`, storedC, storedEnd,
	})
}

// TestSayQueue checks that a queued message becomes a turn of its own with the options of
// the open one.
func TestSayQueue(t *testing.T) {
	b, goOn := running(t, 3)
	said, e := b.say(`"text":"later","mode":"queue"`)
	if e != nil || said.Mode != "queue" || said.Position != 1 {
		t.Fatalf("%+v, %v", said, e)
	}
	other, e := b.say(`"text":"never","mode":"queue"`)
	if e != nil || other.Position != 2 {
		t.Fatalf("%+v, %v", other, e)
	}
	if _, e := b.say(`"text":"","say":"` + other.Say + `"`); e != nil {
		t.Error(e)
	}
	goOn()
	if got := b.follow(`,"turn":"` + said.Turn + `"`); got[len(got)-1] != packetEnd {
		t.Errorf("packets %s", got)
	}
	texts := b.saidTexts()
	zinotest.Equal(t, "messages", len(texts), 2)
	zinotest.Equal(t, "the second one", texts[1], `{"type":"message","role":"user","text":"later","turn":"t","say":"s","via":"queue"}`)
}

// TestTooManySays checks the limits of undelivered messages.
func TestTooManySays(t *testing.T) {
	b, goOn := running(t, 3)
	for i := range saysMax {
		if said, e := b.say(`"text":"x"`); e != nil || said.Position != i+1 {
			t.Fatalf("%d: %+v, %v", i, said, e)
		}
	}
	if _, e := b.say(`"text":"x"`); e == nil || e.Code != proto.CodeBusy || e.Message != "too many undelivered messages (32)" {
		t.Errorf("one more: %v", e)
	}
	goOn()
	b.follow("")
	b, goOn = running(t, 3)
	if _, e := b.say(`"text":"` + strings.Repeat("x", saysBytes) + `"`); e != nil {
		t.Error(e)
	}
	if _, e := b.say(`"text":"x"`); e == nil || e.Message != "too many undelivered messages (32)" {
		t.Errorf("one byte more: %v", e)
	}
	goOn()
	b.follow("")
}

// TestCancel checks that a canceled turn is stored with its partial text and gives back
// undelivered messages and what turn_say queued, that what another turn_start queued runs,
// and that canceling again changes nothing.
func TestCancel(t *testing.T) {
	b, goOn := running(t, 3)
	_, e := b.say(`"text":"quick"`)
	_, e2 := b.say(`"text":"later","mode":"queue"`)
	if e != nil || e2 != nil {
		t.Fatal(e, e2)
	}
	next := b.startTurn("next", "")
	var open proto.TurnList
	b.call(`{"type":"turns"}`, &open)
	first := open.Turns[slices.IndexFunc(open.Turns, func(i proto.TurnInfo) bool { return i.State == "running" })]
	if first.Text != "hi" || first.Activity != "inference" || first.Step != 1 || first.Queued != 2 {
		t.Errorf("listed as %+v", first)
	}
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	zinotest.Eventually(t, "live", func() bool { return c.Next().Type == "live" })
	var ended, again proto.TurnStarted
	if e := b.call(`{"type":"turn_cancel","session_id":"s-1"}`, &ended); e != nil || ended.State != "interrupted" || ended.Turn != first.Turn {
		t.Fatalf("%+v, %v", ended, e)
	}
	if e := b.call(`{"type":"turn_cancel","session_id":"s-1","turn":"`+ended.Turn+`"}`, &again); e != nil || !again.Ended || again.Turn != ended.Turn || again.State != ended.State || again.Next != ended.Next {
		t.Errorf("again: %+v, want %+v, %v", again, ended, e)
	}
	packets := plainPackets(b.followed(c))
	at := slices.IndexFunc(packets, func(p string) bool { return strings.Contains(p, "turn_ended") })
	want := `{"type":"turn_ended","turn":"t","state":"interrupted","reason":"canceled","result":{"type":"error","message":"The turn was interrupted.","code":"canceled","service":"daemon"},"returned":[{"say":"s","text":"quick"},{"say":"s","text":"later"}]}`
	if got := sayID.ReplaceAllString(packets[max(at, 0)], `"s"`); got != want {
		t.Errorf("the end:\n got %s\nwant %s", got, want)
	}
	goOn()
	if got := b.follow(`,"turn":"` + next.Turn + `"`); got[len(got)-1] != packetEnd {
		t.Errorf("the next one: %s", got)
	}
	equalLists(t, "messages", b.saidTexts(), []string{`{"type":"message","role":"user","text":"hi","turn":"t"}`, `{"type":"message","role":"user","text":"next","turn":"t"}`})
}

// TestCancelQueued checks that a queued turn can be canceled.
func TestCancelQueued(t *testing.T) {
	b, goOn := running(t, 3)
	queued := b.startTurn("later", "")
	var ended proto.TurnStarted
	if e := b.call(`{"type":"turn_cancel","session_id":"s-1","turn":"`+queued.Turn+`"}`, &ended); e != nil || ended.State != "interrupted" {
		t.Errorf("%+v, %v", ended, e)
	}
	goOn()
	b.follow("")
	zinotest.Equal(t, "runs", len(b.runs.All()), 1)
}

// TestFollowers checks that 100 followers get the same stored packets in the same order, also
// one that reads nothing for a while and one that reads slowly, and that the turn does
// not wait for them.
func TestFollowers(t *testing.T) {
	const count, deltas = 100, 800
	piece := strings.Repeat("x", 400) // 320 KB in all: more than a queue holds
	start, done := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, func(_ context.Context, say func(...string) error) (proto.Text, error) {
		<-start
		for range deltas {
			if err := say(`{"type":"assistant_delta","text":"` + piece + `"}`); err != nil {
				return proto.Text{}, err
			}
		}
		text := strings.Repeat(piece, deltas)
		err := say(`{"type":"assistant_final","text":"`+text+`"}`, strings.Replace(checkEnd, "2", "1", 1))
		close(done)
		return proto.Text{Content: text, Iterations: new(1), StopReason: "stop"}, err
	})
	b.startTurn("hi", "")
	results := make(chan []string, count)
	follow := func(c *rpctest.Conn, wait func(i int)) {
		var stored []string
		for i := 0; ; i++ {
			wait(i)
			p := c.Next()
			if strings.Contains(p.Raw, `"next":`) && p.Type != "live" {
				stored = append(stored, strings.Replace(p.Raw, `,"replay":true`, "", 1))
			}
			if p.Type == "followed" || p.Type == "" {
				results <- stored
				return
			}
		}
	}
	for i := range count {
		c := b.dial()
		c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
		go follow(c, func(n int) {
			switch {
			case i == 0 && n == 4:
				<-done // it reads nothing until the turn has ended
			case i == 1 && n%8 == 0: // it is slow
				for range 100 {
					runtime.Gosched()
				}
			}
		})
	}
	zinotest.Eventually(t, "the followers", func() bool {
		var list proto.TurnList
		b.call(`{"type":"turns"}`, &list)
		return len(list.Turns) == 1 && list.Turns[0].Followers == count
	})
	close(start)
	zinotest.Receive(t, "the end of the turn", done)
	first := zinotest.Receive(t, "a follower", results)
	zinotest.Equal(t, "stored packets", len(first), 5)
	for range count - 1 {
		equalLists(t, "stored packets", zinotest.Receive(t, "a follower", results), first)
	}
}

// TestQueueOfFollower checks that deltas that wait are joined, and that a full queue sends
// the follower back to the log.
func TestQueueOfFollower(t *testing.T) {
	own := &turn{session: &session{}, id: "t-aaaaaaaaaaaa"}
	f := &follower{wake: make(chan struct{}, 1)}
	own.live = []*follower{f}
	for _, text := range []string{`"a\n"`, `"<é>"`, `"\u0041"`} {
		own.delta([]byte(text))
	}
	if len(f.queue) != 1 || string(f.queue[0].payload) != `{"type":"assistant_delta","turn":"t-aaaaaaaaaaaa","text":"a\n<é>\u0041"}` {
		t.Errorf("the queue is %s", f.queue[0].payload)
	}
	for range queueMax/1000 + 1 {
		own.delta([]byte(`"` + strings.Repeat("x", 1000) + `"`))
	}
	if !f.lost || f.queue != nil || len(own.live) != 0 {
		t.Errorf("the follower is still live")
	}
}

// TestGather checks that text does not wake a follower that gathers it, that other packets
// do, and that such a follower gets the text of a turn that pauses in it.
func TestGather(t *testing.T) {
	f := &follower{wake: make(chan struct{}, 1), gathering: true}
	own := &turn{session: &session{live: []*follower{f}}, id: "t-aaaaaaaaaaaa"}
	own.delta([]byte(`"a"`))
	zinotest.Equal(t, "wake-ups for text", len(f.wake), 0)
	own.broadcast([]byte(`{"type":"reasoning","text":"b"}`))
	zinotest.Equal(t, "wake-ups for reasoning", len(f.wake), 1)

	live, first, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		rpctest.Until(ctx, live)
		err := say(`{"type":"assistant_delta","text":"x"}`)
		rpctest.Until(ctx, first)
		err = errors.Join(err, say(`{"type":"assistant_delta","text":"y"}`))
		rpctest.Until(ctx, second)
		err = errors.Join(err, say(`{"type":"assistant_final","text":"xy"}`, strings.Replace(checkEnd, "2", "1", 1)))
		return proto.Text{Content: "xy", Iterations: new(1), StopReason: "stop"}, err
	})
	b.startTurn("hi", "")
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1","gather":true}`)
	zinotest.Eventually(t, "live", func() bool { return c.Next().Type == proto.TypeLive })
	close(live)
	zinotest.Equal(t, "the first text", plainPacket(c.Next().Raw), `{"type":"assistant_delta","turn":"t","text":"x"}`)
	close(first)
	zinotest.Equal(t, "the second text", plainPacket(c.Next().Raw), `{"type":"assistant_delta","turn":"t","text":"y"}`)
	close(second)
	end := b.followed(c)
	zinotest.Equal(t, "the end", plainPacket(end[len(end)-1].Raw), packetEnd)
}

// TestFollowersAndStop checks that the daemon ends its followers when it stops.
func TestFollowersAndStop(t *testing.T) {
	b := newRealEnv(t, whole)
	b.startTurn("hi", "")
	b.follow("")
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1","until":"close"}`)
	zinotest.Eventually(t, "live", func() bool { return c.Next().Type == "live" })
	if wait := b.server.Retire(time.Nanosecond); wait != 0 {
		t.Errorf("a follower without an open turn keeps the daemon: %v", wait)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- b.server.Shutdown(context.Background()) }()
	zinotest.Equal(t, "the end", plainPacket(c.Next().Raw), `{"type":"followed","session_id":"s-1","state":"done","reason":"restart"}`)
	zinotest.Must(t, zinotest.Receive(t, "the daemon to stop", stopped))
}

// TestStoppedFollower checks that a follower that reads nothing does not delay the stop of
// the daemon.
func TestStoppedFollower(t *testing.T) {
	b, goOn := running(t, 3)
	nc, err := net.Dial("unix", b.cfg.Daemon.Socket)
	zinotest.Must(t, err)
	defer nc.Close()
	raw, err := nc.(*net.UnixConn).SyscallConn()
	zinotest.Must(t, err)
	zinotest.Must(t, raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) }))
	zinotest.Must(t, err)
	_, err = nc.Write([]byte(rpctest.Frame(`{"type":"turn_follow","session_id":"s-1"}`)))
	zinotest.Must(t, err)
	goOn()
	b.follow("")
	zinotest.Must(t, b.server.Shutdown(context.Background()))
}
