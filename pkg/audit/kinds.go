package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"zino/proto"
)

// Call is the data of the records call and denied.
type Call struct {
	Tool   string `json:"tool"`
	Digest string `json:"digest,omitzero"` // of the exact call if it was approved (see pkg/gate), else of its input
	Input  string `json:"input,omitzero"`  // its head, masked; of write and edit without content
	OK     bool   `json:"ok"`
	Code   string `json:"code,omitzero"`   // of a failure
	Reason string `json:"reason,omitzero"` // of a denial
	// Sandbox and Network are what the call was to run with, Confinement is what it had.
	Sandbox     proto.Level        `json:"sandbox,omitzero"`
	Network     bool               `json:"network,omitzero"`
	Confinement *proto.Confinement `json:"confinement,omitzero"`
	Exit        *int               `json:"exit,omitzero"`
	DurationMS  int64              `json:"duration_ms"`
	Job         string             `json:"job,omitzero"`
	By          int                `json:"by"` // the requester's uid
	Mode        string             `json:"mode,omitzero"`
	Approval    string             `json:"approval,omitzero"` // the request that a person has answered
	Grant       string             `json:"grant,omitzero"`    // the grant that allowed it
	Files       []File             `json:"files,omitzero"`
	MoreFiles   int                `json:"more_files,omitzero"` // changed ones that are not among files
}

// File is a file that a call has changed.
type File struct {
	Path   string `json:"path"`            // absolute
	Before string `json:"before,omitzero"` // SHA-256; absent: it did not exist, or is not known
	After  string `json:"after,omitzero"`  // likewise
	Kind   string `json:"kind,omitzero"`   // absent: a regular file; else "dir", "symlink" and the like
}

// FilesMax is how many files a record names.
const FilesMax = 100

// Infer is the data of the record infer.
type Infer struct {
	Provider   string       `json:"provider,omitzero"`
	Model      string       `json:"model,omitzero"`
	Digest     string       `json:"digest"` // of the messages: "sha256:" and hex
	Usage      *proto.Usage `json:"usage,omitzero"`
	Code       string       `json:"code,omitzero"` // of a failure
	DurationMS int64        `json:"duration_ms"`
}

// Turn is the data of the record turn.
type Turn struct {
	State     string      `json:"state"` // running, parked, or how it ended
	Reason    string      `json:"reason,omitzero"`
	Approval  string      `json:"approval,omitzero"` // that a parked turn waits for
	By        int         `json:"by"`                // the requester's uid; -1: as in the record before
	Client    string      `json:"client,omitzero"`   // attached, plain, command or job; absent: turn_start
	Mode      string      `json:"mode,omitzero"`
	Root      string      `json:"root,omitzero"`
	Sandbox   proto.Level `json:"sandbox,omitzero"`
	Network   *bool       `json:"network,omitzero"`
	Reachable bool        `json:"reachable,omitzero"`
	Attempt   int         `json:"attempt,omitzero"` // to resume it
}

// Approval is the data of the record approval.
type Approval struct {
	ID        string      `json:"id"`
	State     string      `json:"state"`
	Kind      string      `json:"kind"`
	Tool      string      `json:"tool"`
	Digest    string      `json:"digest"`
	Sandbox   proto.Level `json:"sandbox,omitzero"`
	From      proto.Level `json:"from,omitzero"` // the turn's level, of an escalation
	Answer    string      `json:"answer,omitzero"`
	Grant     string      `json:"grant,omitzero"`
	Requester int         `json:"requester"` // the uid of the turn's user
	By        int         `json:"by"`        // the uid of who has answered; -1: no one has
}

// Digest returns the SHA-256 of data as it stands in records.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// hashed is the data of the records config and policy.
type hashed struct {
	Files []File `json:"files"`
}

// tracked is what shows that a file has changed.
type tracked struct {
	ino   uint64
	size  int64
	mtime time.Time
}

// Files records the hashes of files if they have changed since the last call for this kind.
func (l *Log) Files(kind string, paths ...string) {
	if l == nil {
		return
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "" })
	changed := false
	l.mu.Lock()
	for _, path := range paths {
		now := look(path)
		before, known := l.files[path]
		changed = changed || !known || now != before
		l.files[path] = now
	}
	l.mu.Unlock()
	if !changed {
		return
	}
	var data hashed
	for _, path := range paths {
		data.Files = append(data.Files, File{Path: path, After: hashOf(path)})
	}
	l.add(kind, Event{Data: data}, make(chan error, 1)) // on disk, but no caller waits
}

func look(path string) tracked {
	info, err := os.Stat(path)
	if err != nil {
		return tracked{}
	}
	st, _ := info.Sys().(*syscall.Stat_t)
	return tracked{st.Ino, info.Size(), info.ModTime()}
}

// hashOf returns the SHA-256 of a file, "absent" without one, or "unreadable".
func hashOf(path string) string {
	const most = 1 << 20
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	if err == nil {
		defer f.Close()
		h := sha256.New()
		if _, err = io.Copy(h, io.LimitReader(f, most)); err == nil {
			return hex.EncodeToString(h.Sum(nil))
		}
	}
	return "unreadable"
}
