package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Create creates a session with its first line. Without an id it gets a new one.
// The header must be valid UTF-8 without lone surrogates.
func (s *Store) Create(_ context.Context, req proto.CreateSession) (proto.SessionPlace, error) {
	id := req.SessionID
	if id == "" {
		id = proto.NewSessionID()
	}
	header, err := s.header(req.Header, nil, nil)
	if err == nil {
		err = proto.CheckSessionID(id)
	}
	if err != nil {
		return proto.SessionPlace{}, err
	}
	next, err := s.create(id, func(tx *durable.Tx) error { return tx.Append([][]byte{header}) })
	return proto.SessionPlace{SessionID: id, Next: next}, err
}

// create creates a session's file, which must not exist, and calls fill to write it.
func (s *Store) create(id string, fill func(*durable.Tx) error) (next int64, err error) {
	created, log := false, s.log(id)
	err = log.Update(context.Background(), true, func(tx *durable.Tx) error {
		if tx.End() > 0 {
			return exists(id)
		}
		created = true
		err := fill(tx)
		next = tx.End()
		return err
	})
	if err != nil && created { // remove the partially written session
		if removed := log.Remove(); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
		err = errors.Join(err, s.root.RemoveAll(id+filesEnd))
	}
	return next, s.fileError(id, err)
}

// Append adds events to a session, or to a new one with req.Create. The events must be
// valid JSON without lone surrogates. If one of them is otherwise invalid, nothing is
// stored.
func (s *Store) Append(ctx context.Context, req proto.AppendSession, events []proto.Raw) (proto.SessionPlace, error) {
	reply := proto.SessionPlace{SessionID: req.SessionID}
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return reply, err
	}
	lines, err := s.prepare(events, req.At != nil)
	if err != nil {
		return reply, err
	}
	header, err := s.header(req.Header, nil, req.At)
	if err != nil {
		return reply, err
	}
	if req.At == nil {
		reply.Next, err = s.append(ctx, req.SessionID, req.Create, header, lines)
	} else {
		reply.Next, err = s.appendAt(ctx, req, header, lines)
	}
	if err != nil {
		return reply, err
	}
	reply.Offsets = offsets(reply.Next, lines)
	return reply, nil
}

// offsets returns the offset behind each of the lines. next is that of the last one.
func offsets(next int64, lines [][]byte) []int64 {
	list := make([]int64, len(lines))
	for i, line := range slices.Backward(lines) {
		list[i] = next
		next -= int64(len(line)) + 1
	}
	return list
}

// append writes lines to a session, with the header first if the file is empty.
func (s *Store) append(ctx context.Context, id string, create bool, header []byte, lines [][]byte) (next int64, err error) {
	if err := s.checkWritable(ctx, id, create); err != nil {
		return 0, err
	}
	err = s.log(id).Update(ctx, create, func(tx *durable.Tx) error {
		if tx.End() == 0 && (create || len(lines) > 0) {
			lines = append([][]byte{header}, lines...)
		}
		err := s.write(id, tx, lines)
		next = tx.End()
		return err
	})
	return next, s.fileError(id, err)
}

// appendAt writes lines to a session that ends at req.At. If the first of them follow
// this offset, the request is a repeat after a lost answer or a torn write, and only
// the others are written. A session is created only at offset 0.
func (s *Store) appendAt(ctx context.Context, req proto.AppendSession, header []byte, lines [][]byte) (next int64, err error) {
	id, at := req.SessionID, *req.At
	if at == 0 {
		lines = append([][]byte{header}, lines...)
	}
	if err := s.checkWritable(ctx, id, req.Create || at > 0); err != nil {
		return 0, err
	}
	changed := func(end int64) error {
		return &proto.Error{Code: proto.CodeBusy, Kind: "session", Message: fmt.Sprintf("session %s ends at %d, expected %d", text.Quote(id), end, at)}
	}
	log, repeated := s.log(id), false
	err = log.Update(ctx, req.Create && at == 0, func(tx *durable.Tx) error {
		n, ok, err := stored(tx, at, lines)
		if err != nil {
			return err
		}
		if !ok {
			return changed(tx.End())
		}
		err = s.write(id, tx, lines[n:])
		next, repeated = tx.End(), n > 0
		return err
	})
	// The process that wrote the lines may have died before fdatasync.
	if err == nil && repeated && !s.opt.NoSync {
		err = log.Sync()
	}
	if at > 0 && errors.Is(err, fs.ErrNotExist) {
		err = changed(0)
	}
	return next, s.fileError(id, err)
}

