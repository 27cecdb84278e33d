package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/text"
)

func TestClipKeepsCharacters(t *testing.T) {
	for _, test := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"abc", 1, "…"}, {"abc", 0, ""}, {"abc", -1, ""},
	} {
		if got := text.Clip(test.s, test.n); got != test.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", test.s, test.n, got, test.want)
		}
	}
}

func TestHeadAndMiddleCutNoCharacter(t *testing.T) {
	s := "aä€😀b"
	for n := range len(s) + 2 {
		head := text.Head(s, n)
		if !utf8.ValidString(head) || len(head) > n || n-len(head) > 3 || !strings.HasPrefix(s, head) {
			t.Errorf("Head(%q, %d) = %q", s, n, head)
		}
		if got := text.Middle(strings.Repeat(s, 10), n, n, "[%d]"); !utf8.ValidString(got) {
			t.Errorf("Middle to %d bytes: %q", n, got)
		}
	}
	if got := text.Head("€", 2); got != "" {
		t.Errorf("Head of a part of the first character: %q", got)
	}
	if got := string(text.Head([]byte("\x80\x80\x80\x80\x80\x80"), 5)); len(got) != 5 {
		t.Errorf("Head of invalid UTF-8 has %d bytes, want 5", len(got))
	}
	if got := text.Middle("0123456789", 2, 3, "[%d left out]"); got != "01[5 left out]789" {
		t.Errorf("Middle: %q", got)
	}
	if got := text.Middle("01234", 2, 3, "[%d]"); got != "01234" {
		t.Errorf("Middle of a short text: %q", got)
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		text.OneLine(" a\n\t b\x1b\x00c "):  "a b c",
		text.OneLine("\n"):                  "",
		text.Quote("../x"):                  `"../x"`,
		text.Quote("a\x1b\n"):               `"a\x1b\n"`,
		text.Quote(strings.Repeat("ä", 41)): `"` + strings.Repeat("ä", 40) + `"…`,
		text.Bytes(0):                       "0 bytes",
		text.Bytes(1):                       "1 byte",
		text.Bytes(1023):                    "1023 bytes",
		text.Bytes(64 << 10):                "64 KiB",
		text.Bytes(1025):                    "1025 bytes",
		text.Bytes(64 << 20):                "64 MiB",
		text.Bytes(1<<20 + 1<<19):           "1.5 MiB",
		text.Bytes(3 << 30):                 "3 GiB",
		text.Count(1, "file"):               "1 file",
		text.Count(0, "file"):               "0 files",
		text.Fenced("sh", "ls"):             "```sh\nls\n```",
		text.Fenced("", ""):                 "```\n```",
		text.Fenced("", "a\n````\n"):        "`````\na\n````\n`````",
		text.CodeSpan("a"):                  "`a`",
		text.CodeSpan("`a``b"):              "``` `a``b ```",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBlocks(t *testing.T) {
	for s, want := range map[string][]text.Block{
		"text":                          nil,
		"```\na\n```\n":                 {{"", "a\n", true}},
		"x\n~~~ go  \n```\n~~~~  \r\ny": {{"go", "```\n", true}},
		"```\na":                        {{"", "a", false}},
		"```":                           {{"", "", false}},
		"``` a`b\nx\n":                  nil,
		"    ```\n":                     nil,
		"  ```js\n   a\n b\n  ```":      {{"js", " a\nb\n", true}},
		"````\n```\n````\n```\nb\n```":  {{"", "```\n", true}, {"", "b\n", true}},
		"```\n    ```\n``` x\n```":      {{"", "    ```\n``` x\n", true}},
		"```\r\na\r\n```\r\n":           {{"", "a\r\n", true}},
	} {
		got := text.Blocks(s)
		same := len(got) == len(want)
		for i := range got {
			same = same && got[i] == want[i]
		}
		if !same {
			t.Errorf("Blocks(%q) = %+v, want %+v", s, got, want)
		}
	}
}

// FuzzFenced reads back what Fenced wrote.
func FuzzFenced(f *testing.F) {
	f.Add("a\n```\n~~~\n")
	f.Add("   ````x\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		blocks := text.Blocks("before\n" + text.Fenced("md", s) + "\nafter")
		want := s
		if s != "" && !strings.HasSuffix(s, "\n") {
			want += "\n"
		}
		if len(blocks) != 1 || blocks[0] != (text.Block{Info: "md", Text: want, Closed: true}) {
			t.Errorf("Fenced(%q) is read as %+v", s, blocks)
		}
	})
}
