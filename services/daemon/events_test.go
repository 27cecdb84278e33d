package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/proto"
)

// kept is the event of a packet without its time, as a list under construction.
func kept(typ, packet string) (proto.Raw, error) {
	var r record
	err := r.add(typ, []byte(packet))
	if r.events == nil {
		return nil, err
	}
	return stamped.ReplaceAll(r.events, []byte("}")), err
}

// TestKept: what of a packet is stored, and in which form.
func TestKept(t *testing.T) {
	for _, c := range []struct{ packet, want string }{
		{`{"type":"assistant_final","text":""}`, `{"type":"message","role":"assistant","text":""}`},
		{`{"type":"assistant_final","text":"a\u2028<b>\n","more":1}`, `{"type":"message","role":"assistant","text":"a\u2028<b>\n"}`},
		{`{"type":"assistant_final","text":"x","reasoning_state":[ {} ]}`, `{"type":"message","role":"assistant","text":"x","reasoning_state":[ {} ]}`},
		{`{"type":"assistant_final","text":"x","reasoning_state":null}`, `{"type":"message","role":"assistant","text":"x"}`},
		{`{"type":"tool_requested","id":"1","name":"bash","input":{"_malformed":"{"},"reasoning_state":"s"}`, `{"type":"tool_use","id":"1","name":"bash","input":{"_malformed":"{"},"reasoning_state":"s"}`},
		{`{"type":"tool_requested","id":"1","name":"bash"}`, `{"type":"tool_use","id":"1","name":"bash","input":{}}`},
		{`{"type":"tool_requested","id":"1","name":"bash","input":null}`, `{"type":"tool_use","id":"1","name":"bash","input":{}}`},
		{`{"type":"tool_finished","id":"1","name":"x","ok":false,"result":{"ok":false,"error":{"code":"c","message":"ok: true"}},"duration_ms":0}`, `{"type":"tool_result","tool_use_id":"1","output":{"ok":false,"error":{"code":"c","message":"ok: true"}},"ok":false,"duration_ms":0}`},
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

// TestEnded: how a turn ended, behind the text that was not whole.
func TestEnded(t *testing.T) {
	failed := &proto.Error{Code: proto.CodeTimeout, Message: "a \"b\"", Kind: "timeout", Service: "rtr"}
	const failedEvent = `{"type":"error","message":"a \"b\"","kind":"timeout","code":"timeout"}`
	const partial = `{"type":"message","role":"assistant","text":" é\n","partial":true},`
	for _, c := range []struct {
		text string
		e    *proto.Error
		want string
	}{
		{"", failed, failedEvent},
		{" \t\n\u00a0", failed, failedEvent},
		{" é\n", failed, partial + failedEvent},
		{" é\n", proto.ErrCanceled, partial + storedBreak},
		{"", proto.ErrCanceled, storedBreak},
		{"", sessionError(proto.ErrCanceled), `{"type":"error","message":"canceled","kind":"session","code":"canceled"}`},
		{"", &proto.Error{Code: proto.CodeInternal, Message: "m"}, `{"type":"error","message":"m","code":"internal"}`},
	} {
		var r record
		r.end([]byte(c.text), c.e)
		got := strings.ReplaceAll(string(r.events), `,"ts":"`+timestamp()+`"`, "")
		if r.err != nil || got != "["+c.want {
			t.Errorf("%q, %v:\n got %s, %v\nwant %s", c.text, c.e, got, r.err, c.want)
		}
	}
}

// FuzzKept: whatever the agent says, as long as it is a packet, becomes an event
// or an error, and never something that mem could not read.
func FuzzKept(f *testing.F) {
	for _, packet := range append([]string{`{"type":"usage"}`, `{"type":"tool_finished","result":{"ok":true,"ok":false},"id":"\ud800"}`}, wholeTurn...) {
		f.Add([]byte(packet))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		typ, err := wire.RequestType(packet)
		if err != nil {
			return // rpc does not pass it on
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