// stored returns the number of the lines that follow offset at in the file. ok is false
// if the file ends before at, or if something else follows.
func stored(tx *durable.Tx, at int64, lines [][]byte) (n int, ok bool, err error) {
	end := tx.End()
	if at < 0 || at > end {
		return 0, false, nil
	}
	for ; n < len(lines) && at < end; n++ {
		have := make([]byte, len(lines[n])+1)
		if int64(len(have)) > end-at {
			return 0, false, nil
		}
		if _, err := tx.ReadAt(have, at); err != nil {
			return 0, false, err
		}
		if string(have) != string(lines[n])+"\n" {
			return 0, false, nil
		}
		at += int64(len(have))
	}
	return n, at == end, nil
}

// checkWritable checks that a file is a session that this version can append to.
func (s *Store) checkWritable(ctx context.Context, id string, create bool) error {
	d, err := s.look(ctx, id)
	if create && errors.Is(err, proto.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = d.checkSchema(id)
	}
	if err != nil {
		return err
	}
	if d.End > 0 && d.Events == 0 {
		return invalid("%s is not a session: no line of it is a JSON object. Move it away, or choose another name.", s.path(id))
	}
	return nil
}

// prepare checks events and returns their lines. An event without a ts gets the current
// time; with timed it is an error.
func (s *Store) prepare(events []proto.Raw, timed bool) (lines [][]byte, err error) {
	now := s.now()
	for i, event := range events {
		object := bytes.Trim(event, " \t\r\n")
		if !isObject(object) {
			return nil, invalid("events[%d]: an event is an object with a string type", i)
		}
		e := parse(object)
		if err := e.check(); err != nil {
			return nil, invalid("events[%d]: %v", i, err)
		}
		if timed && timeOf(e.ts) == "" {
			return nil, invalid("events[%d]: with at an event needs a ts, in RFC 3339", i)
		}
		line := inLine(object)
		if len(e.ts) == 0 {
			line = append(line[:len(line)-1:len(line)-1], `,"ts":"`+now+`"}`...)
		}
		if len(line) > durable.MaxLine {
			return nil, &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("events[%d] has %d bytes, the limit is %d", i, len(line), durable.MaxLine)}
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// origin is the source of a fork, and the offset to stop at unless that is 0.
type origin struct {
	id    string
	until int64
	owner *int // the user who asks; nil if unknown
}

// isOwner reports whether a uid in JSON is that of the user who asks for the fork. The
// copy of another user's session has no owner: recall must not quote one user to the
// other.
func (o *origin) isOwner(uid []byte) bool {
	return o.owner != nil && string(uid) == strconv.Itoa(*o.owner)
}

// header returns the first line of a session, with the keys of the given object. Its
// ts is the current time; with at 0 it is that of the object, which must have one.
func (s *Store) header(given []byte, from *origin, at *int64) ([]byte, error) {
	ts := s.now()
	if at != nil && *at == 0 {
		e := parse(given)
		if ts = timeOf(e.ts); ts == "" {
			return nil, invalid("header: with at 0 it needs a ts, in RFC 3339")
		}
	}
	line := []byte(`{"type":"meta","schema_version":` + strconv.Itoa(proto.LogSchema) + `,"ts":"` + ts + `"`)
	if from != nil {
		line = wire.AppendString(append(line, `,"forked_from":{"session_id":`...), from.id)
		if from.until > 0 {
			line = fmt.Appendf(line, `,"until":%d`, from.until)
		}
		line = append(line, '}')
	}
	if len(given) > 0 && string(given) != "null" && (!isObject(given) || !wire.Valid(given)) {
		return nil, invalid("header: expected an object")
	}
	for key, value := range wire.Members(given) {
		switch string(key) {
		case "type", "schema_version", "ts", "forked_from": // set above
			continue
		case "parent":
			if from != nil {
				continue
			}
		case "uid":
			if from != nil && !from.isOwner(value) {
				continue
			}
		}
		line = append(append(wire.AppendString(append(line, ','), key), ':'), value...)
	}
	if line = inLine(append(line, '}')); len(line) > durable.MaxLine {
		return nil, invalid("header: %d bytes are too many", len(line))
	}
	return line, nil
}
