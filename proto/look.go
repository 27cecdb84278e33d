package proto

// Methods of repl that look at a page. They run no code of the caller, and the page's
// file does not record them.
var (
	// ReplLog answers with what a page has logged: console output, uncaught errors,
	// failed requests and the like, as they were sent to events. The last 1000 events
	// of each page are kept in memory, of 192 KiB in total. They outlive a reload and
	// the page itself, but not the service.
	ReplLog = method[ReadPageLog, PageLog]("repl", "log", "page_log")
	// ReplOutline answers with an outline of what a page of a browser shows: a line for
	// each element with its role, name, value, state, box and a selector. It works while
	// code runs in the page, unless that code blocks it; then, and in a frozen tab, the
	// error is busy after 10 seconds. A selector that matches nothing, and a program
	// without a document, are the error invalid.
	ReplOutline = method[OutlinePage, Outline]("repl", "outline", "outline")
)

// ReadPageLog selects events of a page.
type ReadPageLog struct {
	// Page is the page, as in eval. Pages that are gone are found by their id, or by
	// their name with the id.
	Page string `json:"page"`
	// After is the next of an earlier answer: the answer starts with the oldest event
	// after it. "0" is before all events. Absent: the answer ends with the newest event.
	// A next of another start of the service counts as "0".
	After string `json:"after,omitzero"`
	// Limit is the largest number of events in the answer, up to 1000; absent or 0: 100.
	Limit int `json:"limit,omitzero"`
}

// PageLog is a part of what a page has logged.
type PageLog struct {
	// Events are the events in their order. Messages and stacks are cut to 8 KiB.
	Events []PageEvent `json:"events"`
	// Next is After for the events that follow. It stays valid when the page reloads.
	Next string `json:"next"`
	// LeftOut counts the events after After, or since the start of the service without
	// it, that are older than those of the answer: they are no longer kept, or more than
	// Limit.
	LeftOut int64 `json:"left_out"`
}

// OutlinePage selects a part of a page.
type OutlinePage struct {
	// Page is the page, as in eval.
	Page string `json:"page"`
	// Selector is the element to start from: a CSS selector, or a selector of an earlier
	// outline; absent: the page.
	Selector string `json:"selector,omitzero"`
	// Depth is how many levels below it are shown, up to 100; absent or 0: as many as
	// keep the text short.
	Depth int `json:"depth,omitzero"`
}

// Outline is what a page shows.
type Outline struct {
	// Text has a line for each element, indented by its level. It has at most 64 KiB.
	Text string `json:"text"`
}

// Look is the part of a job that asks for an outline.
type Look struct {
	// Selector is the element to start from; empty: the page.
	Selector string `json:"selector,omitzero"`
	// Depth is how many levels are shown; 0: the page decides.
	Depth int `json:"depth,omitzero"`
}
