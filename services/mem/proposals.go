package mem

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/mem/store"
)

// Proposals are memories that wait for a person's decision, in a file of lines:
//
//	{"next":3}
//	{"id":1,"messages":[…],"tag":"…","replaces":0,"time":"…"}
//	{"id":1,"accepting":7,"messages":[…],"tag":"…"}
//	{"id":1,"decided":true}
//
// The first line of a rewritten file keeps the ids of removed proposals from being
// used again. "accepting" precedes the storing of the memory, whose id is that number
// or a higher one unless it was stored before. Other lines are kept and reported. The
// file stays locked from there to "decided", so that a proposal is decided once.
const (
	proposalsFile = "proposals.jsonl"

	// proposalAge is how long a proposal waits.
	proposalAge = 90 * 24 * time.Hour
	// proposalsMax limits the proposals that wait, because each request reads them all.
	proposalsMax = 1000
)

// proposal is a memory that waits for a decision.
type proposal struct {
	id int
	entry
	replaces  int      // the memory to replace, or -1
	lines     [][]byte // of the file
	accepting *acceptance
}

// acceptance is an accept request that did not end.
type acceptance struct {
	least int // the lowest id that a newly stored memory can have
	entry     // the memory to store
}

// inbox is the content of the file.
type inbox struct {
	next   int // the id of the next proposal
	list   []*proposal
	others [][]byte // lines that are not proposals
	long   bool     // a line is too long to be read
	waste  bool     // the file has lines of decided or expired proposals
}

// record is a line of the file.
type record struct {
	id, next, accepting, replaces int // -1: absent
	decided                       bool
	entry
}

// parseRecord parses a line, which must be valid JSON. It ignores other keys.
func parseRecord(line []byte) (record, error) {
	var stored struct {
		ID        proto.Raw `json:"id,omitzero"`
		Next      proto.Raw `json:"next,omitzero"`
		Accepting proto.Raw `json:"accepting,omitzero"`
		Decided   proto.Raw `json:"decided,omitzero"`
		Replaces  proto.Raw `json:"replaces,omitzero"`
		Messages  proto.Raw `json:"messages,omitzero"`
	}
	if err := wire.Decode(clean(line), &stored); err != nil {
		return record{}, err
	}
	r := record{id: idIn(stored.ID), next: idIn(stored.Next), accepting: idIn(stored.Accepting), replaces: idIn(stored.Replaces), decided: string(stored.Decided) == "true"}
	switch {
	case r.id < 0 && r.next > 0:
		return r, nil
	case r.id < 1:
		return r, errors.New("it has no id")
	case r.decided:
		return r, nil
	}
	e, err := parseElement(line)
	if err == nil && e.kind != isMemory {
		err = errors.New("it is not a memory")
	}
	r.entry, r.replacedBy = e.entry, nil
	return r, err
}

// idIn returns a JSON number that is an id, or -1.
func idIn(raw []byte) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n > 1<<53 {
		return -1
	}
	return n
}

// readInbox reads the locked file.
func (s *Service) readInbox(t *durable.Tx) (*inbox, error) {
	in, err := parseInbox(t, t.End(), s.now())
	if err != nil {
		return nil, err
	}
	text := ""
	if n := len(in.others); n > 0 || in.long {
		text = fmt.Sprintf("%s: %d lines are not proposals: repair or delete them", proposalsFile, max(n, 1))
	}
	s.problems.set("skipped "+proposalsFile, text, nil)
	return in, nil
}

// parseInbox parses the first end bytes of a file.
func parseInbox(r io.ReaderAt, end int64, now time.Time) (*inbox, error) {
	in := &inbox{next: 1}
	for line, err := range durable.ReadLines(r, 0, end) {
		if err != nil {
			return nil, err
		}
		in.add(line)
	}
	in.remove(func(p *proposal) bool {
		return p.created != noTime && now.Sub(time.Unix(p.created, 0)) >= proposalAge
	})
	return in, nil
}

// add adds a line of the file.
func (in *inbox) add(line durable.Line) {
	if line.Text == nil {
		in.long = true
		return
	}
	text := bytes.Clone(line.Text)
	if !line.IsObject() {
		in.others = append(in.others, text)
		return
	}
	r, err := parseRecord(text)
	p := in.find(r.id)
	in.next = max(in.next, r.next, r.id+1)
	switch {
	case err != nil:
		in.others = append(in.others, text)
	case r.id < 0: // only next
	case r.decided:
		in.waste = true
		in.remove(func(other *proposal) bool { return other == p })
	case r.accepting >= 0 && p == nil:
		in.waste = true
	case r.accepting >= 0:
		p.accepting, p.lines = &acceptance{r.accepting, r.entry}, append(p.lines, text)
	case p == nil:
		in.list = append(in.list, &proposal{id: r.id, entry: r.entry, replaces: r.replaces, lines: [][]byte{text}})
	default: // edited by another program: the last line counts
		p.entry, p.replaces, p.lines = r.entry, r.replaces, append(p.lines, text)
	}
}

