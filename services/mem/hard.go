package mem

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"zino/proto"
	"zino/services/mem/store"
)

func (s *Service) searchHard(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error) {
	q := store.Query{Text: req.Query, K: 3, MinScore: req.MinScore, Explain: req.Explain, Room: s.room}
	if req.TopK != nil {
		q.K = *req.TopK
	}
	var err error
	if q.Filter, err = filter(req.Tag, req.ChannelID, req.Since, req.Until); err != nil {
		return proto.HardMemories{}, err
	}
	if !(req.MinScore >= 0 && req.MinScore <= 1) {
		return proto.HardMemories{}, invalid(errors.New("min_score must be from 0 to 1"))
	}
	if s.vectors == nil || req.Embed != nil && !*req.Embed {
		found, err := s.memories.Search(ctx, q)
		list := make([]near, len(found))
		for i, r := range found {
			list[i].Result = r
		}
		return s.found(list, "", err)
	}
	return s.found(s.vectors.search(ctx, q))
}

// found returns the reply with search results.
func (s *Service) found(found []near, notice string, err error) (proto.HardMemories, error) {
	if errors.Is(err, store.ErrTooLarge) {
		return proto.HardMemories{}, &proto.Error{Code: proto.CodeTooLarge, Message: "the memories found are larger than one reply can be (its limit is 16 MiB): ask for fewer with top_k"}
	}
	rep := proto.HardMemories{Results: []proto.HardMemory{}, Notice: notice}
	for _, r := range found {
		h := proto.HardMemory{Messages: r.Messages, Score: r.Score, ID: &r.ID, Tag: r.Tag, Lexical: r.lexical, Vector: r.vector}
		for _, w := range r.Words {
			h.Words = append(h.Words, proto.WordShare{Word: w.Word, Share: w.Share, As: w.As})
		}
		rep.Results = append(rep.Results, h)
	}
	return rep, s.hardError(err)
}

func (s *Service) storeHard(ctx context.Context, req proto.StoreHard) (proto.Stored, error) {
	if _, _, err := parseMessages(req.Messages); err != nil {
		return proto.Stored{}, invalid(err)
	}
	created, err := moment("created", req.Created)
	if err != nil {
		return proto.Stored{}, err
	}
	m := store.Memory{Messages: req.Messages, Tag: req.Tag, Channel: req.ChannelID, Session: req.SessionID, Created: created, ReplacedBy: req.ReplacedBy}
	replaces := -1
	if req.Replaces != nil {
		replaces = *req.Replaces
	}
	switch {
	case req.Replaces != nil && replaces < 0:
		return proto.Stored{}, s.hardErrorOf(replaces, store.ErrNotFound)
	case req.ReplacedBy != nil && *req.ReplacedBy < -1:
		return proto.Stored{}, invalid(errors.New("replaced_by must be the id of a memory, or -1"))
	case req.ReplacedBy != nil && req.Proposed:
		return proto.Stored{}, invalid(errors.New("replaced_by is for stored memories, not for proposed ones"))
	case req.Proposed:
		return s.propose(ctx, m, replaces)
	}
	id, err := s.store(ctx, m, replaces)
	return proto.Stored{ID: id}, err
}

// store stores a memory, which replaces another unless replaces is -1.
func (s *Service) store(ctx context.Context, m store.Memory, replaces int) (id int, err error) {
	if replaces < 0 {
		id, err = s.memories.Put(ctx, m)
		err = s.hardError(err)
	} else {
		id, err = s.memories.Replace(ctx, replaces, m)
		err = s.hardErrorOf(replaces, err)
	}
	if err == nil && s.vectors != nil {
		s.vectors.stored(id, len(m.Messages)+len(m.Tag))
		if replaces >= 0 {
			s.vectors.removed()
		}
	}
	return id, err
}

func (s *Service) getHard(ctx context.Context, req proto.GetHard) (proto.HardItem, error) {
	m, err := s.memories.Get(ctx, req.ID)
	if err != nil {
		return proto.HardItem{}, s.hardErrorOf(req.ID, err)
	}
	return item(m), nil
}

func (s *Service) updateHard(ctx context.Context, req proto.UpdateHard) (proto.Empty, error) {
	if _, _, err := parseMessages(req.Messages); err != nil {
		return proto.Empty{}, invalid(err)
	}
	err := s.memories.Update(ctx, req.ID, store.Change{Messages: req.Messages, Tag: req.Tag})
	if err == nil {
		s.forgetVectors()
		if s.vectors != nil {
			s.vectors.stored(req.ID, embedCharacters)
		}
	}
	return proto.Empty{}, s.hardErrorOf(req.ID, err)
}

func (s *Service) deleteHard(ctx context.Context, req proto.DeleteHard) (proto.Empty, error) {
	err := s.memories.Delete(ctx, req.ID)
	if err == nil {
		s.forgetVectors()
	}
	return proto.Empty{}, s.hardErrorOf(req.ID, err)
}

// The default and the maximum of the memories in one list_hard reply.
const (
	pageDefault = 100
	pageMax     = 1000
)

func (s *Service) listHard(ctx context.Context, req proto.ListHard) (proto.HardList, error) {
	list := proto.HardList{Items: []proto.HardItem{}}
	f, err := filter(req.Tag, req.ChannelID, req.Since, req.Until)
	if err != nil {
		return list, err
	}
	f.Before = req.Before
	limit := min(req.Limit, pageMax)
	if limit <= 0 {
		limit = pageDefault
	}
	size := 0
	for m, err := range s.memories.Scan(ctx, f) {
		if err != nil {
			return list, s.hardError(err)
		}
		size += len(m.Messages) + len(m.Tag) + len(m.Channel) + len(m.Session) + 2*around
		if n := len(list.Items); n == limit || n > 0 && size > s.room {
			list.Next = &list.Items[n-1].ID
			break
		}
		list.Items = append(list.Items, item(m))
	}
	return list, nil
}

func item(m store.Memory) proto.HardItem {
	i := proto.HardItem{ID: m.ID, Messages: m.Messages, Tag: m.Tag, ChannelID: m.Channel, SessionID: m.Session, ReplacedBy: m.ReplacedBy}
	if !m.Created.IsZero() {
		i.Created = m.Created.UTC().Format(time.RFC3339)
	}
	return i
}

// filter returns the filter for the fields of a request.
func filter(tag, channel, since, until string) (f store.Filter, err error) {
	f = store.Filter{Tag: tag, Channel: channel}
	if f.Since, err = moment("since", since); err == nil {
		f.Until, err = moment("until", until)
	}
	return f, err
}

// moment parses a time in RFC 3339, or a date, which means midnight in local time.
func moment(key, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.ParseInLocation(time.DateOnly, text, time.Local)
	}
	if err != nil {
		return t, invalid(fmt.Errorf("%s must be a time like 2026-11-21T14:03:07Z or a day like 2026-11-21", key))
	}
	return t, nil
}

// hardErrorOf returns the reply for an error of a request about memory id.
func (s *Service) hardErrorOf(id int, err error) error {
	var same *store.DuplicateError
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &proto.Error{Code: proto.CodeNotFound, Message: fmt.Sprintf("there is no memory %d", id)}
	case errors.As(err, &same):
		return invalid(fmt.Errorf("memory %d says the same already: delete memory %d instead", same.ID, id))
	}
	return s.hardError(err)
}

// hardError adds the file name to an error.
func (s *Service) hardError(err error) error {
	if err == nil {
		return nil
	}
	return fileError("hard memories", filepath.Join(s.cfg.DataDir, hardFile), err)
}
