package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// call sends a request and decodes its answer into v. It returns the error of the answer.
func (b *env) call(request string, v any) *proto.Error {
	b.t.Helper()
	_, last := b.ask(request)
	if last.Type == "error" {
		return &proto.Error{Code: proto.Code(last.Code), Message: last.Message}
	}
	zinotest.Must(b.t, json.Unmarshal([]byte(last.Raw), v))
	return nil
}

// start starts a turn on the session s-1.
func (b *env) startTurn(message, more string) (started proto.TurnStarted) {
	b.t.Helper()
	if e := b.call(`{"type":"turn_start","session_id":"s-1","message":"`+message+`"`+more+`}`, &started); e != nil {
		b.t.Fatal(e)
	}
	return started
}

var (
	stampedPacket = regexp.MustCompile(`,"ts":"[^"]*"`)
	nextPacket    = regexp.MustCompile(`,"next":\d+`)
	byPacket      = regexp.MustCompile(`,"by":{"uid":\d+}`)
)

// plainPacket returns a packet of turn_follow without what differs between runs.
func plainPacket(raw string) string {
	for _, r := range []*regexp.Regexp{stampedPacket, nextPacket, byPacket} {
		raw = r.ReplaceAllString(raw, "")
	}
	return turnID.ReplaceAllString(raw, `"t"`)
}

func plainPackets(packets []rpctest.Packet) (all []string) {
	for _, p := range packets {
		all = append(all, plainPacket(p.Raw))
	}
	return all
}

// follow follows a session with more members, to the end.
func (b *env) follow(more string) []string {
	b.t.Helper()
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"` + more + `}`)
	return plainPackets(b.followed(c))
}

// followed reads packets up to followed or an error.
func (b *env) followed(c *rpctest.Conn) (packets []rpctest.Packet) {
	b.t.Helper()
	for {
		p := c.Next()
		packets = append(packets, p)
		if p.Type == "followed" || p.Type == "error" || p.Type == "" {
			return packets
		}
	}
}

// Packets of turn_follow for a whole turn.
const (
	packetUser   = `{"type":"user_message","turn":"t","text":"hi","via":"start"}`
	packetA      = `{"type":"assistant_final","turn":"t","text":"Let <me> look!","step":1}`
	packetCall   = `{"type":"tool_requested","turn":"t","id":"c1","name":"read","input":{ "path": "a\u003cb" },"step":1}`
	packetUsage  = `{"type":"usage","turn":"t","input_tokens":5,"output_tokens":7,"cost_usd":0.01,"step":1}`
	packetResult = `{"type":"tool_finished","turn":"t","id":"c1","result":{"ok":true,"data":{ "n":1e3 }},"ok":true,"duration_ms":12,"name":"read","diff":"-a","step":1}`
	packetC      = `{"type":"assistant_final","turn":"t","text":"Done.","step":2}`
	packetEnded  = `{"type":"turn_ended","turn":"t","state":"done","result":{"type":"done","full_text":"Done.","iterations":2,"stop_reason":"stop","usage":{"input_tokens":5,"output_tokens":7,"cost_usd":0.01}}}`
	packetEnd    = `{"type":"followed","session_id":"s-1","turn":"t","state":"done"}`
)

// replayed marks packets of the log.
func replayed(packets ...string) (all []string) {
	for _, p := range packets {
		all = append(all, strings.TrimSuffix(p, "}")+`,"replay":true}`)
	}
	return all
}

// storedPackets are the packets of the log of a whole turn.
func storedPackets() []string {
	running := `{"type":"turn_state","turn":"t","state":"running"}`
	return []string{running, packetUser, packetA, packetCall, packetUsage, packetResult, packetC, packetEnded}
}

