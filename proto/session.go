package proto

import (
	"crypto/rand"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Methods of mem for sessions, the conversations of the terminal agent. A session
// is a file of events that only grows. Its id is a UUID or a name of letters,
// digits, '.', '_' and '-'. Where a method says so, a unique prefix is accepted.
var (
	// MemCreateSession creates a session with its first line alone. An existing
	// session is an error of code invalid.
	MemCreateSession = method[CreateSession, SessionPlace]("mem", "create_session", "session")
	// MemAppendSession adds events to a session. The answer comes when they are on
	// disk. If one of them is invalid, nothing is stored.
	MemAppendSession = method[AppendSession, SessionPlace]("mem", "append_session", "session")
	// MemReadSession returns a session's events in the order in which they were
	// stored, with unknown types and keys. Lines of the file that are not JSON
	// objects are left out. Of a session that does not fit into one packet, ask for
	// the rest with the next of the answer as from.
	MemReadSession = method[ReadSession, SessionEvents]("mem", "read_session", "session_events", public)
	// MemListSessions lists the sessions, the one that changed last first, without
	// those of sub-agents.
	MemListSessions = method[ListSessions, SessionList]("mem", "list_sessions", "sessions", public)
	// MemFindSession finds one session: by its id, by a prefix of it or, without
	// either, the one that changed last and is not of a sub-agent.
	MemFindSession = method[FindSession, SessionSummary]("mem", "find_session", "session_summary", public)
	// MemSearchSessions finds the sessions whose messages, tool calls, results and
	// titles contain all words of a query, ignoring case, also within longer words. Those
	// that changed last come first.
	MemSearchSessions = method[SearchSessions, SessionHits]("mem", "search_sessions", "session_hits", public)
	// MemRecallSessions finds what was said in earlier sessions: the messages of user
	// and assistant and the tool calls that cover most of a query, with the messages
	// around them and the whole session taken into account. Results of tools are not
	// searched. A query without words finds nothing.
	MemRecallSessions = method[RecallSessions, SessionPassages]("mem", "recall_sessions", "session_passages", public)
	// MemForkSession copies a session, up to an offset if one is given, into a new
	// one. forked_from in its first line names the original. Events of types turn and
	// say, and a parent in the first line, are not copied; calls without a result get
	// results of code interrupted in the copy. Its first line keeps uid only if owner
	// names the same user.
	MemForkSession = method[ForkSession, SessionPlace]("mem", "fork_session", "session", public)
	// MemExportSession returns a session as a text for use elsewhere. Of a long
	// session each answer has a part; joined they are the text.
	MemExportSession = method[ExportSession, SessionText]("mem", "export_session", "session_text", public)
	// MemRemoveSession deletes a session. While a turn has it locked the answer is
	// an error of code busy.
	MemRemoveSession = method[RemoveSession, SessionName]("mem", "remove_session", "ok", public)
	// MemRedactSession replaces the secrets in a session's file by placeholders. Only the
	// daemon calls it, and has the session locked. The file is replaced at once: after a
	// crash it is the old or the new one. If it has changed, no offset of the old file but
	// 0 is the start of an event of the new one, and redacted of its first line is the
	// time. A reasoning_state with a secret is removed. A session with an open turn is the
	// error busy.
	MemRedactSession = method[RedactSession, SessionRedacted]("mem", "redact_session", "session_redacted")
	// MemRedactStore replaces the secrets in channels, memories and proposals by
	// placeholders, and finds sessions with secrets without changing them. Each place with
	// secrets is a packet redacted. Only the daemon calls it.
	MemRedactStore = eventsMethod[RedactStore, RedactDone]("mem", "redact_store", "redact_done")
	// MemGetMessages returns a session as messages for a model: texts, calls and
	// results. A call without a result gets one of code interrupted, a result
	// without a call is left out, and text that was cut off is marked. A session
	// that does not fit into one packet is the error too_large.
	MemGetMessages = method[GetMessages, SessionMessages]("mem", "get_messages", "messages")
	// MemHoldSession locks a session for a turn, among all processes that share the
	// directory, as long as the connection stands. If another process has the lock, a
	// packet waiting (a SessionWaiting) comes at once. With the lock comes held (a
	// SessionHeld), and nothing more. If the service stops or a deadline passes,
	// released is the end. Before held, calls without a result get results of code
	// interrupted in the file, unless mend is false or a turn of the session is open.
	// The session need not exist yet. The lock does not prevent reads and appends: it
	// makes turns follow each other.
	MemHoldSession = eventsMethod[HoldSession, SessionName]("mem", "hold_session", "released")
	// MemOpenTurns lists the turns of all sessions that have not ended. Only the
	// daemon calls it. A turn counts in the session that its events queued and
	// running name, not in a copy.
	MemOpenTurns = method[ListOpenTurns, OpenTurns]("mem", "open_turns", "open_turns")
)

// CreateSession asks for a new session.
type CreateSession struct {
	// SessionID is the new session's id; absent: a new UUID.
	SessionID string `json:"session_id,omitzero"`
	// Header is an object whose keys are added to the session's first line. type,
	// schema_version and ts in it are ignored.
	Header Raw `json:"header,omitzero"`
}

// SessionPlace is a session and its end.
type SessionPlace struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Next is the offset behind the session's last event, in bytes: the from of
	// read_session.
	Next int64 `json:"next"`
	// Offsets are the offsets behind the events of append_session, one for each.
	Offsets []int64 `json:"offsets,omitzero"`
}

