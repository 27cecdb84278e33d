package mem

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

func (m *server) recall(request string) (reply proto.SessionPassages) {
	m.t.Helper()
	text := m.ask(`{"type":"recall_sessions",` + request + `}`)
	if !strings.HasPrefix(text, `{"type":"session_passages",`) {
		m.t.Fatalf("%s: %s", request, text)
	}
	zinotest.Must(m.t, json.Unmarshal([]byte(text), &reply))
	return reply
}

func (m *server) putSession(id, header string, events ...string) {
	m.t.Helper()
	m.ask(fmt.Sprintf(`{"type":"append_session","session_id":%q,"create":true,"header":%s,"events":[%s]}`, id, header, strings.Join(events, ",")))
}

func TestRecallSessions(t *testing.T) {
	m := start(t, "")
	m.want(`{"type":"recall_sessions","query":"printer"}`, `{"type":"session_passages","results":[]}`)
	m.putSession("fix-the-printer", `{"uid":1000}`,
		`{"type":"message","role":"user","text":"The printer is broken.","ts":"2026-11-20T10:00:00Z"}`,
		`{"type":"tool_use","id":"1","name":"bash","input":{"command":"lpstat"},"ts":"2026-11-20T10:00:01Z"}`,
		`{"type":"tool_result","tool_use_id":"1","output":"hunter2","ts":"2026-11-20T10:00:01Z"}`,
		`{"type":"message","role":"assistant","text":"cups was masked;\nunmask it.","ts":"2026-11-21T10:00:00Z"}`)
	m.putSession("other", `{"uid":1001}`, `{"type":"message","role":"user","text":"Another printer.","ts":"2026-11-22T10:00:00Z"}`)
	reply := m.recall(`"query":"is cups masked","top_k":1,"explain":true`)
	if len(reply.Results) != 1 || reply.Searched != 2 {
		t.Fatalf("%+v", reply)
	}
	hit := reply.Results[0]
	sum := 0.0
	for _, w := range hit.Words {
		sum += w.Share
	}
	if hit.SessionID != "fix-the-printer" || hit.TS != "2026-11-21T10:00:00Z" || hit.Role != "assistant" || hit.Excerpt != "cups was masked; unmask it." ||
		fmt.Sprintf("%.4f", sum) != fmt.Sprintf("%.4f", hit.Own) || fmt.Sprintf("%.4f", hit.Score) != fmt.Sprint(hit.Score) {
		t.Errorf("%+v", hit)
	}
	zinotest.Contains(t, "the line", m.ask(fmt.Sprintf(`{"type":"read_session","session_id":"fix","from":%d,"limit":1}`, hit.From)), "unmask it.")
	for request, want := range map[string]int{
		`"query":"printer"`: 4, `"query":"printer","session_id":"oth"`: 1, `"query":"printer","session_id":"oth","owner":1000`: 0, `"query":"printer","owner":1000`: 3,
		`"query":"printer","owner":0`: 0, `"query":"printer","not_session":"fix-the-printer"`: 1, `"query":"printer","role":"tool"`: 1, `"query":"hunter2"`: 0,
		`"query":"printer","since":"2026-11-22T00:00:00Z"`: 1, `"query":"printer","until":"2026-11-22T00:00:00Z"`: 3, `"query":"  "`: 0, `"query":"?"`: 0,
		`"query":"printer","min_score":1`: 0,
	} {
		if reply := m.recall(request); len(reply.Results) != want {
			t.Errorf("%s: %+v", request, reply)
		}
	}
	for request, field := range map[string]string{
		`"top_k":0`: "top_k", `"top_k":101`: "top_k", `"since":"yesterday"`: "since", `"until":"1"`: "until", `"role":"system"`: "role", `"min_score":1.5`: "min_score",
		`"owner":-1`: "owner", `"session_id":"../x"`: "session_id", `"not_session":"../x"`: "not_session", `"query":"` + strings.Repeat("x", 300_000) + `"`: "query",
	} {
		if !strings.Contains(request, "query") {
			request += `,"query":"printer"`
		}
		m.wantError(`{"type":"recall_sessions",`+request+`}`, "invalid", field)
	}
	m.wantError(`{"type":"recall_sessions","query":"x","session_id":"missing"}`, "not_found", "missing")
}

// TestRecallSwitchedOff checks that session_index = false removes the index.
func TestRecallSwitchedOff(t *testing.T) {
	m := start(t, "")
	m.putSession("s", `{}`, `{"type":"message","role":"user","text":"printer"}`)
	m.recall(`"query":"printer"`)
	dir := filepath.Join(m.dir, "sessions", ".recall")
	if zinotest.Names(t, dir) == "" {
		t.Fatal("there is no index")
	}
	off, err := Open(config.Mem{DataDir: m.dir, Durability: "os"}, m.log.Logger())
	zinotest.Must(t, err)
	defer off.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the index: %v", err)
	}
	_, err = off.sessions.recall(t.Context(), proto.RecallSessions{Query: "printer"})
	zinotest.Error(t, err, proto.ErrUnavailable, "session index is switched off: see [mem] session_index")
}

// TestRemoveSessionRemovesItsIndex checks that the words of a session go with it.
func TestRemoveSessionRemovesItsIndex(t *testing.T) {
	m := start(t, "")
	m.putSession("s", `{}`, `{"type":"message","role":"user","text":"printer"}`)
	m.recall(`"query":"printer"`)
	m.want(`{"type":"remove_session","session_id":"s"}`, `{"type":"ok","session_id":"s"}`)
	if names := zinotest.Names(t, filepath.Join(m.dir, "sessions", ".recall")); names != "" {
		t.Errorf("the index has %s", names)
	}
}
