package session

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/durable"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestAppend(t *testing.T) {
	b := newEnv(t, "")
	mine := `{"type":"notice","text":"x","more":[1.50,null,{"a":"\u00e4<&>"}],"ts":"2020-01-01T00:00:00Z"}`
	if _, err := b.add(proto.AppendSession{SessionID: "s"}, user("x")); err == nil || b.files() != "" {
		t.Errorf("appended without create: %v, files %s", err, b.files())
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
	zinotest.Equal(t, "events", b.read("s"), "["+strings.ReplaceAll(strings.TrimSpace(want), "\n", ",")+"]")
	zinotest.Equal(t, "files", b.files(), "s.jsonl")
}

// TestAppendOffsets checks that the answer has the offset behind each event, with and
// without a header, and the same ones when the request is repeated.
func TestAppendOffsets(t *testing.T) {
	b := newEnv(t, "")
	events := []string{given(1), "\n" + strings.Replace(given(2), ",", " ,\r\n ", 1), given(3)}
	var list []proto.Raw
	for _, e := range events {
		list = append(list, proto.Raw(e))
	}
	req := proto.AppendSession{SessionID: "s", Create: true, Header: proto.Raw(`{"ts":"2026-11-22T09:00:00Z"}`)}
	check := func(what string) int64 {
		t.Helper()
		place, err := b.Append(t.Context(), req, list)
		zinotest.Must(t, err)
		text := b.file("s")
		var want []int64
		end := int64(0)
		for line := range strings.Lines(text) {
			end += int64(len(line))
			want = append(want, end)
		}
		zinotest.Equal(t, what, fmt.Sprint(place.Offsets), fmt.Sprint(want[len(want)-3:]))
		zinotest.Equal(t, "next", place.Next, end)
		return place.Next
	}
	at := int64(0)
	req.At = &at
	next := check("with a header")
	check("the same again")
	text := b.file("s")
	for cut := range text {
		b.writeText("s", text[:cut])
		check("after a torn write")
		zinotest.Equal(t, "the file", b.file("s"), text)
	}
	req.At = &next
	check("behind them")
	req.At = nil
	check("without a place")
	if place, err := b.Append(t.Context(), req, nil); err != nil || len(place.Offsets) != 0 {
		t.Errorf("no events: %+v, %v", place, err)
	}
}

func TestAppendTexts(t *testing.T) {
	b := newEnv(t, "")
	for given, stored := range map[string]string{
		"a\u2028b\u2029c":     `a\u2028b\u2029c`,
		`\u2028 \\u2028`:      `\u2028 \\u2028`,
		"é \U0001f600 \u2027": "é \U0001f600 \u2027",
	} {
		b.put("s", `{"type":"message","role":"user","text":"`+given+`"}`)
		if got := b.file("s"); !strings.Contains(got, `"text":"`+stored+`"`) {
			t.Errorf("%q is stored as %s", given, got)
		}
		zinotest.Must(t, os.Remove(b.path("s")))
	}
}

func TestAppendRefuses(t *testing.T) {
	b := newEnv(t, "")
	b.put("s", user("hello"))
	before := b.file("s")
	for _, bad := range []string{
		"", "1", `"x"`, "null", "[]", "{}", `{"type":""}`, `{"type":7}`, `{"type":null}`, `{"Type":"message"}`, `{"type":"meta","schema_version":1}`, `{"type":"m\u0065ta"}`,
		`{"type":"message"}`, `{"type":"message","role":"user"}`, `{"type":"message","role":"user","text":7}`, `{"type":"message","role":"system","text":"x"}`, `{"type":"message","text":"x"}`,
		`{"type":"tool_use","name":"read"}`, `{"type":"tool_use","id":"1"}`, `{"type":"tool_use","id":"","name":"read"}`, `{"type":"tool_use","id":1,"name":"read"}`,
		`{"type":"tool_result"}`, `{"type":"tool_result","tool_use_id":""}`,
	} {
		_, err := b.add(proto.AppendSession{SessionID: "s"}, user("good"), bad)
		zinotest.Error(t, err, proto.ErrInvalid, "events[1]")
		_, err = b.add(proto.AppendSession{SessionID: "new", Create: true}, bad)
		zinotest.Error(t, err, proto.ErrInvalid, "events[0]")
	}
	_, err := b.add(proto.AppendSession{SessionID: "s"}, `{"type":"x","pad":"`+strings.Repeat("x", durable.MaxLine)+`"}`)
	zinotest.Error(t, err, proto.ErrTooLarge, "events[0]")
	if b.file("s") != before || b.files() != "s.jsonl" {
		t.Errorf("the file is %s, files %s", b.file("s"), b.files())
	}
}

func TestHeader(t *testing.T) {
	b := newEnv(t, "")
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
		zinotest.Error(t, err, proto.ErrInvalid, "header")
		_, err = b.add(proto.AppendSession{SessionID: "u", Create: true, Header: proto.Raw(bad)}, user("x"))
		zinotest.Error(t, err, proto.ErrInvalid, "header")
	}
	zinotest.Equal(t, "files", b.files(), "s.jsonl t.jsonl")
}

