package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// checkDiff applies a diff by the line numbers in it and expects it to make after of
// before.
func checkDiff(t *testing.T, diff, before, after string) {
	t.Helper()
	got, ok := patched(diff, before)
	if !ok || got != after {
		t.Errorf("the diff\n%s\nmakes of %q\n got %q\nwant %q", diff, before, got, after)
	}
	if (diff == "") != (before == after) {
		t.Errorf("%q to %q: the diff is %q", before, after, diff)
	}
}

// patched applies a diff, strictly.
func patched(diff, before string) (string, bool) {
	lines, result := splitLines(before), []string(nil)
	from := 0 // lines of before that are consumed
	all := splitLines(diff)
	for i, line := range all {
		text := line[1:]
		if i+1 < len(all) && strings.HasPrefix(all[i+1], `\ No newline`) {
			text = strings.TrimSuffix(text, "\n")
		}
		switch {
		case i < 2, line[0] == '\\': // names, and ends without a newline
		case line[0] == '@':
			start, to := hunkStart(line)
			if start < from || start > len(lines) {
				return "", false
			}
			result = append(result, lines[from:start]...)
			if from = start; len(result) != to {
				return fmt.Sprintf("%d lines before %s", len(result), line), false
			}
		case line[0] == '+':
			result = append(result, text)
		default:
			if from >= len(lines) || lines[from] != text {
				return fmt.Sprintf("%q differs from the file", line), false
			}
			if from++; line[0] == ' ' {
				result = append(result, text)
			}
		}
	}
	return strings.Join(append(result, lines[from:]...), ""), true
}

func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		return lines[:len(lines)-1]
	}
	return lines
}

// hunkStart is the number of lines in front of a hunk, before and after.
func hunkStart(line string) (from, to int) {
	words := strings.Fields(line)
	number := func(word string) int {
		first, count, counted := strings.Cut(word[1:], ",")
		n, _ := strconv.Atoi(first)
		if counted && count == "0" {
			return n
		}
		return n - 1
	}
	return number(words[1]), number(words[2])
}

func TestDiff(t *testing.T) {
	dir := newDir(t)
	put(t, dir, "file", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	got := must(t, doEdit, dir, args{"path": "file", "old": "5\n", "new": "five\nand more\n"}).Diff
	want := "--- file\n+++ file\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and more\n 6\n 7\n 8\n"
	if got != want {
		t.Errorf("edit: got\n%s", got)
	}
	got = must(t, doWrite, dir, args{"path": "file", "content": "1\n2\n3\n4\nfive\nand more\n6\n7\n8\n10"}).Diff
	want = "--- file\n+++ file\n@@ -7,4 +7,4 @@\n 6\n 7\n 8\n-9\n+10\n\\ No newline at end of file\n"
	if got != want {
		t.Errorf("write: got\n%s", got)
	}
	got = must(t, doWrite, dir, args{"path": "sub/new", "content": "a\nb\n"}).Diff
	if want = "--- /dev/null\n+++ sub/new\n@@ -0,0 +1,2 @@\n+a\n+b\n"; got != want {
		t.Errorf("a new file: got\n%s", got)
	}
	if got = must(t, doWrite, dir, args{"path": "sub/new", "content": "a\nb\n"}).Diff; got != "" {
		t.Errorf("nothing changed: got\n%s", got)
	}
}

func TestDiffLabel(t *testing.T) {
	dir, elsewhere := newDir(t), newDir(t)
	zinotest.Must(t, os.Symlink(dir, filepath.Join(elsewhere, "link")))
	tests := []struct{ root, path, want string }{
		{dir, "a/../b", "b"},
		{dir, dir + "/sub/c", "sub/c"},
		{filepath.Join(elsewhere, "link"), "d", "d"},
		{elsewhere, "link/e", dir + "/e"},
		{elsewhere, dir + "/f", dir + "/f"},
		{dir + "/sub", "../g", dir + "/g"},
		{"/", dir + "/h", dir[1:] + "/h"},
		{dir, "two\nlines\x1b", `"two\nlines\x1b"`},
		{dir, "with space", "with space"},
	}
	for _, tt := range tests {
		got := must(t, doWrite, tt.root, args{"path": tt.path, "content": "x\n"}).Diff
		if want := fmt.Sprintf("--- /dev/null\n+++ %s\n@@ -0,0 +1 @@\n+x\n", tt.want); got != want {
			t.Errorf("%s from %s: got\n%s", tt.path, tt.root, got)
		}
	}
}

func TestDiffOfManyEdits(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "line %d with x\n", i)
		if i%7 == 0 {
			text.WriteString("a line between x and x without an end\nand another\n\n\n\n\n\n\n\n\n")
		}
	}
	before := text.String()
	tests := []struct{ name, old, new string }{
		{"each line of some", "line 1", "LINE\n1"},
		{"twice in a line", "between x and x", "x"},
		{"many", "with x", "with y"},
		{"lines with equal ends", "and another\n\n", "and another\nmore\n"},
		{"joined", "x\na line", "x, a line"},
	}
	for _, tt := range tests {
		in := editInput{Old: tt.old, New: tt.new, Expected: new(int64(strings.Count(before, tt.old)))}
		after := strings.ReplaceAll(before, tt.old, tt.new)
		diff := compareEdit("file", before, in)
		if len(diff) > diffMax-100 {
			if !strings.HasSuffix(diff, " more lines left out]\n") {
				t.Errorf("%s: the diff ends with %q", tt.name, diff[len(diff)-100:])
			}
			continue
		}
		checkDiff(t, diff, before, after)
	}
}

