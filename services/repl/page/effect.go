package page

import "time"

// Effect is something that the caller is to do once the file is written.
type Effect interface {
	effect()
}

// The effects.
type (
	// Run gives a job to the realm. Each job is given out once.
	Run struct {
		Job     string
		Agent   string
		Code    string // valid UTF-8
		Lang    string // the page's language
		Info    string // the words behind the fence's label
		Timeout time.Duration
	}

	// Cancel takes a job back. The realm may ignore it.
	Cancel struct{ Job string }

	// Done tells how a job, or an Eval that never became one, ended.
	Done struct {
		Job        string // "" if it was never one
		Key        string // of the Eval, "" if the request came from the file
		OK         bool
		JSON       bool   // Value is JSON; else it is text
		Value      string // whole
		Error      string
		Reason     string // why there is no answer: timeout, gone, aborted, lost or "" if there is one
		Background []Captured
		Omitted    int // events between the first of them and the last
		Duration   time.Duration
	}

	// Unknown tells that the event's job is not out: a second answer, one to a
	// job of an earlier start, or an invention. Without this effect the answer
	// is "ok".
	Unknown struct{ Job string }

	// Keep stores a body that was too long for the file.
	Keep struct {
		File string // relative to the REPL's directory, like "debug/index-7-zen-1a2b/3.txt"
		Body string
	}

	// State tells that the state that the registry shows has changed.
	State struct{ State string }

	// Log is a line for the service's log: something that the user may ask about.
	Log struct{ Text string }
)

func (Run) effect()     {}
func (Cancel) effect()  {}
func (Done) effect()    {}
func (Unknown) effect() {}
func (Keep) effect()    {}
func (State) effect()   {}
func (Log) effect()     {}