// AppendSession carries events for a session.
type AppendSession struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Events are objects with a string type: see Session log. Other types and keys
	// are kept. An event without ts gets the current time.
	Events Raw `json:"events"`
	// Create creates a missing session; without it that is the error not_found.
	Create bool `json:"create,omitzero"`
	// Header is an object whose keys are added to the first line of a session that
	// is created.
	Header Raw `json:"header,omitzero"`
	// At is the offset at which the session must end; 0: it is missing or empty.
	// Every event then needs a ts, and so does the header at 0. If the session ends
	// elsewhere, and these events or the first of them follow the offset, as after
	// a lost answer, the rest of them is added. Anything else is the error busy.
	At *int64 `json:"at,omitzero"`
	// Held is ignored; older daemons send it.
	Held bool `json:"held,omitzero"`
}

// ReadSession selects events of a session.
type ReadSession struct {
	// SessionID is the session's id or a prefix of it.
	SessionID string `json:"session_id"`
	// From is the offset to start at, the next or one of the offsets of an earlier
	// answer; absent or 0: the start. An offset behind the end or within a line is an
	// error of code invalid: from 17 is not the start of an event.
	From int64 `json:"from,omitzero"`
	// Limit is the number of events wanted; 0 or less: as many as fit.
	Limit int `json:"limit,omitzero"`
	// MaxBytes limits the bytes of the answer's events and offsets. An event that is
	// longer comes alone. 0 or less: as many as fit into a packet.
	MaxBytes int `json:"max_bytes,omitzero"`
}

// SessionEvents is a part of a session.
type SessionEvents struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Events are the events as stored.
	Events Raw `json:"events"`
	// Offsets are the offsets behind the events, one for each.
	Offsets []int64 `json:"offsets,omitzero"`
	// Next is the offset behind the last of them, in bytes.
	Next int64 `json:"next"`
	// More is true if further events follow.
	More bool `json:"more,omitzero"`
	// Skipped counts the lines between them that are not events.
	Skipped int `json:"skipped,omitzero"`
}

// ListSessions asks for a list of sessions.
type ListSessions struct {
	// Limit is the number of sessions wanted; 0 or less: all.
	Limit int `json:"limit,omitzero"`
	// Root selects the sessions of this directory, an absolute path; absent: those
	// of all directories.
	Root string `json:"root,omitzero"`
	// All adds the sessions of sub-agents, which have a parent.
	All bool `json:"all,omitzero"`
}

