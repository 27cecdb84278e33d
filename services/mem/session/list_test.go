package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// touch sets the mtime of a session to a number of minutes after now.
func (b *env) touch(id string, minutes int) {
	b.t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err == nil {
		at = at.Add(time.Duration(minutes) * time.Minute)
		err = os.Chtimes(b.path(id), at, at)
	}
	zinotest.Must(b.t, err)
}

func (b *env) list(limit int) proto.SessionList {
	b.t.Helper()
	list, err := b.List(b.t.Context(), proto.ListSessions{Limit: limit})
	zinotest.Must(b.t, err)
	return list
}

func ids(list proto.SessionList) string {
	var all []string
	for _, s := range list.Sessions {
		all = append(all, s.SessionID)
	}
	return strings.Join(all, " ")
}

func TestList(t *testing.T) {
	b := newEnv(t, "")
	if list := b.list(0); list.Sessions == nil || len(list.Sessions) != 0 || list.Total != 0 {
		t.Errorf("an empty directory: %+v", list)
	}
	b.put("first", user("how  long\n\x1b[31mdoes it take?"), use("1"), result("1"), says("long"), user("then go"))
	b.put("second", says("I begin"), user(strings.Repeat("ü", 100)))
	b.write("third", `{"type":"message","role":"user","text":"bare","ts":"2020-02-03T04:05:06+01:00"}`)
	b.put("fourth")
	for i, id := range []string{"first", "second", "third", "fourth"} {
		b.touch(id, i)
	}
	for _, other := range []string{"notes.txt", "bad name.jsonl", ".hidden.jsonl", "x.jsonl.damaged-1", "y.lock"} {
		zinotest.Must(t, os.WriteFile(filepath.Join(b.dir, other), []byte("{}\n"), 0o600))
	}
	want := []proto.SessionSummary{
		{SessionID: "fourth", Created: now, Updated: "2026-11-21T14:06:07Z", Messages: 0},
		{SessionID: "third", Created: "2020-02-03T03:05:06Z", Updated: "2026-11-21T14:05:07Z", Messages: 1, Turns: 1, Text: "bare", Title: "bare"},
		{SessionID: "second", Created: now, Updated: "2026-11-21T14:04:07Z", Messages: 2, Turns: 1, Text: strings.Repeat("ü", 79) + "…", Title: strings.Repeat("ü", 79) + "…"},
		{SessionID: "first", Created: now, Updated: now, Messages: 3, Turns: 2, Text: "how long [31mdoes it take?", Title: "how long [31mdoes it take?"},
	}
	for range 2 { // the second List reads no file
		list := b.list(0)
		for i, got := range list.Sessions {
			want[i].Bytes = int64(len(b.file(got.SessionID)))
			if got != want[i] {
				t.Errorf("got  %+v\nwant %+v", got, want[i])
			}
		}
		if list.Total != 4 || len(list.Sessions) != 4 {
			t.Errorf("%d of %d", len(list.Sessions), list.Total)
		}
	}
	if list := b.list(2); ids(list) != "fourth third" || list.Total != 4 {
		t.Errorf("two of them: %+v", list)
	}
	if sum, err := b.Find(t.Context(), proto.FindSession{}); err != nil || sum != want[0] {
		t.Errorf("the latest: %+v, %v", sum, err)
	}
	if sum, err := b.Find(t.Context(), proto.FindSession{SessionID: "se"}); err != nil || sum != want[2] {
		t.Errorf("found: %+v, %v", sum, err)
	}
}

