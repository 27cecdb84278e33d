package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// kept returns the event of a packet without its ts, preceded by "[".
func kept(typ, packet string) (proto.Raw, error) {
	r := record{turnID: "t"}
	err := r.add(typ, []byte(packet), 1)
	if r.pending == nil {
		return nil, err
	}
	return bytes.Replace(stamped.ReplaceAll(r.pending, []byte("}")), []byte(`,"turn":"t","step":1}`), []byte("}"), 1), err
}

// TestKept checks which packets are stored, and their events.
func TestKept(t *testing.T) {
	for _, c := range []struct{ packet, want string }{
		{`{"type":"assistant_final","text":""}`, `{"type":"message","role":"assistant","text":""}`},
		{`{"type":"assistant_final","text":"a\u2028<b>\n","more":1}`, `{"type":"message","role":"assistant","text":"a\u2028<b>\n"}`},
		{`{"type":"assistant_final","text":"x","reasoning_state":[ {} ]}`, `{"type":"message","role":"assistant","text":"x","reasoning_state":[ {} ]}`},
		{`{"type":"assistant_final","text":"x","reasoning_state":null}`, `{"type":"message","role":"assistant","text":"x"}`},
		{`{"type":"tool_requested","id":"1","name":"bash","input":{"_malformed":"{"},"reasoning_state":"s"}`, `{"type":"tool_use","id":"1","name":"bash","input":{"_malformed":"{"},"reasoning_state":"s"}`},
		{`{"type":"tool_requested","id":"1","name":"bash"}`, `{"type":"tool_use","id":"1","name":"bash","input":{}}`},
		{`{"type":"tool_requested","id":"1","name":"bash","input":null}`, `{"type":"tool_use","id":"1","name":"bash","input":{}}`},
		{`{"type":"tool_finished","id":"1","name":"x","ok":false,"result":{"ok":false,"error":{"code":"c","message":"ok: true"}},"duration_ms":0}`, `{"type":"tool_result","tool_use_id":"1","output":{"ok":false,"error":{"code":"c","message":"ok: true"}},"ok":false,"duration_ms":0,"name":"x"}`},
		{`{"type":"tool_finished","id":"1","result":{"data":{"ok":true}},"duration_ms":5}`, `{"type":"tool_result","tool_use_id":"1","output":{"data":{"ok":true}},"ok":false,"duration_ms":5}`},
		{`{"type":"tool_finished","id":"1","result":"text"}`, `{"type":"tool_result","tool_use_id":"1","output":"text","ok":false,"duration_ms":0}`},
		{`{"type":"tool_finished","id":"1"}`, `{"type":"tool_result","tool_use_id":"1","output":{},"ok":false,"duration_ms":0}`},
		{`{ "type":"usage" , "input_tokens":5, "new":[1] }`, `{ "type":"usage" , "input_tokens":5, "new":[1] }`},
		{`{"type":"tool_started","id":"1","name":"x"}`, ``},
		{`{"type":"tool_output","id":"1","text":"x"}`, ``},
		{`{"type":"notice","kind":"retry","text":"x"}`, ``},
		{`{"type":"reasoning","text":"x"}`, ``},
		{`{"type":"assistant_delta","text":"x"}`, ``},
		{`{"type":"new","text":"x"}`, ``},
	} {
		typ, err := wire.ReplyType([]byte(c.packet))
		if err != nil {
			t.Fatal(err)
		}
		list, err := kept(typ, c.packet)
		if got := strings.TrimPrefix(string(list), "["); err != nil || got != c.want {
			t.Errorf("%s\n got %s, %v\nwant %s", c.packet, got, err, c.want)
		}
	}
	for _, packet := range []string{`{"type":"assistant_final","text":5}`, `{"type":"tool_requested","id":[]}`, `{"type":"tool_finished","duration_ms":"x"}`} {
		typ, _ := wire.ReplyType([]byte(packet))
		if list, err := kept(typ, packet); err == nil || !strings.HasPrefix(err.Error(), "agr sent a malformed packet: ") {
			t.Errorf("%s: %s, %v", packet, list, err)
		}
	}
}