// TestStartedAfterEnd checks the answer to turn_start for a turn that ends before the
// answer is made: a follower from its next gets the text and the end.
func TestStartedAfterEnd(t *testing.T) {
	e := newResumeEnv(t, answer)
	chat := proto.Chat{SessionID: "s-1", Message: "hi"}
	sess := e.service.enter(chat.SessionID)
	defer sess.leave()
	turn, err := sess.newTurn(t.Context(), chat).submit(false)
	zinotest.Must(t, err)
	zinotest.Receive(t, "the end", turn.done)
	started, err := turn.started()
	zinotest.Must(t, err)
	c := e.dial()
	c.Send(fmt.Sprintf(`{"type":"turn_follow","session_id":"s-1","turn":%q,"from":%d}`, started.Turn, started.Next))
	packets := strings.Join(plainPackets(e.followed(c)), "\n")
	if !strings.Contains(packets, "all done") || !strings.Contains(packets, `"turn_ended"`) {
		t.Errorf("a follower from %d gets\n%s", started.Next, packets)
	}
}

// TestEndedTurnIsFreed checks that a turn whose session is remembered is not kept in
// memory after its end, with its request and the connection that it came from.
func TestEndedTurnIsFreed(t *testing.T) {
	e := newResumeEnv(t, answer)
	sess := e.service.enter("s-1")
	defer sess.leave()
	ended := func() weak.Pointer[turn] {
		turn, err := sess.newTurn(t.Context(), proto.Chat{SessionID: "s-1", Message: "hi"}).submit(false)
		zinotest.Must(t, err)
		zinotest.Receive(t, "the end", turn.done)
		return weak.Make(turn)
	}()
	zinotest.Eventually(t, "the turn is freed", func() bool {
		runtime.GC()
		return ended.Value() == nil
	})
	zinotest.Equal(t, "turns remembered", len(sess.recent), 1)
}

// TestStart checks the answer to turn_start, the events of the turn, and the packets of
// a follower that comes when the turn has ended.
func TestStart(t *testing.T) {
	b := newRealEnv(t, whole)
	started := b.startTurn("hi", `,"root":"/r"`)
	if started.State != "running" || started.SessionID != "s-1" || !turnID.MatchString(`"`+started.Turn+`"`) || started.Durable != nil || started.Next == 0 {
		t.Errorf("started %+v", started)
	}
	got := b.follow("")
	zinotest.Equal(t, "the end", got[len(got)-1], packetEnd)
	got = b.follow("")
	equalLists(t, "packets of the past", got, append(replayed(storedPackets()...), packetEnd))
	want := []string{`{"type":"meta","schema_version":1,"root":"/r"}`, strings.Replace(storedBegin, `,"attached":true`, "", 1), strings.Replace(storedUser, "hi <you>", "hi", 1)}
	equalLists(t, "the session", b.file("s-1"), append(want, wholeStored()[2:]...))
}

// TestFollowLive checks the packets of a follower that comes in the middle of a turn.
func TestFollowLive(t *testing.T) {
	place := slices.Index(wholeTurn, output)
	reached, goOn := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, stops(place, func(context.Context) { close(reached); <-goOn }))
	b.startTurn("hi", "")
	zinotest.Receive(t, "the step", reached)
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	want := append(replayed(storedPackets()[:5]...), `{"type":"live","turn":"t","state":"running"}`, `{"type":"tool_started","id":"c1","name":"read","turn":"t"}`)
	equalLists(t, "packets", plainPackets(c.Packets(len(want))), want)
	close(goOn)
	want = []string{`{"type":"tool_output","id":"c1","text":"…","turn":"t"}`, packetResult, `{"type":"notice","kind":"retry","text":"again","wait_ms":5,"turn":"t"}`, `{"type":"assistant_delta","turn":"t","text":"Done."}`, packetC, packetEnded, packetEnd}
	equalLists(t, "packets", plainPackets(b.followed(c)), want)
}

// TestFollowText checks that a follower gets the text so far as one piece.
func TestFollowText(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, stops(3, func(context.Context) { close(reached); <-goOn }))
	b.startTurn("hi", "")
	zinotest.Receive(t, "the step", reached)
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	text := ""
	zinotest.Eventually(t, "the text", func() bool { // in one piece, or the last ones just now
		var delta proto.AssistantDelta
		if p := c.Next(); p.Type == proto.TypeAssistantDelta {
			zinotest.Must(t, json.Unmarshal([]byte(p.Raw), &delta))
		}
		text += delta.Text
		return text == "Let <me> look!"
	})
	close(goOn)
	got := plainPackets(b.followed(c))
	equalLists(t, "packets", got[:1], []string{packetA})
}

