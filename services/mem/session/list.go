package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"syscall"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/proto"
)

// digest is what is known of a session's file up to a place: what a list shows,
// which calls have no result yet, and which turns have not ended. It is a function
// of the file and its name alone.
type digest struct {
	Size  int64  `json:"size"`  // of the file when it was read
	MTime int64  `json:"mtime"` // likewise, in nanoseconds
	Inode uint64 `json:"inode"` // likewise
	End   int64  `json:"end"`   // the place up to which it was read

	Schema   int        `json:"schema"`
	Created  string     `json:"created,omitempty"`
	From     string     `json:"from,omitempty"` // the session that this one is a copy of
	Events   int        `json:"events"`
	Messages int        `json:"messages"`
	Turns    int        `json:"turns,omitempty"`
	Text     string     `json:"text,omitempty"` // the beginning of the user's first message
	Root     string     `json:"root,omitempty"`
	Title    string     `json:"title,omitempty"` // of the last title event
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

// titleMax is how many characters of a message a list shows.
const titleMax = 80

// title is the beginning of a text in one line. White space may go, but a text
// that begins with much more of it than of words is cut.
func title(s string) string { return text.Clip(text.OneLine(text.Head(s, 64*titleMax)), titleMax) }

// checkSchema checks that this version understands the session's events.
func (d *digest) checkSchema(id string) error {
	if d.Schema > proto.LogSchema {
		return invalid("Session %s has schema %d, and this zino knows schemas up to %d: it was written by a newer one. Use that.", text.Quote(id), d.Schema, proto.LogSchema)
	}
	return nil
}

// add adds a line of the session id. It is not validated: readers skip what is not
// an event.
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
		usd, err := strconv.ParseFloat(string(e.cost), 64)
		if err != nil || usd < 0 || math.IsNaN(usd) || math.IsInf(usd, 0) {
			d.Unpriced++
			return
		}
		if d.CostUSD != nil {
			usd += *d.CostUSD
		}
		d.CostUSD = &usd
	case e.isCall():
		d.Open = append(d.Open, openCall{str(e.id)})
	case e.kind == proto.TypeToolResult:
		id := str(e.useID)
		for i, call := range slices.Backward(d.Open) { // of several calls with this id the last one
			if call.ID == id {
				d.Open = slices.Delete(d.Open, i, i+1)
				return
			}
		}
	}
}

// look returns the digest of a session as its file is now.
func (s *Store) look(ctx context.Context, id string) (digest, error) {
	info, err := s.root.Lstat(id + fileEnd)
	if err != nil {
		return digest{}, s.fileError(id, err)
	}
	return s.digest(ctx, entry{id, info})
}

// digest is look for a file that was just found. It reads nothing if the file is
// as it was when the store read or wrote it last. Of a file that changed in another
// way the whole is read: it may have been edited anywhere.
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

// isOf reports whether a digest is of a file as it is.
func (d *digest) isOf(info fs.FileInfo) bool {
	return d.Size == info.Size() && d.MTime == info.ModTime().UnixNano() && d.Inode == inode(info)
}

