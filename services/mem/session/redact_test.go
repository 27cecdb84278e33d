package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/mask"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

func newMasker(t testing.TB) *mask.Masker {
	t.Helper()
	m, err := mask.New(mask.Config{Salt: []byte("salt"), Values: []string{"corporate-value-1"}})
	zinotest.Must(t, err)
	return m
}

// TestRedact masks each shape in each kind of event, and checks that the messages are
// legal, that no old offset is one of the new file, and that nothing else has changed.
func TestRedact(t *testing.T) {
	b := newEnv(t, "")
	var secrets []string
	lines := []string{strings.TrimSuffix(head, "}") + `,"root":"/a"}`}
	for i, c := range zinotest.Canaries() {
		id, text := fmt.Sprint("c", i), quoted(c.Text)
		secrets = append(secrets, c.Secret)
		lines = append(lines, timed(user(c.Text)), timed(says("plain "+fmt.Sprint(i))),
			timed(`{"type":"tool_use","id":"`+id+`","name":"write","input":{"path":"a","content":`+text+`,"list":[`+text+`]}}`),
			timed(`{"type":"tool_result","tool_use_id":"`+id+`","output":{"ok":true,"data":{"stdout":`+text+`}},"ok":true,"diff":`+text+`}`),
			timed(`{"type":"error","message":`+text+`,"code":"internal"}`), timed(`{"type":"later","unknown":{"deep":[`+text+`]}}`))
	}
	key := "a1B2c3D4e5F6g7H8"
	secrets = append(secrets, key, "corporate-value-1")
	lines = append(lines,
		timed(`{"type":"message","role":"assistant","text":"corporate-value-1","reasoning_state":{"signature":"corporate-value-1","more":1}}`),
		timed(`{"type":"message","role":"assistant","text":"kept","reasoning_state":{"signature":"c2lnbmF0dXJl"}}`),
		timed(`{"type":"tool_use","id":"k","name":"login","input":{"client_secret":"`+key+`","token_count":"1234567890123456"}}`), timed(result("k")),
		"DB_PASSWORD="+key, "rubbish")
	b.write("s", lines...)
	zinotest.Must(t, os.WriteFile(b.path("s")+".damaged-1", []byte("x\n{\"text\":\"corporate-value-1"), 0o600))
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	zinotest.Must(t, os.Chtimes(b.path("s"), old, old))
	before, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s"})
	zinotest.Must(t, err)
	starts := map[int64]bool{}
	for _, offset := range before.Offsets {
		starts[offset] = true
	}
	_, err = b.List(t.Context(), proto.ListSessions{All: true}) // it stores the index
	zinotest.Must(t, err)
	m := newMasker(t)

	found, err := b.Redact(t.Context(), "s", m, true)
	zinotest.Must(t, err)
	zinotest.Equal(t, "the file after a dry run", b.file("s"), strings.Join(lines, "\n")+"\n")
	masked, err := b.Redact(t.Context(), "s", m, false)
	zinotest.Must(t, err)
	zinotest.Equal(t, "secrets", masked, found)

	text := b.file("s") + zinotest.Read(t, b.path("s")+".damaged-1") + zinotest.Read(t, filepath.Join(b.dir, indexFile))
	for _, secret := range secrets {
		if strings.Contains(text, secret) || strings.Contains(text, strings.Trim(quoted(secret), `"`)) {
			t.Errorf("%q is still there", secret)
		}
	}
	info, err := os.Stat(b.path("s"))
	zinotest.Must(t, err)
	zinotest.Equal(t, "mode and time", fmt.Sprint(info.Mode(), info.ModTime().Equal(old)), "-rw------- true")
	after, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "events", len(after.Offsets), len(before.Offsets))
	for _, offset := range after.Offsets {
		if starts[offset] {
			t.Errorf("%d is an offset of both files", offset)
		}
	}
	for offset := range starts {
		if _, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s", From: offset}); err == nil || offset == 0 {
			t.Fatalf("events from the old offset %d: %v", offset, err)
		}
	}
	for event := range wire.Items(after.Events) {
		if !json.Valid(event) {
			t.Errorf("invalid: %s", event)
		}
	}
	zinotest.Contains(t, "the file", b.file("s"), `"root":"/a","redacted":"`+now+`"`, `"text":"kept","reasoning_state":{"signature":"c2lnbmF0dXJl"}`,
		`"client_secret":"[masked:value:`, `"token_count":"1234567890123456"`, "\nDB_PASSWORD=[masked:value:", "\nrubbish\n")
	if strings.Contains(b.file("s"), `"more":1`) {
		t.Error("a changed reasoning_state was kept")
	}

	again := b.file("s")
	masked, err = b.Redact(t.Context(), "s", m, false)
	zinotest.Must(t, err)
	zinotest.Equal(t, "secrets in the redacted session", masked, 0)
	zinotest.Equal(t, "the file", b.file("s"), again)
	if b.put("s", timed(user("more"))) <= int64(len(again)) {
		t.Error("nothing was appended")
	}
	// The messages have the same roles and calls as before.
	var messages []struct {
		Role      string
		ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
		ToolID    string                                          `json:"tool_call_id"`
	}
	zinotest.Must(t, json.Unmarshal([]byte(b.messages("s")), &messages))
	calls, results := 0, 0
	for _, message := range messages {
		for _, call := range message.ToolCalls {
			if calls++; !json.Valid([]byte(call.Function.Arguments)) {
				t.Errorf("arguments: %s", call.Function.Arguments)
			}
		}
		if message.Role == "tool" {
			results++
		}
	}
	zinotest.Equal(t, "calls and results", fmt.Sprint(calls, results), fmt.Sprint(len(secrets)-1, len(secrets)-1))
}