// TestFollowFrom checks that a follower may go on at each offset of a packet, and that
// other offsets are refused.
func TestFollowFrom(t *testing.T) {
	b := newRealEnv(t, whole)
	b.startTurn("hi", "")
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1","from":0}`)
	b.followed(c)
	c = b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1","from":0}`)
	all := b.followed(c)
	starts := map[int64]bool{0: true}
	var last int64
	for i, p := range all[:len(all)-1] {
		var place struct{ Next int64 }
		zinotest.Must(t, json.Unmarshal([]byte(p.Raw), &place))
		starts[place.Next] = true
		last = max(last, place.Next)
		got := b.follow(fmt.Sprintf(`,"from":%d`, place.Next))
		equalLists(t, fmt.Sprintf("packets from %d", place.Next), got, plainPackets(all[i+1:]))
	}
	for _, from := range []int64{1, last - 1, last + 1, -1, 1 << 40} {
		_, last := b.ask(fmt.Sprintf(`{"type":"turn_follow","session_id":"s-1","from":%d}`, from))
		if last.Code != "invalid" || last.Message != fmt.Sprintf("from %d is not the start of an event", from) {
			t.Errorf("from %d: %s", from, last.Raw)
		}
	}
}

// TestTurnErrors checks requests that name what does not exist.
func TestTurnErrors(t *testing.T) {
	b := newRealEnv(t, whole)
	b.startTurn("hi", "")
	b.follow("")
	const no = `"no turn t-aaaaaaaaaaaa in session s-1"`
	for request, want := range map[string]string{
		`{"type":"turn_start","message":"hi","no_save":true}`:                       `{"type":"error","message":"turn_start stores the turn: no_save is not possible","code":"invalid","service":"daemon"}`,
		`{"type":"turn_start","message":" "}`:                                       `{"type":"error","message":"Empty message.","code":"invalid","service":"daemon"}`,
		`{"type":"turn_follow","session_id":"s-1","turn":"t-aaaaaaaaaaaa"}`:         `{"type":"error","message":` + no + `,"code":"not_found","service":"daemon"}`,
		`{"type":"turn_cancel","session_id":"s-1","turn":"t-aaaaaaaaaaaa"}`:         `{"type":"error","message":` + no + `,"code":"not_found","service":"daemon"}`,
		`{"type":"turn_say","session_id":"s-1","text":"x"}`:                         `{"type":"error","message":"no turn is open in session s-1","code":"not_found","service":"daemon"}`,
		`{"type":"turn_say","session_id":"s-1","text":"x","turn":"t-aaaaaaaaaaaa"}`: `{"type":"error","message":"no turn is open in session s-1","code":"not_found","service":"daemon"}`,
		`{"type":"turn_say","session_id":"s-1","text":"","say":"s-aaaaaaaa"}`:       `{"type":"error","message":"no turn is open in session s-1","code":"not_found","service":"daemon"}`,
		`{"type":"turn_say","session_id":"s-1","text":" "}`:                         `{"type":"error","message":"Empty message.","code":"invalid","service":"daemon"}`,
		`{"type":"turn_start","message":"hi","request_id":"a b"}`:                   `{"type":"error","message":"invalid request_id \"a b\": use letters, digits, '_' and '-', at most 64","code":"invalid","service":"daemon"}`,
		`{"type":"turn_start","message":"hi","on_busy":"wait"}`:                     `{"type":"error","message":"invalid on_busy \"wait\": use \"queue\" or \"error\"","code":"invalid","service":"daemon"}`,
		`{"type":"turn_start","message":"hi","on_limit":"wait"}`:                    `{"type":"error","message":"invalid on_limit \"wait\": use \"stop\" or \"park\"","code":"invalid","service":"daemon"}`,
		`{"type":"turn_follow","session_id":"s-1","until":"end"}`:                   `{"type":"error","message":"invalid until \"end\": use \"turn\" or \"close\"","code":"invalid","service":"daemon"}`,
		`{"type":"turn_say","session_id":"s-1","text":"x","mode":"now"}`:            `{"type":"error","message":"invalid mode \"now\": use \"steer\" or \"queue\"","code":"invalid","service":"daemon"}`,
	} {
		if _, last := b.ask(request); last.Raw != want {
			t.Errorf("%s:\n got %s\nwant %s", request, last.Raw, want)
		}
	}
	for _, typ := range []string{"turn_follow", "turn_cancel"} {
		if _, last := b.ask(`{"type":"` + typ + `","session_id":"other"}`); last.Code != "not_found" {
			t.Errorf("%s of an unknown session: %s", typ, last.Raw)
		}
	}
	for _, id := range []string{"../x", "", ".a"} {
		for _, typ := range []string{"turn_follow", "turn_cancel", "turn_say"} {
			if _, last := b.ask(`{"type":"` + typ + `","text":"x","session_id":"` + id + `"}`); last.Code != "invalid" {
				t.Errorf("%s of session %q: %s", typ, id, last.Raw)
			}
		}
	}
}