func TestCreate(t *testing.T) {
	b := newEnv(t, "")
	place, err := b.Create(t.Context(), proto.CreateSession{Header: proto.Raw("null")})
	if err != nil || proto.CheckSessionID(place.SessionID) != nil || b.file(place.SessionID) != head+"\n" {
		t.Fatalf("%+v, %v", place, err)
	}
	_, err = b.Create(t.Context(), proto.CreateSession{SessionID: place.SessionID})
	zinotest.Error(t, err, proto.ErrInvalid, "There is a session", "already")
	zinotest.Equal(t, "file", b.file(place.SessionID), head+"\n")
	b.writeText("empty", "") // as after a crash right after open(2)
	if _, err := b.Create(t.Context(), proto.CreateSession{SessionID: "empty"}); err != nil || b.file("empty") != head+"\n" {
		t.Errorf("%v, file %s", err, b.file("empty"))
	}
}

// TestForeignFiles reads and appends to files that people or other programs have
// put into the directory.
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
		"an image":          {"\x89PNG\r\n\x1a\n\x00\x00\x00\r\n", 0, 3, "is not a session"},
		"notes":             {"buy milk\nand bread\n", 0, 2, "is not a session"},
		"a JSON array":      {`[{"role":"user","content":"x"}]` + "\n", 0, 1, "is not a session"},
		"of a newer zino":   {strings.Replace(head, ":1,", ":2,", 1) + "\n", 1, 0, "schema 2"},
		"a late head":       {user("x") + "\n" + strings.Replace(head, ":1,", ":2,", 1) + "\n", 2, 0, ""},
		"of an odd version": {strings.Replace(head, ":1,", `:"two",`, 1) + "\n", 1, 0, ""},
	} {
		t.Run(what, func(t *testing.T) {
			b := newEnv(t, "")
			b.writeText("s", c.text)
			before := b.read("s")
			if n := strings.Count(before, "{\"") - strings.Count(before, ":{\""); n != c.events || b.skipped["s.jsonl"] != c.skip {
				t.Errorf("%d events, %d skipped: %s", n, b.skipped["s.jsonl"], before)
			}
			_, err := b.add(proto.AppendSession{SessionID: "s"}, user("new"))
			if c.refuse != "" {
				zinotest.Error(t, err, proto.ErrInvalid, c.refuse)
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

// given returns an event with a ts, which requests with At need.
func given(i int) string {
	return strings.TrimSuffix(user(fmt.Sprintf("text %d \u2028", i)), "}") + `,"ts":"2026-11-22T10:00:00Z"}`
}

// TestAppendAtTorn cuts the write of a request at every byte, as a crash does. A
// repeated request must result in the same file as a successful one.
func TestAppendAtTorn(t *testing.T) {
	header := proto.Raw(`{"ts":"2026-11-22T09:00:00Z","root":"/a"}`)
	batch := []string{given(1), given(2), given(3)}
	for name, before := range map[string][]string{"a new session": nil, "a longer one": {given(0), use("1")}} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, "")
			at := int64(0)
			if before != nil {
				at = b.put("s", before...)
			}
			req := proto.AppendSession{SessionID: "s", Create: true, Header: header, At: &at}
			next, err := b.add(req, batch...)
			zinotest.Must(t, err)
			whole := b.file("s")
			if int64(len(whole)) != next || at == 0 && !strings.HasPrefix(whole, `{"type":"meta","schema_version":1,"ts":"2026-11-22T09:00:00Z","root":"/a"}`+"\n"+strings.ReplaceAll(given(1), "\u2028", `\u2028`)) {
				t.Fatalf("next %d of\n%s", next, whole)
			}
			for cut := int(at); cut <= len(whole); cut++ {
				for _, tail := range []string{"", "\x00\x00", " "} {
					b.writeText("s", whole[:cut]+tail)
					if got, err := b.add(req, batch...); err != nil || got != next || b.file("s") != whole {
						t.Fatalf("cut at %d: next %d, want %d, %v, the file is\n%s", cut, got, next, err, b.file("s"))
					}
				}
			}
			for what, text := range map[string]string{
				"more after it":    whole + given(4) + "\n",
				"others' events":   whole[:at] + given(9) + "\n",
				"one more between": whole[:at] + given(1) + "\n" + given(1) + "\n",
				"a longer line":    whole[:at] + strings.Replace(whole[at:], "text 1", "text 11", 1),
				"a blank line":     whole[:at] + "\n" + whole[at:] + "\n",
			} {
				b.writeText("s", text)
				_, err := b.add(req, batch...)
				zinotest.Error(t, err, proto.ErrBusy, fmt.Sprintf(`session "s" ends at %d, expected %d`, len(text), at))
				if b.file("s") != text {
					t.Errorf("%s: the file changed:\n%s", what, b.file("s"))
				}
			}
		})
	}
}

