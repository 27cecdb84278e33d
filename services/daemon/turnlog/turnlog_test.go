package turnlog

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// written is a session log under construction, with offsets as in a file.
type written struct {
	lines   []string
	offsets []int64
	end     int64
}

func (w *written) add(lines ...string) {
	for _, line := range lines {
		w.end += int64(len(line)) + 1
		w.lines, w.offsets = append(w.lines, line), append(w.offsets, w.end)
	}
}

func (w *written) events() iter.Seq2[[]byte, int64] { return w.from(0) }

// from returns the events from an offset on.
func (w *written) from(at int64) iter.Seq2[[]byte, int64] {
	i := 0
	if at > 0 {
		i = slices.Index(w.offsets, at) + 1
	}
	return Events(proto.Raw("["+strings.Join(w.lines[i:], ",")+"]"), w.offsets[i:])
}

func logOf(lines ...string) *written {
	w := &written{}
	w.add(lines...)
	return w
}

// read returns the log of session "s".
func (w *written) read() *Log {
	l := New("s", 0)
	for raw, next := range w.events() {
		l.Add(raw, next)
	}
	return l
}

// packets returns the packets from an offset on without the members in drop.
func (w *written) packets(from int64, drop ...string) (list []string) {
	start := w.read().ReplayFrom(from)
	l := New("s", start)
	for raw, next := range w.from(start) {
		if l.Next < from {
			l.Add(raw, next)
			continue
		}
		if p, _ := l.Packet(nil, raw, next, true); p != nil {
			list = append(list, without(p, drop...))
		}
	}
	return list
}

func without(packet []byte, drop ...string) string {
	var members map[string]proto.Raw
	if err := json.Unmarshal(packet, &members); err != nil {
		return fmt.Sprintf("%s: %v", packet, err)
	}
	for _, key := range drop {
		delete(members, key)
	}
	var b strings.Builder
	for key, value := range wire.Members(packet) {
		if _, ok := members[string(key)]; ok {
			fmt.Fprintf(&b, " %s=%s", key, value)
		}
	}
	return strings.TrimPrefix(b.String(), " ")
}

