package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"zino/pkg/visible"
	"zino/pkg/wire"
	"zino/proto"
)

// show is what becomes of the packets of turns.
type show interface {
	// begin is called before the first turn, when the session is known; empty:
	// nothing is kept.
	begin(session string) error
	// turn is called when one begins.
	turn()
	// event takes a packet between request and end. It is valid during the call.
	event(typ string, payload []byte) error
	// end takes the end of a turn: what the daemon said, or why there is no
	// answer. It reports whether the error has been told.
	end(done turnEnd, err error) (told bool, writing error)
}

// texts shows turns to a person: the assistant's text on standard output, all
// else on standard error.
type texts struct {
	out       printer
	thoughts  printer // the reasoning, on standard error
	err       io.Writer
	status    *indicator
	colour    bool
	terminal  bool // standard error is one
	shared    bool // standard output is the same one
	mixed     bool // what standard output is given may stand on it
	reasoning bool // it is shown

	streamed bool // the inference's text came in deltas
	spoke    bool // the turn has had text, which may be empty
	answered bool // and some that was not
	agents   string
	usage    proto.Usage
	tools    int // calls under way
}

// texts returns what shows turns on this run's streams.
func (a *app) texts() *texts {
	t := &texts{err: a.err, terminal: isTerminal(a.err), reasoning: a.reasoning}
	t.colour = t.terminal && fancy()
	t.shared = t.terminal && isTerminal(a.out)
	t.mixed = t.shared || isPipe(a.out)
	t.out = printer{w: a.out, terminal: isTerminal(a.out)}
	t.thoughts = printer{w: a.err, terminal: true, dim: t.colour}
	t.status = &indicator{width: func() int { return cellsOf(a.err) }, now: now, dim: t.colour}
	if t.colour {
		t.status.w = a.err
	}
	return t
}

func (t *texts) begin(string) error { return nil }

func (t *texts) turn() { t.status.begin() }

// isPipe reports whether f leads to another program, which may write what it is
// given to the terminal.
func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// event shows one packet.
func (t *texts) event(typ string, payload []byte) error {
	switch typ {
	case proto.TypeAssistantDelta:
		return onEvent(payload, func(e proto.AssistantDelta) error {
			t.streamed = true
			return t.text(e.Text)
		})
	case proto.TypeAssistantFinal:
		return onEvent(payload, t.final)
	case proto.TypeReasoning:
		return onEvent(payload, t.think)
	case proto.TypeToolRequested:
		return onEvent(payload, func(e proto.ToolRequested) error { return t.line(requestedLine(e)) })
	case proto.TypeToolStarted:
		return onEvent(payload, t.started)
	case proto.TypeToolOutput:
		return onEvent(payload, t.output)
	case proto.TypeToolFinished:
		return onEvent(payload, t.finished)
	case proto.TypeUsage:
		return onEvent(payload, t.used)
	case proto.TypeNotice:
		return onEvent(payload, t.notice)
	}
	return nil // of a later version, or nothing to see
}

// onEvent reads a packet and hands it on.
func onEvent[E any](payload []byte, do func(E) error) error {
	var e E
	if err := wire.DecodeReply(payload, &e); err != nil {
		return fmt.Errorf("the daemon sent something that is not an event: %w", err)
	}
	return do(e)
}

// text prints a piece of the assistant's text.
func (t *texts) text(text string) (err error) {
	t.status.print(func() bool {
		t.thoughts.end()
		t.spoke = true
		err = t.out.Text([]byte(text))
		t.status.what, t.status.last = "answering", ""
		t.status.coming += int64(len(text))
		return t.midLine()
	})
	return err
}

// midLine reports whether the cursor of the terminal stands behind text.
func (t *texts) midLine() bool { return t.thoughts.wrote || t.mixed && t.out.wrote }

// final ends an inference's text: the next one begins on a line of its own.
func (t *texts) final(e proto.AssistantFinal) error {
	if !t.streamed {
		if err := t.text(e.Text); err != nil {
			return err
		}
	}
	return t.endText()
}

func (t *texts) endText() (err error) {
	t.status.print(func() bool {
		t.thoughts.end()
		t.answered = t.answered || t.out.wrote
		err = t.out.end()
		t.status.what = "waiting"
		return false
	})
	t.streamed = false
	return err
}

// think shows a piece of reasoning, if that is wanted.
func (t *texts) think(e proto.Reasoning) error {
	t.status.print(func() bool {
		t.status.what = "thinking"
		t.status.coming += int64(len(e.Text))
		if t.reasoning {
			t.thoughts.Text([]byte(e.Text)) // as with all of standard error, a failure has nowhere to be told
		}
		return t.midLine()
	})
	return nil
}

// line prints a line on standard error.
func (t *texts) line(line string) error {
	t.status.print(func() bool {
		t.thoughts.end()
		if t.shared && t.out.wrote {
			line = "\n" + line
		}
		fmt.Fprintln(t.err, visible.Text(line))
		return false
	})
	return nil
}

func (t *texts) started(e proto.ToolStarted) error {
	t.tools++
	t.status.change(func() { t.status.what, t.status.last = inLine(e.Name), "" })
	return nil
}

func (t *texts) output(e proto.ToolOutput) error {
	if line := lastLine(e.Text); line != "" {
		t.status.change(func() { t.status.last = line })
	}
	return nil
}

func (t *texts) finished(e proto.ToolFinished) error {
	if t.tools = max(0, t.tools-1); t.tools == 0 {
		t.status.change(func() { t.status.what, t.status.last = "waiting", "" })
	}
	for _, line := range finishedLines(e) {
		t.line(line)
	}
	if text := diffLines(e.Diff, t.colour); text != "" {
		t.status.print(func() bool { io.WriteString(t.err, text); return false })
	}
	return nil
}

// notice prints a remark. Which AGENTS.md hold is told once, and again if they
// change.
func (t *texts) notice(e proto.Notice) error {
	text := inLine(e.Text)
	switch {
	case e.Kind == "agents" && text == t.agents:
		return nil
	case e.Kind == "agents":
		t.agents = text
	case e.Kind == "warning" && !strings.HasPrefix(text, "Warning:"):
		text = "Warning: " + text
	}
	return t.line(text)
}
