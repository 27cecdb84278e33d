package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// proxy is a proxy between the daemon and a service. Closing its connections simulates
// the death of the service.
type proxy struct {
	l     net.Listener
	mu    sync.Mutex
	ends  []net.Conn
	drop  func(answer []byte) bool // reports whether to close the connection instead of passing on these bytes
	isCut bool
	wg    sync.WaitGroup
}

// newProxy moves the socket of the service and listens at its path.
func newProxy(t *testing.T, path string, drop func(answer []byte) bool) *proxy {
	t.Helper()
	zinotest.Must(t, os.Rename(path, path+"-"))
	l := zinotest.Listen(t, path)
	c := &proxy{l: l, drop: drop}
	c.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c.connect(nc, path+"-")
		}
	})
	t.Cleanup(c.cut)
	return c
}

// connect copies bytes in both directions until one end is closed.
func (c *proxy) connect(near net.Conn, path string) {
	far, err := net.Dial("unix", path)
	if err != nil {
		near.Close()
		return
	}
	c.mu.Lock()
	c.ends = append(c.ends, near, far)
	if c.isCut {
		near.Close()
		far.Close()
	}
	c.mu.Unlock()
	pass := func(to, from net.Conn, drop func([]byte) bool) {
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if err != nil || drop != nil && drop(buf[:n]) {
				break
			}
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		to.Close() // close both ends together
		from.Close()
	}
	c.wg.Go(func() { pass(far, near, nil) })
	c.wg.Go(func() { pass(near, far, c.drop) })
}

