package session

import (
	"context"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"syscall"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/proto"
)

// digest summarizes a session's file up to an offset: the values of a list, the calls
// without a result, and the turns that have not ended. It depends on nothing but the
// file and its name.
type digest struct {
	Size  int64  `json:"size"`  // of the file
	MTime int64  `json:"mtime"` // of the file, in nanoseconds
	Inode uint64 `json:"inode"` // of the file
	End   int64  `json:"end"`   // the offset

	Schema   int        `json:"schema"`
	Created  string     `json:"created,omitempty"`
	From     string     `json:"from,omitempty"` // the original of a copy
	Events   int        `json:"events"`
	Messages int        `json:"messages"`
	Turns    int        `json:"turns,omitempty"`
	Text     string     `json:"text,omitempty"` // the beginning of the user's first message
	Root     string     `json:"root,omitempty"`
	Title    string     `json:"title,omitempty"` // text of the last title event
	CostUSD  *float64   `json:"cost_usd,omitempty"`
	Unpriced int        `json:"unpriced,omitempty"` // inferences without a cost
	Open     []openCall `json:"open,omitempty"`

	Parent *proto.LogParent `json:"parent,omitempty"` // the call that started a sub-agent

	OpenTurns []openTurn `json:"open_turns,omitempty"`
	LastTurn  string     `json:"last_turn,omitempty"` // the state in the last turn event
}

// openCall is a call without a result.
type openCall struct {
	ID string `json:"id"`
}

// checkSchema checks that this version supports the schema of a session.
func (d *digest) checkSchema(id string) error {
	if d.Schema > proto.LogSchema {
		return invalid("Session %s has schema %d, and this zino knows schemas up to %d: it was written by a newer one. Use that.", text.Quote(id), d.Schema, proto.LogSchema)
	}
	return nil
}

// add updates the digest for a line of the session id. The line need not be an event.
func (d *digest) add(id string, line []byte) {
	if !isObject(line) || line[len(line)-1] != '}' {
		return
	}
	e := parse(line)
	if d.Events++; d.Created == "" {
		d.Created = timeOf(e.ts)
	}
	if len(e.turn) > 0 {
		d.addTurn(id, &e)
	}
	switch {
	case e.kind == proto.TypeMeta:
		if d.Events > 1 { // only the first line of a file counts
			return
		}
		if version, err := strconv.Atoi(string(e.version)); err == nil {
			d.Schema = version
		}
		d.From, d.Root, d.Parent = e.forkedFrom(), str(e.root), e.parentCall()
	case e.isMessage():
		d.Messages++
		if !e.isUser() {
			return
		}
		if d.Turns++; d.Turns == 1 {
			d.Text = title(str(e.text))
		}
	case e.kind == proto.TypeTitle:
		d.Title = title(str(e.text))
	case e.kind == proto.TypeUsage:
		d.spend(e.cost)
	case e.isCall():
		d.Open = append(d.Open, openCall{str(e.id)})
	case e.kind == proto.TypeToolResult:
		if len(e.usage) > 0 { // of a sub-agent
			d.spend(costOf(e.usage))
		}
		id := str(e.useID)
		for i, call := range slices.Backward(d.Open) { // the last of several calls with this id
			if call.ID == id {
				d.Open = slices.Delete(d.Open, i, i+1)
				return
			}
		}
	}
}

// spend adds a cost in US dollars, a number.
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

// look returns the digest of a session's present file.
func (s *Store) look(ctx context.Context, id string) (digest, error) {
	info, err := s.root.Lstat(id + fileEnd)
	if err != nil {
		return digest{}, s.fileError(id, err)
	}
	return s.digest(ctx, entry{id, info})
}

// digest is look for a file with known attributes. It reads nothing if they are those
// of the last read or write of this store, and else the whole file, which may have been
// edited anywhere.
func (s *Store) digest(ctx context.Context, e entry) (digest, error) {
	s.mu.Lock()
	s.loadIndex()
	old, seen := s.digests[e.id]
	s.mu.Unlock()
	if seen && old.isOf(e.info) {
		return old, nil
	}
	d := digest{Schema: proto.LogSchema}
	d.setFile(e.info)
	for line, err := range s.log(e.id).From(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return digest{}, s.fileError(e.id, err)
		}
		d.add(e.id, line.Text)
		d.End = line.Next
	}
	s.keep(e.id, d)
	return d, nil
}

// keep stores the digest of a session.
func (s *Store) keep(id string, d digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadIndex()
	s.digests[id], s.stale = d, true
}

// isOf reports whether a digest is of a file with these attributes.
func (d *digest) isOf(info fs.FileInfo) bool {
	return d.Size == info.Size() && d.MTime == info.ModTime().UnixNano() && d.Inode == inode(info)
}

func (d *digest) setFile(info fs.FileInfo) {
	d.Size, d.MTime, d.Inode = info.Size(), info.ModTime().UnixNano(), inode(info)
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// write appends lines to the locked file of a session. It updates the digest, if that
// is of the file before, so that the next append does not read the file.
func (s *Store) write(id string, tx *durable.Tx, lines [][]byte) error {
	s.mu.Lock()
	s.loadIndex()
	d, seen := s.digests[id]
	s.mu.Unlock()
	before, statErr := s.root.Lstat(id + fileEnd)
	seen = seen && statErr == nil && d.isOf(before) && d.End == tx.End()
	if err := tx.Append(lines); err != nil || !seen {
		return err
	}
	after, err := s.root.Lstat(id + fileEnd)
	if err != nil {
		return nil // the lines are stored, and the digest is outdated
	}
	d.Open, d.OpenTurns = slices.Clone(d.Open), slices.Clone(d.OpenTurns)
	for _, line := range lines {
		d.add(id, line)
	}
	d.End = tx.End()
	d.setFile(after)
	s.keep(id, d)
	return nil
}
