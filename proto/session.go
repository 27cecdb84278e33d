package proto

import (
	"crypto/rand"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Methods of mem for sessions, the conversations of the terminal agent. Each is
// a file of events that only grows. A session's id is a UUID or a name of
// letters, digits, '.', '_' and '-'; where a method says so it may be shortened
// to a beginning that no other session has.
var (
	// MemCreateSession makes a session with nothing but its first line in it.
	// One that is there already is an error of code invalid.
	MemCreateSession = method[CreateSession, SessionPlace]("mem", "create_session", "session")
	// MemAppendSession adds events to a session. It is answered when they are on
	// disk. If one of them is not valid nothing is stored.
	MemAppendSession = method[AppendSession, SessionPlace]("mem", "append_session", "session")
	// MemReadSession asks for a session's events, in the order in which they
	// were stored, unknown types and keys included. Lines of the file that are
	// no JSON objects are left out. What does not fit into one packet is asked
	// for with the place that the answer ends with.
	MemReadSession = method[ReadSession, SessionEvents]("mem", "read_session", "session_events", public)
	// MemListSessions lists the sessions, the one that changed last in front.
	MemListSessions = method[ListSessions, SessionList]("mem", "list_sessions", "sessions", public)
	// MemFindSession finds one session: by its id, by the beginning of its id,
	// or, without either, the one that changed last.
	MemFindSession = method[FindSession, SessionSummary]("mem", "find_session", "session_summary", public)
	// MemSearchSessions finds the sessions in whose messages, tool calls and their
	// results all words of a query occur, ignoring case, also within longer words.
	// Those that changed last stand first.
	MemSearchSessions = method[SearchSessions, SessionHits]("mem", "search_sessions", "session_hits", public)
	// MemForkSession copies a session, up to a place if one is given, into a new
	// one, whose first line says under forked_from where it is from.
	MemForkSession = method[ForkSession, SessionPlace]("mem", "fork_session", "session", public)
	// MemExportSession gives a session as a text to be kept elsewhere. Of a long
	// one each answer holds a part; joined they are the text.
	MemExportSession = method[ExportSession, SessionText]("mem", "export_session", "session_text", public)
	// MemRemoveSession deletes a session for good. While a turn holds it the
	// answer is an error of code busy.
	MemRemoveSession = method[RemoveSession, SessionName]("mem", "remove_session", "ok", public)
	// MemGetMessages gives a session as messages for a model: texts, calls and
	// results in an order that every provider takes. A call without a result has
	// one that says so (code interrupted), a result without a call is left out,
	// and text that was cut off is marked. A session that does not fit into one
	// packet is the error too_large.
	MemGetMessages = method[GetMessages, SessionMessages]("mem", "get_messages", "messages")
	// MemHoldSession locks a session for a turn: for as long as the connection
	// is open, against all processes that share the directory. If somebody else
	// has the lock a packet {"type":"waiting","session_id":…} comes at once. As
	// soon as the lock is there {"type":"held","session_id":…,"next":…,"mended":…}
	// comes, and then nothing more until the caller closes the connection, which
	// ends the lock; so does the death of either side. Should the service stop,
	// or a deadline pass, released is the end. Before held, calls whose results
	// an earlier turn lost get results of code interrupted in the file; mended
	// is their number, next the place behind all events. The session need not
	// exist yet. The lock keeps no one from reading or appending: it makes turns
	// follow each other. A turn that outlives the service asks the next one again,
	// with next: then nothing is mended, and if somebody else has the lock, or the
	// session has changed, the answer is the error busy at once.
	MemHoldSession = eventsMethod[HoldSession, SessionName]("mem", "hold_session", "released")
)

// CreateSession asks for a new session.
type CreateSession struct {
	// SessionID is the new session's id; absent: a new UUID.
	SessionID string `json:"session_id,omitzero"`
	// Header is an object whose keys go into the session's first line, beside
	// type, schema_version and ts.
	Header Raw `json:"header,omitzero"`
}

// SessionPlace names a session and the end of it.
type SessionPlace struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Next is the place behind the session's last event, in bytes: what
	// read_session takes as from.
	Next int64 `json:"next"`
}