// TestListOfDirectory checks that List filters by root and sums the costs.
func TestListOfDirectory(t *testing.T) {
	b := newEnv(t, "")
	const head = `{"type":"meta","schema_version":1,"root":"/a"}`
	b.write("one", head, `{"type":"message","role":"user","text":"x"}`,
		`{"type":"usage","input_tokens":1,"cost_usd":0.25}`, `{"type":"tool_result","tool_use_id":"a","output":{},"usage":{"input_tokens":1,"cost_usd":0.5}}`, `{"type":"usage"}`,
		`{"type":"title","text":"first"}`, `{"type":"title","text":"fix\nmean"}`)
	b.write("two", `{"type":"meta","schema_version":1,"root":"/b"}`, `{"type":"meta","root":"/a"}`)
	b.write("three", head, `{"type":"usage","cost_usd":-1}`, `{"type":"tool_result","tool_use_id":"a","output":{},"usage":{"input_tokens":1}}`)
	for i, id := range []string{"one", "two", "three"} {
		b.touch(id, i)
	}
	for range 2 { // the second List uses the index
		list, err := b.List(t.Context(), proto.ListSessions{Root: "/a"})
		if err != nil || ids(list) != "three one" || list.Total != 2 || list.Elsewhere != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if s := list.Sessions[1]; s.Title != "fix mean" || s.Text != "x" || s.Turns != 1 || s.Root != "/a" || s.CostUSD == nil || *s.CostUSD != 0.75 || s.Unpriced != 1 {
			t.Errorf("one: %+v", s)
		}
		if s := list.Sessions[0]; s.CostUSD != nil || s.Unpriced != 2 {
			t.Errorf("three: %+v", s)
		}
		if list, err := b.List(t.Context(), proto.ListSessions{Root: "/a", Limit: 1}); err != nil || ids(list) != "three" || list.Total != 2 || list.Elsewhere != 1 {
			t.Errorf("one of them: %+v, %v", list, err)
		}
		if sum, err := b.Find(t.Context(), proto.FindSession{Root: "/b"}); err != nil || sum.SessionID != "two" {
			t.Errorf("the latest: %+v, %v", sum, err)
		}
		if _, err := b.Find(t.Context(), proto.FindSession{Root: "/c"}); !errors.Is(err, proto.ErrNotFound) {
			t.Errorf("of a directory without sessions: %v", err)
		}
		again := New(b.root, Options{})
		b.Store = again
	}
}

// TestListParents checks that the sessions of sub-agents are listed only on request,
// and are not the latest session.
func TestListParents(t *testing.T) {
	b := newEnv(t, "")
	parent := func(value string) string {
		return with(`{"type":"meta","schema_version":1,"root":"/a"}`, "parent", value)
	}
	b.write("mine", `{"type":"meta","schema_version":1,"root":"/a"}`, user("x"))
	b.write("child", parent(`{"session_id":"mine","turn":"t-1","call":"c1"}`), user("find it"))
	b.write("odd1", parent(`{"turn":"t-1"}`))
	b.write("odd2", parent(`"mine"`))
	b.write("late", `{"type":"meta","schema_version":1,"root":"/a"}`, parent(`{"session_id":"mine"}`))
	for i, id := range []string{"odd1", "odd2", "late", "mine", "child"} {
		b.touch(id, i)
	}
	for range 2 { // the second time from the index
		for what, c := range map[string]struct {
			req   proto.ListSessions
			want  string
			total int
		}{
			"a list":           {proto.ListSessions{}, "mine late odd2 odd1", 4},
			"all":              {proto.ListSessions{All: true}, "child mine late odd2 odd1", 5},
			"a short one":      {proto.ListSessions{Limit: 1}, "mine", 4},
			"all, short":       {proto.ListSessions{Limit: 1, All: true}, "child", 5},
			"of a directory":   {proto.ListSessions{Root: "/a"}, "mine late odd2 odd1", 4},
			"all of it":        {proto.ListSessions{Root: "/a", All: true}, "child mine late odd2 odd1", 5},
			"of another place": {proto.ListSessions{Root: "/b"}, "", 0},
		} {
			list, err := b.List(t.Context(), c.req)
			if err != nil || ids(list) != c.want || list.Total != c.total || list.Elsewhere != 0 && c.req.Root != "/b" || c.req.Root == "/b" && list.Elsewhere != 4 {
				t.Errorf("%s: %s, %d of %d elsewhere, %v", what, ids(list), list.Elsewhere, list.Total, err)
			}
			for _, s := range list.Sessions {
				if child := s.SessionID == "child"; child != (s.Parent != nil) || child && *s.Parent != (proto.LogParent{SessionID: "mine", Turn: "t-1", Call: "c1"}) {
					t.Errorf("%s: %s has the parent %+v", what, s.SessionID, s.Parent)
				}
			}
		}
		for what, req := range map[string]proto.FindSession{"mine": {}, "child": {SessionID: "chi"}, "late": {SessionID: "late"}} {
			if sum, err := b.Find(t.Context(), req); err != nil || sum.SessionID != what {
				t.Errorf("%+v: %s, %v", req, sum.SessionID, err)
			}
		}
		if sum, err := b.Find(t.Context(), proto.FindSession{Root: "/a"}); err != nil || sum.SessionID != "mine" {
			t.Errorf("the latest of a directory: %s, %v", sum.SessionID, err)
		}
		b = newEnv(t, b.dir)
	}
}

