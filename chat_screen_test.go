package zino_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// paced is a provider whose stream goes on event by event, as a test allows.
type paced struct {
	URL    string
	events chan struct{}
}

// newPaced returns a provider that answers from a script. The events of answers to
// requests with a text wait.
func newPaced(t *testing.T, text string, script ...fakellm.Turn) *paced {
	provider := fakellm.New(script...)
	p := &paced{events: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			return // it was interrupted
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, provider.Host+r.URL.String(), bytes.NewReader(asked))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
			return
		}
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		for event := range bytes.SplitAfterSeq(body, []byte("\n\n")) {
			if bytes.Contains(asked, []byte(text)) {
				select {
				case <-p.events:
				case <-r.Context().Done():
					return
				}
			}
			w.Write(event)
			w.(http.Flusher).Flush()
		}
	}))
	p.URL = server.URL
	t.Cleanup(func() {
		server.Close()
		provider.Close()
	})
	return p
}

// send lets n events pass.
func (p *paced) send(n int) {
	for range n {
		p.events <- struct{}{}
	}
}

// rest lets all other events pass.
func (p *paced) rest() { close(p.events) }

// newChatOf opens an interactive chat with a provider.
func newChatOf(t *testing.T, url string, env ...string) *zinotest.Screen {
	s := zinotest.NewScreen(t, bin, append([]string{"ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL=" + url, "TMUX=yes"}, env...)...)
	zinotest.Write(t, filepath.Join(s.Dir, "home", ".config", "zino", "config.toml"), "[chat]\nplain = false\n")
	s.Tmux("set", "-g", "status", "off")
	s.Enter("clear; zino")
	s.Shows("/help", `\$0\.00`)
	return s
}

// checkScrollback checks that each block stands in the scrollback once, in order, with
// one status line and no runs of blank lines.
func checkScrollback(t *testing.T, s *zinotest.Screen, blocks int, status string) {
	t.Helper()
	text := s.History()
	text = text[strings.LastIndex(text, "zino 0."):]
	next := 1
	for _, m := range regexp.MustCompile(`<(\d+)>`).FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[1]); err != nil || n != next {
			t.Errorf("block %s stands where %d is expected", m[1], next)
			next = n
		}
		next++
	}
	if next != blocks+1 {
		t.Errorf("the last block is %d, want %d", next-1, blocks)
	}
	if n := strings.Count(text, status); n != 1 {
		t.Errorf("%d status lines", n)
	}
	if n := strings.Count(text, "Esc stops"); n > 0 {
		t.Errorf("%d activity lines are left", n)
	}
	if at := strings.Index(text, "\n\n\n"); at >= 0 {
		t.Errorf("blank lines behind %q", text[max(0, at-200):at])
	}
	if t.Failed() {
		t.Logf("the scrollback:\n%s", text)
	}
}

// sixty returns 60 blocks of all kinds, each with a number.
func sixty() (blocks []string) {
	for i := 1; i <= 60; i++ {
		blocks = append(blocks, fmt.Sprintf([]string{
			"A paragraph <%d> of the answer whose text is longer than some of the windows in which it is shown, so that it is wrapped.\n\n",
			"- item <%d>\n",
			"- item <%d>\n\n",
			"```go\nfunc f() int { // <%d>, a comment that is wider than small windows\n\treturn 1\n}\n```\n\n",
			"| block | kind |\n|---|---|\n| <%d> | a table |\n| x | y |\n\n",
		}[i%5], i))
	}
	return blocks
}