// TestEnded checks the events of a turn that failed or was interrupted.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		e    *proto.Error
		want []string
	}{
		{&proto.Error{Code: proto.CodeTimeout, Message: "a \"b\"", Kind: "timeout", Service: "rtr"}, storedError(`"message":"a \"b\"","kind":"timeout",`, "timeout", `"service":"rtr",`)},
		{proto.ErrCanceled, []string{storedBreak, storedStop}},
		{sessionError(proto.ErrCanceled), storedError(`"message":"canceled","kind":"session",`, "canceled", "")},
		{&proto.Error{Code: proto.CodeInternal, Message: "m"}, storedError(`"message":"m",`, "internal", "")},
	} {
		r := record{turnID: "t"}
		r.fail("s-1", c.e, reasonOf(c.e))
		got := strings.ReplaceAll(string(r.pending), `,"ts":"`+timestamp()+`"`, "")
		if want := "[" + strings.Join(c.want, ","); r.err != nil || got != want {
			t.Errorf("%v:\n got %s, %v\nwant %s", c.e, got, r.err, want)
		}
	}
}

// FuzzKept checks that any packet of agr becomes a valid event, is an error, or is not
// stored.
func FuzzKept(f *testing.F) {
	for _, packet := range append([]string{`{"type":"usage"}`, `{"type":"tool_finished","result":{"ok":true,"ok":false},"id":"\ud800"}`}, wholeTurn...) {
		f.Add([]byte(packet))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		typ, err := wire.RequestType(packet)
		if err != nil {
			return // rpc refuses such a packet
		}
		list, err := kept(typ, string(packet))
		if err != nil || list == nil {
			return
		}
		var events []map[string]json.RawMessage
		if err := json.Unmarshal(append(list, ']'), &events); err != nil || len(events) != 1 || events[0]["type"] == nil {
			t.Errorf("%s gives %s: %v", packet, list, err)
		}
	})
}

// appends are the appends of a whole turn: the first event, the number of packets that
// the caller has received before, and the number of events.
var appends = []struct {
	event   string
	packets int
	events  int
}{{storedBegin, 0, 2}, {storedA, 3, 3}, {storedDone, 8, 1}, {storedC, 11, 2}}

// storedBefore returns how many events are stored before append i.
func storedBefore(i int) (n int) {
	for _, s := range appends[:i] {
		n += s.events
	}
	return n
}

// duringAppend starts a whole turn for every append, and calls f while mem is blocked
// in append i. mem continues when f releases the block.
func duringAppend(t *testing.T, f func(i int, b *sessionEnv, block *rpctest.Block, c *rpctest.Conn)) {
	t.Helper()
	for i, step := range appends {
		block := rpctest.NewBlock()
		b := newSessionEnv(t, all(), whole)
		b.mem.slow = func(ctx context.Context, event string) error {
			if event != step.event {
				return nil
			}
			return block.Wait(ctx)
		}
		c := b.dial()
		c.Send(turnPayload)
		block.Begun(t)
		f(i, b, block, c)
	}
}

// TestStoredBeforePassedOn checks that the caller does not receive the packets of an
// append before it is stored.
func TestStoredBeforePassedOn(t *testing.T) {
	duringAppend(t, func(i int, b *sessionEnv, block *rpctest.Block, c *rpctest.Conn) {
		arrived := make(chan rpctest.Packet, len(wholeTurn)+1)
		go func() {
			for {
				p := c.Next()
				arrived <- p
				if p.Type == "done" || p.Type == "" {
					return
				}
			}
		}()
		b.ask(`{"type":"ping"}`) // the daemon works meanwhile
		if n := len(arrived); n > appends[i].packets {
			t.Errorf("append %d: the caller has %d packets before it is stored", i, n)
		}
		zinotest.Equal(t, fmt.Sprintf("events before append %d", i), len(b.trail.stored()), storedBefore(i))
		block.Release()
		for p := range arrived {
			if p.Type == "done" {
				return
			}
			if p.Type == "" {
				t.Fatal("the daemon hung up")
			}
		}
	})
}

// TestMemDiesDuringAppend checks that the turn fails and stores nothing more if mem
// dies during an append.
func TestMemDiesDuringAppend(t *testing.T) {
	duringAppend(t, func(i int, b *sessionEnv, _ *rpctest.Block, c *rpctest.Conn) {
		b.proxy.cut()
		packets, last := rest(c)
		equalLists(t, "packets", packets[:len(packets)-1], wholeAnswer[:appends[i].packets])
		if last.Type != "error" || !strings.Contains(last.Raw, `"kind":"session"`) || !strings.Contains(last.Message, "mem hung up before its answer was complete") && !strings.Contains(last.Message, "Could not connect to mem: ") {
			t.Errorf("the end is %s", last.Raw)
		}
		if n := len(b.mem.of("s-1")); n > storedBefore(i+1) {
			t.Errorf("%d events are stored after append %d", n, i)
		}
	})
}

