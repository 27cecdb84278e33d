package mem

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// say returns a request that appends events to a session.
func say(id string, events ...string) string {
	return `{"type":"append_session","session_id":` + quoted(id) + `,"create":true,"events":[` + strings.Join(events, ",") + `]}`
}

// about returns a request of a type about a session, with additional fields.
func about(typ, id, more string) string {
	return `{"type":"` + typ + `","session_id":` + quoted(id) + more + `}`
}

const hello = `{"type":"message","role":"user","text":"hello","ts":"t"}`

// events returns the events of a session without the first one.
func (m *server) events(id string) string {
	m.t.Helper()
	var reply struct {
		Events []json.RawMessage
		Code   string
	}
	if err := json.Unmarshal([]byte(m.ask(about("read_session", id, ""))), &reply); err != nil || len(reply.Events) == 0 {
		m.t.Fatalf("%s has no events: %v %s", id, err, reply.Code)
	}
	var texts []string
	for _, e := range reply.Events[1:] {
		texts = append(texts, string(e))
	}
	return strings.Join(texts, ",")
}

func TestSessions(t *testing.T) {
	m := start(t, "")
	if _, err := os.Stat(m.file("sessions")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory exists before the first session: %v", err)
	}
	var made proto.SessionPlace
	if err := json.Unmarshal([]byte(m.ask(`{"type":"create_session","header":{"root":"/a"}}`)), &made); err != nil || len(made.SessionID) != 36 {
		t.Fatalf("%+v, %v", made, err)
	}
	if got := m.read("sessions/" + made.SessionID + ".jsonl"); !strings.HasSuffix(got, `,"root":"/a"}`+"\n") || int64(len(got)) != made.Next {
		t.Errorf("the file is %q to %d", got, made.Next)
	}
	m.ask(say("s", hello, hello))
	zinotest.Equal(t, "events", m.events("s"), hello+","+hello)
	for path, want := range map[string]os.FileMode{"sessions": 0o700, "sessions/s.jsonl": 0o600} {
		if fi, err := os.Stat(m.file(path)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", path, fi.Mode(), err)
		}
	}
	if got := m.ask(about("fork_session", "s", `,"new_id":"copy"`)); !strings.HasPrefix(got, `{"type":"session","session_id":"copy","next":`) {
		t.Errorf("fork: %s", got)
	}
	for request, words := range map[string]string{
		`{"type":"list_sessions"}`:                          `"forked_from":"s"`,
		`{"type":"list_sessions","limit":"1"}`:              `"total":3}`,
		`{"type":"find_session","session_id":"co"}`:         `{"type":"session_summary","session_id":"copy",`,
		`{"type":"search_sessions","query":"ELL"}`:          `{"session_id":"s",`,
		about("get_messages", "s", ""):                      `"messages":[{"role":"user","content":"hello"},{"role":"user","content":"hello"}],"count":2,`,
		about("export_session", "copy", `,"format":"md"`):   `"content":"# Session copy\n\nBegun `,
		about("export_session", "copy", `,"format":"json"`): `"content":"{\"session_id\":\"copy\",\"events\":[\n{`,
		about("read_session", "s", `,"limit":1`):            `,"more":true}`,
	} {
		if got := m.ask(request); !strings.Contains(got, words) {
			t.Errorf("%s\ngot %s", request, got)
		}
	}
	m.want(about("remove_session", "copy", ""), `{"type":"ok","session_id":"copy"}`)
	m.wantError(about("read_session", "copy", ""), "not_found", "copy")
	zinotest.Contains(t, "stats", m.ask(`{"type":"stats"}`), `"sessions_dir":"`+m.file("sessions")+`"`)
}

// TestSessionTexts checks that events are stored as valid UTF-8 in one line and
// otherwise unchanged.
func TestSessionTexts(t *testing.T) {
	m := start(t, "")
	for given, want := range map[string]string{
		`{ "type" : "x",` + "\r\n\t" + `"t":" a  b ","ts":"t" }`:       `{"type":"x","t":" a  b ","ts":"t"}`,
		`{ "type": "x", "as": "given", "ts": "t" }`:                    `{ "type": "x", "as": "given", "ts": "t" }`,
		`{"type":"x","t":"\ud83d\ude00 \ud83d \\ud83d","ts":"t"}`:      `{"type":"x","t":"\ud83d\ude00 \ufffd \\ud83d","ts":"t"}`,
		`{"type":"x","t":"` + "\u2028" + `<&>","n":1.50e3,"ts":"t"}`:   `{"type":"x","t":"\u2028<&>","n":1.50e3,"ts":"t"}`,
		`{"type":"x","deep":{"type":"meta","l":[null,[]]},"ts":"t"}`:   `{"type":"x","deep":{"type":"meta","l":[null,[]]},"ts":"t"}`,
		`{"type":"message","role":"user","text":"\u0000","ts":"t"}`:    `{"type":"message","role":"user","text":"\u0000","ts":"t"}`,
		`{"type":"tool_use","id":"1","name":"x","input":7,"ts":"t"}`:   `{"type":"tool_use","id":"1","name":"x","input":7,"ts":"t"}`,
		`{"type":"tool_result","tool_use_id":"1","more":[],"ts":"t"}`:  `{"type":"tool_result","tool_use_id":"1","more":[],"ts":"t"}`,
		`{"type":"interrupted","role":"system","text":"I","ts":"t"}`:   `{"type":"interrupted","role":"system","text":"I","ts":"t"}`,
		`{"type":"usage","input_tokens":12345678901234567,"ts":"t"}`:   `{"type":"usage","input_tokens":12345678901234567,"ts":"t"}`,
		`{"type":"x","a":1,"a":{"b":[2,3]},"\u0061":null,"ts":"then"}`: `{"type":"x","a":1,"a":{"b":[2,3]},"\u0061":null,"ts":"then"}`,
	} {
		m.ask(say("s", given))
		zinotest.Equal(t, "the result", m.events("s"), want)
		m.want(about("remove_session", "s", ""), `{"type":"ok","session_id":"s"}`)
	}
}

