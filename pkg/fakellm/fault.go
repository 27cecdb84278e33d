package fakellm

import (
	"net/http"
	"slices"
	"strings"
)

// Fault is something wrong with an answer. The package's comment says what each
// does on which wire.
type Fault string

// The faults.
const (
	HTML        Fault = "html"         // status 200 and a web page
	JSON        Fault = "json"         // the same as Turn.Whole
	ErrorEvent  Fault = "error200"     // an error in the stream
	ErrorBody   Fault = "error200json" // status 200 and an error as JSON
	Comments    Fault = "comments"     // comments and blank lines for ever
	LongLine    Fault = "longline"     // an event of 10 MiB
	CutChar     Fault = "cutchar"      // characters cut between writes
	OpenArgs    Fault = "openargs"     // arguments without their end
	BadJSON     Fault = "badjson"      // an event that is not JSON
	BadUTF8     Fault = "badutf8"      // a delta that is not UTF-8
	Unknown     Fault = "unknown"      // events and fields that nobody knows
	CRLF        Fault = "crlf"         // lines end in CRLF
	NoSpace     Fault = "nospace"      // no blank behind "data:"
	BOM         Fault = "bom"          // a byte order mark first
	NoEvent     Fault = "noevent"      // no event lines
	SplitData   Fault = "splitdata"    // data in several lines
	NoFinish    Fault = "nofinish"     // the same as the end Cut
	EmptyFinish Fault = "emptyfinish"  // the same as the end Mark
)

// Faults returns all faults, in the order of the package's comment, for tests
// that go through them.
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

// settled returns the turn with the faults put into other settings that those
// can express, whatever the wire. Its calls are its own.
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

// openArgs takes the end from the last call's arguments.
func (t *Turn) openArgs() {
	if len(t.Calls) == 0 {
		t.Calls = []Call{{Name: "execute_bash", Args: `{"code":"ls"}`}}
	}
	last := &t.Calls[len(t.Calls)-1]
	if last.Args = strings.TrimSuffix(strings.TrimSpace(last.Args), "}"); last.Args == "" {
		last.Args = "{"
	}
}