func (in *inbox) find(id int) *proposal {
	for _, p := range in.list {
		if p.id == id {
			return p
		}
	}
	return nil
}

// remove removes proposals from the list.
func (in *inbox) remove(gone func(*proposal) bool) {
	kept := in.list[:0]
	for _, p := range in.list {
		if gone(p) {
			in.waste = true
		} else {
			kept = append(kept, p)
		}
	}
	in.list = kept
}

// text returns a file with the lines that are still needed.
func (in *inbox) text() []byte {
	lines := append([][]byte{fmt.Appendf(nil, `{"next":%d}`, in.next)}, in.others...)
	for _, p := range in.list {
		lines = append(lines, p.lines...)
	}
	return append(bytes.Join(lines, []byte("\n")), '\n')
}

// shrink rewrites the file without the lines of decided and expired proposals. It is
// the last use of the locked file.
func (s *Service) shrink(in *inbox) {
	if !in.waste || in.long {
		return
	}
	err := durable.Replace(s.root, proposalsFile, in.text())
	if err != nil { // the file is valid as it is
		s.problems.log.Debug("the file of proposals was not rewritten", "file", proposalsFile, "reason", err)
	}
}

// propose keeps a memory as a proposal, unless it is stored already.
func (s *Service) propose(ctx context.Context, m store.Memory, replaces int) (reply proto.Stored, err error) {
	e, err := newEntry(m.Messages, m.Tag)
	if err != nil {
		return reply, err
	}
	if replaces >= 0 {
		if _, err := s.memories.Get(ctx, replaces); err != nil {
			return reply, s.hardErrorOf(replaces, err)
		}
	} else if reply.ID, err = s.memories.Find(ctx, m); !errors.Is(err, store.ErrNotFound) {
		return reply, s.hardError(err)
	}
	e.channel, e.session, e.created = m.Channel, m.Session, s.now().Unix()
	if !m.Created.IsZero() {
		e.created = m.Created.Unix()
	}
	err = s.proposals.Update(ctx, true, func(t *durable.Tx) error {
		in, err := s.readInbox(t)
		if err != nil {
			return err
		}
		defer s.shrink(in)
		print := e.fingerprint()
		for _, p := range in.list {
			if p.fingerprint() == print && p.replaces == replaces {
				reply = proto.Stored{ID: p.id, Proposed: true}
				return nil
			}
		}
		if len(in.list) >= proposalsMax {
			return errFull
		}
		p := &proposal{id: in.next, entry: e, replaces: replaces}
		p.lines = [][]byte{p.line()}
		if err := t.Append(p.lines); err != nil {
			return err
		}
		in.next, in.list = in.next+1, append(in.list, p)
		reply = proto.Stored{ID: p.id, Proposed: true}
		return nil
	})
	return reply, s.proposalsError(err)
}

var errFull = proto.Errorf(proto.CodeUnavailable, "%d proposed memories wait already: accept or reject some with zino memory inbox", proposalsMax)

// line returns the line of a new proposal.
func (p *proposal) line() []byte {
	b := fmt.Appendf(nil, `{"id":%d,`, p.id)
	if p.replaces >= 0 {
		b = fmt.Appendf(b, `"replaces":%d,`, p.replaces)
	}
	return append(b, p.entry.line()[1:]...)
}

func (s *Service) listProposals(ctx context.Context, req proto.ListProposals) (proto.Proposals, error) {
	reply := proto.Proposals{Items: []proto.Proposal{}}
	err := s.proposals.View(func(t *durable.Tx) error {
		in, err := s.readInbox(t)
		if err != nil {
			return err
		}
		defer s.shrink(in)
		size := 0
		for _, p := range in.list {
			if p.id <= req.After {
				continue
			}
			stored, err := s.stored(ctx, p)
			if err != nil {
				return err
			}
			if stored != nil {
				continue
			}
			item, err := s.proposalItem(ctx, p)
			if err != nil {
				return err
			}
			size += len(item.Messages) + len(item.Tag) + len(item.ChannelID) + len(item.SessionID) + 4*around
			if item.Replaces != nil {
				size += len(item.Replaces.Messages) + len(item.Replaces.Tag) + len(item.Replaces.ChannelID) + len(item.Replaces.SessionID)
			}
			if n := len(reply.Items); n > 0 && size > s.room {
				reply.Next = &reply.Items[n-1].ID
				break
			}
			reply.Items = append(reply.Items, item)
		}
		return nil
	})
	return reply, s.proposalsError(err)
}

