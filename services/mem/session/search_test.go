package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
	"zino/proto"
)

func (b *env) search(query string, limit int) []proto.SessionHit {
	b.t.Helper()
	hits, err := b.Search(b.t.Context(), proto.SearchSessions{Query: query, Limit: limit})
	if err != nil || hits.Results == nil {
		b.t.Fatalf("%v, %v", hits, err)
	}
	return hits.Results
}

func TestSearch(t *testing.T) {
	b := newEnv(t, "")
	b.put("bread", user("How long does\nBread rise?"), says("Two hours."), use("1"), `{"type":"tool_result","tool_use_id":"1","output":"secret word"}`)
	b.put("cake", user("A cake with STRAẞE and Öl"), says("No bread in it."))
	b.put("empty")
	b.put("tools", `{"type":"tool_use","id":"1","name":"bash","input":{"command":"go vet ./..."}}`,
		`{"type":"tool_result","tool_use_id":"1","output":{"ok":true,"data":{"stdout":["deeply",{"a":"nested\nlines"}],"exit_code":0}}}`)
	b.write("foreign", "rubbish bread", `{"type":"note","text":"bread"}`, `{"type":"message","role":"system","text":"bread"}`, user("日本語のパン"))
	for i, id := range []string{"bread", "cake", "empty", "foreign", "tools"} {
		b.touch(id, i)
	}
	for query, want := range map[string]string{
		"": "", "  \n": "", "bread": "cake bread", "BREAD": "cake bread", "bread rise": "bread", "hours bread": "bread", "bread cake": "cake",
		"read": "cake bread", "rise cake": "", "strasse": "cake", "öl": "cake", "ÖL": "cake", "secret": "bread", "deeply nested": "tools", "go vet": "tools", "command": "", "stdout": "", "rubbish": "", "語のパ": "foreign", "?": "bread", "type": "",
	} {
		var got []string
		for _, hit := range b.search(query, 0) {
			got = append(got, hit.SessionID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q finds %v, want %s", query, got, want)
		}
	}
	want := proto.SessionHit{SessionID: "bread", Updated: now, Title: "How long does Bread rise?", Role: "user", Excerpt: "How long does Bread rise?"}
	if got := b.search("long rise two", 0); len(got) != 1 || got[0] != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := b.search("bread", 1); len(got) != 1 || got[0].SessionID != "cake" || got[0].Role != "assistant" {
		t.Errorf("one of them: %+v", got)
	}
	if got := b.search("NESTED lines", 0); len(got) != 1 || got[0].Role != "tool" || got[0].Excerpt != "deeply nested lines" {
		t.Errorf("in a result: %+v", got)
	}
	_, err := b.Search(t.Context(), proto.SearchSessions{Query: strings.Repeat("w ", wordsMax+1)})
	zinotest.Error(t, err, proto.ErrInvalid, "64 words")
}

func TestSearchLimit(t *testing.T) {
	b := newEnv(t, "")
	for i := range 30 {
		b.put(fmt.Sprint("s", i), user("bread"))
	}
	for limit, want := range map[int]int{0: hitsDefault, -1: hitsDefault, 5: 5, 1 << 40: 30} {
		if got := len(b.search("bread", limit)); got != want {
			t.Errorf("limit %d: %d", limit, got)
		}
	}
	zinotest.Must(t, os.Mkdir(b.path("dir"), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Search(ctx, proto.SearchSessions{Query: "nowhere"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Search with a canceled context: %v", err)
	}
}

func TestExcerpt(t *testing.T) {
	for _, c := range []struct{ text, word, want string }{
		{"short", "short", "short"},
		{"a\tb\x1b[2Jc\u0085d", "c", "a b [2Jc d"},
		{strings.Repeat("ä ", 50) + "word" + strings.Repeat(" ö", 100), "word", "…" + strings.Repeat("ä ", 30) + "word" + strings.Repeat(" ö", 58) + "…"},
		{strings.Repeat("ẞ", 10) + "word", "word", strings.Repeat("ẞ", 10) + "word"},
		{strings.Repeat("ß", 100) + "word", "word", "…" + strings.Repeat("ß", 60) + "word"},
	} {
		folded := string(fold(nil, c.text))
		if got := excerpt(c.text, strings.Index(folded, c.word)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("How long does bread rise?", "BREAD")
	f.Add(strings.Repeat("ẞİ\x00\u2028", 100)+"x", "x")
	f.Add("\xff\xfe", "\xff")
	f.Fuzz(func(t *testing.T, text, word string) {
		text = strings.ToValidUTF8(text, "\ufffd")
		at := strings.Index(string(fold(nil, text)), string(fold(nil, word)))
		if at < 0 {
			return
		}
		got := excerpt(text, at)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 3*around+2 || strings.ContainsAny(got, "\n\r\x1b\x00") {
			t.Fatalf("%q around %q: %q", text, word, got)
		}
		if short := title(text); !utf8.ValidString(short) || utf8.RuneCountInString(short) > titleMax || strings.ContainsAny(short, "\n\r\x1b\x00") {
			t.Fatalf("the beginning of %q: %q", text, short)
		}
	})
}

// FuzzTexts checks for any bytes, also deeply nested JSON, that appendTexts returns
// at most as much text as they contain.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{`{"a":["b",{"c":"d\n"}],"e":1}`, `"\ud800x"`, `{"a":`, `["`, strings.Repeat(`{"a":[`, 4000) + `"x"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if text := appendTexts(nil, raw, depthMax); len(text) > 3*len(raw)+1 {
			t.Errorf("%d bytes of %d", len(text), len(raw))
		}
	})
}