func TestAppendAt(t *testing.T) {
	b := newEnv(t, "")
	at := func(n int64, create bool) proto.AppendSession {
		return proto.AppendSession{SessionID: "s", Create: create, Header: proto.Raw(`{"ts":"2026-11-22T09:00:00Z"}`), At: &n}
	}
	_, err := b.add(at(0, false), given(1))
	zinotest.Error(t, err, proto.ErrNotFound)
	for _, create := range []bool{false, true} {
		_, err := b.add(at(812, create), given(1))
		zinotest.Error(t, err, proto.ErrBusy, `session "s" ends at 0, expected 812`)
	}
	if b.files() != "" {
		t.Errorf("files %s", b.files())
	}
	first, err := b.add(at(0, true))
	if err != nil || first != int64(len(b.file("s"))) || first == 0 {
		t.Errorf("a session without events: %d, %v", first, err)
	}
	next, err := b.add(at(first, false), given(1), given(2))
	if err != nil || next != int64(len(b.file("s"))) {
		t.Errorf("next %d, %v", next, err)
	}
	for _, n := range []int64{-1, 1, first + 1, next - 2, next + 1} {
		_, err := b.add(at(n, true), given(3))
		zinotest.Error(t, err, proto.ErrBusy, fmt.Sprintf("ends at %d, expected %d", next, n))
	}
	if same, err := b.add(at(next, false)); err != nil || same != next {
		t.Errorf("no events: %d, %v", same, err)
	}
	// The last line of another program may have no line break. The repair adds it,
	// and all replies count it.
	text := head + "\n" + user("x")
	end := int64(len(text)) + 1
	for _, n := range []int64{end - 1, end} {
		b.writeText("s", text)
		read, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s"})
		zinotest.Must(t, err)
		zinotest.Equal(t, "next of read_session", read.Next, end)
		h := b.hold("s", b.unexpected())
		zinotest.Equal(t, "next of hold_session", h.Next, end)
		_, err = b.add(at(n, false), given(1))
		zinotest.Must(t, h.release())
		if n == end {
			zinotest.Must(t, err)
			zinotest.Equal(t, "the file", b.file("s"), text+"\n"+strings.ReplaceAll(given(1), "\u2028", `\u2028`)+"\n")
		} else {
			zinotest.Error(t, err, proto.ErrBusy, fmt.Sprintf("ends at %d, expected %d", end, n))
			zinotest.Equal(t, "the file", b.file("s"), text+"\n")
		}
	}
}

// TestAppendAtNeedsTimes checks that At requires a ts in every event: a repeated
// request must have the same bytes.
func TestAppendAtNeedsTimes(t *testing.T) {
	b := newEnv(t, "")
	at := int64(0)
	req := proto.AppendSession{SessionID: "s", Create: true, Header: proto.Raw(`{"ts":"2026-11-22T09:00:00Z"}`), At: &at}
	for _, event := range []string{user("x"), strings.Replace(given(1), "2026-11-22T10:00:00Z", "today", 1), strings.Replace(given(1), `"2026-11-22T10:00:00Z"`, "null", 1)} {
		_, err := b.add(req, given(1), event)
		zinotest.Error(t, err, proto.ErrInvalid, "events[1]", "ts")
	}
	for _, header := range []string{"", "null", "{}", `{"ts":7}`, `{"root":"/a"}`} {
		req.Header = proto.Raw(header)
		_, err := b.add(req, given(1))
		zinotest.Error(t, err, proto.ErrInvalid, "header", "ts")
	}
	if b.files() != "" {
		t.Errorf("files %s", b.files())
	}
}

// TestAppendAtOnce checks that one of eight concurrent writers with the same At
// succeeds, in one store and in eight.
func TestAppendAtOnce(t *testing.T) {
	b := newEnv(t, "")
	end := b.put("s", user("q"))
	writers := make([]*env, 8)
	for w := range writers {
		writers[w] = newEnv(t, b.dir)
	}
	for round := range 20 {
		errs, next := make(chan error), make(chan int64, 8)
		for w, writer := range writers {
			if round%2 == 0 {
				writer = b
			}
			go func() {
				n, err := writer.add(proto.AppendSession{SessionID: "s", At: &end}, given(w), given(round))
				next <- n
				errs <- err
			}()
		}
		won := 0
		for range 8 {
			if err := <-errs; err == nil {
				won++
			} else {
				zinotest.Error(t, err, proto.ErrBusy, `session "s" ends at `, fmt.Sprintf(", expected %d", end))
			}
		}
		size := int64(len(b.file("s")))
		if won != 1 || strings.Count(b.file("s"), "\n") != 2+2*(round+1) {
			t.Fatalf("%d writers succeeded, the file is\n%s", won, b.file("s"))
		}
		end = size
	}
}
