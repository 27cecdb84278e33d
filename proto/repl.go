package proto

// Methods of repl, the file REPL. A page is something live that runs code: a page, a
// worker or a frame of a browser, or a program. Each has a Markdown file, its log,
// that holds what was run in it. Pages of browsers use the same messages over a
// WebSocket, with hello instead of attach, and welcome instead of attached.
var (
	// ReplPages lists the connected pages.
	ReplPages = method[PagesRequest, Pages]("repl", "pages", "pages")
	// ReplEval runs code in a page and answers with the result. The request waits its
	// turn, and is recorded in the page's file like any other. Code that throws, and a
	// page that does not answer, are results; a page that is not connected, or a name
	// that several have, is an error. Hanging up withdraws the request: code that the
	// page has is cancelled there.
	ReplEval = method[Eval, Evaluated]("repl", "eval", "result")
	// ReplWatch reports what happens, as packets of type page (a Page whose state
	// or connection changed) and exchange (an Exchange that has ended).
	ReplWatch = eventsMethod[WatchPages, Empty]("repl", "watch", "ended")
	// ReplAttach connects a page for as long as the connection is open. The first
	// packet is attached (an Attached); then a job (a Job) is sent for every piece of
	// code, one at a time, and cancel (a JobName) for one whose result is not awaited
	// any more.
	ReplAttach = eventsMethod[Attach, Empty]("repl", "attach", "detached")
	// ReplResult sends the result of a job. The error unknown means that no such job
	// is out, or that it has been answered; the page can ignore it. A result after the
	// timeout is accepted, as a note in the file.
	ReplResult = method[JobResult, Empty]("repl", "result", "ok")
	// ReplEvents sends what happened in a page beside its jobs: console messages and
	// uncaught errors.
	ReplEvents = method[PageEvents, Empty]("repl", "events", "ok")
	// ReplStarted reports that a job has begun. Without it a job starts when it is
	// sent.
	ReplStarted = method[JobStarted, Empty]("repl", "started", "ok")
)

// PagesRequest has no fields.
type PagesRequest struct{}

// Pages are the connected pages.
type Pages struct {
	// Pages are the pages in the order of their names.
	Pages []Page `json:"pages"`
}

// Page is one page.
type Page struct {
	// ID is the page's short id, 4 to 8 hexadecimal digits.
	ID string `json:"id"`
	// Name is its name: lower case letters, digits and hyphens.
	Name string `json:"name"`
	// File is its file, relative to the directory of the REPL.
	File string `json:"file"`
	// URL is where it comes from, without query and fragment.
	URL string `json:"url"`
	// Lang is the language that it runs, such as "js": the fence's label.
	Lang string `json:"lang"`
	// Kind is "page", "frame", "worker", "shared worker", or what the page calls
	// itself.
	Kind string `json:"kind"`
	// State is "idle", "requested", "executing", "completed (17ms)", "failed after
	// 60000ms (timeout)", "late" or "gone".
	State string `json:"state"`
	// LastSeen is when it last sent something, in RFC 3339.
	LastSeen string `json:"last_seen"`
}

// Eval is code to be run.
type Eval struct {
	// Page is the page: its name if only one has it, its name with a hyphen and its
	// id, or its id.
	Page string `json:"page"`
	// Code is the code.
	Code string `json:"code"`
	// Agent is who asks, as the file will have it; absent: "agent".
	Agent string `json:"agent,omitzero"`
	// TimeoutMS is how long the run may take, in milliseconds; absent or 0: as
	// configured.
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
	// Sandbox is the level of confinement of the turn that asks; absent: none. A
	// page is not confined, so at any level but "off" the code is refused
	// (denied) unless [repl] from_sandbox is true.
	Sandbox Level `json:"sandbox,omitzero"`
}

// Evaluated is the result of code.
type Evaluated struct {
	// OK is false if the code threw, did not end in time, or could not be run.
	OK bool `json:"ok"`
	// Kind is "json" if the value is JSON, else "text".
	Kind string `json:"kind,omitzero"`
	// Value is the value as a text.
	Value string `json:"value,omitzero"`
	// Error is the error, with the stack if there is one.
	Error string `json:"error,omitzero"`
	// Background is what happened beside it: the first two events and the last
	// eight.
	Background []PageEvent `json:"background"`
	// Omitted counts the events between them.
	Omitted int `json:"omitted,omitzero"`
	// DurationMS is the time that the run took, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// File is the page's file, relative to the directory of the REPL.
	File string `json:"file,omitzero"`
}

