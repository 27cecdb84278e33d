package turnlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/proto"
)

// FuzzLog adds any events. The packets are valid JSON objects with a type, and a log has
// at most one open turn that is not queued if it is legal.
func FuzzLog(f *testing.F) {
	f.Add("[" + strings.Join([]string{meta, started, asked, said, used, used2, usage, result, steer, queued2, given, final, done1, start2, asked2}, ",") + "]")
	f.Add("[" + strings.Join([]string{started, used, parked, resumed, lost, partial, stopped, failure, failed1, back1, ended2, cont1, foreign}, ",") + "]")
	f.Add(`[{"type":"turn","turn":"t","session_id":"s","state":"running","request":{"root":"/\"<é>"},"by":null},{"type":"message","role":"user","text":"\ud800","by":3,"next":1},{"type":"usage","cost_usd":1e999},5,[]]`)
	f.Fuzz(func(t *testing.T, list string) {
		events, err := wire.Elements([]byte(list))
		if err != nil {
			return
		}
		w := &written{}
		for _, raw := range events {
			if raw[0] == '{' {
				w.add(string(raw))
			}
		}
		l := New("s", 0)
		for raw, next := range w.events() {
			p, _ := l.Packet(nil, raw, next, true)
			if p == nil {
				continue
			}
			if typ, err := wire.ReplyType(p); err != nil || typ == "" || !wire.Valid(p) {
				t.Fatalf("%s became the packet %s: %v", raw, p, err)
			}
		}
		if err := Check("s", w.events()); err != nil {
			return
		}
		open := l.Open()
		for i, turn := range open {
			if turn.State == proto.TurnQueued != (i > 0) && !(i == 0 && turn.State == proto.TurnQueued) {
				t.Fatalf("open turn %d is %s", i, turn.State)
			}
		}
		if got := w.read(); got.Next != l.Next || len(got.Open()) != len(open) {
			t.Fatalf("Add and Packet differ: %+v and %+v", got, l)
		}
	})
}