const (
	meta    = `{"type":"meta","schema_version":1,"ts":"2026-11-22T10:00:00Z","root":"/p"}`
	started = `{"type":"turn","turn":"t-1","session_id":"s","state":"running","request":{"root":"/p","model":"m"},"request_id":"r1","by":{"uid":1000},"lifetime":"persistent","ts":"2026-11-22T10:00:01Z"}`
	asked   = `{"type":"message","role":"user","text":"fix the test","turn":"t-1","ts":"2026-11-22T10:00:01Z"}`
	said    = `{"type":"message","role":"assistant","text":"I look.","reasoning_state":{"x":1},"turn":"t-1","step":1,"ts":"2026-11-22T10:00:02Z"}`
	used    = `{"type":"tool_use","id":"c1","name":"bash","input":{"command":"make"},"turn":"t-1","step":1,"ts":"2026-11-22T10:00:03Z"}`
	used2   = `{"type":"tool_use","id":"c2","name":"read","input":{"path":"a"},"turn":"t-1","step":1,"ts":"2026-11-22T10:00:03Z"}`
	usage   = `{"type":"usage","input_tokens":10,"output_tokens":5,"cost_usd":0.5,"provider":"p","model":"m","turn":"t-1","step":1,"ts":"2026-11-22T10:00:03Z"}`
	result  = `{"type":"tool_result","tool_use_id":"c1","output":{"ok":true,"data":{}},"ok":true,"duration_ms":7,"name":"bash","turn":"t-1","step":1,"ts":"2026-11-22T10:00:04Z"}`
	result2 = `{"type":"tool_result","tool_use_id":"c2","output":{"ok":true,"data":{}},"ok":true,"duration_ms":7,"turn":"t-1","step":1,"ts":"2026-11-22T10:00:04Z"}`
	steer   = `{"type":"say","say":"s-1","turn":"t-1","mode":"steer","text":"and b","by":{"uid":7},"request_id":"r2","ts":"2026-11-22T10:00:04Z"}`
	given   = `{"type":"message","role":"user","text":"and b","say":"s-1","via":"steer","turn":"t-1","ts":"2026-11-22T10:00:05Z"}`
	final   = `{"type":"message","role":"assistant","text":"It \"works\".","turn":"t-1","step":2,"ts":"2026-11-22T10:00:05Z"}`
	usage2  = `{"type":"usage","input_tokens":20,"output_tokens":5,"turn":"t-1","step":2,"ts":"2026-11-22T10:00:05Z"}`
	done1   = `{"type":"turn","turn":"t-1","session_id":"s","state":"done","stop_reason":"stop","iterations":2,"usage":{"input_tokens":30,"output_tokens":10},"ts":"2026-11-22T10:00:05Z"}`
	queued2 = `{"type":"turn","turn":"t-2","session_id":"s","state":"queued","request":{"root":"/q"},"message":"then c","say":"s-2","request_id":"r3","by":{"uid":7},"ts":"2026-11-22T10:00:04Z"}`
	start2  = `{"type":"turn","turn":"t-2","session_id":"s","state":"running","request":{"root":"/q"},"ts":"2026-11-22T10:01:00Z"}`
	asked2  = `{"type":"message","role":"user","text":"then c","say":"s-2","via":"queue","turn":"t-2","ts":"2026-11-22T10:01:00Z"}`
	parked  = `{"type":"turn","turn":"t-1","session_id":"s","state":"parked","reason":"approval","approval":"ap-1","until":"2026-11-23T10:00:00Z","pending":["c2"],"ts":"2026-11-22T10:00:04Z"}`
	limited = `{"type":"turn","turn":"t-1","session_id":"s","state":"parked","reason":"limit","until":"2026-11-23T10:00:00Z","ts":"2026-11-22T10:00:04Z"}`
	resumed = `{"type":"turn","turn":"t-1","session_id":"s","state":"resumed","attempt":2,"reason":"crashed","discarded":"I thi","ts":"2026-11-22T11:00:00Z"}`
	lost    = `{"type":"tool_result","tool_use_id":"c1","output":{"ok":false,"error":{"code":"interrupted","message":"…"}},"ok":false,"duration_ms":0,"synthetic":true,"turn":"t-1","step":1,"ts":"2026-11-22T10:00:04Z"}`
	partial = `{"type":"message","role":"assistant","text":"I thi","partial":true,"turn":"t-1","step":2,"ts":"2026-11-22T10:00:05Z"}`
	stopped = `{"type":"interrupted","role":"system","text":"Interrupted","turn":"t-1","ts":"2026-11-22T10:00:05Z"}`
	ended1  = `{"type":"turn","turn":"t-1","session_id":"s","state":"interrupted","ts":"2026-11-22T10:00:05Z"}`
	back1   = `{"type":"say","say":"s-1","withdrawn":true,"ts":"2026-11-22T10:00:05Z"}`
	ended2  = `{"type":"turn","turn":"t-2","session_id":"s","state":"interrupted","reason":"withdrawn","ts":"2026-11-22T10:00:05Z"}`
	failure = `{"type":"error","message":"gone","code":"unavailable","kind":"api_error","turn":"t-1","ts":"2026-11-22T10:00:05Z"}`
	failed1 = `{"type":"turn","turn":"t-1","session_id":"s","state":"error","reason":"gone","ts":"2026-11-22T10:00:05Z"}`
	cont1   = `{"type":"turn","turn":"t-1","session_id":"s","state":"continued","to":"s2","to_turn":"t-9","ts":"2026-11-22T10:00:05Z"}`
	foreign = `{"type":"turn","turn":"t-7","session_id":"other","state":"running","ts":"2026-11-22T10:00:05Z"}`
)

