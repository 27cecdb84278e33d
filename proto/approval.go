package proto

// Methods of the daemon for requests to allow a call. The daemon keeps them until a person
// answers, or until [gate] expires.
var (
	// DaemonApprovals lists requests, the oldest first, as far as the caller may see them:
	// its own ones, on a host those of all members.
	DaemonApprovals = method[ListApprovals, ApprovalList]("daemon", "approvals", "approval_list")
	// DaemonApprove answers a pending request. The first answer counts; a later one, or one
	// with another digest, is the error invalid, which says why.
	DaemonApprove = method[Approve, Approval]("daemon", "approve", "approval")
	// DaemonGrants lists the grants: what was allowed for a session or for always.
	DaemonGrants = method[ListGrants, GrantList]("daemon", "grants", "grant_list")
	// DaemonRevokeGrant removes a grant, or all of them. It holds for the next call.
	DaemonRevokeGrant = method[RevokeGrant, GrantList]("daemon", "revoke_grant", "grant_list")
)

// States of a request.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved" // for 10 minutes
	ApprovalDenied   = "denied"
	ApprovalUsed     = "used"  // the call was carried out
	ApprovalStale    = "stale" // the call no longer was the approved one
	ApprovalExpired  = "expired"
	ApprovalCanceled = "canceled" // its turn has ended
)

// Kinds of requests. The list grows.
const (
	ApprovalCallKind   = "call"       // a call of a tool
	ApprovalEscalation = "escalation" // a command that is to run with less confinement
	ApprovalServer     = "server"     // the start of an MCP server of the configuration: no person is asked
)

// Answers to a request, and the widest ones in grantable.
const (
	AnswerOnce    = "once"
	AnswerSession = "session" // calls that match, until 24 h after the last turn of the session
	AnswerAlways  = "always"  // calls that match below the same root, for [gate] grant_days
	AnswerDeny    = "deny"
)

// AskedCall is a call that must be asked, as its service would carry it out. It has all
// that the digest covers, except session, turn and requester.
type AskedCall struct {
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Input is its arguments as the model wrote them.
	Input Raw `json:"input"`
	// Root is the root of the turn, without symbolic links; absent: none.
	Root string `json:"root,omitzero"`
	// Cwd is the working directory of the call, likewise.
	Cwd string `json:"cwd,omitzero"`
	// Sandbox is the level at which it would run.
	Sandbox Level `json:"sandbox"`
	// Network is whether it could use the network.
	Network bool `json:"network"`
	// Files are the digest's fields for files: of write and edit the SHA-256 of the present
	// content or "absent", of each command named by a path this path and its SHA-256.
	Files []string `json:"files"`
}

// ApprovalPreview shows what a call would do, masked.
type ApprovalPreview struct {
	// Commands are the simple commands of bash.
	Commands []string `json:"commands,omitzero"`
	// Diff is the change of write or edit as a unified diff, at most 64 KiB.
	Diff string `json:"diff,omitzero"`
}

// ApprovalNeeded says that a call needs an approval. It is the content of details of the
// error with the code approval, and stands in the checkpoint approval.
type ApprovalNeeded struct {
	// Kind is "call", "escalation" or "server". The last is the start of a program with
	// exc's pipe that belongs to no turn: the daemon answers with the token of a server, if
	// its configuration has such an MCP server, and asks no person. Digest is then that of
	// the program, and the input of call has argv and the names of env.
	Kind string `json:"kind"`
	// Call is the call.
	Call AskedCall `json:"call"`
	// Digest is "sha256:" and hex over all fields of the call, its session, turn and
	// requester.
	Digest string `json:"digest"`
	// Reasons say why it is asked.
	Reasons []string `json:"reasons"`
	// Preview shows what it would do.
	Preview ApprovalPreview `json:"preview"`
	// Grantable is the widest answer that the policy allows.
	Grantable string `json:"grantable"`
	// From is the level of the turn, with escalation.
	From Level `json:"from,omitzero"`
}

// Requester is a user.
type Requester struct {
	// UID is the user's number.
	UID int `json:"uid"`
	// User is the user's name; absent: unknown.
	User string `json:"user,omitzero"`
}

