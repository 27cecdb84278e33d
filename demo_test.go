package zino_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// demoRows is the height of the terminal: all of the demo fits into it.
const demoRows = 42

// demo lists what is typed in docs/demo.cast and docs/demo.svg, and what the screen ends
// with then.
var demo = []struct{ typed, last string }{
	{"python3 test_mean.py 2>&1 | tail -1", shell},
	{"zino", atPrompt},
	{"The test fails. Find out why, and fix it.", atPrompt},
	{"Copy my SSH key into this directory.", atPrompt},
	{":q", shell},
}

// atPrompt matches the status line of a chat that waits.
const atPrompt = `^(YOLO · )?claude-sonnet-5-5 · .*%$`

// TestDemo runs the demo of the README in a terminal, against the scripted
// provider, at the level workspace-write. With -update it writes the recording
// (asciicast version 2, https://docs.asciinema.org/manual/asciicast/v2/) and the
// picture of the last screen: make demo.
func TestDemo(t *testing.T) {
	turns, err := fakellm.Load("testdata/docs/demo.txt")
	zinotest.Must(t, err)
	provider := fakellm.New(turns...)
	defer provider.Close()
	s := zinotest.NewUserScreen(t, bin, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host)
	zinotest.WriteFiles(t, s.Dir, map[string]string{
		"home/mean/mean.py":             "def mean(xs):\n    return sum(xs) / len(xs) + 1\n",
		"home/mean/test_mean.py":        "from mean import mean\nassert mean([1, 2, 3]) == 2, \"the mean of 1, 2, 3 is not 2\"\nprint(\"ok\")\n",
		"home/.ssh/id":                  "a key\n",
		"home/.config/zino/config.toml": "[exc]\nsandbox = \"workspace-write\"\n[budget]\nusd_per_day = 5.0\n",
	})
	s.Tmux("resize-window", "-x", "80", "-y", strconv.Itoa(demoRows))
	s.Enter("cd ~/mean; echo ready")
	s.Shows("\nready\n", shell)
	tape := record(t, s)
	s.Enter("clear")
	s.Eventually("a clear screen", func(text string) bool { return !strings.Contains(text, "ready") && strings.HasPrefix(text, "$") })
	for _, step := range demo {
		tape.mark()
		before := s.Text()
		s.Enter(step.typed)
		last := regexp.MustCompile(step.last)
		s.Eventually("the end of "+step.typed, func(text string) bool {
			return text != before && !strings.Contains(text, "Esc stops") && strings.Contains(text, "\n") &&
				(step.last == shell || strings.Contains(text, "\n>\n")) && strings.Count(text, step.typed) >= 1 &&
				last.MatchString(text[strings.LastIndexByte(text, '\n')+1:])
		})
	}
	checkScreen(t, s, "demo")
	if *update {
		zinotest.Must(t, os.WriteFile("docs/demo.cast", []byte(tape.cast()), 0o644))
		zinotest.Must(t, os.WriteFile("docs/demo.svg", []byte(picture(s.Tmux("capture-pane", "-ep"))), 0o644))
	}
	checkMean(t, filepath.Join(s.Dir, "home", "mean"))
	if _, err := os.Stat(filepath.Join(s.Dir, "home", "mean", "id")); err == nil {
		t.Error("the key was copied")
	}
}

// tape is the output of a terminal, in pieces.
type tape struct {
	pieces chan piece // received, not yet in list
	list   []piece
	typed  []time.Time // when each command was typed
}

type piece struct {
	at   time.Time
	text string
}

// record copies the pane's output to a tape from now on.
func record(t *testing.T, s *zinotest.Screen) *tape {
	t.Helper()
	fifo := filepath.Join(s.Dir, "tape")
	zinotest.Must(t, syscall.Mkfifo(fifo, 0o600))
	tp := &tape{pieces: make(chan piece, 10_000)}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0) // O_RDWR: does not wait for a writer
	zinotest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	s.Tmux("pipe-pane", "-o", "exec cat >"+fifo)
	go func() {
		r := bufio.NewReader(f)
		for b := make([]byte, 1<<16); ; {
			n, err := r.Read(b)
			if err != nil {
				return
			}
			tp.pieces <- piece{time.Now(), string(b[:n])}
		}
	}()
	return tp
}

// mark records that the next command is typed now.
func (tp *tape) mark() {
	tp.collect()
	tp.typed = append(tp.typed, time.Now())
}

func (tp *tape) collect() {
	for {
		select {
		case p := <-tp.pieces:
			tp.list = append(tp.list, p)
		default:
			return
		}
	}
}

// cast returns the tape as an asciicast. The times are those of the run, except for a
// pause to read before each command and a limit of a second between pieces.
func (tp *tape) cast() string {
	tp.collect()
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"version": 2, "width": 80, "height": %d, "title": "Zino", "env": {"TERM": "screen", "SHELL": "/bin/sh"}}`+"\n", demoRows)
	now, last, next := 0.0, time.Time{}, 0
	for _, p := range tp.list {
		if !last.IsZero() {
			now += min(p.at.Sub(last).Seconds(), 1)
		}
		for next < len(tp.typed) && !p.at.Before(tp.typed[next]) {
			now, next = now+2.5, next+1
		}
		last = p.at
		text, err := json.Marshal(strings.ToValidUTF8(p.text, "\uFFFD"))
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "[%.3f, \"o\", %s]\n", now, text)
	}
	fmt.Fprintf(&b, "[%.3f, \"o\", \"\"]\n", now+4)
	return b.String()
}

// colours of the picture by SGR code (ECMA-48 section 8.3.117).
var colours = map[int]string{30: "#484f58", 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 37: "#e6edf3", 90: "#8b949e"}

// picture renders a screen with its colours as an SVG.
func picture(screen string) string {
	lines := strings.Split(strings.TrimRight(screen, "\n "), "\n")
	const width, height, left = 8.4, 19, 14
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">`+"\n", 2*left+int(80*width), len(lines)*height+2*left)
	fmt.Fprintln(&b, `<title>A terminal session with Zino</title><rect width="100%" height="100%" rx="8" fill="#0d1117"/>`)
	sgr := regexp.MustCompile("\x1b\\[([0-9;]*)m")
	fill, weight := colours[37], ""
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">`, left, left+(i+1)*height-4)
		codes := sgr.FindAllStringSubmatch(line, -1)
		for i, text := range sgr.Split(line, -1) {
			if i > 0 {
				for code := range strings.SplitSeq(codes[i-1][1], ";") {
					switch n, _ := strconv.Atoi(code); {
					case n == 0:
						fill, weight = colours[37], ""
					case n == 1:
						weight = ` font-weight="bold"`
					case n == 2:
						fill = colours[90]
					case n == 39:
						fill = colours[37]
					case colours[n] != "":
						fill = colours[n]
					}
				}
			}
			if text != "" {
				fmt.Fprintf(&b, `<tspan fill="%s"%s>%s</tspan>`, fill, weight, html.EscapeString(text))
			}
		}
		fmt.Fprintln(&b, "</text>")
	}
	fmt.Fprintln(&b, "</svg>")
	return b.String()
}