// cut closes all connections and the listener.
func (c *proxy) cut() {
	c.l.Close()
	c.mu.Lock()
	c.isCut = true
	for _, end := range c.ends {
		end.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// places is the number of points in a turn: before and after each packet of agr.
var places = len(wholeTurn) + 1

// stops returns a script that sends the first place packets of a whole turn, calls
// happen, and sends the rest.
func stops(place int, happen func(ctx context.Context)) agentScript {
	return func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		if err := say(wholeTurn[:place]...); err != nil {
			return proto.Text{}, err
		}
		happen(ctx)
		if err := say(wholeTurn[place:]...); err != nil {
			return proto.Text{}, err
		}
		return ends(), nil
	}
}

// storedBy returns the events of the first n packets, including unfinished text and
// output.
func storedBy(n int) (stored []string) {
	stored = []string{storedBegin, storedUser}
	partial, open := "", ""
	for _, p := range wholeTurn[:n] {
		switch p {
		case output:
			open = storedRun
		case deltaA:
			partial += "Let <me> "
		case deltaB:
			partial += "look!"
		case deltaC:
			partial += "Done."
		case finalA, finalC:
			partial = ""
			stored = append(stored, map[string]string{finalA: storedA, finalC: storedC}[p])
		case requested:
			open, stored = storedLost, append(stored, storedCall)
		case usageA:
			stored = append(stored, storedUsage)
		case finished:
			open, stored = "", append(stored, storedDone)
		}
	}
	if open != "" {
		stored = append(stored, open)
	}
	if partial != "" {
		step := `,"step":1}`
		if partial == "Done." {
			step = `,"step":2}`
		}
		stored = append(stored, `{"type":"message","role":"assistant","text":"`+partial+`","partial":true,"turn":"t"`+step)
	}
	return stored
}

// wholeStored returns the events of a whole turn.
func wholeStored() []string { return append(storedBy(len(wholeTurn)), storedEnd) }

// checkStored checks that the events of the first n packets are stored, followed by
// end, for an n up to place: the daemon may not have received the packets that the caller
// has not received. Events with one of the marks are ignored.
func checkStored(t *testing.T, got []string, place int, marks []string, end ...string) {
	t.Helper()
	for n := place; n >= 0 && len(sentBy(n)) == len(sentBy(place)); n-- {
		if slices.Equal(got, append(without(storedBy(n), marks...), end...)) {
			return
		}
	}
	equalLists(t, fmt.Sprintf("stored of %d packets", place), got, append(storedBy(place), end...))
}

// TestNeighbourDies kills each neighbour after every packet of a turn. The caller must
// get one terminal packet, and every packet that it received must be stored, unless
// mem died.
func TestNeighbourDies(t *testing.T) {
	for _, name := range []string{"sys", "ctx", "mem", "agr"} {
		t.Run(name, func(t *testing.T) {
			for place := range places {
				dies(t, name, place)
			}
		})
	}
}

func dies(t *testing.T, name string, place int) {
	t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	b := newSessionEnv(t, all(), stops(place, func(context.Context) { close(reached); <-goOn }))
	neighbour := b.proxy
	if name != "mem" {
		neighbour = newProxy(t, b.cfg.Socket(name), nil)
	}
	c := b.dial()
	c.Send(turnPayload)
	packets := rpctest.Raws(c.Packets(len(sentBy(place))))
	zinotest.Receive(t, "the step", reached)
	neighbour.cut()
	if name != "agr" { // sys and ctx are not needed any more; mem is, for the next append
		close(goOn)
	}
	_, last := rest(c)
	if name == "agr" {
		close(goOn)
	}
	equalLists(t, "packets", packets, sentBy(place))
	stored := b.trail.stored()
	switch name {
	case "agr":
		checkStored(t, stored, place, nil, storedError(`"message":"agr hung up before its answer was complete",`, "unavailable", `"service":"agr",`)...)
		if last.Raw != `{"type":"error","message":"agr hung up before its answer was complete","code":"unavailable","service":"agr"}` {
			t.Errorf("the end is %s", last.Raw)
		}
	case "mem":
		equalLists(t, "stored", stored, durableBy(place))
		if last.Type != "error" || !strings.Contains(last.Raw, `"kind":"session"`) || !strings.Contains(last.Message, "Could not connect to mem") && !strings.Contains(last.Message, "mem hung up") {
			t.Errorf("the end is %s", last.Raw)
		}
	default:
		equalLists(t, "stored", stored, wholeStored())
		if last.Type != "done" {
			t.Errorf("the end is %s", last.Raw)
		}
	}
}

// TestCallerHangsUp closes the caller's connection after every packet of a turn. agr
// must be cancelled, the interruption stored, and the lock released.
func TestCallerHangsUp(t *testing.T) {
	for place := range places {
		for _, more := range []string{`,"events":true`, `,"stream":true`, ``} {
			cancelled := make(chan struct{})
			reached := make(chan struct{})
			b := newSessionEnv(t, all(), stops(place, func(ctx context.Context) {
				close(reached)
				<-ctx.Done()
				close(cancelled)
			}))
			c := b.dial()
			c.Send(`{"message":"hi <you>","session_id":"s-1"` + more + `}`)
			zinotest.Receive(t, "the step", reached)
			zinotest.Eventually(t, "everything to arrive", func() bool {
				return len(b.trail.stored()) >= len(durableBy(place))
			})
			if more == `,"events":true` {
				c.Packets(len(sentBy(place)))
			}
			c.Close()
			zinotest.Receive(t, "the agent to be cancelled", cancelled)
			rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
			zinotest.Eventually(t, "the lock", func() bool { return b.trail.has("released") })
			got := b.trail.stored()
			if more == `,"events":true` {
				checkStored(t, got, place, nil, storedBreak, storedStop)
			} else { // the last deltas may not have arrived
				checkStored(t, without(got, partial...), place, partial, storedBreak, storedStop)
			}
			steps := b.trail.All()
			if last := steps[len(steps)-1]; last != "released" && last != "agr cancelled" {
				t.Errorf("after the lock: %s", steps)
			}
		}
	}
}

// durableBy returns the events that are stored when the first n packets have arrived.
func durableBy(n int) []string {
	for n > 0 && wholeTurn[n-1] != checkCalls && wholeTurn[n-1] != checkInfer {
		n--
	}
	return without(storedBy(n), partial...)
}

// partial are the marks of unfinished events.
var partial = []string{"partial", "interrupted", "synthetic"}

// without returns the events that have none of the marks.
func without(events []string, marks ...string) (rest []string) {
	for _, event := range events {
		if !slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(event, `"`+mark+`":true`) }) {
			rest = append(rest, event)
		}
	}
	return rest
}

// TestServiceStops checks that a stopping daemon stores the interruption and then
// reports it to the caller.
func TestServiceStops(t *testing.T) {
	for _, place := range []int{0, 2, 3, 6, len(wholeTurn)} {
		reached := make(chan struct{})
		b := newSessionEnv(t, all(), stops(place, func(ctx context.Context) { close(reached); <-ctx.Done() }))
		c := b.dial()
		c.Send(turnPayload)
		zinotest.Receive(t, "the step", reached)
		c.Packets(len(sentBy(place)))
		now, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.server.Shutdown(now); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		p := c.Next()
		for p.Raw == finalA || p.Raw == requested || p.Raw == usageA || p.Raw == finalC { // stored with the end
			p = c.Next()
		}
		if p.Raw != `{"type":"interrupted"}` {
			t.Errorf("then %s", p.Raw)
		}
		if p := c.Next(); p.Raw != interruptedLast {
			t.Errorf("the end is %s", p.Raw)
		}
		if p := c.Next(); p.Type != "" {
			t.Errorf("after the end: %s", p.Raw)
		}
		checkStored(t, b.trail.stored(), place, nil, storedBreak, storedStop)
	}
}