// The diff of an edit in a large file has the line numbers of its hunk.
func TestDiffOfLargeFile(t *testing.T) {
	dir := newDir(t)
	lines := strings.Repeat("some line of text\n", 1<<16) // more than 1 MiB
	path := put(t, dir, "large", lines+"here\n"+lines)
	got := must(t, doEdit, dir, args{"path": "large", "old": "here", "new": "there"}).Diff
	const around = " some line of text\n some line of text\n some line of text\n"
	want := fmt.Sprintf("--- large\n+++ large\n@@ -%d,7 +%d,7 @@\n%s-here\n+there\n%s", 1<<16-2, 1<<16-2, around, around)
	if got != want {
		t.Errorf("got\n%s", got)
	}
	zinotest.Equal(t, "written", must(t, doWrite, dir, args{"path": "large", "content": "x"}).Diff, "")
	zinotest.Equal(t, "written large", must(t, doWrite, dir, args{"path": "large", "content": lines}).Diff, "")
	put(t, dir, "large", "first "+lines+" last")
	if got := must(t, doEdit, dir, args{"path": "large", "old": "e ", "new": "E ", "expected_replacements": strings.Count(zinotest.Read(t, path), "e ")}).Diff; got != "" {
		t.Errorf("all over: got %d bytes", len(got))
	}
}

func TestDiffIsShortened(t *testing.T) {
	dir := newDir(t)
	lines := strings.Repeat("0123456789abcde\n", 10000)
	got := must(t, doWrite, dir, args{"path": "file", "content": lines}).Diff
	shown := strings.Count(got, "\n+0123456789abcde")
	end := fmt.Sprintf("\n[%d more lines left out]\n", 10000-shown)
	if len(got) > diffMax || len(got) < diffMax-200 || !strings.HasSuffix(got, end) {
		t.Errorf("%d bytes that end with %q, %d lines shown", len(got), got[len(got)-60:], shown)
	}
	got = must(t, doWrite, dir, args{"path": "one", "content": strings.Repeat("x", diffMax)}).Diff
	if want := "--- /dev/null\n+++ one\n@@ -0,0 +1 @@\n[2 more lines left out]\n"; got != want {
		t.Errorf("one line: got %q", got)
	}
}

// There is no diff of a binary file.
func TestDiffOfBinary(t *testing.T) {
	dir := newDir(t)
	put(t, dir, "file", "\xff\xfe")
	for _, content := range []string{"text", "a\x00b", "text"} {
		zinotest.Equal(t, content, must(t, doWrite, dir, args{"path": "file", "content": content}).Diff, "")
	}
}

// A diff of any two texts makes the second of the first.
func FuzzDiff(f *testing.F) {
	f.Add("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "5\n", "five")
	f.Add("aaa\naaa", "a", "-- a\n")
	f.Add("a\n\n\n\n\n\n\n\n\n\na", "a", "")
	f.Add("x\r\ny", "\n", "\n\n")
	f.Add("", "", "new\n")
	f.Fuzz(func(t *testing.T, before, old, new string) {
		if !IsText(before) || !IsText(old) || !IsText(new) || len(before)+len(new) > 1000 {
			return
		}
		checkDiff(t, compare("file", former{text: before, known: true}, new), before, new)
		n := int64(strings.Count(before, old))
		if old == "" || n == 0 || n*int64(len(new)) > 20000 {
			return
		}
		after := strings.ReplaceAll(before, old, new)
		checkDiff(t, compareEdit("file", before, editInput{Old: old, New: new, Expected: &n}), before, after)
	})
}
