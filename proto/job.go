package proto

// Methods of exc for jobs. Every call of bash with a session runs as a job from
// its start: it outlives exc and can go on in the background. An unknown id is the
// error not_found, "no job ID"; the job of another session than session_id is
// not_found, "no job ID in this session".
var (
	// ExcJobs lists jobs, running and finished, the oldest first. Finished jobs are
	// removed after 7 days, or when there are more than 200, or more than 2 GiB of
	// output; one that did not go to the background when its result was recorded.
	ExcJobs = method[ListJobs, JobList]("exc", "jobs", "job_list", public)
	// ExcJobOutput returns output of a job, running or finished: what came since
	// the last call without from, or since from.
	ExcJobOutput = method[ReadJob, JobText]("exc", "job_output", "job_text", public)
	// ExcJobWait waits for the end of a job and answers when it has ended, or when
	// timeout_s has passed: then its state is "running".
	ExcJobWait = method[WaitJob, JobInfo]("exc", "job_wait", "job", public)
	// ExcJobStop stops a job with SIGTERM, 100 ms later with SIGKILL for all
	// processes that it started, and answers when none is left. A job that has
	// ended stays as it is.
	ExcJobStop = method[JobID, JobInfo]("exc", "job_stop", "job", public)
	// ExcJobKeep lets a job run until its end, or for [exc] job_max_age, also when
	// the lease of its session expires. The error invalid means that the services,
	// and so their jobs, end with one run of the program that started them.
	ExcJobKeep = method[JobID, JobInfo]("exc", "job_keep", "job", public)
	// ExcJobLease renews the leases of sessions. A job whose session has had no
	// lease for [exc] job_linger is stopped, unless it is kept.
	ExcJobLease = method[LeaseJobs, Empty]("exc", "job_lease", "ok")
)

// States of a job.
const (
	JobRunning = "running" // processes of it are left
	JobExited  = "exited"  // it has ended, by itself or because it was stopped
	JobLost    = "lost"    // its supervisor was killed, or the host was restarted
)

// ListJobs asks for jobs.
type ListJobs struct {
	// SessionID restricts the list to one session.
	SessionID string `json:"session_id,omitzero"`
}

// JobList is a list of jobs.
type JobList struct {
	// Jobs are the jobs, the oldest first.
	Jobs []JobInfo `json:"jobs"`
}

// JobInfo is a job.
type JobInfo struct {
	// ID is the job's id: j- and 8 characters.
	ID string `json:"id"`
	// SessionID is the session whose call of bash started it.
	SessionID string `json:"session_id"`
	// Turn is the turn of that call; absent: unknown.
	Turn string `json:"turn,omitzero"`
	// State is "running", "exited" or "lost".
	State string `json:"state"`
	// Started is when it was started, in RFC 3339, UTC.
	Started string `json:"started"`
	// Ended is when it ended; absent: it runs, or that is unknown.
	Ended string `json:"ended,omitzero"`
	// Command is the command line.
	Command string `json:"command"`
	// Root is its working directory.
	Root string `json:"root,omitzero"`
	// Background is true if the call of bash has ended without it.
	Background bool `json:"background,omitzero"`
	// Kept is true if it outlives the lease of its session.
	Kept bool `json:"kept,omitzero"`
	// Wake is true if its end is reported to the model: in the open turn, or with
	// [daemon] job_wake in a turn that it starts, else in the session's next turn.
	Wake bool `json:"wake,omitzero"`
	// CPUMS is the CPU time of all its processes in milliseconds; absent: unknown.
	CPUMS *int64 `json:"cpu_ms,omitzero"`
	// MemoryBytes is the memory that they use in bytes, or the most that they used
	// if the job has ended; absent: unknown.
	MemoryBytes *int64 `json:"memory_bytes,omitzero"`
	// ExitCode is the exit status, -N for death by signal N, -1 if it could not be
	// started; absent: it runs, or is lost.
	ExitCode *int `json:"exit_code,omitzero"`
	// Limit is the limit that ended it: "time", "memory" or "tasks"; absent: none.
	Limit string `json:"limit,omitzero"`
	// Stopped is true if it was stopped before its end.
	Stopped bool `json:"stopped,omitzero"`
	// StdoutBytes is how many bytes it has written to standard output.
	StdoutBytes int64 `json:"stdout_bytes"`
	// StderrBytes is the same of standard error.
	StderrBytes int64 `json:"stderr_bytes"`
}

