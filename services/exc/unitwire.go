package exc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
)

// A command in a unit of its own is asked for on a socket that starts a unit
// for each connection. There goes one packet to it, of type run; back come
// packets of type output while the command runs, and one of type end. Closing
// the connection's other direction asks for the command's end: it gets SIGTERM
// and then SIGKILL, and its end is told as ever.
const (
	typeRun    = "run"
	typeOutput = "output"
	typeEnd    = "end"
)

// unitRun is what is to be run.
type unitRun struct {
	// Argv is the command's name and its arguments.
	Argv []string `json:"argv"`
	// Env is its environment.
	Env []string `json:"env"`
	// Dir is where it begins; empty: a directory of its own.
	Dir string `json:"dir,omitzero"`
	// Script is a file whose path becomes the last argument.
	Script *unitScript `json:"script,omitzero"`
	// Limits are the names of limits that somebody counts on.
	Limits []string `json:"limits,omitzero"`
}

// unitScript is the file of a unitRun.
type unitScript struct {
	Text      string `json:"text"`
	Extension string `json:"extension,omitzero"`
}

// unitOutput is some output of the command.
type unitOutput struct {
	// Stream is "stdout" or "stderr".
	Stream string `json:"stream"`
	// Data are the bytes in base64: they need not be text.
	Data string `json:"data"`
}

// unitEnd says what the command came to.
type unitEnd struct {
	// Verdict and Number are those of a supervisor's report; Why is what could
	// not be done, if the verdict is "confine".
	Verdict string `json:"verdict"`
	Number  int    `json:"number,omitzero"`
	Why     string `json:"why,omitzero"`
	// CPUMS and PeakBytes are what the unit has taken; absent: unknown.
	CPUMS     *int64 `json:"cpu_ms,omitzero"`
	PeakBytes *int64 `json:"peak_bytes,omitzero"`
	// Limit names the limit that the command met, if it is known.
	Limit string `json:"limit,omitzero"`
	// Unlimited are those of the limits counted on that the unit does not have.
	Unlimited []string `json:"unlimited,omitzero"`
}

// report is the end as a supervisor's report.
func (e unitEnd) report() report {
	r := report{verdict: verdict(e.Verdict), number: e.Number, why: e.Why, unit: &e}
	switch r.verdict {
	case exited, signaled, unstarted, unconfined:
		return r
	}
	return report{unit: &e}
}

// packets writes packets to a connection, one at a time.
type packets struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *packets) send(typ string, v any) error {
	payload, err := wire.AppendObject(nil, typ, v)
	if err != nil {
		return err
	}
	frame, err := wire.AppendFrame(nil, payload)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.w.Write(frame)
	return err
}

// peerUID is the user at the other end of a connection; at a socket that listens
// it is who had it listen.
func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("who is at the other end cannot be told: %w", err)
	}
	return int(cred.Uid), nil
}