func (d *digest) setFile(info fs.FileInfo) {
	d.Size, d.MTime, d.Inode = info.Size(), info.ModTime().UnixNano(), inode(info)
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// write appends lines to the locked file of a session. A digest of the file that is
// up to date stays so, so that the next append need not read the file.
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
		return nil // the lines are stored; the next look reads the file
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

const (
	indexFile    = ".index.json"
	indexVersion = 4 // changes with digest
)

// index is the file of the digests.
type index struct {
	Version  int               `json:"version"`
	Sessions map[string]digest `json:"sessions"`
}

// loadIndex reads the digests as of the last list. Without a valid index every
// file is read; a digest counts only for a file that is as it was. mu is locked.
func (s *Store) loadIndex() {
	if s.digests != nil {
		return
	}
	s.digests = map[string]digest{}
	if data, err := s.root.ReadFile(indexFile); err == nil {
		maps.Copy(s.digests, parseIndex(data))
	}
}

func parseIndex(data []byte) map[string]digest {
	var x index
	if json.Unmarshal(data, &x) != nil || x.Version != indexVersion {
		return nil
	}
	for id, d := range x.Sessions {
		if proto.CheckSessionID(id) != nil || d.End < 0 || d.End > d.Size+1 || d.Messages < 0 || d.Events < 0 {
			delete(x.Sessions, id)
		}
	}
	return x.Sessions
}

// saveIndex writes the digests of the sessions that exist, if they differ from
// those in the file. Should that fail, the next list takes longer.
func (s *Store) saveIndex(all []entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stale && len(all) >= len(s.digests) {
		return nil
	}
	kept := make(map[string]digest, len(all))
	for _, e := range all {
		if d, ok := s.digests[e.id]; ok {
			kept[e.id] = d
		}
	}
	s.digests = kept
	return s.writeIndex()
}

// writeIndex replaces the file. mu is locked.
func (s *Store) writeIndex() error {
	data, err := json.Marshal(index{indexVersion, s.digests})
	if err != nil {
		return err
	}
	s.stale = false
	return durable.Replace(s.root, indexFile, data)
}

// forget removes a deleted session from the index, which has its first words.
func (s *Store) forget(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadIndex()
	delete(s.digests, id)
	if _, err := s.root.Lstat(indexFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.writeIndex()
}

// listRoom is how many bytes of a packet a list may take.
const listRoom = 12 << 20

// List lists the sessions, or those of a directory, the one that changed last in
// front.
func (s *Store) List(ctx context.Context, req proto.ListSessions) (proto.SessionList, error) {
	reply := proto.SessionList{Sessions: []proto.SessionSummary{}}
	all, err := s.entries(ctx)
	if err != nil {
		return reply, err
	}
	size := 0
	for _, e := range all {
		sum, err := s.summary(ctx, e)
		if isGone(err) {
			continue
		}
		if err != nil {
			return reply, err
		}
		if sum.Parent != nil && !req.All {
			continue
		}
		if req.Root != "" && sum.Root != req.Root && sum.Problem == "" {
			reply.Elsewhere++
			continue
		}
		reply.Total++
		if req.Limit > 0 && len(reply.Sessions) == req.Limit || size > listRoom {
			continue // only counted
		}
		// No character takes more than six bytes.
		size += 6*(len(sum.SessionID)+len(sum.Text)+len(sum.Title)+len(sum.Root)+len(sum.ForkedFrom)+len(sum.Problem)) + 384
		if p := sum.Parent; p != nil {
			size += 6 * (len(p.SessionID) + len(p.Turn) + len(p.Call))
		}
		if size <= listRoom {
			reply.Sessions = append(reply.Sessions, sum)
		}
	}
	_ = s.saveIndex(all) // a directory that cannot be written can be listed
	return reply, nil
}

// summary is what a list shows of a session. A file that exists and cannot be read
// is shown with the reason.
func (s *Store) summary(ctx context.Context, e entry) (proto.SessionSummary, error) {
	d, err := s.digest(ctx, e)
	if ctx.Err() != nil {
		return proto.SessionSummary{}, ctx.Err()
	}
	if isGone(err) {
		return proto.SessionSummary{}, err
	}
	updated := stamp(e.info.ModTime())
	sum := proto.SessionSummary{
		SessionID: e.id, Updated: updated, Bytes: e.info.Size(),
		Created: cmp.Or(d.Created, updated), Messages: d.Messages, Turns: d.Turns, Text: d.Text, ForkedFrom: d.From,
		Parent: d.Parent, Root: d.Root, Title: cmp.Or(d.Title, d.Text), CostUSD: d.CostUSD, Unpriced: d.Unpriced,
	}
	if err != nil {
		sum.Problem = err.Error()
	}
	return sum, nil
}

// Find finds the session that an id or the beginning of one names, or the one
// that changed last.
func (s *Store) Find(ctx context.Context, req proto.FindSession) (proto.SessionSummary, error) {
	if req.SessionID == "" {
		return s.latest(ctx, req.Root)
	}
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionSummary{}, err
	}
	info, err := s.root.Lstat(id + fileEnd)
	if err != nil {
		return proto.SessionSummary{}, s.fileError(id, err)
	}
	return s.summary(ctx, entry{id, info})
}

// latest is the session that changed last, of a directory unless root is empty.
func (s *Store) latest(ctx context.Context, root string) (proto.SessionSummary, error) {
	all, err := s.entries(ctx)
	if err != nil {
		return proto.SessionSummary{}, err
	}
	defer s.saveIndex(all) // the next call finds what was read now
	for _, e := range all {
		sum, err := s.summary(ctx, e)
		if isGone(err) {
			continue
		}
		if err != nil || sum.Parent == nil && (root == "" || sum.Root == root) {
			return sum, err
		}
	}
	return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: "No sessions found."}
}
