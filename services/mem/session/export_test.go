package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// export returns the joined parts of an exported session and their number.
func (b *env) export(id, format string) (text string, parts int) {
	b.t.Helper()
	req := proto.ExportSession{SessionID: id, Format: format}
	for {
		reply, err := b.Export(b.t.Context(), req)
		zinotest.Must(b.t, err)
		if len(reply.Content) > b.part {
			b.t.Fatalf("a part of %d bytes", len(reply.Content))
		}
		text += reply.Content
		parts++
		if !reply.More {
			return text, parts
		}
		req.From, req.Skip = reply.Next, reply.Skip
	}
}

func TestExportMarkdown(t *testing.T) {
	b := newEnv(t, "")
	b.write("s", strings.TrimSuffix(head, "}")+`,"forked_from":{"session_id":"old","until":7}}`,
		user(" Read *a*.\n"), says("Let me see"), `{"type":"tool_use","id":"1","name":"re\u0000ad","input":{"path":"a","n":[1,2]}}`, `{"type":"notice","text":"x"}`,
		`{"type":"tool_result","tool_use_id":"1","output":"a\n`+"````"+`\nb\n"}`, `{"type":"tool_use","id":"2","name":"bash"}`,
		`{"type":"tool_result","tool_use_id":"2","output":{"ok":false},"ok":false}`, `{"type":"message","role":"assistant","text":"So","partial":true}`, interrupt)
	want := `# Session s

Begun 2026-11-21T14:03:07Z.

A copy of old.

## User

Read *a*.

## Assistant

Let me see

### Call of re ad

'''json
{
  "path": "a",
  "n": [
    1,
    2
  ]
}
'''

### Result

''''''
a
''''
b
''''''

### Call of bash

'''json
'''

### Result: failed

'''json
{
  "ok": false
}
'''

## Assistant

So

*Cut off.*

*Interrupted.*

`
	want = strings.Replace(strings.ReplaceAll(want, "''''''", "'''''"), "'", "`", -1)
	if got, n := b.export("s", "md"); got != want || n != 1 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	b.writeText("empty", "")
	if got, _ := b.export("empty", "md"); got != "# Session empty\n\n" {
		t.Errorf("an empty one: %q", got)
	}
}

func TestExportJSON(t *testing.T) {
	b := newEnv(t, "")
	want := b.fill("s", 9)
	b.write("s", append([]string{"rubbish"}, want...)...)
	got, _ := b.export("s", "json")
	if text := "{\"session_id\":\"s\",\"events\":[\n" + strings.Join(want, ",\n") + "\n]}\n"; got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	b.writeText("empty", "")
	if got, _ := b.export("empty", "json"); got != "{\"session_id\":\"empty\",\"events\":[\n]}\n" {
		t.Errorf("an empty one: %q", got)
	}
}

// TestExportRoom checks that a full text fits into a packet.
func TestExportRoom(t *testing.T) {
	reply := proto.SessionText{SessionID: strings.Repeat("ü", proto.SessionIDMax/2), Content: strings.Repeat("\x01", exportRoom), More: true, Next: 1 << 62, Skip: 1 << 62}
	if packet, err := wire.AppendObject(nil, "session_text", reply); err != nil || len(packet) > wire.MaxPayload {
		t.Errorf("a packet of %d bytes, %v", len(packet), err)
	}
}

// TestExportParts exports a session in several parts, with events that are longer
// than a part.
func TestExportParts(t *testing.T) {
	b := newEnv(t, "")
	b.part = 4999
	long := func(c string, n int) string { return user(strings.Repeat(c, n)) }
	lines := []string{head, user("a"), long("ü", b.part), long("b", b.part/2), long("\u4e16x", b.part/2+7), user("c"), long("<", b.part-200), user("d")}
	b.write("s", lines...)
	text, parts := b.export("s", "json")
	var got struct{ Events []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Events) != len(lines) || parts < 5 {
		t.Fatalf("%d events in %d parts, %v", len(got.Events), parts, err)
	}
	for i, e := range got.Events {
		if string(e) != lines[i] {
			t.Errorf("event %d has %d bytes, want %d", i, len(e), len(lines[i]))
		}
	}
	text, _ = b.export("s", "md")
	for _, line := range lines[1:] {
		if e := parse([]byte(line)); !strings.Contains(text, "## User\n\n"+str(e.text)+"\n\n") {
			t.Errorf("an event of %d bytes is missing in the text", len(line))
		}
	}
	// Lines before the first event belong to its part.
	b.write("t", "rubbish", long("x", b.part+500), user("y"))
	if text, n := b.export("t", "json"); n != 2 || !json.Valid([]byte(text)) {
		t.Errorf("%d parts, %.60s", n, text)
	}
}

func TestExportErrors(t *testing.T) {
	b := newEnv(t, "")
	b.fill("s", 10)
	for _, format := range []string{"", "MD", "html"} {
		_, err := b.Export(t.Context(), proto.ExportSession{SessionID: "s", Format: format})
		zinotest.Error(t, err, proto.ErrInvalid, `want "md" or "json"`, fmt.Sprintf("%q", format))
	}
	_, err := b.Export(t.Context(), proto.ExportSession{SessionID: "s", Format: "md", From: 3})
	zinotest.Error(t, err, proto.ErrInvalid, "from 3 is not the start of an event")
	reply, err := b.Export(t.Context(), proto.ExportSession{SessionID: "s", Format: "md", Skip: 1 << 60})
	if err != nil || reply.Content == "" || strings.HasPrefix(reply.Content, "#  Session") {
		t.Errorf("skip beyond the event: %.60q, %v", reply.Content, err)
	}
}
