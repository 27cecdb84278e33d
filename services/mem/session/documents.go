package session

import (
	"context"
	"io/fs"
	"iter"
	"strconv"
	"time"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/proto"
)

// Log is the file of a session.
type Log struct {
	ID   string
	Info fs.FileInfo
}

// Logs returns the files of all sessions, the last changed first.
func (s *Store) Logs(ctx context.Context) ([]Log, error) {
	all, err := s.entries(ctx)
	logs := make([]Log, len(all))
	for i, e := range all {
		logs[i] = Log{e.id, e.info}
	}
	return logs, err
}

// LogName returns the name of a session's file in the directory.
func LogName(id string) string { return id + fileEnd }

// Resolve returns the id of the session with this id or the only one with this prefix.
func (s *Store) Resolve(id string) (string, error) { return s.resolve(id) }

// Lines iterates over the events of a session from an offset on. The text of a line is
// valid until the next iteration.
func (s *Store) Lines(ctx context.Context, id string, from int64) iter.Seq2[durable.Line, error] {
	r := reader{s: s, ctx: ctx, id: id}
	return r.events(from, 0)
}

// Header is what the first line of a session says about recall.
type Header struct {
	Created int64 // in seconds since 1970; 0: unknown
	UID     int64 // of the owner; -1: unknown
	Recall  bool  // false: the session is not indexed
}

// ParseHeader parses a line; ok is false if it is not of type meta.
func ParseHeader(line []byte) (h Header, ok bool) {
	e := parse(line)
	h = Header{Created: seconds(e.ts), UID: -1, Recall: string(e.recall) != "false"}
	if uid, err := strconv.ParseUint(string(e.uid), 10, 32); err == nil {
		h.UID = int64(uid)
	}
	return h, e.kind == proto.TypeMeta
}

// Document is an event that recall can find.
type Document struct {
	Role string // user, assistant, or tool for a call
	TS   int64  // in seconds since 1970; 0: unknown
	Text string
}

// Limits of the text of a document, in bytes.
const (
	messageMax = 64 << 10
	inputMax   = 1000 // of the texts in the input of a call
)

// ParseDocument parses a line; ok is false if it is neither a message nor a tool call.
// The text of a call is its name and the strings in its input. Results are not
// documents, because of their volume and because they may contain secrets.
func ParseDocument(line []byte) (d Document, ok bool) {
	e := parse(line)
	d.TS = seconds(e.ts)
	switch {
	case e.isMessage() && isText(e.text):
		d.Role, d.Text = str(e.role), text.Head(str(e.text), messageMax)
	case e.isCall():
		d.Role, d.Text = proto.RoleTool, str(e.name)+" "+string(text.Head(appendTexts(nil, e.input, depthMax), inputMax))
	default:
		return d, false
	}
	return d, true
}

// seconds returns a ts in seconds since 1970, 0 if it is not in RFC 3339.
func seconds(ts []byte) int64 {
	t, err := time.Parse(time.RFC3339, str(ts))
	if err != nil {
		return 0
	}
	return t.Unix()
}
