package fakellm

import (
	"encoding/json"
	"slices"
	"strings"
)

// Turn is one answer of the script. The zero value is an empty reply.
type Turn struct {
	Match string // only for a request whose last message holds this
	Times int    // how often the turn is taken; 0 means once
	Wait  string // gate before the first byte
	Pause string // gate after the text and the calls

	Text   string   // the reply, or the body where Status is set
	Deltas []string // the reply's deltas, instead of Text and Size
	Size   int      // characters of a delta, or bytes of a write; 0: all in one
	Bytes  int      // bytes of every write to the connection; 0: an event a write
	Whole  bool     // JSON even if a stream was asked for
	Event  string   // data of one more event after the text and the calls
	End    End      // how the answer ends
	Faults []Fault  // what is wrong with the answer

	Refuses []string // parameters: a request with one of them gets status 400

	Reasoning    string      // reasoning before the text
	ReasoningKey string      // its form on the OpenAI wire; empty: reasoning_content
	Calls        []Call      // tool calls after the text
	Finish       string      // the finish reason, instead of stop or tool_calls
	Usage        *Usage      // the reported tokens; nil: counted in bytes
	NoUsage      bool        // no tokens are reported
	Cost         json.Number // US dollars in OpenRouter's usage; empty: none

	Status   int      // not 0: answer with this status and Text as the body
	Type     string   // content type of such a body
	Header   []string // more header lines, "Name: value"
	Redirect string   // not empty: answer with status 307 to this URL
	Silent   bool     // send nothing at all: End says stall or hangup
}

// Call is a tool call of a reply.
type Call struct {
	ID      string // empty: call_N
	Name    string // of the tool
	Args    string // the arguments as JSON, sent as they stand, even if broken
	Whole   bool   // in one event, not in fragments
	NoID    bool   // without an id
	NoIndex bool   // without an index, on the wires that have one
}

// Usage is what a reply says that it took, in tokens.
type Usage struct {
	In         int // of the request, those from and to the cache included
	Out        int // of the reply, those of its reasoning included
	CacheRead  int // part of In
	CacheWrite int // part of In
	Reasoning  int // part of Out
}

// Forever is the Times of a turn that is never used up.
const Forever = -1

// End says how an answer ends.
type End string

// The ends.
const (
	Done   End = ""       // finish reason, usage, end mark
	Finish End = "finish" // finish reason, then end of input
	Mark   End = "mark"   // end mark without a finish reason
	Cut    End = "cut"    // end of input without either
	Stall  End = "stall"  // nothing more until the client hangs up
	Hangup End = "hangup" // the connection breaks
)

// Reply is a turn with the model's text.
func Reply(text string) Turn { return Turn{Text: text} }

// Failure is a turn with an HTTP status and a body.
func Failure(status int, body string) Turn { return Turn{Status: status, Text: body} }

func (t Turn) matches(text string) bool { return strings.Contains(text, t.Match) }

func (t Turn) has(f Fault) bool { return slices.Contains(t.Faults, f) }

// deltas returns the pieces in which a reply is streamed.
func (t Turn) deltas() []string {
	switch {
	case t.Deltas != nil:
		return t.Deltas
	case t.Size <= 0:
		return []string{t.Text}
	}
	return t.cut(t.Text)
}

// cut cuts text into pieces of Size characters. No text is no piece.
func (t Turn) cut(text string) []string {
	size := t.Size
	if size <= 0 {
		size = max(1, len(text))
	}
	var out []string
	for chars := range slices.Chunk([]rune(text), size) {
		out = append(out, string(chars))
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