// SessionList is a list of sessions.
type SessionList struct {
	// Sessions are the sessions, the one that changed last first; as many of them
	// as fit into a packet.
	Sessions []SessionSummary `json:"sessions"`
	// Total is the number of all selected sessions.
	Total int `json:"total"`
	// Elsewhere counts the sessions that root left out.
	Elsewhere int `json:"elsewhere,omitzero"`
}

// FindSession names a session.
type FindSession struct {
	// SessionID is the session's id or a prefix of it; absent: the session that
	// changed last.
	SessionID string `json:"session_id,omitzero"`
	// Root, without session_id, selects the session of this directory that changed
	// last.
	Root string `json:"root,omitzero"`
}

// SessionSummary describes a session in a list.
type SessionSummary struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Created is when the session was created, in RFC 3339, UTC.
	Created string `json:"created"`
	// Updated is when its file changed last, in RFC 3339, UTC.
	Updated string `json:"updated"`
	// Messages counts the messages of user and assistant.
	Messages int `json:"messages"`
	// Turns counts the messages of the user.
	Turns int `json:"turns,omitzero"`
	// Root is the directory that the session was started in; absent: unknown.
	Root string `json:"root,omitzero"`
	// Title is the session's name, else the text.
	Title string `json:"title,omitzero"`
	// CostUSD is the cost of its inferences with known prices; absent: there are
	// none.
	CostUSD *float64 `json:"cost_usd,omitzero"`
	// Unpriced counts the inferences without a known price.
	Unpriced int `json:"unpriced,omitzero"`
	// Text is the start of the user's first message, on one line of up to 80
	// characters.
	Text string `json:"text"`
	// Bytes is the size of the file.
	Bytes int64 `json:"bytes"`
	// ForkedFrom is the id of the original of a copy.
	ForkedFrom string `json:"forked_from,omitzero"`
	// Parent is the call that started the session as a sub-agent.
	Parent *LogParent `json:"parent,omitzero"`
	// Problem says why the file cannot be read; absent: it can.
	Problem string `json:"problem,omitzero"`
}

// SearchSessions is a query.
type SearchSessions struct {
	// Query is a list of words, all of which must occur. Without one nothing is
	// found.
	Query string `json:"query"`
	// Limit is the number of sessions wanted; absent, 0 or less: 20.
	Limit int `json:"limit,omitzero"`
}

// SessionHits are the sessions that were found.
type SessionHits struct {
	// Results are the sessions, the one that changed last first.
	Results []SessionHit `json:"results"`
	// Problems are the sessions that could not be searched, and why: up to 20.
	Problems []string `json:"problems,omitzero"`
}

// SessionHit is one session that was found.
type SessionHit struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Updated is when its file changed last, in RFC 3339, UTC.
	Updated string `json:"updated"`
	// Title is the session's name, else the start of the user's first message.
	Title string `json:"title,omitzero"`
	// Role is the role of the excerpt: "user", "assistant", "tool" for a call or its
	// result, or "title".
	Role string `json:"role"`
	// Excerpt is a part of the text with most of the words, on one line.
	Excerpt string `json:"excerpt"`
}

// RecallSessions is a query.
type RecallSessions struct {
	// Query is plain text.
	Query string `json:"query"`
	// TopK is the number of results wanted, from 1 to 100; absent: 10.
	TopK *int `json:"top_k,omitzero"`
	// Since selects passages stored at or after this time, in RFC 3339 or as
	// YYYY-MM-DD (local).
	Since string `json:"since,omitzero"`
	// Until selects passages stored before this time, in the same forms.
	Until string `json:"until,omitzero"`
	// SessionID selects the passages of one session: its id or a prefix of it.
	SessionID string `json:"session_id,omitzero"`
	// NotSession leaves out the passages of one session: its whole id.
	NotSession string `json:"not_session,omitzero"`
	// Role selects passages: "user", "assistant", or "tool" for calls.
	Role string `json:"role,omitzero"`
	// MinScore is the lowest score of a result, 0 to 1.
	MinScore float64 `json:"min_score,omitzero"`
	// Explain asks for the words that own consists of.
	Explain bool `json:"explain,omitzero"`
	// Owner restricts the search to the sessions whose first line has this uid. The
	// host's daemon sets it to the user who asks; absent: all sessions.
	Owner *int `json:"owner,omitzero"`
}

