package render

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"zino/pkg/approval"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/term"
)

// Done is the packet done of a turn with events.
type Done struct {
	Text       string       `json:"full_text"`
	Iterations *int         `json:"iterations,omitzero"`
	StopReason string       `json:"stop_reason,omitzero"`
	Structured proto.Raw    `json:"structured,omitzero"`
	Usage      *proto.Usage `json:"usage,omitzero"`
	Provider   string       `json:"provider,omitzero"`
	Model      string       `json:"model,omitzero"`
}

// Turns renders turns: TextTurns for people, JSONTurns for programs.
type Turns interface {
	// Begin is called before the first turn. session is "" for an unstored session.
	Begin(session string) error
	// Turn is called at the beginning of each turn.
	Turn()
	// Event renders a packet, which is valid during the call.
	Event(typ string, payload []byte) error
	// Status shows what the turn waits for, until the next packet.
	Status(what string)
	// Ask prints a text and below it a prompt, which stays below all that follows until
	// its line was typed, or until Ask without a prompt.
	Ask(text, prompt string)
	// Typed says that the person has typed a line at the prompt.
	Typed()
	// End renders the end of a turn: its done packet, or its error.
	// It reports whether err was rendered.
	End(done Done, err error) (reported bool, writing error)
}

// EmptyAnswer is the warning for a turn without text.
const EmptyAnswer = "Warning: the model's answer was empty"

// TextTurns renders turns for a person: the assistant's text on standard output,
// all else on standard error.
type TextTurns struct {
	out       Printer
	thoughts  Printer // reasoning, on standard error
	err       io.Writer
	status    *Indicator
	colour    bool
	terminal  bool // standard error is a terminal
	shared    bool // standard output is the same terminal
	mixed     bool // text on standard output may end up on the terminal
	reasoning bool // print it

	streamed bool // the current inference sent deltas
	spoke    bool // the turn has text, which may be empty
	answered bool // the turn has text that is not empty
	agents   string
	asks     string // the prompt at the bottom; "": none
	usage    proto.Usage
	tools    int               // running calls
	names    map[string]string // of the tools of MCP servers as they are shown, by the id of the call

	holds bool   // standard output gets the value of the answer alone
	held  []byte // the text of the present inference, which may be the answer
}

// NewTextTurns returns a renderer on the streams of a run.
func NewTextTurns(stdout, stderr *os.File, reasoning bool) *TextTurns {
	t := &TextTurns{err: stderr, terminal: term.IsTerminal(stderr), reasoning: reasoning, status: NewIndicator(stderr)}
	t.colour = t.terminal && term.Fancy()
	t.shared = t.terminal && term.IsTerminal(stdout)
	info, err := stdout.Stat()
	piped := err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 // the reader may write to the terminal
	t.mixed = t.shared || piped
	t.out = *NewPrinter(stdout)
	t.thoughts = Printer{w: stderr, terminal: true, dim: t.colour}
	return t
}

// HoldAnswer prints the value of the answer, and nothing else, on standard output. The
// texts before it go to standard error.
func (t *TextTurns) HoldAnswer() { t.holds = true }

// release prints held text that is not the answer on standard error.
func (t *TextTurns) release() {
	if text := strings.TrimSpace(string(t.held)); text != "" {
		t.held = nil
		t.line(text)
	}
}

// Begin does nothing.
func (t *TextTurns) Begin(string) error { return nil }

// Turn shows the indicator.
func (t *TextTurns) Turn() { t.status.Begin("waiting") }

// Status changes the indicator.
func (t *TextTurns) Status(what string) { t.status.set(Line(what)) }

