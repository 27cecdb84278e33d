package session

import (
	"os"
	"strings"
	"testing"

	"zino/pkg/durable"
	"zino/proto"
)

func TestAppend(t *testing.T) {
	b := newBench(t, "")
	mine := `{"type":"notice","text":"x","more":[1.50,null,{"a":"\u00e4<&>"}],"ts":"2020-01-01T00:00:00Z"}`
	if _, err := b.add(proto.AppendSession{SessionID: "s"}, user("x")); err == nil || b.files() != "" {
		t.Errorf("appended to nothing: %v, files %s", err, b.files())
	}
	b.put("s", user("hello"), use("1"))
	b.put("s", " "+result("1")+"\n", mine, interrupt)
	next := b.put("s")
	want := strings.Join([]string{head, timed(user("hello")), timed(use("1")), timed(result("1")), mine, timed(interrupt)}, "\n") + "\n"
	if got := b.file("s"); got != want || next != int64(len(want)) {
		t.Errorf("the file to %d is\n%s\nwant\n%s", next, got, want)
	}
	if fi, err := os.Stat(b.path("s")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if got, want := b.read("s"), "["+strings.ReplaceAll(strings.TrimSpace(want), "\n", ",")+"]"; got != want {
		t.Errorf("read\n%s\nwant\n%s", got, want)
	}
	if got := b.files(); got != "s.jsonl" {
		t.Errorf("files %s", got)
	}
}

func TestAppendTexts(t *testing.T) {
	b := newBench(t, "")
	for given, stored := range map[string]string{
		"a\u2028b\u2029c":     `a\u2028b\u2029c`,
		`\u2028 \\u2028`:      `\u2028 \\u2028`,
		"é \U0001f600 \u2027": "é \U0001f600 \u2027",
	} {
		b.put("s", `{"type":"message","role":"user","text":"`+given+`"}`)
		if got := b.file("s"); !strings.Contains(got, `"text":"`+stored+`"`) {
			t.Errorf("%q is stored as %s", given, got)
		}
		if err := os.Remove(b.path("s")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	b := newBench(t, "")
	b.put("s", user("hello"))
	before := b.file("s")
	for _, bad := range []string{
		"", "1", `"x"`, "null", "[]", "{}", `{"type":""}`, `{"type":7}`, `{"type":null}`, `{"Type":"message"}`, `{"type":"meta","schema_version":1}`, `{"type":"m\u0065ta"}`,
		`{"type":"message"}`, `{"type":"message","role":"user"}`, `{"type":"message","role":"user","text":7}`, `{"type":"message","role":"system","text":"x"}`, `{"type":"message","text":"x"}`,
		`{"type":"tool_use","name":"read"}`, `{"type":"tool_use","id":"1"}`, `{"type":"tool_use","id":"","name":"read"}`, `{"type":"tool_use","id":1,"name":"read"}`,
		`{"type":"tool_result"}`, `{"type":"tool_result","tool_use_id":""}`,
	} {
		_, err := b.add(proto.AppendSession{SessionID: "s"}, user("good"), bad)
		wantError(t, err, proto.ErrInvalid, "events[1]")
		_, err = b.add(proto.AppendSession{SessionID: "new", Create: true}, bad)
		wantError(t, err, proto.ErrInvalid, "events[0]")
	}
	_, err := b.add(proto.AppendSession{SessionID: "s"}, `{"type":"x","pad":"`+strings.Repeat("x", durable.MaxLine)+`"}`)
	wantError(t, err, proto.ErrTooLarge, "events[0]")
	if b.file("s") != before || b.files() != "s.jsonl" {
		t.Errorf("the file is %s, files %s", b.file("s"), b.files())
	}
}

func TestHeader(t *testing.T) {
	b := newBench(t, "")
	given := `{"root":"/a\u0062","type":"x","schema_version":9,"ts":"never","forked_from":{"session_id":"y"},"deep":{"k":[1,` + "\"\u2028\"" + `]}}`
	want := strings.TrimSuffix(head, "}") + `,"root":"/a\u0062","deep":{"k":[1,"\u2028"]}}` + "\n"
	place, err := b.Create(t.Context(), proto.CreateSession{SessionID: "s", Header: proto.Raw(given)})
	if err != nil || place.Next != int64(len(want)) || b.file("s") != want {
		t.Errorf("%+v, %v, file %s", place, err, b.file("s"))
	}
	if _, err := b.add(proto.AppendSession{SessionID: "t", Create: true, Header: proto.Raw(given)}, user("x")); err != nil || b.file("t") != want+timed(user("x"))+"\n" {
		t.Errorf("%v, file %s", err, b.file("t"))
	}
	if _, err := b.add(proto.AppendSession{SessionID: "t", Create: true, Header: proto.Raw(given)}, user("y")); err != nil || strings.Count(b.file("t"), "root") != 1 {
		t.Errorf("%v, file %s", err, b.file("t"))
	}
	for _, bad := range []string{`[]`, `"x"`, `7`, `{"a":}`, `{`} {
		_, err := b.Create(t.Context(), proto.CreateSession{SessionID: "u", Header: proto.Raw(bad)})
		wantError(t, err, proto.ErrInvalid, "header")
		_, err = b.add(proto.AppendSession{SessionID: "u", Create: true, Header: proto.Raw(bad)}, user("x"))
		wantError(t, err, proto.ErrInvalid, "header")
	}
	if got := b.files(); got != "s.jsonl t.jsonl" {
		t.Errorf("files %s", got)
	}
}

func TestCreate(t *testing.T) {
	b := newBench(t, "")
	place, err := b.Create(t.Context(), proto.CreateSession{Header: proto.Raw("null")})
	if err != nil || !isID(place.SessionID) || b.file(place.SessionID) != head+"\n" {
		t.Fatalf("%+v, %v", place, err)
	}
	_, err = b.Create(t.Context(), proto.CreateSession{SessionID: place.SessionID})
	wantError(t, err, proto.ErrInvalid, "There is a session", "already")
	if got := b.file(place.SessionID); got != head+"\n" {
		t.Errorf("file %s", got)
	}
	b.writeText("empty", "") // what a crash right after its making leaves
	if _, err := b.Create(t.Context(), proto.CreateSession{SessionID: "empty"}); err != nil || b.file("empty") != head+"\n" {
		t.Errorf("%v, file %s", err, b.file("empty"))
	}
}

// TestForeignFiles are what people and other programs put into the directory.
func TestForeignFiles(t *testing.T) {
	for what, c := range map[string]struct {
		text   string
		events int
		skip   int
		refuse string // words of the error of an append
	}{
		"empty":             {"", 0, 0, ""},
		"only blank":        {"\n \n", 0, 0, ""},
		"no meta line":      {user("x") + "\n", 1, 0, ""},
		"no type":           {`{"a":1}` + "\n", 1, 0, ""},
		"byte order mark":   {"\ufeff" + head + "\n" + user("x"), 2, 0, ""},
		"DOS":               {head + "\r\n" + user("x") + "\r\n", 2, 0, ""},
		"torn":              {head + "\n" + user("x")[:20], 1, 0, ""},
		"torn at once":      {head[:20], 0, 0, ""},
		"rubbish between":   {head + "\nx\n[1]\n" + user("x") + "\n{\"type\":\n", 2, 3, ""},
		"bad UTF-8":         {head + "\n" + strings.Replace(user("x"), "x", "a\xffb", 1) + "\n", 2, 0, ""},
		"an image":          {"\x89PNG\r\n\x1a\n\x00\x00\x00\r\n", 0, 3, "is no session"},
		"notes":             {"buy milk\nand bread\n", 0, 2, "is no session"},
		"a JSON array":      {`[{"role":"user","content":"x"}]` + "\n", 0, 1, "is no session"},
		"of a newer zino":   {strings.Replace(head, ":1,", ":2,", 1) + "\n", 1, 0, "schema 2"},
		"a late head":       {user("x") + "\n" + strings.Replace(head, ":1,", ":2,", 1) + "\n", 2, 0, ""},
		"of an odd version": {strings.Replace(head, ":1,", `:"two",`, 1) + "\n", 1, 0, ""},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, "")
			b.writeText("s", c.text)
			before := b.read("s")
			if n := strings.Count(before, "{\"") - strings.Count(before, ":{\""); n != c.events || b.skipped["s.jsonl"] != c.skip {
				t.Errorf("%d events, %d skipped: %s", n, b.skipped["s.jsonl"], before)
			}
			_, err := b.add(proto.AppendSession{SessionID: "s"}, user("new"))
			if c.refuse != "" {
				wantError(t, err, proto.ErrInvalid, c.refuse)
				if b.file("s") != c.text {
					t.Errorf("the file became %q", b.file("s"))
				}
				return
			}
			if after := b.read("s"); err != nil || !strings.HasPrefix(after, strings.TrimSuffix(before, "]")) || !strings.Contains(after, "new") {
				t.Errorf("after an append, %v: %s", err, after)
			}
			if c.events == 0 && c.skip == 0 && !strings.HasPrefix(b.read("s"), "["+head) && !strings.HasPrefix(c.text, "\n") {
				t.Errorf("no first line: %s", b.read("s"))
			}
		})
	}
}