// SessionPassages are the passages that were found.
type SessionPassages struct {
	// Results are the passages, best first, of equal ones the newest first. Of
	// passages with equal role and text the oldest is listed.
	Results []SessionPassage `json:"results"`
	// Searched is the number of sessions that were searched.
	Searched int `json:"searched,omitzero"`
	// Pending is the number of sessions that are not indexed completely yet: ask
	// again later.
	Pending int `json:"pending,omitzero"`
	// LeftOut is the number of older sessions that are not searched, because there
	// are too many.
	LeftOut int `json:"left_out,omitzero"`
}

// SessionPassage is a message or a tool call that was found.
type SessionPassage struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// From is the offset of its event: the from of read_session.
	From int64 `json:"from"`
	// TS is when it was stored, in RFC 3339, UTC; absent: unknown.
	TS string `json:"ts,omitzero"`
	// Role is "user", "assistant", or "tool" for a call.
	Role string `json:"role"`
	// Score is the relevance, above 0 and below 1, rounded to 4 digits. It includes
	// what the messages around the passage and the session add.
	Score float64 `json:"score"`
	// Own is the relevance of the passage alone, rounded to 4 digits.
	Own float64 `json:"own"`
	// Excerpt is the part of the text with the most important words of the query, on
	// one line of up to 300 characters.
	Excerpt string `json:"excerpt"`
	// Words are the words of the query that own consists of, those with the largest
	// share first, if the request has explain: true.
	Words []WordShare `json:"words,omitzero"`
}

// ForkSession asks for a copy.
type ForkSession struct {
	// SessionID is the id of the session to copy, or a prefix of it.
	SessionID string `json:"session_id"`
	// Until is the offset to stop at, a next of read_session; absent or 0: the end.
	Until int64 `json:"until,omitzero"`
	// NewID is the copy's id; absent: a new UUID.
	NewID string `json:"new_id,omitzero"`
	// Owner is the uid of the user who asks. The host's daemon sets it.
	Owner *int `json:"owner,omitzero"`
}

// ExportSession asks for a session as a text.
type ExportSession struct {
	// SessionID is the session's id or a prefix of it.
	SessionID string `json:"session_id"`
	// Format is "md", Markdown for people, or "json", an object with all events.
	Format string `json:"format"`
	// From is the next of the answer before; absent: the start.
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
	// More is true if further text follows: ask again with next and skip.
	More bool `json:"more,omitzero"`
	// Next is the from of the next request.
	Next int64 `json:"next,omitzero"`
	// Skip is the skip of the next request.
	Skip int64 `json:"skip,omitzero"`
}

// RemoveSession names a session to delete.
type RemoveSession struct {
	// SessionID is the session's id or a prefix of it.
	SessionID string `json:"session_id"`
}

// RedactSession names a session whose secrets are masked.
type RedactSession struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Mask is what secrets are masked with; absent: shapes and configured values only.
	Mask *Masking `json:"mask,omitzero"`
	// DryRun counts the secrets and changes nothing.
	DryRun bool `json:"dry_run,omitzero"`
}

// SessionRedacted says what redact_session has done.
type SessionRedacted struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Masked is the number of secrets; 0: the file was not changed.
	Masked int `json:"masked"`
	// Problems say which configured secrets are not known.
	Problems []string `json:"problems,omitzero"`
}

// RedactStore is a request to mask what a service keeps.
type RedactStore struct {
	// Mask is as in redact_session.
	Mask *Masking `json:"mask,omitzero"`
	// DryRun is as in redact_session.
	DryRun bool `json:"dry_run,omitzero"`
	// Undo deletes what undo keeps of files with secrets: exc only.
	Undo bool `json:"undo,omitzero"`
}