// WatchPages asks for what happens.
type WatchPages struct {
	// Page is the page; absent: all of them.
	Page string `json:"page,omitzero"`
}

// Exchange is a request that has ended, for watch.
type Exchange struct {
	// Page is the page's name with a hyphen and its id.
	Page string `json:"page"`
	// Agent is who asked.
	Agent string `json:"agent"`
	// OK is false if it failed.
	OK bool `json:"ok"`
	// DurationMS is the time that it took, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
}

// Attach connects a page.
type Attach struct {
	// Name is what it calls itself, such as its title. Any text is accepted: it is
	// converted to a file name.
	Name string `json:"name"`
	// URL is its address.
	URL string `json:"url,omitzero"`
	// Lang is the language that it runs; absent: "js".
	Lang string `json:"lang,omitzero"`
	// Kind is what it is; absent: "page".
	Kind string `json:"kind,omitzero"`
	// ID is the id that it had before, kept if it is well-formed and not live.
	ID string `json:"id,omitzero"`
	// Nonce tells it from a copy with the same id: made new for every load.
	// Without one the service makes one.
	Nonce string `json:"nonce,omitzero"`
}

// Attached is the packet attached.
type Attached struct {
	// ID is the page's id.
	ID string `json:"id"`
	// Name is the page's name.
	Name string `json:"name"`
	// File is its file, relative to the directory of the REPL.
	File string `json:"file"`
	// Nonce has to come with every result and with all events.
	Nonce string `json:"nonce"`
}

// Job is the packet job: code to be run, once.
type Job struct {
	// Job is the job's identifier.
	Job string `json:"job"`
	// Code is the code.
	Code string `json:"code"`
	// Lang is the label of its fence, in lower case; empty: none.
	Lang string `json:"lang"`
	// TimeoutMS is how long the service will wait, in milliseconds.
	TimeoutMS int64 `json:"timeout_ms"`
}

// JobName is the packet cancel.
type JobName struct {
	// Job is the job's identifier.
	Job string `json:"job"`
}

// JobResult is the result of a job.
type JobResult struct {
	// ID and Nonce are the page's.
	ID string `json:"id"`
	// Nonce is the page's nonce.
	Nonce string `json:"nonce"`
	// Job is the job's identifier.
	Job string `json:"job"`
	// OK is false if the code threw.
	OK bool `json:"ok"`
	// Kind is "json" or "text".
	Kind string `json:"kind,omitzero"`
	// Value is the value, serialised by the page: the body of the reply's block.
	Value string `json:"value,omitzero"`
	// Error is the error with its stack, where OK is false.
	Error string `json:"error,omitzero"`
}

// JobStarted reports that a job has begun.
type JobStarted struct {
	// ID and Nonce are the page's.
	ID string `json:"id"`
	// Nonce is the page's nonce.
	Nonce string `json:"nonce"`
	// Job is the job's identifier.
	Job string `json:"job"`
}

// PageEvents are events of a page.
type PageEvents struct {
	// ID and Nonce are the page's.
	ID string `json:"id"`
	// Nonce is the page's nonce.
	Nonce string `json:"nonce"`
	// Events are the events in their order.
	Events []PageEvent `json:"events"`
}

// PageEvent is something that happened in a page.
type PageEvent struct {
	// Type is "console", "window.onerror", "unhandledrejection", or another
	// word of the page's.
	Type string `json:"type"`
	// Level is the level of the console: "log", "info", "warn" or "error".
	Level string `json:"level,omitzero"`
	// Source is its source, such as "console.log"; absent: made of type
	// and level.
	Source string `json:"source,omitzero"`
	// TS is when it happened, as HH:MM:SS in local time; absent: now.
	TS string `json:"ts,omitzero"`
	// Message is its text.
	Message string `json:"message"`
	// Stack is the stack of an error.
	Stack string `json:"stack,omitzero"`
}
