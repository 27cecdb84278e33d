package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// call returns the packets of a call.
func call3(name, input, finished string) []string {
	return []string{
		fmt.Sprintf(`{"type":"tool_requested","id":"c1","name":%q,"input":%s}`, name, input),
		fmt.Sprintf(`{"type":"tool_started","id":"c1","name":%q}`, name),
		fmt.Sprintf(`{"type":"tool_finished","id":"c1","name":%q,%s}`, name, finished),
	}
}

func numberedLines(from, to int) (s string) {
	for i := from; i <= to; i++ {
		s += fmt.Sprintln(i)
	}
	return s
}

func indentedLines(from, to int) (list []string) {
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprintf("    %d", i))
	}
	return list
}

const meanDiff = `"diff":"--- a/mean.go\n+++ b/mean.go\n@@ -2,3 +2,6 @@\n func mean(xs []int) int {\n+\tif len(xs) == 0 {\n+\t\treturn 0\n+\t}\n \tsum := 0\n \tfor {\n"`

// TestCalls checks what is printed of a call: its line, a part of its result, and that the
// whole result is kept.
func TestCalls(t *testing.T) {
	output := func(text string) string {
		b, err := json.Marshal(text)
		zinotest.Must(t, err)
		return string(b)
	}
	for _, test := range []struct {
		name    string
		packets []string
		want    []string
		kept    int // lines of the item
	}{
		{
			"a command that succeeds",
			call3("bash", `{"command":"go test ./..."}`, `"ok":true,"duration_ms":214,"result":{"ok":true,"data":{"stdout":"ok  proj\n","stderr":"","exit_code":0,"timed_out":false}}`),
			[]string{"✓ bash  go test ./...  1 line  0.21s", "    ok  proj"},
			1,
		}, {
			"a tool of an MCP server",
			call3("mcp__git_hub__create-issue", `{"title":"x","labels":["a"]}`, `"ok":true,"duration_ms":20,"result":{"ok":true,"data":{"text":"Made."}}`),
			[]string{"✓ git_hub.create-issue  title=x labels=[\"a\"]  Made  0.02s"},
			0,
		}, {
			"a tool of an MCP server by mcp_call",
			call3("mcp_call", `{"server":"github","tool":"list","arguments":{"repo":"zino"}}`, `"ok":true,"duration_ms":20,"result":{"ok":true,"data":{"structured":{"n":[1,2]}}}`),
			[]string{"✓ github.list  repo=zino  1 line  0.02s", `    {"n":[1,2]}`},
			1,
		}, {
			"a command without output",
			call3("bash", `{"command":"true"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"stdout":"","stderr":"","exit_code":0,"timed_out":false}}`),
			[]string{"✓ bash  true  0.00s"},
			0,
		}, {
			"a folded result",
			call3("bash", `{"command":"seq 12"}`, `"ok":true,"duration_ms":10,"result":{"ok":true,"data":{"stdout":`+output(numberedLines(1, 12))+`,"stderr":"","exit_code":0,"timed_out":false}}`),
			append([]string{"✓ bash  seq 12  12 lines  0.01s  [1]", "    … 7 more lines · /show 1"}, indentedLines(8, 12)...), 12,
		}, {
			"a failed command shows ten lines, standard error last",
			call3("bash", `{"command":"make"}`, `"ok":true,"duration_ms":4310,"result":{"ok":true,"data":{"stdout":`+output(numberedLines(1, 10))+`,"stderr":"boom","exit_code":3,"timed_out":false}}`),
			append(append([]string{"✗ bash  make  exit 3  4.31s  [1]", "    … 1 more line · /show 1"}, indentedLines(2, 10)...), "    boom"), 11,
		}, {
			"a signal",
			call3("bash", `{"command":"kill -9 $$"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"stdout":"","stderr":"","exit_code":-9,"timed_out":false}}`),
			[]string{"✗ bash  kill -9 $$  signal 9  0.00s"},
			0,
		}, {
			"a time limit",
			call3("bash", `{"command":"sleep 99"}`, `"ok":true,"duration_ms":30000,"result":{"ok":true,"data":{"stdout":"","stderr":"","exit_code":-1,"timed_out":true}}`),
			[]string{"✗ bash  sleep 99  timed out  30.00s"},
			0,
		}, {
			"a command that goes on in the background",
			call3("bash", `{"command":"make world"}`, `"ok":true,"duration_ms":120000,"result":{"ok":true,"data":{"stdout":"one\n","stderr":"Still running after 120s: it continues as job j-k3v9q2mx.","exit_code":-1,"timed_out":true,"job":"j-k3v9q2mx","running":true}}`),
			[]string{"✓ bash  make world  j-k3v9q2mx running  120.00s", "    one", "    Still running after 120s: it continues as job j-k3v9q2mx."},
			2,
		}, {
			"an interrupted command keeps its output",
			call3("bash", `{"command":"make"}`, `"ok":true,"duration_ms":900,"result":{"ok":true,"data":{"stdout":"half\n","stderr":"","exit_code":-15,"timed_out":false,"interrupted":true}}`),
			[]string{"✗ bash  make  interrupted  0.90s", "    half"},
			1,
		}, {
			"a lost result",
			call3("bash", `{"command":"make"}`, `"ok":false,"synthetic":true,"duration_ms":0,"result":`+proto.InterruptedResult),
			[]string{"✗ bash  make  interrupted  0.00s"},
			0,
		}, {
			"read has no preview",
			call3("read", `{"path":"mean.go"}`, `"ok":true,"duration_ms":1,"result":{"ok":true,"data":{"content":`+output(numberedLines(1, 9))+`,"bytes":18}}`),
			[]string{"✓ read  mean.go  9 lines  0.00s"},
			9,
		}, {
			"an image that was read",
			call3("read", `{"path":"shot.jpg"}`, `"ok":true,"duration_ms":1,"result":{"ok":true,"data":{"path":"/r/shot.jpg","media_type":"image/png","bytes":18}},"attachments":[{"id":"sha256:0","name":"shot.jpg","media_type":"image/png","bytes":18,"width":30,"height":20}]`),
			[]string{"✓ read  shot.jpg  attached shot.jpg, 30x20  0.00s"},
			0,
		}, {
			"a result with text and an image",
			call3("mcp__a__b", `{}`, `"ok":true,"duration_ms":1,"result":{"ok":true,"data":{"text":"Here it is."}},"attachments":[{"id":"sha256:0","name":"1.png","media_type":"image/png","bytes":18,"width":30,"height":20}]`),
			[]string{"✓ a.b  2 lines  0.00s", "    Here it is.", "    attached 1.png, 30x20"},
			2,
		}, {
			"an edit shows its diff",
			call3("edit", `{"path":"mean.go","old":"a","new":"b"}`, meanDiff+`,"ok":true,"duration_ms":10,"result":{"ok":true,"data":{"replacements":1}}`),
			[]string{
				"✓ edit  mean.go  +3 −0  0.01s", "    @@ -2,3 +2,6 @@", "    2   func mean(xs []int) int {", "    3 +     if len(xs) == 0 {", "    4 +         return 0",
				"    5 +     }", "    6       sum := 0", "    7       for {",
			},
			7,
		}, {
			"an error with more lines",
			call3("edit", `{"path":"m.go"}`, `"ok":false,"duration_ms":3,"result":{"ok":false,"error":{"code":"old_not_found","message":"old does not occur. The closest lines:\n1: def mean(xs):\n8: def main():"}}`),
			[]string{"✗ edit  m.go  old_not_found: old does not occur. The closest lines:  0.00s", "    1: def mean(xs):", "    8: def main():"},
			2,
		}, {
			"a long error is cut in the line and whole below it",
			call3("read", `{"path":"/a/rather/long/path/to/a/file.txt"}`, `"ok":false,"duration_ms":3,"result":{"ok":false,"error":{"code":"read_error","message":"open /a/rather/long/path/to/a/file.txt: permission denied"}}`),
			[]string{"✗ read  /a/rather/long/…  read_error: open /a/rather/long/path/to/a/fil…  0.00s", "    read_error: open /a/rather/long/path/to/a/file.txt: permission denied"},
			0,
		}, {
			"too many calls",
			call3("bash", `{"command":"x"}`, `"ok":false,"duration_ms":0,"result":{"ok":false,"error":{"code":"too_many_calls","message":"not run"}}`),
			[]string{"✗ bash  x  too_many_calls: not run  0.00s"},
			0,
		}, {
			"a short text is the result",
			call3("todo", `{"items":[{"text":"x","status":"open"}]}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"text":"0 of 1 done."}}`),
			[]string{"✓ todo  0 of 1 done  0.00s"},
			0,
		}, {
			"arguments on one line, cut",
			call3("bash", `{"command":"cat > big.py <<EOF\nimport os\n`+strings.Repeat("x", 80)+`\nEOF"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"stdout":"","stderr":"","exit_code":0,"timed_out":false}}`),
			[]string{"✓ bash  cat > big.py <<EOF import os xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…  0.00s"},
			0,
		}, {
			"control characters",
			call3("bash", `{"command":"x"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"stdout":"a\u001b[31mb\u0007\tc\r\n","stderr":"","exit_code":0,"timed_out":false}}`),
			[]string{"✓ bash  x  1 line  0.00s", `    a^[[31mb^G  c`},
			1,
		}, {
			"a result of another shape",
			call3("page_eval", `{"code":"1"}`, `"ok":true,"duration_ms":0,"result":{"ok":true,"data":{"content":[{"type":"text"}]}}`),
			[]string{"✓ page_eval  code=1  0.00s"},
			0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newTestChat(t)
			x.send(test.packets...)
			zinotest.Equal(t, "printed", x.printed(), lines(test.want...))
			if len(x.turn.calls) > 0 {
				t.Errorf("calls that run: %v", x.turn.calls)
			}
			if it, ok, _ := x.items.get(1); len(it.lines) != test.kept || ok != (test.kept > 0) {
				t.Errorf("item 1 has %d lines, want %d", len(it.lines), test.kept)
			}
		})
	}
}