// AppendSession carries events for a session.
type AppendSession struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Events are objects with a string type. The known ones are message (role
	// "user" or "assistant", text, and "partial": true if the text was cut off),
	// tool_use (id, name, input), tool_result (tool_use_id, output, ok) and
	// interrupted (text). message and tool_use may carry a reasoning_state.
	// Other types and keys are kept. Without a ts an event gets the time of now.
	Events Raw `json:"events"`
	// Create makes the session if it is not there; else that is the error
	// not_found.
	Create bool `json:"create,omitzero"`
	// Header is an object whose keys go into the first line of a session that
	// is made.
	Header Raw `json:"header,omitzero"`
	// At is the place at which the session must end; 0: it is missing or empty.
	// Every event then needs a ts, and so does the header at 0. If the session
	// ends elsewhere, but what is behind At are the first of these events, as
	// after a lost answer, the rest of them is added. Anything else is the error
	// busy.
	At *int64 `json:"at,omitzero"`
	// Held is true if the caller holds the session: where this service does not
	// keep it locked, having been started since, that is the error unavailable.
	Held bool `json:"held,omitzero"`
}

// ReadSession asks for events.
type ReadSession struct {
	// SessionID is the session's id or its beginning.
	SessionID string `json:"session_id"`
	// From is the place to begin at, the next of an earlier answer; absent or
	// 0: the beginning.
	From int64 `json:"from,omitzero"`
	// Limit asks for so many events at most; zero or less: for as many as fit.
	Limit int `json:"limit,omitzero"`
}

// SessionEvents is a piece of a session.
type SessionEvents struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Events are the events, as they stand in their lines.
	Events Raw `json:"events"`
	// Next is the place behind the last of them, in bytes.
	Next int64 `json:"next"`
	// More says that there are events behind them.
	More bool `json:"more,omitzero"`
	// Skipped counts the lines between them that are no events.
	Skipped int `json:"skipped,omitzero"`
}

// ListSessions asks for a list of sessions.
type ListSessions struct {
	// Limit asks for so many sessions at most; zero or less: for all.
	Limit int `json:"limit,omitzero"`
	// Root asks for the sessions of this directory, an absolute path; absent:
	// for those of all directories.
	Root string `json:"root,omitzero"`
}

// SessionList is a list of sessions.
type SessionList struct {
	// Sessions are the sessions, the one that changed last in front; as many of
	// them as fit into a packet.
	Sessions []SessionSummary `json:"sessions"`
	// Total is how many there are.
	Total int `json:"total"`
	// Elsewhere counts the sessions that root left out.
	Elsewhere int `json:"elsewhere,omitzero"`
}

// FindSession names a session.
type FindSession struct {
	// SessionID is the session's id or its beginning; absent: the session that
	// changed last.
	SessionID string `json:"session_id,omitzero"`
	// Root, without session_id, asks for the session of this directory that
	// changed last.
	Root string `json:"root,omitzero"`
}

// SessionSummary is what a list says of a session.
type SessionSummary struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Created is when the session was made, in RFC 3339, UTC.
	Created string `json:"created"`
	// Updated is when its file changed last, in RFC 3339, UTC.
	Updated string `json:"updated"`
	// Messages counts the messages of user and assistant.
	Messages int `json:"messages"`
	// Turns counts the messages of the user.
	Turns int `json:"turns,omitzero"`
	// Root is the directory that the session was begun in; absent: not known.
	Root string `json:"root,omitzero"`
	// Title is what the session was named, else text.
	Title string `json:"title,omitzero"`
	// CostUSD is what its inferences cost, as far as their prices are known;
	// absent: of none.
	CostUSD *float64 `json:"cost_usd,omitzero"`
	// Unpriced counts the inferences without a known price.
	Unpriced int `json:"unpriced,omitzero"`
	// Text is the beginning of the user's first message, in one line of up to
	// 80 characters.
	Text string `json:"text"`
	// Bytes is the size of the file.
	Bytes int64 `json:"bytes"`
	// ForkedFrom is the id of the session that this one is a copy of.
	ForkedFrom string `json:"forked_from,omitzero"`
	// Problem says why the file cannot be read, if so.
	Problem string `json:"problem,omitzero"`
}

// SearchSessions is a query.
type SearchSessions struct {
	// Query are words, all of which must occur; without one nothing is found.
	Query string `json:"query"`
	// Limit asks for so many sessions at most; absent, zero or less: 20.
	Limit int `json:"limit,omitzero"`
}