// TestRequestID checks that a repeat of turn_start returns the turn of the first one: while
// it is open, when it has ended, and without a session_id.
func TestRequestID(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, stops(3, func(context.Context) { close(reached); <-goOn }))
	const request = `{"type":"turn_start","message":"hi","request_id":"k7Qd2mXv0bTz4s"}`
	var first, second, third proto.TurnStarted
	if e := b.call(request, &first); e != nil {
		t.Fatal(e)
	}
	zinotest.Receive(t, "the step", reached)
	if e := b.call(request, &second); e != nil || second != first {
		t.Errorf("while it runs: %+v, want %+v, %v", second, first, e)
	}
	close(goOn)
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"` + first.SessionID + `"}`)
	b.followed(c)
	if e := b.call(request, &third); e != nil || third.Turn != first.Turn || third.SessionID != first.SessionID || third.State != "done" {
		t.Errorf("when it has ended: %+v, want %+v, %v", third, first, e)
	}
	if runs := len(b.runs.All()); runs != 1 {
		t.Errorf("%d runs, want one", runs)
	}
	if sessionOf(1, "a") == sessionOf(2, "a") || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(sessionOf(1, "a")) {
		t.Errorf("session %s", sessionOf(1, "a"))
	}
}

// TestTwoStarts checks that of two starts with one request_id at once one starts a turn.
func TestTwoStarts(t *testing.T) {
	b := newRealEnv(t, whole)
	const starts = 8
	ids := make(chan string, starts)
	for range starts {
		c := b.dial()
		c.Send(`{"type":"turn_start","session_id":"s-1","message":"hi","request_id":"a"}`)
		go func() {
			_, last := c.Finish()
			var started proto.TurnStarted
			if err := json.Unmarshal([]byte(last.Raw), &started); err != nil {
				t.Error(err)
			}
			ids <- started.Turn
		}()
	}
	first := zinotest.Receive(t, "an answer", ids)
	for range starts - 1 {
		zinotest.Equal(t, "the turn", zinotest.Receive(t, "an answer", ids), first)
	}
	b.follow("")
	zinotest.Equal(t, "runs", len(b.runs.All()), 1)
}

// TestQueue checks that turns of a session run one after the other, that there are at most
// 16 of them behind the open one, and that on_busy error does not wait.
func TestQueue(t *testing.T) {
	reached, goOn := make(chan struct{}, 20), make(chan struct{})
	b := newRealEnv(t, stops(3, func(context.Context) { reached <- struct{}{}; <-goOn }))
	first := b.startTurn("first", "")
	zinotest.Receive(t, "the first one", reached)
	for i := range queuedMax {
		if started := b.startTurn(fmt.Sprint(i), ""); started.State != "queued" || started.Next == 0 {
			t.Errorf("the next one: %+v", started)
		}
	}
	e := b.call(`{"type":"turn_start","session_id":"s-1","message":"one more"}`, nil)
	if e == nil || e.Code != proto.CodeBusy {
		t.Errorf("one more: %v", e)
	}
	e = b.call(`{"type":"turn_start","session_id":"s-1","message":"now","on_busy":"error"}`, nil)
	if e == nil || e.Code != proto.CodeBusy || e.Message != "session s-1 has an open turn "+first.Turn+" (running)" {
		t.Errorf("on_busy: %v", e)
	}
	var list proto.TurnList
	b.call(`{"type":"turns"}`, &list)
	zinotest.Equal(t, "open turns", len(list.Turns), queuedMax+1)
	close(goOn)
	zinotest.Eventually(t, "the last one to end", func() bool {
		b.call(`{"type":"turns"}`, &list)
		return len(list.Turns) == 0
	})
	var order []string
	for _, line := range b.file("s-1") {
		if strings.Contains(line, `"role":"user"`) {
			var m proto.LogMessage
			zinotest.Must(t, json.Unmarshal([]byte(line), &m))
			order = append(order, m.Text)
		}
	}
	want := []string{"first"}
	for i := range queuedMax {
		want = append(want, fmt.Sprint(i))
	}
	equalLists(t, "the order", order, want)
}

// TestRunningMax checks that turns over running_max are queued, and run when another one
// has ended.
func TestRunningMax(t *testing.T) {
	reached, goOn := make(chan struct{}, 3), make(chan struct{})
	b := newRealEnv(t, stops(3, func(context.Context) { reached <- struct{}{}; <-goOn }))
	b.cfg.Daemon.RunningMax = 2
	for i, want := range []string{"running", "running", "queued"} {
		var started proto.TurnStarted
		b.call(fmt.Sprintf(`{"type":"turn_start","session_id":"s-%d","message":"hi"}`, i), &started)
		zinotest.Equal(t, "the state", started.State, want)
	}
	zinotest.Receive(t, "a turn", reached)
	zinotest.Receive(t, "another one", reached)
	close(goOn)
	zinotest.Receive(t, "the third one", reached)
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-2"}`)
	all := b.followed(c)
	zinotest.Contains(t, "the end", all[len(all)-1].Raw, `"state":"done"`)
}