// TestChatResizes streams blocks of all kinds while the window is resized and keys are
// typed.
func TestChatResizes(t *testing.T) {
	t.Parallel()
	var deltas []string
	for _, block := range sixty() {
		half := len(block) / 2
		deltas = append(deltas, block[:half], block[half:])
	}
	p := newPaced(t, "long", fakellm.Turn{Match: "long", Deltas: deltas}, fakellm.Turn{Times: fakellm.Forever, Text: "done"})
	s := newChatOf(t, p.URL)
	s.Enter("a long answer")
	p.send(3) // before the text
	sent := 0
	next := func(blocks float64) { // sends blocks and waits until they are shown
		p.send(int(blocks * 2))
		sent += int(blocks * 2)
		s.Tmux("send-keys", "-l", "x")
		want := fmt.Sprintf("<%d>", sent/2)
		zinotest.Eventually(t, want, func() bool { return strings.Contains(s.Tmux("capture-pane", "-pJ", "-S", "-"), want) })
	}
	resize := func(size string) {
		width, height, _ := strings.Cut(size, "x")
		s.Tmux("resize-window", "-x", width, "-y", height)
	}
	for _, size := range []string{"60x24", "100x24", "40x24"} {
		next(4.5)
		resize(size)
		next(1)
	}
	// The live block of a window that becomes lower than it may get into the scrollback:
	// it is the start of a table without a number then.
	next(2)
	s.Eventually("the start of block 19", func(text string) bool { return strings.Contains(text, "Esc stops") && strings.Contains(text, "|---|") })
	resize("20x5")
	next(4.5)
	resize("80x24")
	next(5)
	for _, size := range []string{"70x20", "50x24", "90x30", "80x24"} { // without a pause
		resize(size)
		p.send(1)
		sent++
	}
	next(2.5)
	s.Tmux("set", "-w", "aggressive-resize", "on")
	s.Tmux("split-window", "-d", "-h", "cat")
	next(3)
	s.Tmux("resize-pane", "-x", "30")
	next(3)
	s.Tmux("kill-pane", "-t", "1")
	next(3)
	s.Tmux("copy-mode")
	p.send(6)
	sent += 6
	s.Tmux("send-keys", "-X", "history-top")
	s.Tmux("send-keys", "-X", "cancel")
	next(3)
	s.Tmux("send-keys", "C-l")
	next(3)
	p.rest()
	s.Eventually("the end", func(text string) bool { return strings.Contains(text, "<60>") && !strings.Contains(text, "Esc stops") })
	checkScrollback(t, s, 60, "· a long answer")
	s.Tmux("send-keys", "C-u", "C-d")
	s.Shows("Go on with", shell)
}

// TestChatScrollback streams answers of 100, 1,000 and 10,000 lines, the last one to a
// terminal that stops reading several times while keys are typed: each line stands in the
// scrollback once, and the keys arrive.
func TestChatScrollback(t *testing.T) {
	t.Parallel()
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "line <%d> of the answer\n\n", i)
		}
		return b.String()
	}
	p := newPaced(t, "and more",
		fakellm.Turn{Match: "hundred", Text: lines(1, 100)},
		fakellm.Turn{Match: "thousand", Size: 50, Text: lines(101, 1100)},
		fakellm.Turn{Match: "more", Size: 64, Text: lines(1101, 11100)},
		fakellm.Turn{Times: fakellm.Forever, Text: "done"})
	s := newChatOf(t, p.URL)
	const title = "YOLO · " // the status line has no room for the session's title
	s.Enter("one hundred")
	answered(s, "<100>")
	s.Enter("a thousand")
	answered(s, "<1100>")
	s.Enter("and more")
	tmux, err := strconv.Atoi(strings.TrimSpace(s.Tmux("display", "-p", "#{pid}")))
	zinotest.Must(t, err)
	for range 3 {
		zinotest.Must(t, syscall.Kill(tmux, syscall.SIGSTOP))
		p.send(700)
		zinotest.Must(t, syscall.Kill(tmux, syscall.SIGCONT))
		s.Tmux("send-keys", "-l", "y")
	}
	p.rest()
	s.Eventually("the end", func(text string) bool {
		return strings.Contains(text, "<11100>") && strings.Contains(text, "> yyy") && !strings.Contains(text, "Esc stops")
	})
	checkScrollback(t, s, 11100, title)
	s.Tmux("send-keys", "C-u", "C-d")
	s.Shows("Go on with", shell)
}
