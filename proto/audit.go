package proto

// Methods of audit, which records what the other services do. No method alters or removes
// a record.
var (
	// AuditRecord appends records and answers when they are written, with sync when they
	// are on disk. After an error none of them is recorded. A record whose line would
	// have more than 64 KiB is the error too_large.
	AuditRecord = method[RecordAudit, AuditRecorded]("audit", "record", "recorded")
	// AuditRead returns records, the oldest first. Only readers may call it.
	AuditRead = method[ReadAudit, AuditRecords]("audit", "read", "records")
)

// Kinds of audit records. The list grows.
const (
	AuditStart    = "start"    // a service has started
	AuditStop     = "stop"     // a service stops
	AuditConfig   = "config"   // files of the configuration with their hashes: at the start, and changed ones
	AuditTurn     = "turn"     // a turn begins or ends
	AuditInfer    = "infer"    // a request to a provider
	AuditCall     = "call"     // a call of a tool was carried out
	AuditApproval = "approval" // a request to allow a call, or an answer to it
	AuditGrant    = "grant"    // a grant was made or revoked
	AuditPolicy   = "policy"   // files of the policy with their hashes: at the start, and changed ones
	AuditDenied   = "denied"   // a call was not carried out
	AuditUndo     = "undo"     // file changes of a turn were taken back, or made again
	AuditSession  = "session"  // a session was removed, redacted or exported
	AuditJob      = "job"      // a job was started, or was stopped
	AuditGap      = "gap"      // records of the caller were lost
	AuditRepaired = "repaired" // the end of a file was damaged, and was removed
	AuditPruned   = "pruned"   // files older than [audit] keep_days were removed
)

// RecordAudit has records to append.
type RecordAudit struct {
	// Records are the records, the oldest first.
	Records []AuditEntry `json:"records"`
	// Sync is whether the answer waits until they are on disk.
	Sync bool `json:"sync,omitzero"`
	// Src is the name of the service that sends them, where audit and the caller have the
	// same user. Otherwise it follows from the caller's user.
	Src string `json:"src,omitzero"`
}

// AuditEntry is a record without what audit sets itself: number, time, user, process,
// service, and the hash of the record before.
type AuditEntry struct {
	// Kind is what has happened: call, turn, approval and more; the list grows.
	Kind string `json:"kind"`
	// Session is the session that it belongs to.
	Session string `json:"session,omitzero"`
	// Turn is the turn that it belongs to.
	Turn string `json:"turn,omitzero"`
	// Call is the identifier of the call.
	Call string `json:"call,omitzero"`
	// Data is the rest, an object.
	Data Raw `json:"data,omitzero"`
}

// AuditRecorded is the answer to record.
type AuditRecorded struct {
	// Seq is the number of the last record.
	Seq int64 `json:"seq"`
}

// ReadAudit selects records.
type ReadAudit struct {
	// From is the lowest number of a record; absent: the first record that is kept.
	From int64 `json:"from,omitzero"`
	// Session selects the records of a session, by its id or a prefix of it.
	Session string `json:"session,omitzero"`
	// Turn selects the records of a turn.
	Turn string `json:"turn,omitzero"`
	// Kind selects the records of a kind.
	Kind string `json:"kind,omitzero"`
	// Since selects records that are not older than a time in RFC 3339.
	Since string `json:"since,omitzero"`
}

// AuditRecords are records.
type AuditRecords struct {
	// Lines are the lines of the records as they were written, without their newline.
	Lines []string `json:"lines"`
	// Next is the number to go on from; absent: there are no more.
	Next int64 `json:"next,omitzero"`
}