// Approval is a request to allow a call.
type Approval struct {
	// ID is "ap-" and 8 characters.
	ID string `json:"id"`
	// State is pending, approved, denied, used, stale, expired or canceled.
	State string `json:"state"`
	// Kind is "call" or "escalation"; the list grows.
	Kind string `json:"kind"`
	// Created is when it was asked, in RFC 3339.
	Created string `json:"created"`
	// Expires is when a pending request ends without an answer, or an approved one may no
	// longer be used, in RFC 3339.
	Expires string `json:"expires"`
	// SessionID is the session of the call.
	SessionID string `json:"session_id"`
	// Turn is its turn.
	Turn string `json:"turn"`
	// Parent is the call that started the session as a sub-agent; absent: none did. Its
	// followers get the packets of the request, too.
	Parent *LogParent `json:"parent,omitzero"`
	// Step is the inference that asked for it.
	Step int `json:"step"`
	// CallID is the call's identifier in that step.
	CallID string `json:"call_id"`
	// By is the requester: the user of the turn.
	By Requester `json:"by"`
	// Call is the call. Secrets in its input are masked in answers and packets.
	Call AskedCall `json:"call"`
	// Digest is that of the call: an answer names it.
	Digest string `json:"digest"`
	// Reasons say why it is asked.
	Reasons []string `json:"reasons"`
	// Preview shows what it would do.
	Preview ApprovalPreview `json:"preview"`
	// Grantable is the widest answer: once, session or always.
	Grantable string `json:"grantable"`
	// From is the level of the turn, with escalation.
	From Level `json:"from,omitzero"`
	// Answer is how it was answered: once, session, always or deny.
	Answer string `json:"answer,omitzero"`
	// Note is the reason of a denial, which the model reads.
	Note string `json:"note,omitzero"`
	// Grant is the grant that the answer has made, or that has allowed the call.
	Grant string `json:"grant,omitzero"`
	// Answered is who has answered.
	Answered *Requester `json:"answered,omitzero"`
	// AnsweredAt is when, in RFC 3339.
	AnsweredAt string `json:"answered_at,omitzero"`
}

// ListApprovals selects requests.
type ListApprovals struct {
	// State selects one state; absent: pending. "all" selects all.
	State string `json:"state,omitzero"`
	// SessionID selects the requests of a session; absent: all sessions.
	SessionID string `json:"session_id,omitzero"`
	// Limit is the largest number of requests; absent: 100.
	Limit *int `json:"limit,omitzero"`
}

// ApprovalList is a list of requests.
type ApprovalList struct {
	// Approvals are the requests, the oldest first.
	Approvals []Approval `json:"approvals"`
}

// Approve answers a request.
type Approve struct {
	// ID is the request, or a prefix of its id that no other has.
	ID string `json:"id"`
	// Digest is that of the request, which the person has seen.
	Digest string `json:"digest"`
	// Answer is once, session, always or deny.
	Answer string `json:"answer"`
	// Note is a reason for the model, with deny: up to 2000 characters.
	Note string `json:"note,omitzero"`
	// Pattern replaces the proposed pattern of a session or always grant: a command
	// pattern that must match the call.
	Pattern string `json:"pattern,omitzero"`
}

// ApprovalClosed is the packet for followers when a request is no longer pending.
type ApprovalClosed struct {
	// Approval is the request.
	Approval string `json:"approval"`
	// State is its state.
	State string `json:"state"`
	// By is who answered; absent: no person did.
	By *Requester `json:"by,omitzero"`
	// SessionID and Turn are those of the call.
	SessionID string `json:"session_id"`
	// Turn is the turn.
	Turn string `json:"turn"`
}

// Types of packets about requests, for followers of the turn.
const (
	TypeApprovalRequested = "approval_requested" // an Approval
	TypeApprovalClosed    = "approval_closed"    // an ApprovalClosed
)

// Grant is a permission that a person has given for calls to come.
type Grant struct {
	// ID is "g-" and 8 characters.
	ID string `json:"id"`
	// Scope is session or always.
	Scope string `json:"scope"`
	// Session is the session, with the scope session.
	Session string `json:"session,omitzero"`
	// Root is the root below which it holds; "*": everywhere.
	Root string `json:"root"`
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Command is the pattern of commands, with bash.
	Command string `json:"command,omitzero"`
	// Path is the pattern of paths, with read, write and edit.
	Path string `json:"path,omitzero"`
	// Host is the pattern of hosts, with egress requests.
	Host string `json:"host,omitzero"`
	// MCP is SERVER/TOOL.
	MCP string `json:"mcp,omitzero"`
	// Input is the exact input of a call for which there is no pattern.
	Input string `json:"input,omitzero"`
	// Sandbox is the level at which it holds.
	Sandbox Level `json:"sandbox"`
	// Network is whether calls with network are covered.
	Network bool `json:"network"`
	// UID is the user for whose turns it holds.
	UID int `json:"uid"`
	// Expires is when it ends, in RFC 3339.
	Expires string `json:"expires"`
	// Approval is the request whose answer made it.
	Approval string `json:"approval,omitzero"`
	// Created is when, in RFC 3339.
	Created string `json:"created"`
	// Uses is how many calls it has allowed.
	Uses int `json:"uses"`
	// LastUse is when it last did, in RFC 3339.
	LastUse string `json:"last_use,omitzero"`
}

// ListGrants selects grants.
type ListGrants struct{}

// GrantList is a list of grants.
type GrantList struct {
	// Grants are the grants, the oldest first; after revoke_grant those that were removed.
	Grants []Grant `json:"grants"`
	// Problems are grants in the file that are ignored, and why.
	Problems []string `json:"problems,omitzero"`
}

// RevokeGrant names grants to remove.
type RevokeGrant struct {
	// ID is the grant, or a prefix of its id that no other has.
	ID string `json:"id,omitzero"`
	// All removes all grants of the caller, for root of the host all.
	All bool `json:"all,omitzero"`
}