// TestCallsForScreenReaders checks that signs are words, and that each state is a line.
func TestCallsForScreenReaders(t *testing.T) {
	x := newTestChat(t, reader)
	x.send(call3("bash", `{"command":"go test ./..."}`, `"ok":true,"duration_ms":3,"result":{"ok":true,"data":{"stdout":"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n","stderr":"","exit_code":3,"timed_out":false}}`)...)
	x.send(call3("edit", `{"path":"mean.go"}`, meanDiff+`,"ok":true,"duration_ms":10,"result":{"ok":true,"data":{}}`)[0:3]...)
	got := x.printed()
	zinotest.Contains(t, "the lines", got, "Tool bash started: go test ./...\nTool bash failed, exit 3.\n    1 more line: /show 1\n    2\n", "Tool edit started: mean.go\nTool edit done, +3 -0.\n")
	if strings.ContainsAny(got, "✓✗…·−") {
		t.Errorf("signs that are read aloud:\n%s", got)
	}
	x.send(`{"type":"tool_started","id":"a","name":"read"}`, `{"type":"tool_requested","id":"b","name":"read","input":{"path":"b"}}`, `{"type":"tool_started","id":"b","name":"read"}`,
		`{"type":"tool_finished","id":"b","name":"read","ok":true,"duration_ms":0,"result":{"ok":true,"data":{"content":"x"}}}`)
	zinotest.Equal(t, "calls side by side", x.printed(), "Tool read started.\nTool read started: b\nTool read done, 1 line: b\n")
	zinotest.Equal(t, "the region", strings.Join(x.rows(), "|"), ">")
}