// TestHangUpBeforeTheMessage checks that nothing is stored for a caller that
// disconnects before the user's message is stored.
func TestHangUpBeforeTheMessage(t *testing.T) {
	for _, name := range []string{"sys", "ctx", "hold"} {
		t.Run(name, func(t *testing.T) {
			n, block := all(), rpctest.NewBlock()
			switch name {
			case "sys":
				n.sys = blocks[proto.GetPrompt](block)
			case "ctx":
				n.ctx = blocks[proto.Build](block)
			}
			b := newSessionEnv(t, n, whole)
			c := b.dial()
			if name == "hold" {
				b.mem.lock("s-1") <- struct{}{} // another turn
				c.Send(turnPayload)
				zinotest.Equal(t, "the first packet", c.Receive(), waitNotice)
			} else {
				c.Send(turnPayload)
				block.Begun(t)
			}
			c.Close()
			if name == "hold" {
				zinotest.Eventually(t, "the wait to be given up", func() bool { return b.trail.has("given up") })
			} else {
				block.Canceled(t)
				zinotest.Eventually(t, "the lock to be released", func() bool { return b.trail.has("released") })
			}
			rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
			if b.trail.has("agr") || len(b.trail.stored()) > 0 {
				t.Errorf("steps %s", b.trail.All())
			}
		})
	}
}

// TestInterruptedOutput checks that every call has a result when the caller has
// disconnected: its own one, its output so far, or one of code interrupted.
func TestInterruptedOutput(t *testing.T) {
	printed := make(chan struct{})
	b := newSessionEnv(t, all(), func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		err := say(
			`{"type":"tool_requested","id":"1","name":"bash","input":{}}`, `{"type":"tool_requested","id":"2","name":"bash","input":{}}`,
			`{"type":"tool_requested","id":"3","name":"read","input":{}}`, `{"type":"tool_requested","id":"4","name":"read","input":{}}`,
			`{"type":"checkpoint","turn":"t","step":1,"point":"calls","batch":["1","2","3"]}`,
			`{"type":"tool_started","id":"1","name":"bash"}`, `{"type":"tool_output","id":"1","text":"whole"}`,
			`{"type":"tool_finished","id":"1","name":"bash","ok":true,"result":{"ok":true},"duration_ms":0}`,
			`{"type":"tool_started","id":"2","name":"bash"}`, `{"type":"tool_started","id":"3","name":"read"}`,
			`{"type":"tool_output","id":"2","text":"a\n"}`, `{"type":"tool_output","id":"2","text":"<é>\n","left_out":7}`,
		)
		if err != nil {
			return proto.Text{}, err
		}
		close(printed)
		<-ctx.Done()
		return proto.Text{}, ctx.Err()
	})
	c := b.dial()
	c.Send(turnPayload)
	c.Packets(10)
	zinotest.Receive(t, "the output", printed)
	c.Close()
	zinotest.Eventually(t, "the end is stored", func() bool { return slices.Contains(b.trail.stored(), storedStop) })
	var results []string
	for _, event := range b.trail.stored() {
		if strings.Contains(event, "tool_result") {
			results = append(results, event)
		}
	}
	equalLists(t, "the results", results, []string{
		`{"type":"tool_result","tool_use_id":"1","output":{"ok":true},"ok":true,"duration_ms":0,"name":"bash","turn":"t","step":1}`,
		`{"type":"tool_result","tool_use_id":"2","output":{"ok":true,"data":{"stdout":"a\n\n[7 bytes left out]\n<é>\n","stderr":"","exit_code":-1,"timed_out":false,"interrupted":true}},"ok":true,"duration_ms":0,"name":"bash","turn":"t","step":1}`,
		strings.Replace(storedLost, `"c1"`, `"3"`, 1), strings.Replace(storedLost, `"c1"`, `"4"`, 1),
	})
}

// TestOutputIsBounded checks that only the end of a long output is kept, and that
// characters stay whole.
func TestOutputIsBounded(t *testing.T) {
	var p callOutput
	const pieces = 100
	for i := range pieces {
		p.add(fmt.Sprintf("%03d", i)+strings.Repeat("é", 2000), 0)
	}
	text := p.text()
	if len(text) > 3*outputMax || len(text) < outputMax || !strings.HasSuffix(text, "é") || !strings.Contains(text, "099é") || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %.40q…", len(text), text)
	}
	if !strings.HasPrefix(text, fmt.Sprintf("\n[%d bytes left out]\n", p.omitted)) || p.omitted == 0 {
		t.Errorf("%d bytes are omitted, but the text lacks the marker", p.omitted)
	}
}
