package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
)

func TestEdit(t *testing.T) {
	tests := []struct {
		name, before, old, new string
		expected               any
		after                  string
		replaced               int64
	}{
		{"one", "a b c", "b", "B", nil, "a B c", 1},
		{"said to be one", "a b c", "b", "B", 1, "a B c", 1},
		{"null is absent", "a b c", "b", "B", literal("null"), "a B c", 1},
		{"number in a string", "b b", "b", "B", "2", "B B", 2},
		{"number with a fraction of 0", "b b", "b", "B", literal("2.0"), "B B", 2},
		{"not overlapping", "aaaaa", "aa", "b", 2, "bba", 2},
		{"removed", "a b c", " b", "", nil, "a c", 1},
		{"all of it", "abc", "abc", "", nil, "", 1},
		{"new contains old", "a", "a", "aaa", nil, "aaa", 1},
		{"nothing new", "a b", "b", "b", nil, "a b", 1},
		{"lines", "one\ntwo\nthree\n", "two\nthree", "2\n3", nil, "one\n2\n3\n", 1},
		{"CRLF stays", "one\r\ntwo\r\n", "two", "2", nil, "one\r\n2\r\n", 1},
		{"CRLF meant", "one\r\ntwo\r\n", "one\r\n", "", nil, "two\r\n", 1},
		{"no newline at the end", "one\ntwo", "two", "2", nil, "one\n2", 1},
		{"BOM stays", "\ufeffone", "one", "1", nil, "\ufeff1", 1},
		{"separators stay", "a\u2028b\u0085c\x0bd", "b", "B", nil, "a\u2028B\u0085c\x0bd", 1},
		{"characters", "äöü", "ö", "€", nil, "ä€ü", 1},
		{"composed is not decomposed", "e\u0301 \u00e9", "\u00e9", "e", nil, "e\u0301 e", 1},
		{"no pattern", "a.c abc $1", "a.c", `$1\1`, nil, `$1\1 abc $1`, 1},
		{"NUL", "a\x00b", "\x00", "-", nil, "a-b", 1},
	}
	dir := newDir(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := put(t, dir, "file", tt.before)
			a := args{"path": "file", "old": tt.old, "new": tt.new, "unknown": []int{1}}
			if tt.expected != nil {
				a["expected_replacements"] = tt.expected
			}
			got := must(t, doEdit, dir, a)
			if got.Data != (Edited{path, tt.replaced}) || zinotest.Read(t, path) != tt.after {
				t.Errorf("got %+v, the file holds %q", got, zinotest.Read(t, path))
			}
		})
	}
}

// literal is a value as it stands in JSON.
type literal string

// MarshalJSON is the value itself.
func (l literal) MarshalJSON() ([]byte, error) { return []byte(l), nil }

func TestEditErrors(t *testing.T) {
	dir := newDir(t)
	path := put(t, dir, "file", "one two\ntwo three\n")
	put(t, dir, "latin1", "na\xefve")
	zinotest.Must(t, os.Truncate(put(t, dir, "huge", "x"), EditMax+1))
	put(t, dir, "many", strings.Repeat("x", 1000))
	zinotest.Must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	link(t, dir, map[string]string{"loop": "loop", "nowhere": "gone"})
	tests := []struct {
		name          string
		a             args
		code, message string
	}{
		{"not there", args{"path": "gone", "old": "x"}, PathError, "File not found: " + dir + "/gone"},
		{"link to nothing", args{"path": "nowhere", "old": "x"}, PathError, "File not found"},
		{"links in a circle", args{"path": "loop", "old": "x"}, PathError, "symbolic links"},
		{"in a file", args{"path": "file/x", "old": "x"}, PathError, "not a directory"},
		{"directory", args{"path": ".", "old": "x"}, ReadError, "is a directory"},
		{"pipe", args{"path": "pipe", "old": "x"}, ReadError, "is a named pipe"},
		{"no text", args{"path": "latin1", "old": "v"}, ReadError, "byte 0xef at offset 2 is not UTF-8"},
		{"too large", args{"path": "huge", "old": "x"}, ReadError, "larger than the 64 MiB"},
		{"grows too large", args{"path": "many", "old": "x", "new": strings.Repeat("y", EditMax/1000+1), "expected_replacements": 1000}, WriteError, "would become larger"},
		{"empty", args{"path": "file", "old": ""}, InvalidInput, "old is empty"},
		{"none expected", args{"path": "file", "old": "two", "expected_replacements": 0}, InvalidInput, "expected_replacements is 0"},
		{"fewer than none", args{"path": "file", "old": "two", "expected_replacements": -1}, InvalidInput, "must be 1 or more"},
		{"not found", args{"path": "file", "old": "four"}, OldNotFound, "old was not found in " + path + " (0 occurrences)"},
		{"not found, many expected", args{"path": "file", "old": "four", "expected_replacements": 3}, OldNotFound, "0 occurrences"},
		{"other case", args{"path": "file", "old": "One"}, OldNotFound, "1: one two"},
		{"too many", args{"path": "file", "old": "two"}, CountMismatch, "old was found 2 times in " + path + ", expected 1: in lines 1, 2. Give more of the text around it, or set expected_replacements to 2"},
		{"too few", args{"path": "file", "old": "three", "expected_replacements": 2}, CountMismatch, "found 1 times in " + path + ", expected 2: in line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.a["new"] == nil {
				tt.a["new"] = "new"
			}
			if got := refused(t, doEdit, dir, tt.a, tt.code); !strings.Contains(got, tt.message) || strings.Count(got, dir) > 1 {
				t.Errorf("got %q, want %q", got, tt.message)
			}
			zinotest.Equal(t, "the file", zinotest.Read(t, path), "one two\ntwo three\n")
		})
	}
}