// JobID names a job.
type JobID struct {
	// Job is the job's id.
	Job string `json:"job"`
	// SessionID is the session that it must belong to; absent: any.
	SessionID string `json:"session_id,omitzero"`
	// Token is the token of the turn whose model asks for job_stop, as of call; absent: a
	// person asks.
	Token string `json:"token,omitzero"`
	// Key identifies the call for its approval: SESSION/TURN/STEP/CALL.
	Key string `json:"key,omitzero"`
	// Grant is the token of an approval, as of call.
	Grant string `json:"grant,omitzero"`
}

// WaitJob waits for the end of a job.
type WaitJob struct {
	// Job is the job's id.
	Job string `json:"job"`
	// SessionID is the session that it must belong to; absent: any.
	SessionID string `json:"session_id,omitzero"`
	// TimeoutS is how long to wait in seconds, 0 to 600; absent: 60.
	TimeoutS *int `json:"timeout_s,omitzero"`
}

// ReadJob asks for output of a job.
type ReadJob struct {
	// Job is the job's id.
	Job string `json:"job"`
	// SessionID is the session that it must belong to; absent: any.
	SessionID string `json:"session_id,omitzero"`
	// From is where to begin: "0" for the start, or next of an earlier answer.
	// Absent: behind the last answer to a request without it.
	From string `json:"from,omitzero"`
	// OutputBytes is how many bytes of each stream the answer has at most. Absent or
	// 0: [exc] output_max.
	OutputBytes int `json:"output_bytes,omitzero"`
	// Mask is as in call.
	Mask *Masking `json:"mask,omitzero"`
}

// JobText is output of a job.
type JobText struct {
	// Job is the job's id.
	Job string `json:"job"`
	// State is "running", "exited" or "lost".
	State string `json:"state"`
	// Stdout is standard output, invalid UTF-8 as U+FFFD. A line of its own says
	// where bytes were not stored, and how many: [exc] job_output_max bounds what is
	// stored of each stream, its first half as it came and the newest of the rest.
	Stdout string `json:"stdout"`
	// Stderr is standard error, likewise.
	Stderr string `json:"stderr"`
	// ExitCode is the exit status, -N for death by signal N; -1 if the job runs, is
	// lost or could not be started.
	ExitCode int `json:"exit_code"`
	// Running is true if the job has not ended.
	Running bool `json:"running,omitzero"`
	// Next is where the output goes on, for from. It is the place behind all output
	// that was asked for, or a place before it if the answer is full.
	Next string `json:"next"`
	// More is true if there is output behind next already.
	More bool `json:"more,omitzero"`
}

// LeaseJobs renews leases.
type LeaseJobs struct {
	// Sessions are the sessions with an open turn or a follower.
	Sessions []string `json:"sessions"`
}

// Methods of the supervisor of a job, a process zino-exc --job. exc passes it, over
// a socket that is its standard input, open descriptors of the socket that it
// answers on, of the files of the job, and of the lifeline. Only exc calls it.
var (
	// SupervisorStart starts the command. It is the first request, and made once.
	SupervisorStart = method[JobStart, JobState]("job", "start", "job_state")
	// SupervisorAttach answers when the job has ended. Packets of type progress (a
	// JobState) come at the beginning and, up to ten times a second, when there is
	// new output. With now: true it answers at once.
	SupervisorAttach = eventsMethod[AttachJob, JobState]("job", "attach", "job_state")
	// SupervisorStop stops the job and answers when nothing of it is left.
	SupervisorStop = method[Empty, JobState]("job", "stop", "job_state")
	// SupervisorBackground records that the call of bash has ended without the job.
	SupervisorBackground = method[Empty, JobState]("job", "background", "job_state")
)