// TestPackets checks the packets of stored events, without ts, next and replay.
func TestPackets(t *testing.T) {
	started1, user1 := `type="turn_state" turn="t-1" state="running"`, `type="user_message" turn="t-1" text="fix the test" via="start" by={"uid":1000}`
	requested, finished := `type="tool_requested" turn="t-1" id="c1" name="bash" input={"command":"make"} step=1`,
		`type="tool_finished" turn="t-1" id="c1" result={"ok":true,"data":{}} ok=true duration_ms=7 name="bash" step=1`
	for _, c := range []struct {
		name string
		log  *written
		want []string
	}{
		{"a turn", logOf(meta, started, asked, said, used, usage, result, final, usage2, done1), []string{
			started1, user1, `type="assistant_final" turn="t-1" text="I look." step=1`, requested,
			`type="usage" turn="t-1" input_tokens=10 output_tokens=5 cost_usd=0.5 provider="p" model="m" step=1`, finished,
			`type="assistant_final" turn="t-1" text="It \"works\"." step=2`,
			`type="usage" turn="t-1" input_tokens=20 output_tokens=5 step=2`,
			`type="turn_ended" turn="t-1" state="done" result={"type":"done","full_text":"It \"works\".","iterations":2,"stop_reason":"stop","usage":{"input_tokens":30,"output_tokens":10}}`,
		}},
		{"the last inference has no text", logOf(started, asked, said, used, result, usage2, done1), []string{
			started1, user1, `type="assistant_final" turn="t-1" text="I look." step=1`, requested, finished,
			`type="usage" turn="t-1" input_tokens=20 output_tokens=5 step=2`,
			`type="turn_ended" turn="t-1" state="done" result={"type":"done","full_text":"","iterations":2,"stop_reason":"stop","usage":{"input_tokens":30,"output_tokens":10}}`,
		}},
		{"a steer", logOf(started, asked, steer, given), []string{
			started1, user1, `type="user_message" turn="t-1" text="and b" say="s-1" via="steer" by={"uid":7}`,
		}},
		{"an interrupted turn returns messages", logOf(started, asked, steer, queued2, used, lost, partial, stopped, ended1, back1, ended2), []string{
			started1, user1, `type="turn_state" turn="t-2" state="queued"`, requested,
			`type="tool_finished" turn="t-1" name="bash" id="c1" result={"ok":false,"error":{"code":"interrupted","message":"…"}} ok=false duration_ms=0 synthetic=true step=1`,
			`type="assistant_final" turn="t-1" text="I thi" partial=true step=2`,
			`type="interrupted" turn="t-1" role="system" text="Interrupted"`,
			`type="turn_ended" turn="t-1" state="interrupted" result={"type":"error","message":"The turn was interrupted.","code":"canceled","service":"daemon"} returned=[{"say":"s-1","text":"and b"},{"say":"s-2","text":"then c"}]`,
			`type="turn_ended" turn="t-2" state="interrupted" reason="withdrawn" result={"type":"error","message":"The turn was interrupted: withdrawn.","code":"canceled","service":"daemon"}`,
		}},
		{"a failed turn", logOf(started, asked, failure, failed1), []string{
			started1, user1,
			`type="turn_ended" turn="t-1" state="error" reason="gone" result={"type":"error","message":"gone","code":"unavailable","kind":"api_error"}`,
		}},
		{"an error without its event", logOf(started, failed1), []string{
			started1, `type="turn_ended" turn="t-1" state="error" reason="gone" result={"type":"error","message":"gone","code":"internal"}`,
		}},
		{"parked and resumed", logOf(started, asked, parked, resumed), []string{
			started1, user1,
			`type="turn_state" turn="t-1" state="parked" reason="approval" approval="ap-1" until="2026-11-23T10:00:00Z"`,
			`type="turn_state" turn="t-1" state="resumed" reason="crashed" attempt=2 discarded="I thi"`,
		}},
		{"continued", logOf(started, asked, cont1), []string{
			started1, user1, `type="continued" session_id="s2" turn="t-9" from_session_id="s"`,
		}},
		{"a queued turn starts", logOf(started, asked, queued2, final, done1, start2, asked2), []string{
			started1, user1, `type="turn_state" turn="t-2" state="queued"`,
			`type="assistant_final" turn="t-1" text="It \"works\"." step=2`,
			`type="turn_ended" turn="t-1" state="done" result={"type":"done","full_text":"It \"works\".","iterations":2,"stop_reason":"stop","usage":{"input_tokens":30,"output_tokens":10}}`,
			`type="turn_state" turn="t-2" state="running"`,
			`type="user_message" turn="t-2" text="then c" say="s-2" via="queue" by={"uid":7}`,
		}},
		{"a session without turns", logOf(meta,
			`{"type":"message","role":"user","text":"old"}`, `{"type":"tool_use","id":"a","name":"read","input":{}}`,
			`{"type":"tool_result","tool_use_id":"a","output":"x","ok":true}`, `{"type":"message","role":"assistant","text":""}`,
			`{"type":"error","message":"x","code":"internal"}`, `{"type":"title","text":"x"}`, `{"type":"todo","items":[]}`), []string{
			`type="user_message" text="old" via="start"`, `type="tool_requested" id="a" name="read" input={}`,
			`type="tool_finished" name="read" id="a" result="x" ok=true`, `type="todo" items=[]`,
		}},
		{"turns of another session", logOf(foreign, `{"type":"message","role":"user","text":"x","turn":"t-7"}`), []string{
			`type="user_message" turn="t-7" text="x" via="start"`,
		}},
		{"damaged events", logOf(`{"type":"message","role":"user","text":5}`, `{"type":"turn","turn":5}`, `{"type":"say","say":[]}`, `{"type":7}`,
			`{"type":"tool_result"}`, `{"type":"tool_use","id":1}`, `{"type":"turn","turn":"t-1","session_id":"s","state":"done"}`,
			`{"type":"turn","turn":"t-1","session_id":"s","state":"new"}`, `{"type":"todo","items":1}`), []string{`type="todo" items=1`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			zinotest.Equal(t, "packets", strings.Join(c.log.packets(0, "ts", "next", "replay"), "\n"), strings.Join(c.want, "\n"))
		})
	}
}

