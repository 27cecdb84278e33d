// Package line has the format of the audit's records: lines of JSON, each with the hash of
// the line before.
package line

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// MaxLine is the greatest length of a line with its newline.
const MaxLine = 64 << 10

// TimeFormat is the format of ts: UTC, of fixed length, so that the order of the texts is
// that of the times.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// Hash is the SHA-256 of a line without its newline.
type Hash [sha256.Size]byte

// Sum returns the hash of a line, which may have its newline.
func Sum(line []byte) Hash { return sha256.Sum256(bytes.TrimSuffix(line, []byte("\n"))) }

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Record is a line that was read.
type Record struct {
	Seq  int64  `json:"seq,omitzero"` // from 1; a plain log has none
	TS   string `json:"ts"`
	UID  int    `json:"uid"`
	PID  int    `json:"pid"`
	Src  string `json:"src"`
	Kind string `json:"kind"`
	// Session, Turn and Call are empty where the record belongs to none.
	Session string    `json:"session,omitzero"`
	Turn    string    `json:"turn,omitzero"`
	Call    string    `json:"call,omitzero"`
	Data    proto.Raw `json:"data,omitzero"`
	Prev    string    `json:"prev,omitzero"` // in hex; of the first record of all, and of a plain log, empty
}

// Time returns when the record was written.
func (r *Record) Time() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, r.TS)
	return t
}

// Source is who has sent a record.
type Source struct {
	UID, PID int
	Src      string
}

// Append appends a line with its newline. Without a seq it is the line of a plain log.
func Append(b []byte, seq int64, now time.Time, from Source, e proto.AuditEntry, prev string) ([]byte, error) {
	start := len(b)
	b = append(b, '{')
	if seq > 0 {
		b = append(strconv.AppendInt(append(b, `"seq":`...), seq, 10), ',')
	}
	b = now.UTC().AppendFormat(append(b, `"ts":"`...), TimeFormat)
	b = strconv.AppendInt(append(b, `","uid":`...), int64(from.UID), 10)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(from.PID), 10)
	for _, f := range [...]struct{ name, value string }{{"src", from.Src}, {"kind", e.Kind}, {"session", e.Session}, {"turn", e.Turn}, {"call", e.Call}} {
		if f.value != "" || f.name == "src" || f.name == "kind" {
			b = append(append(append(b, `,"`...), f.name...), `":`...)
			b = wire.AppendString(b, f.value)
		}
	}
	if len(e.Data) > 0 {
		data, err := wire.Line(e.Data)
		if err != nil {
			return b[:start], err
		}
		b = append(append(b, `,"data":`...), data...)
	}
	if seq > 0 {
		b = append(append(append(b, `,"prev":"`...), prev...), '"')
	}
	b = append(b, "}\n"...)
	if n := len(b) - start; n > MaxLine {
		return b[:start], &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("a record of %d bytes: at most %d are kept", n, MaxLine)}
	}
	return b, nil
}

var errLine = errors.New("the line is not a record")

// Parse reads a line of an audit's file or of a plain log.
func Parse(line []byte) (r Record, err error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) == 0 || len(line) >= MaxLine || line[0] != '{' || !wire.Valid(line) {
		return r, errLine
	}
	if err := wire.DecodeReply(line, &r); err != nil || r.Kind == "" || r.Seq < 0 {
		return Record{}, errLine
	}
	if _, err := time.Parse(time.RFC3339Nano, r.TS); err != nil {
		return Record{}, errLine
	}
	r.Data = bytes.Clone(r.Data)
	return r, nil
}

// PlainFile is the name of a plain log, whose lines have neither seq nor prev.
const PlainFile = "audit.jsonl"

// LastLine returns the last complete record in data, the end of a file, and the length of
// data up to its end. Without one line is nil.
func LastLine(data []byte) (line []byte, end int) {
	for end = bytes.LastIndexByte(data, '\n') + 1; end > 0; {
		start := bytes.LastIndexByte(data[:end-1], '\n') + 1
		if r, err := Parse(data[start:end]); err == nil && r.Seq > 0 {
			return data[start:end], end
		}
		end = start
	}
	return nil, 0
}

// FileName returns the name of the file with a number.
func FileName(n int) string { return fmt.Sprintf("audit-%06d.jsonl", n) }

// FileNumber returns the number of a file, 0 for other names.
func FileNumber(name string) int {
	text, ok := strings.CutPrefix(name, "audit-")
	text, ok2 := strings.CutSuffix(text, ".jsonl")
	n, err := strconv.Atoi(text)
	if !ok || !ok2 || err != nil || n < 1 || FileName(n) != name {
		return 0
	}
	return n
}