func TestSessionsInvalid(t *testing.T) {
	m := start(t, "")
	m.ask(say("s", hello))
	before := m.read("sessions/s.jsonl")
	for _, bad := range []string{`"x"`, `{}`, `7`, `true`, `[{"type":"x"},]`, `[{"type":"x"} {}]`, `[null]`, `[{"type":7}]`, "[{\"type\":\"\xff\"}]", `[{"type":"x","a":\x}]`, `[{"type":"meta"}]`} {
		m.wantError(`{"type":"append_session","session_id":"s","events":`+bad+`}`, "invalid")
	}
	for _, request := range []string{
		`{"type":"append_session","events":[]}`, `{"type":"append_session","session_id":"s"}`, `{"type":"read_session"}`, `{"type":"hold_session"}`, `{"type":"search_sessions"}`,
		about("read_session", "s", `,"from":"x"`), about("read_session", "s", `,"from":1.5`), about("read_session", "s", `,"from":3`), about("export_session", "s", ``),
		about("read_session", "../../etc/passwd", ""), about("hold_session", "../x", ""), say("a/b", hello), say("", hello), about("fork_session", "s", `,"new_id":"../y"`),
		`{"type":"create_session","header":[1]}`, `{"type":"create_session","header":{"a":}}`, `{"type":"create_session","session_id":".x"}`, `{"type":"append_session","session_id":"s","header":7,"events":[]}`,
		`{"type":"append_session","session_id":"s","header":{"a":\x},"events":[]}`,
	} {
		m.wantError(request, "invalid")
	}
	zinotest.Equal(t, "the file", m.read("sessions/s.jsonl"), before)
	if entries, err := os.ReadDir(m.file("sessions")); err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v", entries, err)
	}
}

// TestSessionProblems checks that stats report damaged files until they are
// repaired.
func TestSessionProblems(t *testing.T) {
	m := start(t, "")
	m.ask(say("s", hello))
	text := m.read("sessions/s.jsonl")
	m.write("sessions/s.jsonl", text+"rubbish\n"+hello+"\n"+hello[:20])
	m.ask(about("read_session", "s", ""))
	if p := m.problems(); len(p) != 1 || !strings.Contains(p[0], "sessions/s.jsonl: 1 lines are skipped") {
		t.Errorf("problems %q", p)
	}
	m.ask(say("s", hello))
	kept := "sessions/s.jsonl.damaged-1"
	if p := strings.Join(m.problems(), " "); !strings.Contains(p, kept) || m.read(kept) != hello[:20] {
		t.Errorf("problems %q", p)
	}
	zinotest.Must(t, os.Remove(m.file(kept)))
	m.write("sessions/s.jsonl", text)
	m.ask(about("read_session", "s", ""))
	if p := m.problems(); len(p) != 0 {
		t.Errorf("problems %q", p)
	}
}