// Event renders one packet. Types of later versions are ignored.
func (t *TextTurns) Event(typ string, payload []byte) error {
	switch typ {
	case proto.TypeAssistantDelta:
		return decode(payload, func(e proto.AssistantDelta) error {
			t.streamed = true
			return t.text(e.Text)
		})
	case proto.TypeAssistantFinal:
		return decode(payload, func(e proto.AssistantFinal) error {
			if !t.streamed {
				if err := t.text(e.Text); err != nil {
					return err
				}
			}
			return t.endText()
		})
	case proto.TypeReasoning:
		return decode(payload, t.think)
	case proto.TypeToolRequested:
		t.release()
		return decode(payload, func(e proto.ToolRequested) error {
			if name, _ := approval.Shown(e.Name, e.Input); name != e.Name {
				if t.names == nil {
					t.names = map[string]string{}
				}
				t.names[e.ID] = name
			}
			return t.line(requestedLine(e))
		})
	case proto.TypeToolStarted:
		return decode(payload, func(e proto.ToolStarted) error {
			t.tools++
			t.status.set(Line(cmp.Or(t.names[e.ID], e.Name)))
			return nil
		})
	case proto.TypeToolOutput:
		return decode(payload, func(e proto.ToolOutput) error {
			if line := lastLine(e.Text); line != "" {
				t.status.setLast(line)
			}
			return nil
		})
	case proto.TypeToolFinished:
		return decode(payload, t.finished)
	case proto.TypeUsage:
		return decode(payload, t.used)
	case proto.TypeNotice:
		return decode(payload, t.notice)
	case proto.TypeUserMessage:
		return decode(payload, t.userMessage)
	case proto.TypeTurnEnded:
		return decode(payload, func(e proto.TurnEnd) error {
			for _, say := range e.Returned {
				t.line("Not delivered: " + Line(say.Text))
			}
			return nil
		})
	case proto.TypeRetracted: // the answer begins again
		t.held = nil
		return t.endText()
	case proto.TypeTodo:
		return decode(payload, t.todo)
	case proto.TypeUndo:
		return decode(payload, func(e proto.LogUndo) error {
			what := "Taken back: "
			if e.Redo {
				what = "Made again: "
			}
			return t.line(what + Line(strings.Join(e.Restored, ", ")))
		})
	case proto.TypeApprovalRequested: // a person answers elsewhere
		return decode(payload, func(e proto.Approval) error { return t.line(ApprovalWait(&e)) })
	case proto.TypeApprovalClosed:
		return decode(payload, func(e proto.ApprovalClosed) error {
			return t.line(Line(approval.ClosedText(e.State, e.By) + ": " + e.Approval))
		})
	case proto.TypeContinued:
		return decode(payload, func(e proto.Continued) error {
			return t.line("The session goes on in " + Line(e.SessionID))
		})
	}
	return nil
}

// userMessage prints a message that came into the turn. One about a job's end, of a
// hook or about a schema is not the user's.
func (t *TextTurns) userMessage(e proto.UserMessage) error {
	t.release()
	if !proto.ViaUser(e.Via) {
		return t.line(Line(e.Text))
	}
	return t.line("> " + strings.ReplaceAll(strings.TrimSpace(e.Typed()), "\n", "\n  "))
}

// todo prints the model's list.
func (t *TextTurns) todo(e proto.Todo) error {
	marks := map[string]string{"done": "[x] ", "active": "[>] "}
	for _, item := range e.Items {
		if err := t.line(cmp.Or(marks[item.Status], "[ ] ") + Line(item.Text)); err != nil {
			return err
		}
	}
	return nil
}

// decode decodes a packet and calls do with it.
func decode[E any](payload []byte, do func(E) error) error {
	var e E
	if err := wire.DecodeReply(payload, &e); err != nil {
		return fmt.Errorf("the daemon sent something that is not an event: %w", err)
	}
	return do(e)
}

// text prints a piece of the assistant's text.
func (t *TextTurns) text(piece string) (err error) {
	t.print(func() bool {
		t.thoughts.End()
		t.spoke = true
		if t.holds {
			t.held = append(t.held, piece...)
		} else {
			err = t.out.Text([]byte(piece))
		}
		t.status.what, t.status.last = "answering", ""
		t.status.coming += int64(len(piece))
		return t.midLine()
	})
	return err
}

// print calls do with the indicator erased, above the prompt. do reports whether it left
// text where the indicator would be drawn.
func (t *TextTurns) print(do func() (blocked bool)) {
	t.status.print(func() bool {
		if t.asks == "" {
			return do()
		}
		fmt.Fprintln(t.err)
		do()
		io.WriteString(t.err, t.asks)
		return true
	})
}

// Ask prints a question on standard error.
func (t *TextTurns) Ask(text, prompt string) {
	t.status.print(func() bool {
		t.thoughts.End()
		if t.asks != "" || t.shared && t.out.wrote {
			text = "\n" + text
		}
		io.WriteString(t.err, text+prompt)
		t.asks = prompt
		return prompt != ""
	})
}

// Typed ends the prompt: the terminal has begun a new line.
func (t *TextTurns) Typed() {
	t.status.print(func() bool {
		t.asks = ""
		return false
	})
}

