package fakellm

import "strings"

// Turn is one answer of the script. The zero value is an empty reply.
type Turn struct {
	Match string // only for a request whose last message holds this
	Times int    // how often the turn is taken; 0 means once
	Wait  string // gate before the first byte
	Pause string // gate after the text

	Text   string   // the reply, or the body where Status is set
	Deltas []string // the reply's deltas, instead of Text and Size
	Size   int      // characters of a delta, or bytes of a write; 0: all in one
	Whole  bool     // JSON even if a stream was asked for
	Event  string   // data of one more event after the text
	End    End      // how the answer ends

	Status int      // not 0: answer with this status and Text as the body
	Type   string   // content type of such a body
	Header []string // more header lines, "Name: value"
	Silent bool     // send nothing at all: End says stall or hangup
}

// Forever is the Times of a turn that is never used up.
const Forever = -1

// End says how an answer ends.
type End string

// The ends.
const (
	Done   End = ""       // finish reason, usage, [DONE]
	Finish End = "finish" // finish reason, then end of input
	Mark   End = "mark"   // [DONE] without a finish reason
	Cut    End = "cut"    // end of input without either
	Stall  End = "stall"  // nothing more until the client hangs up
	Hangup End = "hangup" // the connection breaks
)

// Reply is a turn with the model's text.
func Reply(text string) Turn { return Turn{Text: text} }

// Failure is a turn with an HTTP status and a body.
func Failure(status int, body string) Turn { return Turn{Status: status, Text: body} }

func (t Turn) matches(text string) bool { return strings.Contains(text, t.Match) }

// deltas returns the pieces in which a reply is streamed.
func (t Turn) deltas() []string {
	switch {
	case t.Deltas != nil:
		return t.Deltas
	case t.Size <= 0:
		return []string{t.Text}
	}
	var out []string
	runes := []rune(t.Text)
	for len(runes) > 0 {
		n := min(t.Size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// text returns the whole reply.
func (t Turn) text() string {
	if t.Deltas != nil {
		return strings.Join(t.Deltas, "")
	}
	return t.Text
}