// TypeProgress is the type of the packets of attach.
const TypeProgress = "progress"

// JobProtocol is the version of these methods: a supervisor runs on when exc is
// upgraded. exc stops a job with another version through its control group.
const JobProtocol = 1

// JobStart is a command to run as a job.
type JobStart struct {
	// Proto is JobProtocol.
	Proto int `json:"proto"`
	// Path is the program; absent: argv[0] is looked up in the unit, whose user
	// runs the command in directories of its own.
	Path string `json:"path,omitzero"`
	// Command is the command, its environment and its limits.
	Command RunCommand `json:"command"`
	// Plan confines it: a sandbox.Plan of the same program; absent: nothing.
	Plan Raw `json:"plan,omitzero"`
	// OutputFileMax is how many bytes each output file may hold.
	OutputFileMax int64 `json:"output_file_max"`
	// Memory is the limit in bytes of the control group that the supervisor makes
	// if it was passed none; absent: none.
	Memory int64 `json:"memory,omitzero"`
	// Tasks is its limit of processes and threads; absent: none.
	Tasks int `json:"tasks,omitzero"`
	// CPU is how many cores it may keep busy; absent: no limit.
	CPU float64 `json:"cpu,omitzero"`
}

// AttachJob asks for the state of a job.
type AttachJob struct {
	// Now is true for an answer at once, instead of at the end.
	Now bool `json:"now,omitzero"`
}

// JobState is the state of a job, as its supervisor stores and sends it.
type JobState struct {
	// Proto is JobProtocol of the supervisor.
	Proto int `json:"proto"`
	// State is "running", "exited" or "lost".
	State string `json:"state"`
	// Background is true if the call of bash has ended without the job.
	Background bool `json:"background,omitzero"`
	// Remaining is true if the command itself has ended, and processes that it
	// started run on.
	Remaining bool `json:"remaining,omitzero"`
	// ExitCode is the exit status, -N for death by signal N, -1 if it could not be
	// started; absent: it runs, or is lost.
	ExitCode *int `json:"exit_code,omitzero"`
	// Signal is the signal that ended it; absent: none.
	Signal int `json:"signal,omitzero"`
	// Limit is the limit that ended it: "time", "memory" or "tasks"; absent: none.
	Limit string `json:"limit,omitzero"`
	// Stopped is true if it was stopped before its end.
	Stopped bool `json:"stopped,omitzero"`
	// Verdict and Why say how it ended, as in RunEnd.
	Verdict string `json:"verdict,omitzero"`
	// Why is the reason of a command that could not be confined.
	Why string `json:"why,omitzero"`
	// Number is the exit status, the signal or the errno.
	Number int `json:"number,omitzero"`
	// Ended is when it ended, in RFC 3339, UTC.
	Ended string `json:"ended,omitzero"`
	// CPUMS is the CPU time in milliseconds; absent: unknown.
	CPUMS *int64 `json:"cpu_ms,omitzero"`
	// MemoryBytes is the memory in use in bytes, while it runs; absent: unknown.
	MemoryBytes *int64 `json:"memory_bytes,omitzero"`
	// PeakBytes is the highest memory use in bytes; absent: unknown.
	PeakBytes *int64 `json:"peak_bytes,omitzero"`
	// StdoutBytes is how many bytes were written to standard output.
	StdoutBytes int64 `json:"stdout_bytes"`
	// StderrBytes is the same of standard error.
	StderrBytes int64 `json:"stderr_bytes"`
	// StdoutStored is how many of them were stored until an error, such as a full
	// disk, ended that; absent: all.
	StdoutStored *int64 `json:"stdout_stored,omitzero"`
	// StderrStored is the same of standard error.
	StderrStored *int64 `json:"stderr_stored,omitzero"`
	// Unlimited names limits that are not enforced.
	Unlimited []string `json:"unlimited,omitzero"`
}