// FuzzLegal writes a legal log, whose events are chosen by the bytes, and replays it
// from each offset: the packets are those of the whole replay.
func FuzzLegal(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a"))
	f.Add([]byte("aaaaabbbbcccddeeffgghh"))
	f.Add([]byte("012 345 678 9ab cde fgh ijk lmn"))
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 200 {
			return
		}
		w := &writer{}
		for _, op := range program {
			w.step(int(op))
		}
		if err := Check("s", w.events()); err != nil {
			t.Fatalf("%v in\n%s", err, strings.Join(w.lines, "\n"))
		}
		all := w.packets(0)
		for i, from := range w.offsets {
			rest := w.packets(from)
			if want := tail(all, from); !slices.Equal(rest, want) {
				t.Fatalf("from %d, behind %s:\n%s\nwant\n%s", from, w.lines[i], strings.Join(rest, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// tail returns the packets of events behind an offset.
func tail(packets []string, from int64) []string {
	for i, p := range packets {
		_, next, _ := strings.Cut(p, " next=")
		var n int64
		fmt.Sscan(next, &n)
		if n > from {
			return packets[i:]
		}
	}
	return nil
}

// writer writes a legal log.
type writer struct {
	written
	n      int    // for ids
	turn   string // the active one
	parked bool
	inf    int      // the last inference
	calls  []string // without result
	says   []string // undelivered
	queue  []queued
}

type queued struct{ turn, say string }

func (w *writer) id(prefix string) string {
	w.n++
	return fmt.Sprint(prefix, w.n)
}

func (w *writer) addf(format string, args ...any) { w.add(fmt.Sprintf(format, args...)) }

func (w *writer) state(turn, state, more string) {
	w.addf(`{"type":"turn","turn":%q,"session_id":"s","state":%q%s}`, turn, state, more)
}

// step adds the events of an append, or nothing if it is not legal now.
func (w *writer) step(op int) {
	n := op / 11 // a parameter
	switch idle := w.turn == "" || w.parked; op % 11 {
	case 0: // turn_start
		q := queued{turn: w.id("t-")}
		if w.turn != "" || len(w.queue) > 0 {
			w.queueTurn(q)
			return
		}
		w.start(q)
	case 1: // turn_say of mode queue
		if w.turn != "" {
			w.queueTurn(queued{w.id("t-"), w.id("s-")})
		}
	case 2: // the next turn starts
		if w.turn == "" && len(w.queue) > 0 {
			q := w.queue[0]
			w.queue = w.queue[1:]
			w.start(q)
		}
	case 3: // an inference
		if idle || len(w.calls) > 0 {
			return
		}
		w.inf++
		w.addf(`{"type":"message","role":"assistant","text":"answer %d","turn":%q,"step":%d}`, w.inf, w.turn, w.inf)
		for i := range n % 4 {
			w.calls = append(w.calls, fmt.Sprint("c", i))
			w.addf(`{"type":"tool_use","id":"c%d","name":"bash","input":{},"turn":%q,"step":%d}`, i, w.turn, w.inf)
		}
		w.addf(`{"type":"usage","input_tokens":1,"output_tokens":2,"turn":%q,"step":%d}`, w.turn, w.inf)
	case 4: // a batch
		for range n % 4 {
			if !idle && len(w.calls) > 0 {
				w.result("")
			}
		}
	case 5: // turn_say
		if w.turn != "" {
			say := w.id("s-")
			w.says = append(w.says, say)
			w.addf(`{"type":"say","say":%q,"turn":%q,"mode":"steer","text":"say"}`, say, w.turn)
		}
	case 6: // delivery
		if idle || len(w.calls) > 0 {
			return
		}
		for _, say := range w.says {
			w.addf(`{"type":"message","role":"user","text":"say","say":%q,"via":"steer","turn":%q}`, say, w.turn)
		}
		w.says = nil
	case 7: // park
		if !idle {
			w.parked = true
			pending, _ := json.Marshal(append([]string{}, w.calls...))
			w.state(w.turn, "parked", `,"reason":"limit","pending":`+string(pending))
		}
	case 8: // resume, after a crash or a park
		if w.turn != "" {
			w.parked = false
			w.state(w.turn, "resumed", fmt.Sprintf(`,"attempt":%d`, n+1))
		}
	case 9: // the end
		if idle || len(w.calls) > 0 || len(w.says) > 0 {
			return
		}
		w.state(w.turn, "done", `,"iterations":1`)
		w.turn = ""
	case 10:
		if idle {
			return
		}
		w.fail([]string{"interrupted", "error"}[n%2])
	}
}

func (w *writer) queueTurn(q queued) {
	w.queue = append(w.queue, q)
	w.state(q.turn, "queued", fmt.Sprintf(`,"message":"queued","say":%q`, q.say))
}

func (w *writer) start(q queued) {
	w.turn, w.parked, w.inf, w.calls, w.says = q.turn, false, 0, nil, nil
	w.state(q.turn, "running", `,"by":{"uid":1}`)
	w.addf(`{"type":"message","role":"user","text":"go","turn":%q}`, q.turn)
}

func (w *writer) result(more string) {
	w.addf(`{"type":"tool_result","tool_use_id":%q,"name":"bash","output":{},"ok":true,"turn":%q,"step":%d%s}`, w.calls[0], w.turn, w.inf, more)
	w.calls = w.calls[1:]
}

// fail ends the turn and withdraws what goes back to the user.
func (w *writer) fail(state string) {
	for len(w.calls) > 0 {
		w.result(`,"synthetic":true`)
	}
	w.addf(`{"type":"message","role":"assistant","text":"par","partial":true,"turn":%q,"step":%d}`, w.turn, w.inf+1)
	w.state(w.turn, state, `,"reason":"x"`)
	w.turn = ""
	for _, say := range w.says {
		w.addf(`{"type":"say","say":%q,"withdrawn":true}`, say)
	}
	w.says = nil
	for _, q := range w.queue {
		if q.say != "" {
			w.state(q.turn, "interrupted", `,"reason":"withdrawn"`)
		}
	}
	w.queue = slices.DeleteFunc(w.queue, func(q queued) bool { return q.say != "" })
}