func TestPlaces(t *testing.T) {
	tests := []struct{ text, old, want string }{
		{"x", "x", "in line 1"},
		{"a\nx\nb\nx", "x", "in lines 2, 4"},
		{"a\nb\na\nb\n", "a\nb\n", "in lines 1, 3"},
		{strings.Repeat("x\n", 10), "x", "in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"},
		{strings.Repeat("x\n", 11), "x", "in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"},
	}
	for _, tt := range tests {
		zinotest.Equal(t, tt.old, places(tt.text, tt.old), tt.want)
	}
}

// An edit of any file replaces as strings.ReplaceAll does, or is an error that
// leaves the file unchanged.
func FuzzEdit(f *testing.F) {
	f.Add("one two one", "one", "1", 2)
	f.Add("aaaa", "aa", "a", 2)
	f.Add("line\r\n\tother\n", "\tother", "", 1)
	f.Add("bad \xff byte", "bad", "good", 1)
	f.Add("", "", "", 0)
	f.Add("a\nb\nc", "b\n", "b\n\nb\n", 1)
	dir := newDir(f)
	f.Fuzz(func(t *testing.T, before, old, new string, expected int) {
		if !utf8.ValidString(old) || !utf8.ValidString(new) {
			return // not possible in JSON
		}
		path := put(t, dir, "file", before)
		a := args{"path": "file", "old": old, "new": new, "expected_replacements": expected}
		reply, err := doEdit(context.Background(), dir, a.input())
		possible := utf8.ValidString(before) && old != "" && expected > 0 && strings.Count(before, old) == expected
		want := before
		if possible {
			want = strings.ReplaceAll(before, old, new)
		}
		if (err == nil) != possible || zinotest.Read(t, path) != want || zinotest.Names(t, dir) != "file" {
			t.Errorf("%q: got %+v, %v, the file holds %q, want %q", before, reply, err, zinotest.Read(t, path), want)
		}
		if IsText(before) && IsText(want) && len(before) < 2000 {
			checkDiff(t, reply.Diff, before, want)
		}
	})
}

func TestAdvice(t *testing.T) {
	const code = "package main\n\nfunc main() {\n\tfmt.Println(\"hello, world\")\n\tfmt.Println(\"goodbye\")\n\tos.Exit(1)\n}\n"
	tests := []struct{ name, text, old, want string }{
		{
			"a word differs", code, `fmt.Println("hello, World")`,
			"The lines closest to it:\n4: \tfmt.Println(\"hello, world\")\n5: \tfmt.Println(\"goodbye\")",
		},
		{"spaces for a tab", code, "    os.Exit(1)\n", "The lines closest to it:\n6: \tos.Exit(1)"},
		{
			"a line of several", code, "func main() {\n\tfmt.Println(\"goodby\")\n\tos.Exit(2)\n}", // no line contains the second line
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

// The search is limited.
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
