package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"zino/pkg/visible"

	"golang.org/x/term"
)

// drawEvery is how often the indicator is drawn anew.
const drawEvery = 100 * time.Millisecond

// indicator is the last line of the terminal while a turn is under way: for how
// long, what is waited for, how much came. It is gone before anything else is
// printed, so all that a turn prints goes through print.
type indicator struct {
	w     io.Writer  // the terminal; nil: there is no indicator
	width func() int // of the terminal, in cells
	now   func() time.Time
	dim   bool

	mu      sync.Mutex
	began   time.Time
	what    string // what is waited for
	last    string // the last line that it printed
	tokens  int64  // of the inferences that have ended
	coming  int64  // bytes of the one under way
	drawn   string
	blocked bool // the cursor stands behind text
	stop    chan struct{}
	stopped sync.WaitGroup
}

// begin shows the indicator from the next tick on.
func (n *indicator) begin() {
	n.mu.Lock()
	n.began, n.what, n.last, n.tokens, n.coming, n.blocked = n.now(), "waiting", "", 0, 0, false
	n.mu.Unlock()
	if n.w == nil {
		return
	}
	n.stop = make(chan struct{})
	tick := time.NewTicker(drawEvery)
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

// end takes the indicator away for good.
func (n *indicator) end() {
	if n.stop != nil {
		close(n.stop)
		n.stopped.Wait()
		n.stop = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
}

// print has do print with no indicator in the way. blocked says that text was
// begun where the indicator would stand.
func (n *indicator) print(do func() (blocked bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	n.blocked = do()
}

// change has do change what the indicator says.
func (n *indicator) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

// erase takes the line away; mu is held.
func (n *indicator) erase() {
	if n.drawn != "" {
		io.WriteString(n.w, "\r\x1b[K") // an error has nowhere to be told
		n.drawn = ""
	}
}

// draw shows the line as it is now, in the width that the terminal has now. The
// last cell stays free: text in it would begin a new line.
func (n *indicator) draw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	line := cut(n.line(), n.width()-1)
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

// line is what the indicator says; mu is held.
func (n *indicator) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] %s", elapsed(n.now().Sub(n.began)), n.what)
	if tokens := n.tokens + n.coming/bytesPerToken; tokens > 0 {
		fmt.Fprintf(&b, ", %s tokens", thousands(tokens))
	}
	if n.last != "" {
		b.WriteString(": " + n.last)
	}
	return b.String()
}

// bytesPerToken is what a token is taken for before the provider tells.
const bytesPerToken = 4

// elapsed is a time in whole seconds.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// thousands is a number in three digits or so.
func thousands(n int64) string {
	switch {
	case n < 1000:
		return count(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1_000_000)
}

// lastLine is the last line of text that says something, fit for one line.
func lastLine(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 {
		text = text[i+1:]
	}
	return visible.Text(strings.ReplaceAll(strings.TrimSpace(text), "\t", " "))
}

// cellsOf is the width of a terminal in cells, 80 if it does not tell.
func cellsOf(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}