// TestForeignLock checks that a turn waits for the lock of another constellation, is not
// stored until then, and runs afterwards.
func TestForeignLock(t *testing.T) {
	b := newRealEnv(t, whole)
	release := b.lockSession("s-1")
	started := b.startTurn("hi", "")
	if started.State != "waiting" || started.Durable == nil || *started.Durable || started.Next != 0 {
		t.Errorf("started %+v", started)
	}
	c := b.dial()
	c.Send(`{"type":"turn_follow","session_id":"s-1"}`)
	zinotest.Equal(t, "live", plainPacket(c.Next().Raw), `{"type":"live","turn":"t","state":"waiting"}`)
	release()
	got := plainPackets(b.followed(c))
	zinotest.Equal(t, "the end", got[len(got)-1], packetEnd)
	if !slices.Contains(got, packetUser) || !slices.Contains(got, packetEnded) {
		t.Errorf("packets %s", got)
	}
}

// TestSubject checks what names a call among others in zino ps.
func TestSubject(t *testing.T) {
	for input, want := range map[string]string{
		`{"command":"make test","background":true}`:     "make test",
		`{"action":"wait","job":"j-1","timeout_s":400}`: "wait j-1",
		`{"job":"j-1","action":"stop"}`:                 "stop j-1",
		`{"skill":"agent","request":"look around"}`:     "look around",
		`{"path":"a\u002fb","old":"x"}`:                 "a/b",
		`{"count":1,"items":[],"text":"t"}`:             "t",
		`{}`:                                            "",
	} {
		zinotest.Equal(t, input, subject(proto.Raw(input)), want)
	}
}