// SessionHits are the sessions that were found.
type SessionHits struct {
	// Results are the sessions, the one that changed last in front.
	Results []SessionHit `json:"results"`
	// Problems say which sessions could not be searched, and why: up to 20.
	Problems []string `json:"problems,omitzero"`
}

// SessionHit is one session that was found.
type SessionHit struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Updated is when its file changed last, in RFC 3339, UTC.
	Updated string `json:"updated"`
	// Role is whose text the excerpt is from: "user", "assistant", or "tool" for a
	// call or its result.
	Role string `json:"role"`
	// Excerpt is a part of the text that has most of the words, in one line.
	Excerpt string `json:"excerpt"`
}

// ForkSession asks for a copy.
type ForkSession struct {
	// SessionID is the id of the session to copy, or its beginning.
	SessionID string `json:"session_id"`
	// Until is the place to stop at, a next of read_session; absent or 0: the end.
	Until int64 `json:"until,omitzero"`
	// NewID is the copy's id; absent: a new UUID.
	NewID string `json:"new_id,omitzero"`
}

// ExportSession asks for a session as a text.
type ExportSession struct {
	// SessionID is the session's id or its beginning.
	SessionID string `json:"session_id"`
	// Format is "md", Markdown for people, or "json", an object with all events.
	Format string `json:"format"`
	// From and Skip are the next and skip of the answer before; absent: the
	// beginning.
	From int64 `json:"from,omitzero"`
	// Skip is the skip of the answer before.
	Skip int64 `json:"skip,omitzero"`
}

// SessionText is a part of a session's text.
type SessionText struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Content is the text.
	Content string `json:"content"`
	// More says that this is not the end: ask again with next and skip.
	More bool `json:"more,omitzero"`
	// Next is the from of the next request.
	Next int64 `json:"next,omitzero"`
	// Skip is the skip of the next request.
	Skip int64 `json:"skip,omitzero"`
}

// RemoveSession names a session to delete.
type RemoveSession struct {
	// SessionID is the session's id or its beginning.
	SessionID string `json:"session_id"`
}

// SessionName names a session.
type SessionName struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
}

// GetMessages asks for a session as messages.
type GetMessages struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Until is a place to stop at; absent or 0: the end.
	Until int64 `json:"until,omitzero"`
}

// SessionMessages are a session's messages.
type SessionMessages struct {
	// Messages are in OpenAI's form: user, assistant with tool_calls and
	// reasoning_state, tool. The first one is the user's.
	Messages Raw `json:"messages"`
	// Count is the number of message events that they are made of.
	Count int `json:"count"`
	// Next is the place behind the last event.
	Next int64 `json:"next"`
}

// HoldSession names a session to lock.
type HoldSession struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Next is the place behind the last event that the caller knows, who had the
	// lock until the service stopped or died; absent: a new turn.
	Next *int64 `json:"next,omitzero"`
}

// SessionWaiting is the packet waiting of hold_session.
type SessionWaiting struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
}

// SessionHeld is the packet held of hold_session.
type SessionHeld struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Next is the place behind the session's last event, 0 if there is none.
	Next int64 `json:"next"`
	// Mended counts the calls that got results of code interrupted.
	Mended int `json:"mended"`
}

// Types of packets of hold_session.
const (
	TypeWaiting = "waiting" // a SessionWaiting
	TypeHeld    = "held"    // a SessionHeld
)

// SessionIDMax is the length of a session's id in bytes.
const SessionIDMax = 200

// CheckSessionID returns an error of code invalid unless id can be the whole id
// of a session: the name of a file in one directory that can be typed after a
// flag.
func CheckSessionID(id string) error {
	ok := id != "" && len(id) <= SessionIDMax && utf8.ValidString(id) && id[0] != '.' && id[0] != '-'
	for _, r := range id {
		ok = ok && (r == '.' || r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
	}
	if !ok {
		return Errorf(CodeInvalid, "invalid session name %.80q: use letters, digits, '.', '_' and '-', not '.' or '-' first, and at most %d bytes", id, SessionIDMax)
	}
	return nil
}

// NewSessionID returns a new UUID of version 4.
func NewSessionID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