func TestPacketHasOffsetAndReplay(t *testing.T) {
	w := logOf(started, asked)
	l := New("s", 0)
	var got []string
	for raw, next := range w.events() {
		p, _ := l.Packet(nil, raw, next, len(got) == 0)
		got = append(got, string(p))
	}
	want := []string{
		fmt.Sprintf(`{"type":"turn_state","turn":"t-1","state":"running","ts":"2026-11-22T10:00:01Z","next":%d,"replay":true}`, w.offsets[0]),
		fmt.Sprintf(`{"type":"user_message","turn":"t-1","text":"fix the test","ts":"2026-11-22T10:00:01Z","via":"start","by":{"uid":1000},"next":%d}`, w.offsets[1]),
	}
	zinotest.Equal(t, "packets", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func TestTurns(t *testing.T) {
	w := logOf(meta, started, asked, steer, queued2, said, used, used2, usage, result)
	l := w.read()
	turn := l.Turn("t-1")
	zinotest.Equal(t, "turn", values(turn.State, turn.RequestID, turn.By.UID, turn.Root, turn.Text, turn.Lifetime, turn.Step, turn.Tokens, *turn.Usage.CostUSD,
		turn.First == w.offsets[0], turn.Start == turn.First, turn.End, turn.Updated),
		"running r1 1000 /p fix the test persistent 1 15 0.5 true true 0 2026-11-22T10:00:04Z")
	zinotest.Equal(t, "request", string(turn.Request), `{"root":"/p","model":"m"}`)
	zinotest.Equal(t, "open", ids(l.Open()), "t-1 t-2")
	zinotest.Equal(t, "queued", values(l.Turn("t-2").Message, l.Turn("t-2").Say, l.Turn("t-2").Text), "then c s-2 then c")
	zinotest.Equal(t, "says", values(turn.Says[0].ID, turn.Says[0].Text, turn.Says[0].By.UID), "s-1 and b 7")
	zinotest.Equal(t, "calls", fmt.Sprint(l.Calls(turn)), `[{c2 1 read [123 34 112 97 116 104 34 58 34 97 34 125] [] <nil> recover 2026-11-22T10:00:03Z}]`)
	zinotest.Equal(t, "meta", l.Meta.Root, "/p")
	zinotest.Equal(t, "updated", l.Updated, "2026-11-22T10:00:04Z")

	w.add(parked)
	l = w.read()
	turn = l.Turn("t-1")
	zinotest.Equal(t, "parked", values(turn.Reason, turn.Until, turn.Approval, turn.Pending, l.Calls(turn)[0].Action, l.Active().ID),
		"approval 2026-11-23T10:00:00Z ap-1 [c2] run t-1")
	w.add(resumed)
	l = w.read()
	turn = l.Turn("t-1")
	zinotest.Equal(t, "resumed", values(turn.Attempts, turn.Until, turn.Pending, l.Calls(turn)[0].Action), "2  [] recover")
	w.add(result2)
	zinotest.Equal(t, "attempts after a batch", w.read().Turn("t-1").Attempts, 0)
	w.add(given, limited, resumed, limited, final, usage2, done1, start2)
	l = w.read()
	turn = l.Turn("t-1")
	zinotest.Equal(t, "ended", values(turn.State, turn.End == w.offsets[len(w.offsets)-2], turn.Request == nil, turn.Says, turn.Tries, turn.Step), "done true true [] 2 2")
	zinotest.Equal(t, "the open one", ids(l.Open()), "t-2")
	zinotest.Equal(t, "its start", l.Turn("t-2").Start, w.offsets[len(w.offsets)-2])
	zinotest.Equal(t, "its root", l.Turn("t-2").Root, "/q")
}

// TestContext checks what a turn says of the context of its last inference.
func TestContext(t *testing.T) {
	w := logOf(started, asked, used)
	for i, c := range []struct{ event, want string }{
		{`{"type":"usage","turn":"t-1","step":1,"input_tokens":700,"output_tokens":20,"context_window":1000}`, "720 1000 0"},
		{`{"type":"tool_result","turn":"t-1","step":1,"tool_use_id":"c1","output":{"ok":true},"ok":true}`, "720 1000 11"},
		{`{"type":"tool_result","turn":"t-1","step":1,"tool_use_id":"c2","output":{"ok":true},"ok":true}`, "720 1000 22"},
		{`{"type":"usage","turn":"t-1","step":2,"input_tokens":800,"output_tokens":1}`, "801 0 0"},
	} {
		w.add(c.event)
		turn := w.read().Turn("t-1")
		zinotest.Equal(t, fmt.Sprint("context ", i), values(turn.Tokens, turn.Window, turn.Results), c.want)
	}
}

// values returns the values with a blank between them.
func values(list ...any) string { return strings.TrimSuffix(fmt.Sprintln(list...), "\n") }

func ids(turns []*Turn) string {
	var list []string
	for _, t := range turns {
		list = append(list, t.ID)
	}
	return strings.Join(list, " ")
}

func TestRequested(t *testing.T) {
	w := logOf(started, asked, steer, queued2, done1)
	for i := range requestsMax {
		id := fmt.Sprintf("t-x%d", i)
		w.add(fmt.Sprintf(`{"type":"turn","turn":%q,"session_id":"s","state":"running","request_id":"x%d"}`, id, i),
			fmt.Sprintf(`{"type":"turn","turn":%q,"session_id":"s","state":"done"}`, id))
	}
	l := w.read()
	for request, want := range map[string]string{"r1": "", "r3": "t-2", "x0": "t-x0", "": "", "y": ""} {
		got := ""
		if turn := l.Requested(request); turn != nil {
			got = turn.ID
		}
		zinotest.Equal(t, "turn of "+request, got, want)
	}
	s, ok := l.Said("r2")
	zinotest.Equal(t, "say", values(s.ID, s.Turn, s.Mode, ok), "s-1 t-1 steer true")
	if _, ok := l.Said(""); ok {
		t.Error("a say without request_id was found")
	}
}

func TestSuperseded(t *testing.T) {
	other := `{"type":"message","role":"user","text":"x"}`
	for _, c := range []struct {
		name  string
		lines []string
		want  bool
	}{
		{"parked", []string{started, asked, limited}, false},
		{"a message of turn_say", []string{started, asked, limited, steer}, false},
		{"a turn queued behind it", []string{started, asked, limited, queued2}, false},
		{"another turn", []string{started, asked, limited, start2, asked2}, true},
		{"an older program's turn", []string{started, asked, limited, other}, true},
		{"before it was parked", []string{other, started, asked, limited}, false},
		{"running", []string{started, asked, other}, false},
	} {
		l := logOf(c.lines...).read()
		zinotest.Equal(t, c.name, l.Superseded(l.Turn("t-1")), c.want)
	}
}

func TestTodo(t *testing.T) {
	l := logOf(`{"type":"todo","items":[{"text":"a","status":"done"},{"text":"b","status":"active"},{"text":"c","status":"open"}]}`).read()
	zinotest.Equal(t, "open", fmt.Sprint(l.OpenTodo()), "[{b active} {c open}]")
}

func TestStart(t *testing.T) {
	old := []string{meta, `{"type":"message","role":"user","text":"a"}`, `{"type":"message","role":"assistant","text":"b"}`}
	for _, c := range []struct {
		name  string
		lines []string
		want  int // index of the event
	}{
		{"empty", nil, 0},
		{"no message", old[:1], 1},
		{"without turns", old, 1},
		{"an ended turn", []string{meta, started, asked, final, done1}, 1},
		{"an open turn before a queued one", []string{started, asked, queued2, final}, 0},
		{"a queued turn that runs", []string{started, asked, queued2, done1, start2, asked2}, 4},
		{"a turn before a withdrawn one", []string{meta, started, asked, queued2, ended1, `{"type":"turn","turn":"t-2","session_id":"s","state":"interrupted","reason":"withdrawn"}`}, 1},
	} {
		w := logOf(c.lines...)
		zinotest.Equal(t, c.name, w.read().Start(), append([]int64{0}, w.offsets...)[c.want])
	}
}

func TestMemoryOfManyTurnsIsSmall(t *testing.T) {
	l := logOf(started, asked, said, used, usage, result, final, done1).read()
	turn := l.Turn("t-1")
	if turn.Request != nil || turn.Message != "" || turn.text != nil || len(l.calls) != 0 {
		t.Errorf("an ended turn keeps %+v", turn)
	}
}

func BenchmarkReplay(b *testing.B) {
	w := logOf(meta, started, asked)
	for i := 1; len(w.lines) < 10_000; i++ {
		for _, line := range []string{said, used, usage, result} {
			w.add(strings.ReplaceAll(line, `"step":1`, fmt.Sprintf(`"step":%d`, i)))
		}
	}
	list := proto.Raw("[" + strings.Join(w.lines, ",") + "]")
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		l := New("s", 0)
		for raw, next := range Events(list, w.offsets) {
			buf, _ = l.Packet(buf[:0], raw, next, true)
		}
	}
}