func TestRedactLeavesOpenTurns(t *testing.T) {
	b := newEnv(t, "")
	b.write("s", head, turn("t-1", "running"), user("corporate-value-1"))
	before := b.file("s")
	_, err := b.Redact(t.Context(), "s", newMasker(t), false)
	if !errors.Is(err, proto.ErrBusy) {
		t.Errorf("an open turn: %v", err)
	}
	zinotest.Equal(t, "the file", b.file("s"), before)
	if _, err = b.Redact(t.Context(), "none", newMasker(t), false); !isGone(err) {
		t.Errorf("a session that does not exist: %v", err)
	}
}

// redactForever appends secrets, and masks each when it has printed a line.
func redactForever(args []string) error {
	s, err := openStore(args[0])
	if err != nil {
		return err
	}
	m, err := mask.New(mask.Config{Salt: []byte("salt"), Values: []string{"corporate-value-1"}})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := appendTo(s, "s", user(fmt.Sprint(i, " corporate-value-1 ", strings.Repeat("x", 100*(i%50))))); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return err
		}
		if _, err := s.Redact(context.Background(), "s", m, false); err != nil {
			return err
		}
	}
}

// TestKilledRedact kills processes that mask a session. It has each event once, masked or
// not.
func TestKilledRedact(t *testing.T) {
	dir := t.TempDir()
	acked := 0
	for round := range 8 {
		acked += len(zinotest.KillAfter(t, zinotest.Command(t, "redact", dir), 5+7*round))
		b := newEnv(t, dir)
		sum, err := b.Find(t.Context(), proto.FindSession{SessionID: "s"})
		zinotest.Must(t, err)
		if extra := sum.Messages - acked; extra < 0 || extra > round+1 { // each killed process may have stored one that it has not printed
			t.Fatalf("round %d: %d messages, %d were acknowledged", round, sum.Messages, acked)
		}
		for line := range strings.Lines(b.file("s")) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("round %d: %q", round, line)
			}
		}
		if secrets := strings.Count(b.file("s"), "corporate-value-1"); secrets > 1 {
			t.Fatalf("round %d: %d messages are not masked", round, secrets)
		}
	}
}