// Redacted is a place where secrets were found.
type Redacted struct {
	// What is the kind of place: one of the constants. The list grows.
	What string `json:"what"`
	// Name is the id of the session, channel, memory, proposal, approval or job. Of undo it
	// is the path of the file.
	Name string `json:"name,omitzero"`
	// Masked is the number of secrets.
	Masked int `json:"masked"`
	// SessionID is the session of a job, or the one that undo keeps the file for.
	SessionID string `json:"session_id,omitzero"`
	// Turn is the turn that undo keeps the file for.
	Turn string `json:"turn,omitzero"`
	// Left says why the secrets are still there; absent: they were masked, or would be
	// without dry_run.
	Left string `json:"left,omitzero"`
}

// Kinds of places with secrets.
const (
	RedactedSession  = "session"
	RedactedChannel  = "channel"
	RedactedMemory   = "memory"
	RedactedSoft     = "soft_memory"
	RedactedProposal = "proposal"
	RedactedApproval = "approval"
	RedactedGrant    = "grant"
	RedactedJob      = "job"
	RedactedUndo     = "undo"
)

// RedactDone is the end of a redaction.
type RedactDone struct {
	// Masked is the number of secrets in all places.
	Masked int `json:"masked"`
	// Problems say what could not be searched or changed.
	Problems []string `json:"problems,omitzero"`
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
	// Until is the offset to stop at; absent or 0: the end.
	Until int64 `json:"until,omitzero"`
	// OpenCalls leaves out the results of code interrupted that the calls of the
	// last answer would get, for a turn that is resumed.
	OpenCalls bool `json:"open_calls,omitzero"`
}

// SessionMessages are a session's messages.
type SessionMessages struct {
	// Messages are in OpenAI's form: user, assistant with tool_calls and
	// reasoning_state, tool.
	Messages Raw `json:"messages"`
	// Count is the number of message events in them.
	Count int `json:"count"`
	// Next is the offset behind the last event.
	Next int64 `json:"next"`
	// Offer is the last event tools of the session, an object: see run of agr.
	Offer Raw `json:"offer,omitzero"`
}

// HoldSession names a session to lock.
type HoldSession struct {
	// SessionID is the session's whole id.
	SessionID string `json:"session_id"`
	// Mend adds results of code interrupted for calls without a result, unless the
	// session's last turn event has the state queued, running, parked or resumed;
	// absent: true. The daemon sends false, and settles the calls itself.
	Mend *bool `json:"mend,omitzero"`
	// Next has the effect of mend false; older daemons send it for a turn that had
	// the lock when the connection broke.
	Next *int64 `json:"next,omitzero"`
}

// SessionWaiting is the packet waiting of hold_session: another process has the
// lock.
type SessionWaiting struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
}

// SessionHeld is the packet held of hold_session: the caller has the lock.
type SessionHeld struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// Next is the offset behind the session's last event, 0 in an empty session.
	Next int64 `json:"next"`
	// Mended counts the calls that got results of code interrupted.
	Mended int `json:"mended"`
	// OpenTurns are the turns of the session that have not ended, in the order in
	// which they were stored.
	OpenTurns []OpenTurn `json:"open_turns,omitzero"`
}

// ListOpenTurns asks for the open turns.
type ListOpenTurns struct{}

// OpenTurns are the open turns of all sessions.
type OpenTurns struct {
	// Turns are the turns; those of one session in the order in which they were
	// stored.
	Turns []OpenTurn `json:"turns"`
	// Problems are the sessions that could not be read, and why: up to 20.
	Problems []string `json:"problems,omitzero"`
}

// OpenTurn is a turn that has not ended.
type OpenTurn struct {
	// SessionID is the whole id of the turn's session.
	SessionID string `json:"session_id"`
	// Turn is the turn's id.
	Turn string `json:"turn"`
	// State is "queued", "running", "parked" or "resumed".
	State string `json:"state"`
	// Updated is the time of the turn's last event, in RFC 3339, UTC; empty: no
	// event of the turn has a time.
	Updated string `json:"updated"`
}

// Types of packets of hold_session.
const (
	TypeWaiting = "waiting" // a SessionWaiting
	TypeHeld    = "held"    // a SessionHeld
)

// TypeRedacted is the packet of redact and redact_store: a Redacted.
const TypeRedacted = "redacted"

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