// TestHangUpDuringAppend checks that an append in progress is stored once, followed by
// the end of the turn, if the caller disconnects.
func TestHangUpDuringAppend(t *testing.T) {
	duringAppend(t, func(i int, b *sessionEnv, block *rpctest.Block, c *rpctest.Conn) {
		c.Close()
		b.ask(`{"type":"ping"}`)
		block.Release()
		rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
		zinotest.Eventually(t, "the lock to be released", func() bool { return b.trail.has("released") })
		stored := b.trail.stored()
		if len(stored) < storedBefore(i+1) || stored[storedBefore(i)] != appends[i].event {
			t.Fatalf("stored %s, want append %d", stored, i)
		}
		// The last event is the interruption, unless the daemon has finished the turn
		// before it noticed that the caller disconnected.
		if last := stored[len(stored)-1]; last != storedStop && len(stored) != storedBefore(len(appends)) {
			t.Errorf("stored %s", stored)
		}
	})
}

// TestStoringFails makes each append fail once. The turn must end with the error of mem,
// and the events that the caller has received and the text so far must be stored.
func TestStoringFails(t *testing.T) {
	full := &proto.Error{Code: proto.CodeInternal, Message: "mem append_session: no space left on device", Service: "mem"}
	for i, step := range appends {
		b := newSessionEnv(t, all(), whole)
		var once sync.Once
		b.mem.fail = func(event string) (err error) {
			if event == step.event {
				once.Do(func() { err = full })
			}
			return err
		}
		packets, _ := b.turn(turnPayload)
		hint := ""
		if i == 0 {
			hint = "; --no-save answers without storing anything"
		}
		want := `{"type":"error","message":"mem append_session: no space left on device` + hint + `","code":"internal","service":"mem","kind":"session"}`
		equalLists(t, "packets", packets, append(slices.Clone(wholeAnswer[:step.packets]), want))
		var stored []string
		if i > 0 {
			stored = failedAppend(i)
		}
		equalLists(t, "stored", b.trail.stored(), stored)
	}
}

// failedAppend returns the events of a turn whose append i fails once: those before, the
// text so far, and the error.
func failedAppend(i int) []string {
	place := []int{0, slices.Index(wholeTurn, finalA), slices.Index(wholeTurn, finished), slices.Index(wholeTurn, finalC)}[i]
	stored := without(storedBy(place), "interrupted")
	if i == 2 { // its result is lost
		stored = append(stored, storedLost)
	}
	return append(stored, storedError(`"message":"mem append_session: no space left on device","kind":"session",`, "internal", `"service":"mem",`)...)
}

// TestStoringKeepsFailing makes all appends after the first one fail. The caller must
// get the first error, and the log the second.
func TestStoringKeepsFailing(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	b.mem.fail = func(event string) error {
		if event == storedBegin || event == storedUser {
			return nil
		}
		return &proto.Error{Code: proto.CodeInternal, Message: fmt.Sprintf("cannot store %d bytes", len(event))}
	}
	_, last := b.turn(turnPayload)
	zinotest.Contains(t, "the end", last.Raw, fmt.Sprintf(`"message":"cannot store %d bytes","code":"internal","service":"mem","kind":"session"`, len(storedA)))
	if !b.log.Contains("the end of a turn could not be stored") || b.log.Contains("Let <me>") {
		t.Errorf("the log is %s", b.log.String())
	}
}

// TestEventTooLarge checks that an event that does not fit into a request is an error
// of the session, which is stored.
func TestEventTooLarge(t *testing.T) {
	huge := `{"type":"assistant_final","text":"` + strings.Repeat("x", 1<<24-40) + `"}`
	b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
		return ends(), say(deltaA, huge)
	})
	_, last := b.turn(turnPayload)
	if last.Type != "error" || last.Code != "too_large" || !strings.Contains(last.Raw, `"kind":"session"`) {
		t.Errorf("the end is %.200s", last.Raw)
	}
	stored := b.trail.stored()
	if len(stored) != 5 || !strings.Contains(stored[2], `"partial":true`) || !strings.Contains(stored[3], `"code":"too_large"`) {
		t.Errorf("stored %.300s", stored)
	}
}