// TestCallRows checks the rows of calls that run.
func TestCallRows(t *testing.T) {
	x := newTestChat(t)
	x.send(`{"type":"tool_requested","id":"a","name":"bash","input":{"command":"go test ./..."}}`, `{"type":"tool_requested","id":"b","name":"bash","input":{"command":"go vet ./..."}}`)
	x.pass(2 * time.Second)
	x.send(`{"type":"tool_started","id":"a","name":"bash"}`)
	x.pass(3 * time.Second)
	x.send(`{"type":"tool_output","id":"a","text":"ok  proj/util\t0.21s\n\n"}`, `{"type":"tool_started","id":"b","name":"bash"}`)
	x.pass(time.Second)
	zinotest.Equal(t, "rows", x.activityRows(), "bash  go test ./...  4s  ok  proj/util    0.21s\nbash  go vet ./...  1s\nWorking 6s · Esc stops")
	x.send(`{"type":"tool_output","id":"b","text":"10%\r20%\r30%\r"}`)
	zinotest.Contains(t, "a progress bar", x.activityRows(), "bash  go vet ./...  1s  30%\n")
	x.send(`{"type":"tool_output","id":"b","text":"` + strings.Repeat("x", 100) + `"}`)
	for _, row := range x.rows() {
		if x.widths.Of(row) >= x.width {
			t.Errorf("a row of %d cells: %s", x.widths.Of(row), row)
		}
	}
	x.send(`{"type":"turn_ended","turn":"t-1","state":"interrupted"}`)
	zinotest.Contains(t, "what was running", x.printed(), "✗ bash  go test ./...  interrupted  4.00s\n    ok  proj/util   0.21s\n", "\nInterrupted.\n")
}

