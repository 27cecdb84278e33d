package files

import (
	"strings"
	"testing"
)

func TestAdvice(t *testing.T) {
	const code = "package main\n\nfunc main() {\n\tfmt.Println(\"hello, world\")\n\tfmt.Println(\"goodbye\")\n\tos.Exit(1)\n}\n"
	tests := []struct{ name, text, old, want string }{
		{
			"a word differs", code, `fmt.Println("hello, World")`,
			"The lines closest to it:\n4: \tfmt.Println(\"hello, world\")\n5: \tfmt.Println(\"goodbye\")",
		},
		{"spaces for a tab", code, "    os.Exit(1)\n", "The lines closest to it:\n6: \tos.Exit(1)"},
		{
			"a line of several", code, "func main() {\n\tfmt.Println(\"goodby\")\n\tos.Exit(2)\n}", // the second line is a part of none
			"The lines closest to its line 2:\n5: \tfmt.Println(\"goodbye\")\n4: \tfmt.Println(\"hello, world\")",
		},
		{"other order", code, "\n\n\tos.Exit(1)\n\tfmt.Println(\"goodbye\")", "The lines closest to its line 3:\n6: \tos.Exit(1)"},
		{"part of a line", code, "fmt.println(\"good", "The lines closest to it:\n5: \tfmt.Println(\"goodbye\")"},
		{"other case", "one two\n", "One", "The lines closest to it:\n1: one two"},
		{"nothing like it", code, "SELECT * FROM users", "No line of the file is like it: read the file again."},
		{"empty file", "", "x", "No line of the file is like it: read the file again."},
		{"only space", code, "\t\t\t\n\t\t\n", "No line of the file is like its line 1: read the file again."},
		{"CRLF", "one\r\ntwo\r\n", "one\ntwo", `The lines of this file end with \r\n: write them so in old and in new.`},
		{"best first", "abcdefgx\nabcdefgh\nabcdefxx\nabcdxxxx\nabcdefgh\n", "abcdefgh!", "The lines closest to it:\n2: abcdefgh\n5: abcdefgh\n1: abcdefgx"},
	}
	for _, tt := range tests {
		got := advice(tt.text, tt.old)
		if tt.name == "part of a line" {
			got, _, _ = strings.Cut(got, "\n4:")
		}
		if got != tt.want {
			t.Errorf("%s: got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// Long lines are shown in part, and characters stay whole.
func TestClosestIsShort(t *testing.T) {
	line := strings.Repeat("x", lineMax-1) + strings.Repeat("€", 100)
	got := closest("short\n"+line+"\n", line+"y")
	if len(got) != 1 || got[0] != "2: "+line[:lineMax-1] {
		t.Errorf("got %q", got)
	}
}

// The search is not endless.
func TestClosestIsBounded(t *testing.T) {
	text := strings.Repeat("some other line\n", searchMax/16) + "the wanted line\n"
	if got := closest(text, "the wanted lime"); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

func FuzzAdvice(f *testing.F) {
	f.Add("one\ntwo\n", "tow\nthree")
	f.Add("\r\n\r\n", "\n\n\n")
	f.Add("", "\n")
	f.Add("äöü\n", "ÄÖÜ")
	f.Fuzz(func(t *testing.T, text, old string) {
		if old == "" || strings.Contains(text, old) {
			return
		}
		got := advice(text, old)
		_, shown, several := strings.Cut(got, ":\n")
		if !strings.HasSuffix(got, ".") && !several {
			t.Errorf("got %q", got)
		}
		if len(shown) > closestMax*(lineMax+20) {
			t.Errorf("%d bytes are shown", len(shown))
		}
	})
}
