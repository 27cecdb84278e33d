package page

import "time"

// View is the end of the file as it was read.
type View struct {
	// Tail is the file from Offset to its end. It may begin inside a line.
	Tail   []byte
	Offset int64

	// ModTime is when the file was last written.
	ModTime time.Time

	// Missing: there is no file. Tail is empty.
	Missing bool

	// Unavailable: the file cannot be read or written now. The event changes the
	// state only; the edit is empty.
	Unavailable bool

	// NoKeep: bodies cannot be stored beside the file. The text says so, and there are
	// no Keep actions.
	NoKeep bool

	// Scan is what State.Scan returned, if Apply asked for it.
	Scan *Scan
}

// Need says what Apply must see before it can finish.
type Need int

// What Apply may need.
const (
	// Nothing: the transition is complete.
	Nothing Need = iota
	// More: Apply must see the file from Edit.From on.
	More
	// Head: the file must go through State.Scan, and Apply must see it from
	// Scan.From on, with the Scan.
	Head
)

// Edit is a change of the file.
type Edit struct {
	// Changed: Text replaces the bytes from From to the end of the file. A file
	// that is missing is created.
	Changed bool
	From    int64
	Text    []byte

	// Need is what Apply must see first. Unless it is Nothing, the returned state
	// is the old one and there are no actions.
	Need Need
}

// Event is something that happened. Its time is the caller's clock, in the zone
// that times in the file have; it never goes back.
type Event interface {
	at() time.Time
}

// The events.
type (
	// Start is the first event: the page connected for the first time, or the
	// service started. A request that the file shows as executing is marked
	// interrupted.
	Start struct{ At time.Time }

	// Changed: the file was changed and has been at rest for the debounce time.
	Changed struct{ At time.Time }

	// Tick: time has passed. It is due at State.Deadline, and harmless at any
	// other time.
	Tick struct{ At time.Time }

	// Connected: the page can run jobs. Each load of a page is connected anew. Title
	// and URL are what the page calls itself now; both empty: unknown.
	Connected struct {
		At         time.Time
		Title, URL string
	}

	// Gone: the page was closed, reloaded or lost.
	Gone struct{ At time.Time }

	// Frozen: the page has not answered since the given time, although it is
	// connected. It is busy, or the browser has frozen it.
	Frozen struct{ At, Since time.Time }

	// Thawed: the page answers again.
	Thawed struct{ At time.Time }

	// Stopping is the last event: the service ends. A request at work is marked
	// interrupted, and nothing is accepted any more.
	Stopping struct{ At time.Time }

	// Started: the page has the code of the job. The first one is when the code
	// was sent, a later one is reported by the page itself; durations count from
	// the last, the timeout from the first.
	Started struct {
		At  time.Time
		Job string
	}

	// Result is the page's answer to a job. The caller has checked that it comes
	// from the page that the job was given to.
	Result struct {
		At    time.Time // when it was received
		Job   string
		OK    bool
		JSON  bool   // Value is JSON; else it is text
		Value string // if OK
		Error string // if not: the stack, or what there is
	}

	// Background is what was captured in the page, in the order of arrival.
	Background struct {
		At     time.Time
		Events []Captured
	}

	// Eval requests code to be run for a program. It is written into the file like
	// any other request. Done with the same Key reports its end.
	Eval struct {
		At      time.Time
		Key     string        // chosen by the caller, unique
		Agent   string        // "" is agent
		Code    string        // not blank
		Timeout time.Duration // 0: the page's
	}

	// Abort: the program does not wait for its Eval any more.
	Abort struct {
		At  time.Time
		Key string
	}
)

// Captured is a background event of a page.
type Captured struct {
	Type    string // window.onerror, unhandledrejection, console.log and so on
	Level   string // error, warn, info, log or ""
	Message string
	Stack   string
	Time    string // HH:MM:SS.mmm, the page's clock; "" if it is not known
	Place   string // that logged it, like app.js:12; "" if it is not known
}

func (e Start) at() time.Time      { return e.At }
func (e Changed) at() time.Time    { return e.At }
func (e Tick) at() time.Time       { return e.At }
func (e Connected) at() time.Time  { return e.At }
func (e Gone) at() time.Time       { return e.At }
func (e Frozen) at() time.Time     { return e.At }
func (e Thawed) at() time.Time     { return e.At }
func (e Stopping) at() time.Time   { return e.At }
func (e Started) at() time.Time    { return e.At }
func (e Result) at() time.Time     { return e.At }
func (e Background) at() time.Time { return e.At }
func (e Eval) at() time.Time       { return e.At }
func (e Abort) at() time.Time      { return e.At }

// Action is something that the caller does once the file is written.
type Action interface {
	action()
}

// The actions.
type (
	// Run sends a job to the page. Each job is given out once.
	Run struct {
		Job     string
		Agent   string
		Code    string // valid UTF-8
		Lang    string // the page's language
		Info    string // the words behind the fence's label
		Test    bool   // a block "js test": the result is the report of its tests
		Timeout time.Duration
	}

	// Cancel takes a job back. The page may ignore it.
	Cancel struct{ Job string }

	// Done reports the end of a job, or of an Eval that never became one.
	Done struct {
		Job        string // "" if it never was one
		Key        string // of the Eval, "" if the request came from the file
		OK         bool
		JSON       bool   // Value is JSON; else it is text
		Value      string // whole
		Inline     string // the result as the file shows it, if it is cut there
		Whole      string // then: the file with the whole, relative to the REPL's directory
		Error      string
		Reason     string // why there is no answer: timeout, gone, aborted, lost, busy or "" if there is one
		Background []Captured
		Omitted    int // events between the first of them and the last
		Duration   time.Duration
	}

	// Unknown: the event's job is not out. It is a second answer, an answer to a
	// job of an earlier start, or an invention.
	Unknown struct{ Job string }

	// Keep stores a body that is too long for the file.
	Keep struct {
		File string // relative to the REPL's directory, like "debug/index-7-zen-1a2b/3.txt"
		Body string
	}

	// Status: what the registry shows has changed.
	Status struct{ Text string }

	// Log is a line for the service's log: something that the user may ask about.
	Log struct{ Text string }
)

func (Run) action()     {}
func (Cancel) action()  {}
func (Done) action()    {}
func (Unknown) action() {}
func (Keep) action()    {}
func (Status) action()  {}
func (Log) action()     {}
