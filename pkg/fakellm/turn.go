package fakellm

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Turn is one answer of the script. The zero value is an empty reply.
type Turn struct {
	Match string // only for requests whose last message contains this
	Times int    // how often the turn is used; 0: once
	Wait  string // gate before the first byte
	Pause string // gate after the text and the calls

	Text   string   // the reply, or the body if Status is set
	Deltas []string // the reply's deltas, instead of Text and Size
	Size   int      // characters of a delta, or bytes of a write; 0: all in one
	Bytes  int      // bytes of every write to the connection; 0: one event per write
	Whole  bool     // JSON even if a stream was asked for
	Event  string   // data of one more event after the text and the calls
	End    End      // how the answer ends
	Faults []Fault  // faults of the answer

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
	Header   []string // additional header lines, "Name: value"
	Redirect string   // not empty: answer with status 307 to this URL
	Silent   bool     // send nothing at all: End says stall or hangup
}

// Call is a tool call of a reply.
type Call struct {
	ID      string // empty: call_N
	Name    string // of the tool
	Args    string // the arguments, sent unchanged, even if they are not JSON
	Whole   bool   // in one event, not in fragments
	NoID    bool   // without an id
	NoIndex bool   // without an index, on the wires that have one
}

// Usage is the reported number of tokens.
type Usage struct {
	In         int // of the request, including those from and to the cache
	Out        int // of the reply, including those of its reasoning
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

// cut cuts text into pieces of Size characters. Empty text has no pieces.
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

// Fault is a fault of an answer. The package comment describes them for each wire.
type Fault string

// The faults.
const (
	HTML        Fault = "html"         // status 200 and a web page
	JSON        Fault = "json"         // the same as Turn.Whole
	ErrorEvent  Fault = "error200"     // an error in the stream
	ErrorBody   Fault = "error200json" // status 200 and an error as JSON
	Comments    Fault = "comments"     // comments and blank lines without end
	LongLine    Fault = "longline"     // an event of 10 MiB
	CutChar     Fault = "cutchar"      // characters cut between writes
	OpenArgs    Fault = "openargs"     // truncated arguments
	BadJSON     Fault = "badjson"      // an event that is not JSON
	BadUTF8     Fault = "badutf8"      // a delta that is not UTF-8
	Unknown     Fault = "unknown"      // unknown events and fields
	CRLF        Fault = "crlf"         // lines end in CRLF
	NoSpace     Fault = "nospace"      // no blank after "data:"
	BOM         Fault = "bom"          // a byte order mark first
	NoEvent     Fault = "noevent"      // no event lines
	SplitData   Fault = "splitdata"    // data in several lines
	NoFinish    Fault = "nofinish"     // the same as the end Cut
	EmptyFinish Fault = "emptyfinish"  // the same as the end Mark
)

// Faults returns all faults, in the order of the package comment.
func Faults() []Fault {
	return []Fault{
		HTML, JSON, ErrorEvent, ErrorBody, Comments, LongLine, CutChar, OpenArgs, BadJSON, BadUTF8,
		Unknown, CRLF, NoSpace, BOM, NoEvent, SplitData, NoFinish, EmptyFinish,
	}
}

const (
	webPage    = "<!doctype html>\n<html><body><h1>Sign in</h1></body></html>\n"
	errorText  = "fakellm: the model failed"
	longText   = 10 << 20
	brokenJSON = `{"broken": "`
)

// settled returns the turn with faults replaced by other settings where these have
// the same effect on every wire. Its calls are copied.
func (t Turn) settled() Turn {
	t.Calls = slices.Clone(t.Calls)
	switch {
	case t.Redirect != "":
		t.Header = append(slices.Clone(t.Header), "Location: "+t.Redirect)
		t.Status, t.Text = http.StatusTemporaryRedirect, ""
	case t.has(HTML):
		t.Status, t.Type, t.Text = http.StatusOK, "text/html; charset=utf-8", webPage
	}
	if t.has(OpenArgs) {
		t.openArgs()
	}
	t.Whole = t.Whole || t.has(JSON)
	switch ends := t.End == Done; {
	case ends && (t.has(NoFinish) || t.has(ErrorEvent)):
		t.End = Cut
	case ends && t.has(EmptyFinish):
		t.End = Mark
	}
	return t
}

// openArgs truncates the last call's arguments.
func (t *Turn) openArgs() {
	if len(t.Calls) == 0 {
		t.Calls = []Call{{Name: "execute_bash", Args: `{"code":"ls"}`}}
	}
	last := &t.Calls[len(t.Calls)-1]
	if last.Args = strings.TrimSuffix(strings.TrimSpace(last.Args), "}"); last.Args == "" {
		last.Args = "{"
	}
}