// TestSessionsDir checks that histories work without the directory of the sessions,
// and that it may be created later.
func TestSessionsDir(t *testing.T) {
	m := start(t, "")
	m.write("sessions", "in the way")
	m.want(put("c", msg("a")), ok)
	m.wantError(say("s", hello), "internal", m.file("sessions"))
	m.wantError(`{"type":"list_sessions"}`, "internal", m.file("sessions"))
	m.wantError(about("hold_session", "s", ""), "internal", m.file("sessions"))
	zinotest.Must(t, os.Remove(m.file("sessions")))
	zinotest.Must(t, os.Mkdir(m.file("sessions"), 0o755))
	m.want(`{"type":"list_sessions"}`, `{"type":"sessions","sessions":[],"total":0}`)
	if fi, err := os.Stat(m.file("sessions")); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

// heldBy locks a session over a socket until release is called.
func (m *server) heldBy(id string, waiting func()) (state proto.SessionHeld, release func() error) {
	m.t.Helper()
	client := &rpc.Client{Service: "mem", Path: m.path}
	m.t.Cleanup(client.Close)
	ctx, cancel := context.WithCancel(m.t.Context())
	got, done := make(chan proto.SessionHeld, 1), make(chan error, 1)
	go func() {
		_, err := rpc.CallEvents(ctx, client, proto.MemHoldSession, proto.HoldSession{SessionID: id}, func(typ string, payload []byte) error {
			var h proto.SessionHeld
			err := json.Unmarshal(payload, &h)
			switch typ {
			case "waiting":
				waiting()
			case "held":
				got <- h
			default:
				err = fmt.Errorf("a packet %s", payload)
			}
			return err
		})
		done <- err
	}()
	select {
	case state = <-got:
	case err := <-done:
		m.t.Error(err)
	}
	return state, func() error { cancel(); return <-done }
}

// TestHoldSession checks that turns over two services on one directory exclude each
// other, and that a closed connection ends a turn.
func TestHoldSession(t *testing.T) {
	a := start(t, "")
	b := start(t, a.dir)
	state, release := a.heldBy("s", func() { t.Error("the first turn had to wait") })
	if !reflect.DeepEqual(state, proto.SessionHeld{SessionID: "s"}) {
		t.Errorf("%+v", state)
	}
	a.ask(say("s", hello, `{"type":"tool_use","id":"1","name":"x","input":{},"ts":"t"}`))
	waits, second := make(chan struct{}), make(chan proto.SessionHeld)
	var releaseSecond func() error
	go func() {
		state, release := b.heldBy("s", func() { close(waits) })
		releaseSecond = release
		second <- state
	}()
	<-waits
	b.wantError(about("remove_session", "s", ""), "busy", "A turn is under way")
	if err := release(); !errors.Is(err, context.Canceled) {
		t.Errorf("release: %v", err)
	}
	if state := <-second; state.Mended != 1 || state.Next != int64(len(a.read("sessions/s.jsonl"))) {
		t.Errorf("%+v", state)
	}
	zinotest.Contains(t, "events", a.events("s"), `"tool_use_id":"1","output":{"ok":false,"error":{"code":"interrupted"`)
	if err := releaseSecond(); !errors.Is(err, context.Canceled) {
		t.Errorf("release: %v", err)
	}
}

// TestHoldAgain locks a session for a turn that had the lock before. next, which
// older daemons send, has no effect.
func TestHoldAgain(t *testing.T) {
	m := start(t, "")
	m.want(about("hold_session", "s", `,"next":0`), `{"type":"held","session_id":"s","next":0,"mended":0}`)
}

// TestHoldDeadline checks that the service sends released when the deadline ends the
// lock.
func TestHoldDeadline(t *testing.T) {
	m := start(t, "")
	m.want(about("hold_session", "s", `,"meta":{"deadline_ms":20}`), `{"type":"held","session_id":"s","next":0,"mended":0}`)
	var size [4]byte
	if _, err := io.ReadFull(m.nc, size[:]); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(m.nc, packet); err != nil || string(packet) != `{"type":"released","session_id":"s"}` {
		t.Errorf("%s, %v", packet, err)
	}
	m.want(about("remove_session", "s", ""), `{"type":"error","message":"There is no session \"s\". See zino sessions list.","code":"not_found","service":"mem","kind":"session"}`)
	if entries, err := os.ReadDir(m.file("sessions")); err != nil || len(entries) != 0 {
		t.Errorf("remaining files: %v, %v", entries, err)
	}
}

// TestSessionFiles checks the directory and the text about skipped lines.
func TestSessionFiles(t *testing.T) {
	m := start(t, "")
	zinotest.Equal(t, "the directory", m.s.sessions.dir, filepath.Join(m.dir, "sessions"))
	for n, want := range map[int]string{0: "", 2: "sessions/x.jsonl: 2 lines are skipped, because they are not JSON objects: repair or delete them"} {
		if got := skippedLines("sessions/x.jsonl", n); got != want {
			t.Errorf("%d lines: %q", n, got)
		}
	}
}

// TestHoldStopping checks that Shutdown ends held and waiting locks.
func TestHoldStopping(t *testing.T) {
	m := start(t, "")
	client := &rpc.Client{Service: "mem", Path: m.path}
	t.Cleanup(client.Close)
	packets, ended := make(chan string, 4), make(chan error, 2)
	hold := func() {
		_, err := rpc.CallEvents(t.Context(), client, proto.MemHoldSession, proto.HoldSession{SessionID: "s"}, func(typ string, _ []byte) error {
			packets <- typ
			return nil
		})
		ended <- err
	}
	for _, want := range []string{"held", "waiting"} {
		go hold()
		if typ := <-packets; typ != want {
			t.Fatalf("got %q, want %q", typ, want)
		}
	}
	if err := m.srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("a hold ends with %v", err)
		}
	}
	for len(packets) > 0 { // the waiting call may have got the lock before it ended
		if typ := <-packets; typ != "held" {
			t.Errorf("got %q", typ)
		}
	}
	if _, err := os.Stat(m.file("sessions/s.lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is still there: %v", err)
	}
}
