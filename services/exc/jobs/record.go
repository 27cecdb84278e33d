package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"zino/pkg/durable"
	"zino/proto"
)

// Names of the files of a job, in a directory named like its id.
const (
	recordFile = "job.json"
	stateFile  = "state.json"
	stdoutFile = "stdout"
	stderrFile = "stderr"
	tmpDir     = "tmp" // of a confined command
)

// Record is what job.json says. It is written before the job is started.
type Record struct {
	ID      string      `json:"id"`
	Session string      `json:"session"`
	Turn    string      `json:"turn,omitempty"`
	Key     string      `json:"key,omitempty"` // of the call
	Command string      `json:"command"`
	Root    string      `json:"root"`
	Sandbox proto.Level `json:"sandbox"`
	Network bool        `json:"network"`
	Limits  Limits      `json:"limits"`
	Started string      `json:"started"` // RFC 3339, UTC
	BootID  string      `json:"boot_id"`
	Runtime string      `json:"runtime"` // directory of the control socket: of the constellation
	Means   []string    `json:"means"`   // what confines it
	Wake    bool        `json:"wake,omitempty"`
	Kept    bool        `json:"kept,omitempty"`
	Named   bool        `json:"named,omitempty"` // a result names its output files
	Late    bool        `json:"late,omitempty"`  // its file changes since the result of the call are not recorded yet

	Unlimited []string `json:"unlimited,omitempty"` // limits that nothing enforces
}

// Limits are the limits of a job. Zero means none.
type Limits struct {
	TimeoutMS int64   `json:"timeout_ms"` // after which it is killed
	OutputMax int64   `json:"output_max"` // bytes of each output file
	Memory    int64   `json:"memory"`     // bytes
	Tasks     int     `json:"tasks"`      // processes and threads
	CPU       float64 `json:"cpu"`        // cores
}

// write stores r in the directory of its job.
func (r Record) write(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(durable.Replace(root, recordFile, append(b, '\n')), root.Close())
}

// readRecord reads the record of the job in dir.
func readRecord(dir string) (Record, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return Record{}, err
	}
	return parseRecord(b, filepath.Base(dir))
}

// parseRecord parses job.json of the job id.
func parseRecord(b []byte, id string) (r Record, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("%s of job %s: %w", recordFile, id, err)
	}
	if r.ID != id || r.Limits.OutputMax <= 0 {
		return Record{}, fmt.Errorf("%s of job %s: not a record of this job", recordFile, id)
	}
	return r, nil
}

// writeState writes a state over the one before, in one write of constant size: the
// file has either state after a crash, and needs no more room on a full disk.
func writeState(f *os.File, state proto.JobState, sync bool) error {
	b, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if len(b) >= stateSize { // a reason that is too long
		state.Why = state.Why[:min(len(state.Why), stateSize/8)]
		state.Unlimited = nil
		if b, err = json.Marshal(state); err != nil {
			return err
		}
	}
	b = append(b, bytes.Repeat([]byte{' '}, max(0, stateSize-1-len(b)))...)
	if _, err := f.WriteAt(append(b, '\n'), 0); err != nil {
		return err
	}
	if sync {
		return f.Sync()
	}
	return nil
}

// readState reads what a supervisor has stored.
func readState(f io.ReaderAt) (proto.JobState, error) {
	b := make([]byte, 2*stateSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return proto.JobState{}, err
	}
	return parseState(b[:n])
}

// parseState parses state.json. An empty file is that of a job that has not begun.
func parseState(b []byte) (state proto.JobState, err error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return proto.JobState{State: proto.JobRunning}, nil
	}
	if err := json.Unmarshal(b, &state); err != nil {
		return proto.JobState{}, fmt.Errorf("%s: %w", stateFile, err)
	}
	switch state.State {
	case proto.JobRunning, proto.JobExited, proto.JobLost:
	default:
		return proto.JobState{}, fmt.Errorf("%s: unknown state %q", stateFile, state.State)
	}
	if state.StdoutBytes < 0 || state.StderrBytes < 0 || below(state.StdoutStored) || below(state.StderrStored) {
		return proto.JobState{}, fmt.Errorf("%s: a number of bytes is negative", stateFile)
	}
	return state, nil
}

func below(n *int64) bool { return n != nil && *n < 0 }
