package render

import (
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// still returns an indicator that is not drawn.
func still() *Indicator {
	return &Indicator{width: func() int { return 80 }, now: time.Now}
}

// drawing returns an indicator that the test draws, its screen and its clock.
func drawing(width *int) (*Indicator, *strings.Builder, *time.Time) {
	at, screen := time.Unix(1000, 0), &strings.Builder{}
	n := &Indicator{w: screen, width: func() int { return *width }, now: func() time.Time { return at }, began: at, what: "waiting"}
	return n, screen, &at
}

// drawn draws and returns what was written for it.
func drawn(n *Indicator, screen *strings.Builder) string {
	screen.Reset()
	n.draw()
	return screen.String()
}

// TestIndicator checks the line: elapsed time, activity, tokens.
func TestIndicator(t *testing.T) {
	width := 80
	n, screen, at := drawing(&width)
	shows := func(want string) {
		t.Helper()
		if got := drawn(n, screen); got != want {
			t.Errorf("drew %q, want %q", got, want)
		}
	}
	shows("\r\x1b[K[0s] waiting")
	shows("") // unchanged
	*at = at.Add(3 * time.Second)
	n.tokens, n.coming = 1500, 400
	shows("\r\x1b[K[3s] waiting, 1.6k tokens")
	*at = at.Add(2 * time.Minute)
	n.what, n.last, n.tokens = "bash", "ok  \x1b pkg", 2_500_000
	shows("\r\x1b[K[2m03s] bash, 2.5M tokens: ok  \x1b pkg")
	width = 20
	n.last = "日本語のテスト"
	shows("\r\x1b[K[2m03s] bash, 2.5M…")
	width = 1
	shows("\r\x1b[K[2m03s] bash, 2.5M tokens: 日本語のテスト")
	n.print(func() bool { return true })
	shows("") // the cursor is behind text
	n.print(func() bool { return false })
	width, n.tokens, n.coming, n.dim = 20, 0, 0, true
	shows("\r\x1b[K\x1b[2m[2m03s] bash: 日本…\x1b[0m")
	screen.Reset()
	n.End()
	if screen.String() != "\r\x1b[K" {
		t.Errorf("the end wrote %q", screen)
	}
}

// TestIndicatorThinks checks the line during reasoning, which is not printed here, and
// during the answer.
func TestIndicatorThinks(t *testing.T) {
	width := 40
	n, screen, at := drawing(&width)
	x := &TextTurns{out: Printer{w: screen}, thoughts: Printer{w: screen}, err: screen, status: n}
	for _, test := range []struct{ typ, packet, want string }{
		{proto.TypeReasoning, `{"type":"reasoning","text":"It needs a look."}`, "\r\x1b[K[12s] thinking, 4 tokens"},
		{proto.TypeAssistantDelta, `{"type":"assistant_delta","text":"Yes."}`, "\r\x1b[K[24s] answering, 5 tokens"},
	} {
		*at = at.Add(12 * time.Second)
		zinotest.Must(t, x.Event(test.typ, []byte(test.packet)))
		if got := drawn(n, screen); got != test.want {
			t.Errorf("%s: drew %q, want %q", test.typ, got, test.want)
		}
	}
}

// TestIndicatorErased checks that the line is erased before other output.
func TestIndicatorErased(t *testing.T) {
	width := 40
	n, screen, _ := drawing(&width)
	x := &TextTurns{out: Printer{w: screen}, thoughts: Printer{w: screen}, err: screen, status: n, shared: true, mixed: true}
	for _, test := range []struct {
		name, want string
		do         func() error
	}{
		{"a line", "\r\x1b[Ka\n", func() error { return x.line("a") }},
		{"text", "\r\x1b[Kone", func() error { return x.text("one") }},
		{"a line in the middle of text", "\nb\n", func() error { return x.line("b") }},
		{"text continues", "\r\x1b[K two", func() error { return x.text(" two") }},
		{"the end of text", "\n", func() error { x.streamed = true; return x.endText() }},
		{"a tool's output", "", func() error {
			return x.Event(proto.TypeToolOutput, []byte(`{"type":"tool_output","id":"1","text":"x\ny\n"}`))
		}},
		{"a tool's end", "\r\x1b[KDone. (0.00s)\n", func() error { return x.finished(proto.ToolFinished{Result: proto.Raw(`{"ok":true}`)}) }},
		{"the end", "\r\x1b[K", func() error { x.spoke = true; _, err := x.End(Done{}, nil); return err }},
	} {
		n.draw()
		screen.Reset()
		if err := test.do(); err != nil || screen.String() != test.want {
			t.Errorf("%s: wrote %q, %v, want %q", test.name, screen, err, test.want)
		}
	}
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n\n": "", "a\nb\n": "b", "10%\r20%\r": "20%", "a\n \t\n": "a", "x\ty": "x y", "\x1b[32mok\n": "^[[32mok",
	} {
		if got := lastLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestDiffColours(t *testing.T) {
	const diff = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n-old\x1b\n+new\n"
	want := "--- a\n+++ b\n\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n same\n\x1b[31m-old^[\x1b[0m\n\x1b[32m+new\x1b[0m\n"
	if got := diffText(diff, true); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	many := strings.Repeat("+x\n", diffLines+2)
	if got := diffText(many, false); got != many[:3*diffLines]+"… 2 more lines of the diff\n" {
		t.Errorf("a long diff ends with %q", got[len(got)-60:])
	}
	wide := "-" + strings.Repeat("é", diffWidth-1)
	if got := diffText(wide+"\n"+wide+"é\n", true); got != red+wide+plain+"\n"+red+strings.TrimSuffix(wide, "é")+"…"+plain+"\n" {
		t.Errorf("a long line ends with %q", got[len(got)-60:])
	}
	if got := diffText("", true) + diffText("\n", false); got != "" {
		t.Errorf("empty diff: %q", got)
	}
}