// TestListProblem checks that an unreadable file does not prevent a list of the
// others.
func TestListProblem(t *testing.T) {
	b := newEnv(t, "")
	b.put("good", user("x"))
	b.put("pipe")
	if os.Geteuid() != 0 {
		zinotest.Must(t, os.Chmod(b.path("pipe"), 0))
		sum, err := b.Find(t.Context(), proto.FindSession{SessionID: "pipe"})
		if err != nil || !strings.Contains(sum.Problem, "permission denied") {
			t.Errorf("%+v, %v", sum, err)
		}
	}
	zinotest.Must(t, os.Remove(b.path("pipe")))
	zinotest.Must(t, os.Mkdir(b.path("pipe"), 0o700))
	sum, err := b.Find(t.Context(), proto.FindSession{SessionID: "pipe"})
	if err != nil || !strings.Contains(sum.Problem, "not a regular file") {
		t.Errorf("%+v, %v", sum, err)
	}
	if list := b.list(0); ids(list) != "good" {
		t.Errorf("listed %s", ids(list))
	}
}

// TestListFollows checks the list after each kind of change.
func TestListFollows(t *testing.T) {
	b := newEnv(t, "")
	count := func() string {
		var all []string
		for _, s := range b.list(0).Sessions {
			all = append(all, fmt.Sprintf("%s:%d:%s", s.SessionID, s.Messages, s.Text))
		}
		return strings.Join(all, " ")
	}
	other := newEnv(t, b.dir)
	for i, step := range []struct {
		change func()
		want   string
	}{
		{func() { b.put("s", user("one")) }, "s:1:one"},
		{func() { b.put("s", says("two")) }, "s:2:one"},
		{func() { other.put("s", user("three")) }, "s:3:one"},
		{func() { b.write("s", head, user("new")) }, "s:1:new"},
		{func() { b.write("s", strings.Repeat(" ", 300), head, user("longer"), says("x")) }, "s:2:longer"},
		{func() { b.writeText("s", b.file("s")+user("no break")) }, "s:3:longer"},
		{func() { b.put("s", user("on")) }, "s:4:longer"},
		{func() { b.writeText("s", "") }, "s:0:"},
		{func() { other.put("s", user("again")) }, "s:1:again"},
		{func() { os.Rename(b.path("s"), b.path("t")) }, "t:1:again"},
		{func() { os.Remove(b.path("t")) }, ""},
	} {
		step.change()
		for _, id := range []string{"s", "t"} {
			if _, err := os.Stat(b.path(id)); err == nil {
				b.touch(id, i) // otherwise two changes could have the same mtime
			}
		}
		if got := count(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// TestListThousand lists a thousand sessions, the second time without reading them.
func TestListThousand(t *testing.T) {
	b := newEnv(t, "")
	const n = 1000
	for i := range n {
		b.write(fmt.Sprintf("s%04d", i), head, user(fmt.Sprint("question ", i)), says("answer"))
		b.touch(fmt.Sprintf("s%04d", i), i%500)
	}
	list := b.list(0)
	if list.Total != n || len(list.Sessions) != n || list.Sessions[0].SessionID != "s0499" || list.Sessions[1].SessionID != "s0999" || list.Sessions[n-1].SessionID != "s0500" {
		t.Errorf("%d of %d, first %v", len(list.Sessions), list.Total, list.Sessions[:2])
	}
	// A new store uses the index: it does not see a change that keeps size and mtime.
	at, text := "s0042", b.file("s0042")
	b.writeText(at, strings.Replace(text, "question", "QUESTION", 1))
	b.touch(at, 42)
	again := newEnv(t, b.dir).list(0)
	if fmt.Sprint(again) != fmt.Sprint(list) {
		t.Error("the files were read again")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.List(ctx, proto.ListSessions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("List with a canceled context: %v", err)
	}
}

// TestListRoom checks that a list is truncated to fit into a packet.
func TestListRoom(t *testing.T) {
	b := newEnv(t, "")
	b.digests = map[string]digest{}
	long := strings.Repeat("n", 190)
	for i := range 20 {
		id := fmt.Sprintf("%s%02d", long, i)
		b.put(id)
		info, err := os.Lstat(b.path(id))
		zinotest.Must(t, err)
		d := digest{Text: strings.Repeat("x", listRoom/120)}
		d.setFile(info)
		b.digests[id] = d
	}
	if list := b.list(0); list.Total != 20 || len(list.Sessions) >= 20 || len(list.Sessions) < 5 {
		t.Errorf("%d of %d", len(list.Sessions), list.Total)
	}
}