// TestDiffs checks which lines of a diff are counted, numbered and printed.
func TestDiffs(t *testing.T) {
	x := newTestChat(t)
	for _, test := range []struct{ name, diff, want string }{
		{
			"lines that look like file names", "--- a\n+++ b\n@@ -9,3 +9,3 @@ func f()\n a\n--- x\n+++ y\n b\n",
			" @@ -9,3 +9,3 @@ func f()| 9   a|10 - -- x|10 + ++ y|11   b +1 −1",
		},
		{"a new file", "--- /dev/null\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+\n\\ No newline at end of file\n", "@@ -0,0 +1,2 @@|1 + a|2 + +2 −0"},
		{"single lines", "@@ -1 +1 @@\n-a\n+b\n", "@@ -1 +1 @@|1 - a|1 + b +1 −1"},
		{"two hunks", "@@ -1,1 +1,1 @@\n-a\n+b\n@@ -100,2 +100,1 @@\n-c\n d\n", "@@ -1,1 +1,1 @@|  1 - a|  1 + b|@@ -100,2 +100,1 @@|100 - c|100   d +1 −2"},
		{"no hunk", "what is this?\n@@ nothing @@\n@@ -1,-2 +1 @@\n", " +0 −0"},
	} {
		rows, added, removed := x.diffRows(test.diff)
		got := strings.TrimSpace(fmt.Sprintf("%s +%d −%d", strings.Join(rows, "|"), added, removed))
		zinotest.Equal(t, test.name, strip(got), strings.TrimSpace(test.want))
	}
	var long strings.Builder
	fmt.Fprintf(&long, "@@ -0,0 +1,60 @@\n%s", strings.Repeat("+x\n", 60))
	b, err := json.Marshal(long.String())
	zinotest.Must(t, err)
	x.send(call3("write", `{"path":"x"}`, `"diff":`+string(b)+`,"ok":true,"duration_ms":0,"result":{"ok":true,"data":{}}`)...)
	got := x.styled()
	if n := strings.Count(got, "+ x"); n != diffMax-1 || !strings.Contains(got, "… 21 more lines · /show 1") {
		t.Errorf("%d lines of a long diff:\n%s", n, got)
	}
	zinotest.Contains(t, "colours", got, "\x1b[36m@@ -0,0 +1,60 @@\x1b[m", "\x1b[32m 1 + x\x1b[m")
}

// FuzzDiff checks that no diff makes the chat panic, and that it prints what it counts.
func FuzzDiff(f *testing.F) {
	for _, s := range []string{"", "@@ -2,3 +2,6 @@\n a\n+b\n-c\n", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n\\ No newline\n", "@@ -9223372036854775807,2 +1 @@\n x\n", "@@ -1,2 +3,4 @@", "@@ -,+ @@\n"} {
		f.Add(s)
	}
	c := newChat(proto.ChatStart{}, nil)
	defer c.cancel()
	f.Fuzz(func(t *testing.T, s string) {
		rows, added, removed := c.diffRows(s)
		plus := 0
		for _, row := range rows {
			if strings.ContainsAny(row, "\n\r") {
				t.Errorf("a row with a line end: %q", row)
			}
		}
		for _, l := range c.parseDiff(s).lines {
			switch l.mark {
			case '+':
				plus++
			case '-':
				removed--
			}
		}
		if plus != added || removed != 0 {
			t.Errorf("%d added, counted %d, removed %d too many", plus, added, removed)
		}
	})
}

// TestItemsAreLimited checks that the newest items are kept.
func TestItemsAreLimited(t *testing.T) {
	var i items
	i.limit()
	for n := 1; n <= itemsMax+10; n++ {
		zinotest.Equal(t, "the number of an item", i.add("x", []string{"a"}), n)
	}
	if _, ok, gone := i.get(10); ok || !gone {
		t.Error("the tenth of 210 items is kept")
	}
	if it, ok, _ := i.get(11); !ok || it.title != "x" {
		t.Error("the eleventh of 210 items is not kept")
	}
	if _, ok, gone := i.get(itemsMax + 11); ok || gone {
		t.Error("there is an item 211")
	}
	if _, ok, gone := i.get(0); ok || gone {
		t.Error("there is an item 0")
	}
	big := i.add("big", []string{strings.Repeat("x", itemBytes+1)})
	if it, ok, _ := i.get(big); !ok || len(it.lines[0]) != itemBytes+1 || len(i.list) != 1 {
		t.Errorf("a large item is kept: %v, with %d items", ok, len(i.list))
	}
}
