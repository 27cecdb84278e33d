package proto

// Methods of repl, the file REPL. A page is a connected program that runs code: a
// page, a worker or a frame of a browser, a Python or Node program. Each has a
// Markdown file, its log, with the code that was run in it. Pages of browsers use
// the same messages over a WebSocket: hello for attach, welcome for attached. While
// such a page has a job, the packet ping comes every second; it answers with pong, id
// and nonce at once. After 3 seconds without any packet it is shown as busy.
var (
	// ReplPages lists the connected pages.
	ReplPages = method[PagesRequest, Pages]("repl", "pages", "pages")
	// ReplEval runs code in a page and answers with its result. Requests follow each
	// other and are recorded in the page's log. Code that throws, and a page that
	// does not answer, are results. An unknown page, and a name that several pages
	// have, are errors. Hanging up withdraws the request: code that was sent to the
	// page is cancelled there.
	ReplEval = method[Eval, Evaluated]("repl", "eval", "result")
	// ReplWatch reports changes, as packets of type page (a Page whose state or
	// connection has changed) and exchange (an Exchange that has ended).
	ReplWatch = eventsMethod[WatchPages, Empty]("repl", "watch", "ended")
	// ReplAttach connects a page for as long as the connection is open. The first
	// packet is attached (an Attached). Then job (a Job) comes for each piece of
	// code to run, one at a time, and cancel (a JobName) for one whose result is no
	// longer needed.
	ReplAttach = eventsMethod[Attach, Empty]("repl", "attach", "detached")
	// ReplResult sends the result of a job. The error unknown means that there is no
	// such job, or that it has been answered; the page can ignore it. A result after
	// the timeout is recorded as a note in the log.
	ReplResult = method[JobResult, Empty]("repl", "result", "ok")
	// ReplPart sends a part of a job's value or error before the result, for texts
	// above 1 MiB: the whole is all parts in their order, followed by the value or
	// error of the result. Above 64 MiB in total the error is too_large, and the page
	// sends the result for what was accepted.
	ReplPart = method[JobPart, Empty]("repl", "part", "ok")
	// ReplEvents sends what happened in a page outside of its jobs: console output
	// and uncaught errors.
	ReplEvents = method[PageEvents, Empty]("repl", "events", "ok")
	// ReplStarted reports the start of a job. Without it a job starts when it is
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

// Pages lists pages.
type Pages struct {
	// Pages are the connected pages in the order of their names.
	Pages []Page `json:"pages"`
}

// Page is a page.
type Page struct {
	// ID is the page's short id, 4 to 8 hexadecimal digits.
	ID string `json:"id"`
	// Name is its name: lower case letters, digits and hyphens. It is part of the
	// name of the file and does not change.
	Name string `json:"name"`
	// Title is what the page calls itself now; absent: the name was made of that.
	Title string `json:"title,omitzero"`
	// File is its log, relative to the directory of the REPL.
	File string `json:"file"`
	// URL is its address, without query and fragment.
	URL string `json:"url"`
	// Lang is the language of its code, such as "js": the info string of its code
	// blocks.
	Lang string `json:"lang"`
	// Kind is "page", "frame", "worker", "shared worker", or another word that the
	// page chose.
	Kind string `json:"kind"`
	// State is "idle", "requested", "executing", "completed (17ms)", "failed after
	// 60000ms (timeout)", "late" or "gone".
	State string `json:"state"`
	// BusySince is since when the page has not answered, although code was sent to it
	// and it is connected, in RFC 3339; absent: it answers.
	BusySince string `json:"busy_since,omitzero"`
	// LastSeen is when its last message came, in RFC 3339.
	LastSeen string `json:"last_seen"`
}

// Eval is code to run.
type Eval struct {
	// Page is the page's name or its present title as a name (lower case letters,
	// digits and hyphens) if only one page has it, one of these with a hyphen and the
	// page's id, or the id.
	Page string `json:"page"`
	// Code is the code.
	Code string `json:"code"`
	// Agent is the author of the request in the log; absent: "agent".
	Agent string `json:"agent,omitzero"`
	// TimeoutMS is the time limit of the run in milliseconds; absent or 0: as
	// configured.
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
	// Sandbox is the level of confinement of the turn that asks; absent: none. Pages
	// are not confined, so at any level but "off" the code is refused (denied)
	// unless [repl] from_sandbox is true.
	Sandbox Level `json:"sandbox,omitzero"`
	// Token is the token of the turn whose model asks, as of call of exc: its mode, and
	// the policy, decide. Absent: a person asks.
	Token string `json:"token,omitzero"`
	// Key identifies the call for its approval: SESSION/TURN/STEP/CALL.
	Key string `json:"key,omitzero"`
	// Grant is the token of an approval, as of call of exc.
	Grant string `json:"grant,omitzero"`
	// Ask is as in call of exc.
	Ask string `json:"ask,omitzero"`
}

// Evaluated is the result of code.
type Evaluated struct {
	// OK is false if the code threw, did not end in time, or could not be run.
	OK bool `json:"ok"`
	// Kind is "json" if the value is JSON, else "text".
	Kind string `json:"kind,omitzero"`
	// Value is the value as a text, also an empty one; absent if OK is false. Above
	// 1 MiB it is the inline form of the log.
	Value *string `json:"value,omitzero"`
	// Error is the error, with its stack if there is one. Above 1 MiB it is the inline
	// form of the log.
	Error string `json:"error,omitzero"`
	// Whole is the file of the whole value or error, relative to the directory of the
	// REPL; absent: the answer has it.
	Whole string `json:"whole,omitzero"`
	// Background are the events outside of the run while it lasted: the first two
	// and the last eight.
	Background []PageEvent `json:"background"`
	// Omitted counts the events between them.
	Omitted int `json:"omitted,omitzero"`
	// DurationMS is the duration of the run in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// File is the page's log, relative to the directory of the REPL.
	File string `json:"file,omitzero"`
}

// WatchPages selects pages.
type WatchPages struct {
	// Page is the page; absent: all of them.
	Page string `json:"page,omitzero"`
}

// Exchange is a request that has ended, for watch.
type Exchange struct {
	// Page is the page's name with a hyphen and its id.
	Page string `json:"page"`
	// Agent is the author of the request.
	Agent string `json:"agent"`
	// OK is false if it failed.
	OK bool `json:"ok"`
	// DurationMS is its duration in milliseconds.
	DurationMS int64 `json:"duration_ms"`
}

// Attach connects a page.
type Attach struct {
	// Name is what the page calls itself, such as its title. Any text is accepted:
	// the name of a new page is made of it.
	Name string `json:"name"`
	// URL is its address.
	URL string `json:"url,omitzero"`
	// Lang is the language of its code; absent: "js".
	Lang string `json:"lang,omitzero"`
	// Kind is the kind of page; absent: "page".
	Kind string `json:"kind,omitzero"`
	// ID is the id that it had before. It is kept if it is well-formed and not in
	// use.
	ID string `json:"id,omitzero"`
	// Nonce distinguishes it from a copy with the same id; a new one for each load.
	// Without one the service generates one.
	Nonce string `json:"nonce,omitzero"`
}

// Attached is the packet attached.
type Attached struct {
	// ID is the page's id.
	ID string `json:"id"`
	// Name is the page's name: that of its file, for an id that has one.
	Name string `json:"name"`
	// File is its log, relative to the directory of the REPL.
	File string `json:"file"`
	// Nonce must be sent with every result and all events.
	Nonce string `json:"nonce"`
}

// Job is the packet job: code to run once.
type Job struct {
	// Job is the job's identifier.
	Job string `json:"job"`
	// Code is the code.
	Code string `json:"code"`
	// Lang is the info string of its code block, in lower case; empty: none.
	Lang string `json:"lang"`
	// TimeoutMS is how long the service waits for the result, in milliseconds.
	TimeoutMS int64 `json:"timeout_ms"`
	// Test is true for a block with the word "test" in its info string: its value is
	// the report of its tests.
	Test bool `json:"test,omitzero"`
	// Outline asks for an outline instead. Code is an equal call of zino.outline, for
	// pages that do not know this field. Such a job may come while another one runs.
	Outline *Look `json:"outline,omitzero"`
}

// JobName is the packet cancel.
type JobName struct {
	// Job is the job's identifier.
	Job string `json:"job"`
}

// JobResult is the result of a job.
type JobResult struct {
	// ID is the page's id.
	ID string `json:"id"`
	// Nonce is the page's nonce.
	Nonce string `json:"nonce"`
	// Job is the job's identifier.
	Job string `json:"job"`
	// OK is false if the code threw.
	OK bool `json:"ok"`
	// Kind is "json" or "text".
	Kind string `json:"kind,omitzero"`
	// Value is the value, serialised by the page: the content of the reply's block.
	Value string `json:"value,omitzero"`
	// Error is the error with its stack if OK is false.
	Error string `json:"error,omitzero"`
}

// JobPart is a part of the value or error of a job.
type JobPart struct {
	// ID is the page's id.
	ID string `json:"id"`
	// Nonce is the page's nonce.
	Nonce string `json:"nonce"`
	// Job is the job's identifier.
	Job string `json:"job"`
	// Text is the part.
	Text string `json:"text"`
}

// JobStarted is the start of a job.
type JobStarted struct {
	// ID is the page's id.
	ID string `json:"id"`
	// Nonce is the page's nonce.
	Nonce string `json:"nonce"`
	// Job is the job's identifier.
	Job string `json:"job"`
}

// PageEvents are events of a page.
type PageEvents struct {
	// ID is the page's id.
	ID string `json:"id"`
	// Nonce is the page's nonce.
	Nonce string `json:"nonce"`
	// Events are the events in their order.
	Events []PageEvent `json:"events"`
}

// PageEvent is an event of a page.
type PageEvent struct {
	// Type is "console", "window.onerror", "unhandledrejection", "resource" (a
	// script, module, style or image that failed to load), "request" (a request that
	// failed or was answered with a status of 400 or more), "dialog" (alert, confirm
	// or prompt during a run), or another word that the page chose.
	Type string `json:"type"`
	// Level is the console's: "log", "info", "warn" or "error".
	Level string `json:"level,omitzero"`
	// Source is the origin, such as "console.log"; absent: type and level.
	Source string `json:"source,omitzero"`
	// TS is the time, as HH:MM:SS or HH:MM:SS.mmm in local time; absent: now.
	TS string `json:"ts,omitzero"`
	// Place is where it was logged: the last element of the script's path, a colon
	// and the line, such as "app.js:12"; absent: unknown.
	Place string `json:"place,omitzero"`
	// Message is its text.
	Message string `json:"message"`
	// Stack is the stack of an error.
	Stack string `json:"stack,omitzero"`
}
