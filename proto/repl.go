package proto

// Methods of repl, the file REPL. A realm is something live that runs code: a
// page, a worker or a frame of a browser, a program. Each has a Markdown file
// that holds what was run in it. Realms of browsers use the same messages over
// a WebSocket: there hello stands for attach, and welcome for attached.
var (
	// ReplPages lists the realms that are connected.
	ReplPages = method[PagesRequest, Pages]("repl", "pages", "pages")
	// ReplEval runs code in a realm and answers with what came of it. It waits
	// its turn, and is recorded in the realm's file like any other request. Code
	// that throws, and a realm that does not answer, are results; a realm that
	// is not there, or a name that several have, is an error. Hanging up takes
	// the request back: code that the realm has is cancelled there.
	ReplEval = method[Eval, Evaluated]("repl", "eval", "result")
	// ReplWatch reports what happens, as packets of type page (a Page whose state
	// or connection changed) and exchange (an Exchange that has ended).
	ReplWatch = eventsMethod[WatchPages, Empty]("repl", "watch", "ended")
	// ReplAttach connects a realm for as long as the connection is open. The
	// first packet is attached (an Attached); then a job (a Job) comes for every
	// piece of code to be run, one at a time, and cancel (a JobName) for one
	// that nobody waits for any more.
	ReplAttach = eventsMethod[Attach, Empty]("repl", "attach", "detached")
	// ReplResult brings what came of a job. The error unknown says that no such
	// job is out, or that it has been answered; the realm has to do nothing then.
	// What comes too late for the timeout is taken, as a note in the file.
	ReplResult = method[JobResult, Empty]("repl", "result", "ok")
	// ReplEvents brings what happened in a realm beside its jobs: what was
	// written to the console, and errors that nobody caught.
	ReplEvents = method[RealmEvents, Empty]("repl", "events", "ok")
	// ReplStarted says that a job has begun. Without it a job starts when it is
	// sent.
	ReplStarted = method[JobStarted, Empty]("repl", "started", "ok")
)

// Types of packets of watch and attach.
const (
	TypePage     = "page"     // watch: a Page
	TypeExchange = "exchange" // watch: an Exchange
	TypeAttached = "attached" // attach: an Attached
	TypeJob      = "job"      // attach: a Job
	TypeCancel   = "cancel"   // attach: a JobName
)

// PagesRequest has no fields.
type PagesRequest struct{}

// Pages are the realms.
type Pages struct {
	// Pages are the realms in the order of their names.
	Pages []Page `json:"pages"`
}

// Page is one realm.
type Page struct {
	// ID is the realm's short id, 4 to 8 hexadecimal digits.
	ID string `json:"id"`
	// Name is its name: lower case letters, digits and hyphens.
	Name string `json:"name"`
	// File is its file, relative to the directory of the REPL.
	File string `json:"file"`
	// URL is where it comes from, without query and fragment.
	URL string `json:"url"`
	// Lang is the language that it runs, such as "js": the fence's label.
	Lang string `json:"lang"`
	// Kind is "page", "frame", "worker", "shared worker", or another word of the
	// realm's.
	Kind string `json:"kind"`
	// State is "idle", "requested", "executing", "completed (17ms)", "failed after
	// 60000ms (timeout)", "late" or "gone".
	State string `json:"state"`
	// LastSeen is when it was heard of last, in RFC 3339.
	LastSeen string `json:"last_seen"`
}

// Eval is code to be run.
type Eval struct {
	// Page is the realm: its name if only one has it, its name with a hyphen and
	// its id, or its id.
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

// Evaluated is what came of code.
type Evaluated struct {
	// OK is false if the code threw, did not end in time, or could not be run.
	OK bool `json:"ok"`
	// Kind is "json" if the value is JSON, else "text".
	Kind string `json:"kind,omitzero"`
	// Value is the value as a text.
	Value string `json:"value,omitzero"`
	// Error says what went wrong, with the stack if there is one.
	Error string `json:"error,omitzero"`
	// Background is what happened beside it: the first two events and the last
	// eight.
	Background []RealmEvent `json:"background"`
	// Omitted counts the events between them.
	Omitted int `json:"omitted,omitzero"`
	// DurationMS is the time that the run took, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// File is the realm's file, relative to the directory of the REPL.
	File string `json:"file,omitzero"`
}

// WatchPages asks for what happens.
type WatchPages struct {
	// Page is the realm; absent: all of them.
	Page string `json:"page,omitzero"`
}

// Exchange is a request that has ended, for watch.
type Exchange struct {
	// Page is the realm's name with a hyphen and its id.
	Page string `json:"page"`
	// Agent is who asked.
	Agent string `json:"agent"`
	// OK is false if it failed.
	OK bool `json:"ok"`
	// DurationMS is the time that it took, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
}

// Attach connects a realm.
type Attach struct {
	// Name is what it calls itself, such as a page's title. Anything will do: it
	// is made a name for a file.
	Name string `json:"name"`
	// URL is where it comes from.
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
	// ID is the realm's id.
	ID string `json:"id"`
	// Name is the realm's name.
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

// JobResult is what came of a job.
type JobResult struct {
	// ID and Nonce are the realm's.
	ID string `json:"id"`
	// Nonce is the realm's nonce.
	Nonce string `json:"nonce"`
	// Job is the job's identifier.
	Job string `json:"job"`
	// OK is false if the code threw.
	OK bool `json:"ok"`
	// Kind is "json" or "text".
	Kind string `json:"kind,omitzero"`
	// Value is the value, serialised by the realm: the body of the reply's block.
	Value string `json:"value,omitzero"`
	// Error is the error with its stack, where OK is false.
	Error string `json:"error,omitzero"`
}

// JobStarted says that a job has begun.
type JobStarted struct {
	// ID and Nonce are the realm's.
	ID string `json:"id"`
	// Nonce is the realm's nonce.
	Nonce string `json:"nonce"`
	// Job is the job's identifier.
	Job string `json:"job"`
}

// RealmEvents are events of a realm.
type RealmEvents struct {
	// ID and Nonce are the realm's.
	ID string `json:"id"`
	// Nonce is the realm's nonce.
	Nonce string `json:"nonce"`
	// Events are the events in their order.
	Events []RealmEvent `json:"events"`
}

// RealmEvent is something that happened in a realm.
type RealmEvent struct {
	// Type is "console", "window.onerror", "unhandledrejection", or another
	// word of the realm's.
	Type string `json:"type"`
	// Level is the console's: "log", "info", "warn" or "error".
	Level string `json:"level,omitzero"`
	// Source is where it came from, such as "console.log"; absent: made of type
	// and level.
	Source string `json:"source,omitzero"`
	// TS is when it happened, as HH:MM:SS in local time; absent: now.
	TS string `json:"ts,omitzero"`
	// Message is its text.
	Message string `json:"message"`
	// Stack is the stack of an error.
	Stack string `json:"stack,omitzero"`
}