// midLine reports whether the cursor of the terminal is behind text.
func (t *TextTurns) midLine() bool { return t.thoughts.wrote || t.mixed && t.out.wrote }

// endText ends an inference's text: the next one begins on a new line.
func (t *TextTurns) endText() (err error) {
	t.print(func() bool {
		t.thoughts.End()
		t.answered = t.answered || t.out.wrote
		err = t.out.End()
		t.status.what = "waiting"
		return false
	})
	t.streamed = false
	return err
}

func (t *TextTurns) think(e proto.Reasoning) error {
	t.print(func() bool {
		t.status.what = "thinking"
		t.status.coming += int64(len(e.Text))
		if t.reasoning {
			t.thoughts.Text([]byte(e.Text)) // an error on stderr cannot be reported
		}
		return t.midLine()
	})
	return nil
}

// line prints a line on standard error.
func (t *TextTurns) line(line string) error {
	t.print(func() bool {
		t.thoughts.End()
		if t.shared && t.out.wrote {
			line = "\n" + line
		}
		fmt.Fprintln(t.err, text.Visible(line))
		return false
	})
	return nil
}

func (t *TextTurns) finished(e proto.ToolFinished) error {
	if t.tools = max(0, t.tools-1); t.tools == 0 {
		t.status.set("waiting")
	}
	for _, line := range finishedLines(e, cmp.Or(t.names[e.ID], e.Name)) {
		t.line(line)
	}
	if diff := diffText(e.Diff, t.colour); diff != "" {
		t.print(func() bool { io.WriteString(t.err, diff); return false })
	}
	return nil
}

// notice prints a notice; the one about AGENTS.md only if it changed.
func (t *TextTurns) notice(e proto.Notice) error {
	line := Line(e.Text)
	switch {
	case e.Kind == proto.NoticeAgents && line == t.agents:
		return nil
	case e.Kind == proto.NoticeAgents:
		t.agents = line
	case e.Kind == proto.NoticeWarning && !strings.HasPrefix(line, "Warning:"):
		line = "Warning: " + line
	}
	return t.line(line)
}

// used adds the usage of one inference.
func (t *TextTurns) used(e proto.InferenceUsage) error {
	t.usage.InputTokens += e.InputTokens
	t.usage.OutputTokens += e.OutputTokens
	switch {
	case t.usage.CostUSD == nil:
		t.usage.CostUSD = e.CostUSD
	case e.CostUSD != nil:
		t.usage.CostUSD = new(*t.usage.CostUSD + *e.CostUSD)
	}
	t.status.setTokens(t.usage.OutputTokens)
	return nil
}

// End ends the turn's text and prints warnings and usage below it.
func (t *TextTurns) End(done Done, err error) (reported bool, writing error) {
	t.status.End()
	if !t.spoke { // a daemon without events
		writing = t.text(done.Text)
	}
	if t.holds && err == nil {
		t.held, t.answered = nil, true
		line := append([]byte(nil), done.Structured...)
		writing = errors.Join(writing, writeJSON(t.out.w, line, t.out.terminal))
	}
	t.release()
	writing = errors.Join(writing, t.endText())
	if err == nil && !t.answered {
		writing = errors.Join(writing, t.out.Newline())
	}
	switch {
	case err != nil:
	case done.StopReason == "length":
		t.line("Warning: the answer was cut: it reached the limit of tokens for one answer; see --max-tokens")
	case done.StopReason == "refusal", done.StopReason == "filter":
		t.line("Warning: the model broke off: " + done.StopReason)
	case !t.answered:
		t.line(EmptyAnswer)
	}
	if done.Usage != nil {
		t.usage = *done.Usage
	}
	if t.terminal && t.usage != (proto.Usage{}) && !errors.Is(err, ErrInterrupted) && !errors.Is(err, ErrDetached) {
		line := fmt.Sprintf("%s tokens in, %s out", Count(t.usage.InputTokens), Count(t.usage.OutputTokens))
		if t.usage.CostUSD != nil {
			line += ", " + Dollars(*t.usage.CostUSD)
		}
		if t.colour {
			line = dimmed(line)
		}
		fmt.Fprintln(t.err, line)
	}
	t.usage, t.tools, t.spoke, t.answered = proto.Usage{}, 0, false, false
	return false, writing
}
