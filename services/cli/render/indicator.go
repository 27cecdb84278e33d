package render

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"zino/pkg/text"
	"zino/services/cli/term"
)

const (
	drawInterval  = 100 * time.Millisecond
	bytesPerToken = 4  // estimate until the provider reports usage
	defaultWidth  = 80 // cells, where the terminal does not report its width
)

// Indicator is a status line during a turn: elapsed time, current activity, tokens so
// far. It is erased before anything else is printed, so all output of a turn goes
// through print.
type Indicator struct {
	w     io.Writer // the terminal; nil: nothing is drawn
	width func() int
	now   func() time.Time
	dim   bool

	mu      sync.Mutex
	began   time.Time
	what    string // current activity
	last    string // the last line that it printed
	tokens  int64  // of the inferences that have ended
	coming  int64  // bytes of the current one
	drawn   string // the line on the screen
	blocked bool   // the cursor is behind text on this line
	stop    chan struct{}
	stopped sync.WaitGroup
}

// NewIndicator returns an indicator on f, which draws nothing unless f is a
// terminal that supports control sequences.
func NewIndicator(f *os.File) *Indicator {
	n := &Indicator{now: time.Now, width: func() int { return cmp.Or(term.Width(f), defaultWidth) }}
	if term.IsTerminal(f) && term.Fancy() {
		n.w, n.dim = f, true
	}
	return n
}

// Begin shows the indicator from the next tick on.
func (n *Indicator) Begin(what string) {
	n.mu.Lock()
	n.began, n.what, n.last, n.tokens, n.coming, n.blocked = n.now(), what, "", 0, 0, false
	n.mu.Unlock()
	if n.w == nil {
		return
	}
	n.stop = make(chan struct{})
	tick := time.NewTicker(drawInterval)
	n.stopped.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n.draw()
			case <-n.stop:
				return
			}
		}
	})
}

// End removes the indicator.
func (n *Indicator) End() {
	if n.stop != nil {
		close(n.stop)
		n.stopped.Wait()
		n.stop = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
}

// print erases the indicator and calls do, which reports whether it left text
// where the indicator would be drawn.
func (n *Indicator) print(do func() (blocked bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	n.blocked = do()
}

// set changes the current activity.
func (n *Indicator) set(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.what, n.last = what, ""
}

// setLast changes the last line of output.
func (n *Indicator) setLast(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = line
}

// setTokens records the tokens of the inferences that have ended.
func (n *Indicator) setTokens(tokens int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tokens, n.coming = tokens, 0
}

// erase is called with mu locked.
func (n *Indicator) erase() {
	if n.drawn != "" {
		io.WriteString(n.w, "\r\x1b[K") // an error on stderr cannot be reported
		n.drawn = ""
	}
}

// draw updates the line. The last cell stays free: text in it would wrap.
func (n *Indicator) draw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	line := Cut(n.line(), n.width()-1)
	if n.blocked || line == n.drawn {
		return
	}
	shown := line
	if n.dim {
		shown = dimmed(line)
	}
	io.WriteString(n.w, "\r\x1b[K"+shown)
	n.drawn = line
}

// line is called with mu locked.
func (n *Indicator) line() string {
	var b strings.Builder
	switch d := n.now().Sub(n.began); {
	case d < time.Minute:
		fmt.Fprintf(&b, "[%ds] %s", int(d.Seconds()), n.what)
	default:
		fmt.Fprintf(&b, "[%dm%02ds] %s", int(d.Minutes()), int(d.Seconds())%60, n.what)
	}
	switch tokens := n.tokens + n.coming/bytesPerToken; {
	case tokens >= 1_000_000:
		fmt.Fprintf(&b, ", %.1fM tokens", float64(tokens)/1_000_000)
	case tokens >= 1000:
		fmt.Fprintf(&b, ", %.1fk tokens", float64(tokens)/1000)
	case tokens > 0:
		fmt.Fprintf(&b, ", %d tokens", tokens)
	}
	if n.last != "" {
		b.WriteString(": " + n.last)
	}
	return b.String()
}

// lastLine returns the last line of s that is not blank.
func lastLine(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	if i := strings.LastIndexAny(s, "\r\n"); i >= 0 {
		s = s[i+1:]
	}
	return text.Visible(strings.ReplaceAll(strings.TrimSpace(s), "\t", " "))
}