func (s *Service) proposalItem(ctx context.Context, p *proposal) (proto.Proposal, error) {
	i := proto.Proposal{ID: p.id, Messages: p.messages, Tag: p.tag, ChannelID: p.channel, SessionID: p.session}
	if p.created != noTime {
		i.Created = time.Unix(p.created, 0).UTC().Format(time.RFC3339)
	}
	if p.replaces < 0 {
		return i, nil
	}
	old, err := store.Current(func(id int) (store.Memory, error) { return s.memories.Get(ctx, id) }, p.replaces)
	if errors.Is(err, store.ErrNotFound) {
		return i, nil
	}
	replaced := item(old)
	i.Replaces = &replaced
	return i, s.hardError(err)
}

func (s *Service) acceptProposal(ctx context.Context, req proto.AcceptProposal) (reply proto.Stored, err error) {
	if _, _, err := parseMessages(req.Messages); err != nil {
		return reply, invalid(err)
	}
	err = s.decide(ctx, req.ID, func(t *durable.Tx, p *proposal, stored *int) error {
		if stored != nil {
			reply.ID = *stored
			return nil
		}
		messages, tag := p.messages, p.tag
		if req.Messages != nil {
			messages = req.Messages
		}
		if req.Tag != nil {
			tag = *req.Tag
		}
		e, err := newEntry(messages, tag)
		if err != nil {
			return err
		}
		if err := s.beginAccept(ctx, t, p, e); err != nil {
			return err
		}
		reply.ID, err = s.storeProposal(ctx, p, e)
		return err
	})
	return reply, err
}

// beginAccept records that a proposal is about to be stored.
func (s *Service) beginAccept(ctx context.Context, t *durable.Tx, p *proposal, e entry) error {
	least := 0
	for m, err := range s.memories.Scan(ctx, store.Filter{}) {
		if err != nil {
			return s.hardError(err)
		}
		least = m.ID + 1
		break
	}
	line := fmt.Appendf(nil, `{"id":%d,"accepting":%d,`, p.id, least)
	return t.Append([][]byte{append(e.appendContent(line), '}')})
}

// storeProposal stores the memory of a proposal. A memory that it would replace and that
// was deleted since is not replaced.
func (s *Service) storeProposal(ctx context.Context, p *proposal, e entry) (id int, err error) {
	m := store.Memory{Messages: e.messages, Tag: e.tag, Channel: p.channel, Session: p.session}
	id, err = s.store(ctx, m, p.replaces)
	if errors.Is(err, proto.ErrNotFound) {
		return s.store(ctx, m, -1)
	}
	return id, err
}

// stored returns the memory of a proposal whose acceptance was interrupted after the
// memory was stored.
func (s *Service) stored(ctx context.Context, p *proposal) (*int, error) {
	if p.accepting == nil {
		return nil, nil
	}
	print := p.accepting.fingerprint()
	for m, err := range s.memories.Scan(ctx, store.Filter{}) {
		if err != nil {
			return nil, s.hardError(err)
		}
		if m.ID < p.accepting.least {
			break
		}
		if e, err := newEntry(m.Messages, m.Tag); err == nil && e.fingerprint() == print {
			return &m.ID, nil
		}
	}
	return nil, nil
}

func (s *Service) rejectProposal(ctx context.Context, req proto.RejectProposal) (proto.Empty, error) {
	var accepted error
	err := s.decide(ctx, req.ID, func(_ *durable.Tx, _ *proposal, stored *int) error {
		if stored != nil {
			accepted = proto.Errorf(proto.CodeNotFound, "proposal %d was accepted as memory %d", req.ID, *stored)
		}
		return nil
	})
	return proto.Empty{}, cmp.Or(err, accepted)
}

// decide calls do with a proposal, and with the id of its memory if an acceptance was
// interrupted after it was stored. Then it removes the proposal.
func (s *Service) decide(ctx context.Context, id int, do func(t *durable.Tx, p *proposal, stored *int) error) error {
	err := s.proposals.Update(ctx, false, func(t *durable.Tx) error {
		in, err := s.readInbox(t)
		if err != nil {
			return err
		}
		defer s.shrink(in)
		p := in.find(id)
		if p == nil {
			return fs.ErrNotExist
		}
		stored, err := s.stored(ctx, p)
		if stored != nil && err == nil {
			_, err = s.storeProposal(ctx, p, p.accepting.entry) // the old memory may not be replaced yet
		}
		if err == nil {
			err = do(t, p, stored)
		}
		if err != nil {
			return err
		}
		if err := t.Append([][]byte{fmt.Appendf(nil, `{"id":%d,"decided":true}`, id)}); err != nil {
			return err
		}
		in.remove(func(other *proposal) bool { return other == p })
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return proto.Errorf(proto.CodeNotFound, "there is no proposal %d", id)
	}
	return s.proposalsError(err)
}

// proposalsError adds the file name to an error.
func (s *Service) proposalsError(err error) error {
	if _, done := errors.AsType[*proto.Error](err); done || err == nil {
		return err
	}
	if _, done := errors.AsType[*lineError](err); done {
		return err
	}
	return fileError("proposed memories", filepath.Join(s.cfg.DataDir, proposalsFile), err)
}
