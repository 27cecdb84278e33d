package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// digest is what is known of a session's file up to a place: what a list shows,
// and which calls have no result yet. It is a function of the file alone.
type digest struct {
	Size  int64  `json:"size"`  // of the file when it was read
	MTime int64  `json:"mtime"` // likewise, in nanoseconds
	End   int64  `json:"end"`   // the place up to which it was read
	Print []byte `json:"print"` // the bytes before that

	Schema   int       `json:"schema"`
	Created  string    `json:"created,omitempty"`
	From     string    `json:"from,omitempty"` // the session that this one is a copy of
	Events   int       `json:"events"`
	Messages int       `json:"messages"`
	Turns    int       `json:"turns,omitempty"`
	Text     string    `json:"text,omitempty"` // the beginning of the user's first message
	Root     string    `json:"root,omitempty"`
	Title    string    `json:"title,omitempty"` // of the last title event
	CostUSD  *float64  `json:"cost_usd,omitempty"`
	Unpriced int       `json:"unpriced,omitempty"` // inferences without a cost
	Open     []openUse `json:"open,omitempty"`
}

// openUse is a call without a result.
type openUse struct {
	ID string `json:"id"`
}

// textMax is how many characters of a message a list shows.
const textMax = 80

// known holds that this version understands the session's events.
func (d *digest) known(id string) error {
	if d.Schema > schema {
		return invalid("Session %s has schema %d, and this zino knows schemas up to %d: it was written by a newer one. Use that.", quote(id), d.Schema, schema)
	}
	return nil
}

// summary is what a list shows.
func (d *digest) summary(e entry) proto.SessionSummary {
	sum := proto.SessionSummary{
		SessionID: e.id, Updated: stamp(e.updated()), Bytes: e.info.Size(),
		Created: d.Created, Messages: d.Messages, Turns: d.Turns, Text: d.Text, ForkedFrom: d.From,
		Root: d.Root, Title: cmp.Or(d.Title, d.Text), CostUSD: d.CostUSD, Unpriced: d.Unpriced,
	}
	if sum.Created == "" {
		sum.Created = sum.Updated
	}
	return sum
}

// look brings what is known of a session up to date.
func (s *Store) look(ctx context.Context, id string) (digest, error) {
	info, err := s.root.Lstat(id + fileEnd)
	if err != nil {
		return digest{}, s.wrong(id, err)
	}
	return s.digest(ctx, entry{id, info})
}

// digest is what is known of a session as its file is now. It costs nothing if
// the file is as it was, and what was appended if it has grown.
func (s *Store) digest(ctx context.Context, e entry) (digest, error) {
	old, seen := s.remembered(e.id)
	if seen && old.Size == e.info.Size() && old.MTime == e.info.ModTime().UnixNano() {
		return old, nil
	}
	d := digest{Schema: schema}
	if seen && s.grown(e.id, &old) {
		d = old
		d.Open = slices.Clone(old.Open)
	}
	d.Size, d.MTime = e.info.Size(), e.info.ModTime().UnixNano()
	err := s.scan(ctx, e.id, &d)
	if err == nil {
		d.Print, err = s.lines(e.id).Print(d.End)
	}
	if err != nil {
		return digest{}, s.wrong(e.id, err)
	}
	s.remember(e.id, d)
	return d, nil
}

// grown reports whether a file is the one that was read, with more at its end.
func (s *Store) grown(id string, d *digest) bool {
	print, err := s.lines(id).Print(d.End)
	return err == nil && len(d.Print) > 0 && bytes.Equal(print, d.Print)
}

// scan takes in the lines from the digest's place on.
func (s *Store) scan(ctx context.Context, id string, d *digest) error {
	for line, err := range s.lines(id).From(d.End) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		d.take(line.Text)
		d.End = line.Next
	}
	return nil
}

// take takes in a line. It is not checked: what is no event is of no consequence
// here, and readers leave it out.
func (d *digest) take(line []byte) {
	if !isObject(line) || line[len(line)-1] != '}' {
		return
	}
	e := read(line)
	if d.Events++; d.Created == "" {
		d.Created = timeOf(e.ts)
	}
	switch {
	case e.kind == meta:
		d.head(&e)
	case e.spoken():
		d.Messages++
		if !isUser(e.role) {
			return
		}
		if d.Turns++; d.Turns == 1 {
			d.Text = beginning(str(e.text), textMax)
		}
	case e.kind == title:
		d.Title = beginning(str(e.text), textMax)
	case e.kind == usage:
		d.spend(e.cost)
	case e.called():
		d.Open = append(d.Open, openUse{str(e.id)})
	case e.kind == toolResult:
		d.close(str(e.useID))
	}
}

// head takes in a meta line. Only the first line of a file counts as one.
func (d *digest) head(e *event) {
	if d.Events > 1 {
		return
	}
	if version, err := strconv.Atoi(string(e.version)); err == nil {
		d.Schema = version
	}
	d.From, d.Root = forkedFrom(e), str(e.root)
}

// spend adds the cost of an inference, which may be unknown.
func (d *digest) spend(cost []byte) {
	usd, err := strconv.ParseFloat(string(cost), 64)
	if err != nil || usd < 0 || math.IsNaN(usd) || math.IsInf(usd, 0) {
		d.Unpriced++
		return
	}
	if d.CostUSD != nil {
		usd += *d.CostUSD
	}
	d.CostUSD = &usd
}

// forkedFrom is the session that a meta line says it is a copy of.
func forkedFrom(e *event) (id string) {
	for key, value := range wire.Members(e.from) {
		if string(key) == "session_id" {
			id = str(value)
		}
	}
	return id
}

// close takes the call that a result is for from those that are open: of several
// with the same id the last one.
func (d *digest) close(id string) {
	for i, use := range slices.Backward(d.Open) {
		if use.ID == id {
			d.Open = slices.Delete(d.Open, i, i+1)
			return
		}
	}
}

// timeOf is an event's time in the form that lists have, empty if it is none.
func timeOf(ts []byte) string {
	t, err := time.Parse(time.RFC3339, str(ts))
	if err != nil {
		return ""
	}
	return stamp(t)
}

// remembered is what was known of a session when it was last looked at.
func (s *Store) remembered(id string) (digest, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadIndex()
	d, ok := s.digests[id]
	return d, ok
}

func (s *Store) remember(id string, d digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadIndex()
	s.digests[id], s.stale = d, true
}

// isGone reports an error of a file that is not there any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, proto.ErrNotFound)
}
