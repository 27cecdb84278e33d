package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"

	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Create makes a session with its first line. Without an id it gets a new one.
// The header must be in valid UTF-8, without lone surrogates.
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

// create makes a session's file, which must not exist, and has fill write it.
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
	}
	return next, s.fileError(id, err)
}

// Append adds events to the session of the request, or to a new one if that is
// asked for. They are valid JSON without lone surrogates; if anything else is
// wrong with one of them, nothing is stored.
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

// offsets returns the offset behind each of the lines, the last of which ends at
// next.
func offsets(next int64, lines [][]byte) []int64 {
	list := make([]int64, len(lines))
	for i, line := range slices.Backward(lines) {
		list[i] = next
		next -= int64(len(line)) + 1
	}
	return list
}

// append writes lines to a session, the header first if it has none yet.
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

// appendAt writes lines to a session that ends at req.At, or the rest of them if
// it ends in the middle of them: then the request is repeated after a lost answer
// or a torn write. Only a request for the beginning makes a session.
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
	if err == nil && repeated && !s.opt.NoSync { // mem may have died before it synced them
		err = log.Sync()
	}
	if at > 0 && errors.Is(err, fs.ErrNotExist) {
		err = changed(0)
	}
	return next, s.fileError(id, err)
}

// stored is the number of the lines that are in the file from at on. ok is false
// if the file ends before at, or has anything else there.
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

// checkWritable checks that a file is a session that this version may continue.
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

// prepare checks events and makes lines of them. An event without a time gets
// that of now, or is an error if it needs one of its own.
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

// origin is the source of a fork, up to a place unless that is 0.
type origin struct {
	id    string
	until int64
}

// header is a session's first line, with the keys of an object that was given.
// Its time is that of now; with at 0 it is the object's, which must have one.
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
		case "type", "schema_version", "ts", "forked_from": // ours
			continue
		case "parent":
			if from != nil {
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

// readRoom is how many bytes of a packet its events and their offsets may take:
// any one of them fits.
const readRoom = wire.MaxPayload - 512

// offsetRoom is how many bytes an offset and its comma may take.
const offsetRoom = 20

// Read returns a session's events from a place on, as many as fit into a packet
// or are asked for.
func (s *Store) Read(ctx context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return proto.SessionEvents{}, err
	}
	reply := proto.SessionEvents{SessionID: id, Next: req.From}
	room := s.room
	if req.MaxBytes > 0 {
		room = min(room, req.MaxBytes)
	}
	events := []byte{'['}
	n := 0
	r := reader{s: s, ctx: ctx, id: id}
	for line, err := range r.events(req.From, 0) {
		if err != nil {
			return reply, err
		}
		size := len(events) + 1 + len(line.Text) + (n+1)*offsetRoom
		if reply.More = req.Limit > 0 && n == req.Limit || n > 0 && size > room; reply.More {
			break
		}
		if n > 0 {
			events = append(events, ',')
		}
		events = append(events, line.Text...)
		reply.Offsets = append(reply.Offsets, line.Next)
		reply.Next, reply.Skipped = line.Next, r.skipped
		n++
	}
	if !reply.More {
		reply.Next, reply.Skipped = max(reply.Next, r.at), r.skipped
	}
	reply.Events = append(events, ']')
	r.report(req.From == 0 && !reply.More)
	return reply, nil
}

// reader reads a session's events and skips other lines.
type reader struct {
	s   *Store
	ctx context.Context
	id  string

	at      int64 // the place behind the last line
	skipped int   // lines
}

// events are those from a place to another, or to the end if that is 0. The text
// of an event is in valid UTF-8, and valid until the next one is read.
func (r *reader) events(from, until int64) iter.Seq2[durable.Line, error] {
	return func(yield func(durable.Line, error) bool) {
		r.at = from
		for line, err := range r.s.log(r.id).From(from) {
			if err == nil {
				err = r.ctx.Err()
			}
			if errors.Is(err, durable.ErrPlace) {
				err = badPlace("from", from)
			}
			if err != nil {
				yield(line, r.s.fileError(r.id, err))
				return
			}
			if until > 0 && line.Start >= until {
				break
			}
			r.at = line.Next
			if ok := line.IsObject(); ok && !utf8.Valid(line.Text) {
				line.Text = bytes.ToValidUTF8(line.Text, []byte("\ufffd"))
			} else if !ok {
				line.Text = nil
			}
			if line.Text == nil || len(line.Text) > durable.MaxLine {
				r.skipped++
			} else if !yield(line, nil) {
				return
			}
		}
		if until > 0 && r.at != until {
			yield(durable.Line{}, badPlace("until", until))
		}
	}
}

// badPlace is the error of an offset at which no line begins.
func badPlace(field string, offset int64) error {
	return invalid("%s %d is not the start of an event", field, offset)
}

// report reports the number of lines that were skipped. 0 is reported only if all
// lines were read.
func (r *reader) report(all bool) {
	if r.s.opt.Skipped != nil && (all || r.skipped > 0) {
		r.s.opt.Skipped(r.id+fileEnd, r.skipped)
	}
}

// forkPiece is how many bytes of a session are copied at a time.
const forkPiece = 1 << 20

// Fork copies a session up to a place into a new one. The copy's first line has
// the keys of the original's, except parent: a copy is a session of the user's own.
// Turns stay with the original; calls without a result are closed in the copy.
func (s *Store) Fork(ctx context.Context, req proto.ForkSession) (proto.SessionPlace, error) {
	reply := proto.SessionPlace{SessionID: req.NewID}
	id, err := s.resolve(req.SessionID)
	if err != nil {
		return reply, err
	}
	if reply.SessionID == "" {
		reply.SessionID = proto.NewSessionID()
	}
	if err := proto.CheckSessionID(reply.SessionID); err != nil {
		return reply, err
	}
	if reply.SessionID == id { // it would wait for its own lock
		return reply, exists(id)
	}
	from := &origin{id, req.Until}
	reply.Next, err = s.create(reply.SessionID, func(tx *durable.Tx) error {
		var lines [][]byte
		var d digest
		size := 0
		r := reader{s: s, ctx: ctx, id: id}
		for line, err := range r.events(0, req.Until) {
			if err != nil {
				return err
			}
			e := parse(line.Text)
			isMeta := e.kind == proto.TypeMeta
			if first := tx.End() == 0 && lines == nil; first {
				var given []byte
				if isMeta {
					given = line.Text
				}
				header, err := s.header(given, from, nil)
				if err != nil {
					return err
				}
				lines, size = append(lines, header), size+len(header)
			}
			if isMeta || e.kind == proto.TypeTurn || e.kind == proto.TypeSay {
				continue
			}
			d.add(reply.SessionID, line.Text)
			event := inLine(bytes.Clone(line.Text))
			if lines, size = append(lines, event), size+len(event); size >= forkPiece {
				if err := tx.Append(lines); err != nil {
					return err
				}
				lines, size = lines[:0], 0
			}
		}
		if tx.End() == 0 && lines == nil { // nothing to copy
			header, err := s.header(nil, from, nil)
			if err != nil {
				return err
			}
			lines = append(lines, header)
		}
		return tx.Append(append(lines, s.results(d.Open)...))
	})
	return reply, err
}
