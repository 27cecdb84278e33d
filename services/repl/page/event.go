package page

import "time"

// Event is something that happened. Its time is the caller's clock, in the zone
// that times in the file are to be in; it never goes back.
type Event interface {
	at() time.Time
}

// The events.
type (
	// Start is the first event of a page: its realm connected, or the service
	// started. A request that the file shows as executing is marked interrupted.
	Start struct{ At time.Time }

	// Changed tells that the file was changed and has been at rest for the
	// debounce time.
	Changed struct{ At time.Time }

	// Tick tells the time. It is due at Page.Wake and harmless at any other time.
	Tick struct{ At time.Time }

	// Connected tells that the realm can take jobs.
	Connected struct{ At time.Time }

	// Gone tells that the realm was closed, reloaded or lost.
	Gone struct{ At time.Time }

	// Started tells that the realm has got the job's code. The first is when it
	// was sent, a later one is the realm's own word; durations count from the
	// last, the timeout from the first.
	Started struct {
		At  time.Time
		Job string
	}

	// Result is the realm's answer to a job. The caller has checked that it comes
	// from the realm that the job was given to.
	Result struct {
		At    time.Time // when it was received
		Job   string
		OK    bool
		JSON  bool   // Value is JSON; else it is text
		Value string // if OK
		Error string // if not: the stack, or what there is
	}

	// Background is what was captured in the realm, in the order of arrival.
	Background struct {
		At     time.Time
		Events []Captured
	}

	// Eval asks for code to be run for a local program. It is written into the
	// file like any other request. Done with the same Key tells of its end.
	Eval struct {
		At      time.Time
		Key     string        // the caller's name for it, unique
		Agent   string        // "" is agent
		Code    string        // not blank
		Timeout time.Duration // 0: the page's
	}

	// Abort tells that nobody waits for an Eval any more.
	Abort struct {
		At  time.Time
		Key string
	}
)

// Captured is a background event of a realm.
type Captured struct {
	Type    string // window.onerror, unhandledrejection, console.log and so on
	Level   string // error, warn, info, log or ""
	Message string
	Stack   string
}

func (e Start) at() time.Time      { return e.At }
func (e Changed) at() time.Time    { return e.At }
func (e Tick) at() time.Time       { return e.At }
func (e Connected) at() time.Time  { return e.At }
func (e Gone) at() time.Time       { return e.At }
func (e Started) at() time.Time    { return e.At }
func (e Result) at() time.Time     { return e.At }
func (e Background) at() time.Time { return e.At }
func (e Eval) at() time.Time       { return e.At }
func (e Abort) at() time.Time      { return e.At }
