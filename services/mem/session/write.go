package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

// Create makes a session with its first line. An id that is empty is made up.
// The header must be in valid UTF-8, without lone surrogates.
func (s *Store) Create(_ context.Context, req proto.CreateSession) (proto.SessionPlace, error) {
	id := req.SessionID
	if id == "" {
		id = newID()
	}
	header, err := s.header(req.Header, nil, nil)
	if err == nil {
		err = checkID(id)
	}
	if err != nil {
		return proto.SessionPlace{}, err
	}
	next, err := s.make(id, func(p *durable.Tx) error { return p.Append([][]byte{header}) })
	return proto.SessionPlace{SessionID: id, Next: next}, err
}

// make makes a session's file, which must not be there, and has fill write it.
func (s *Store) make(id string, fill func(*durable.Tx) error) (next int64, err error) {
	ours := false
	l := s.lines(id)
	err = l.Update(context.Background(), true, func(p *durable.Tx) error {
		if p.End() > 0 {
			return taken(id)
		}
		ours = true
		err := fill(p)
		next = p.End()
		return err
	})
	if err != nil && ours { // half a session is none
		if gone := l.Remove(); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return next, s.wrong(id, err)
}

func taken(id string) error {
	return invalid("There is a session %s already. Choose another name.", quote(id))
}

// Append adds events to the session of the request, or to a new one if that is
// asked for. They are valid JSON without lone surrogates; if anything else is
// wrong with one of them, nothing is stored.
func (s *Store) Append(ctx context.Context, req proto.AppendSession, events []proto.Raw) (proto.SessionPlace, error) {
	reply := proto.SessionPlace{SessionID: req.SessionID}
	if err := checkID(req.SessionID); err != nil {
		return reply, err
	}
	if req.Held {
		if err := s.checkHeld(req.SessionID); err != nil {
			return reply, err
		}
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
	return reply, err
}

// append writes lines to a session, the header first if it has none yet.
func (s *Store) append(ctx context.Context, id string, create bool, header []byte, lines [][]byte) (next int64, err error) {
	if err := s.writable(ctx, id, create); err != nil {
		return 0, err
	}
	err = s.lines(id).Update(ctx, create, func(tx *durable.Tx) error {
		if tx.End() == 0 && (create || len(lines) > 0) {
			lines = append([][]byte{header}, lines...)
		}
		err := tx.Append(lines)
		next = tx.End()
		return err
	})
	return next, s.wrong(id, err)
}

// appendAt writes lines to a session that ends at req.At, or the rest of them if
// it ends in the middle of them: then the request is repeated after a lost answer
// or a torn write. Only a request for the beginning makes a session.
func (s *Store) appendAt(ctx context.Context, req proto.AppendSession, header []byte, lines [][]byte) (next int64, err error) {
	id, at := req.SessionID, *req.At
	if at == 0 {
		lines = append([][]byte{header}, lines...)
	}
	if err := s.writable(ctx, id, req.Create || at > 0); err != nil {
		return 0, err
	}
	err = s.lines(id).Update(ctx, req.Create && at == 0, func(tx *durable.Tx) error {
		next = tx.End()
		n, ok, err := stored(tx, at, lines)
		if err != nil {
			return err
		}
		if !ok {
			return changed(id, next, at)
		}
		err = tx.Append(lines[n:])
		next = tx.End()
		return err
	})
	if at > 0 && errors.Is(err, fs.ErrNotExist) {
		err = changed(id, 0, at)
	}
	return next, s.wrong(id, err)
}

func changed(id string, end, at int64) error {
	return &proto.Error{Code: proto.CodeBusy, Kind: "session", Message: fmt.Sprintf("session %s ends at %d, expected %d", quote(id), end, at)}
}

// stored is the number of the lines that are in the file from at on. ok is false
// if the file ends before at, or has anything else there.
func stored(tx *durable.Tx, at int64, lines [][]byte) (n int, ok bool, err error) {
	var first [1]byte
	if at > 0 && at < tx.End() {
		if _, err := tx.ReadAt(first[:], at); err != nil {
			return 0, false, err
		}
		if first[0] == '\n' { // the last line had no line break when the caller read it
			at++
		}
	}
	if at < 0 || at > tx.End() {
		return 0, false, nil
	}
	for ; n < len(lines) && at < tx.End(); n++ {
		have := make([]byte, len(lines[n])+1)
		if int64(len(have)) > tx.End()-at {
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
	return n, at == tx.End(), nil
}

// writable holds that a file is a session that this version may continue.
func (s *Store) writable(ctx context.Context, id string, create bool) error {
	d, err := s.look(ctx, id)
	if create && errors.Is(err, proto.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.known(id); err != nil {
		return err
	}
	if d.End > 0 && d.Events == 0 {
		return invalid("%s is no session: no line of it is a JSON object. Move it away, or choose another name.", s.path(id))
	}
	return nil
}

// prepare checks events and makes lines of them. An event without a time gets
// that of now, or is an error if it needs one of its own.
func (s *Store) prepare(events []proto.Raw, timed bool) (lines [][]byte, err error) {
	now := s.now()
	for i, event := range events {
		text := bytes.Trim(event, " \t\r\n")
		if !isObject(text) {
			return nil, invalid("events[%d]: an event is an object with a string type", i)
		}
		e := read(text)
		if err := e.check(); err != nil {
			return nil, invalid("events[%d]: %v", i, err)
		}
		if timed && timeOf(e.ts) == "" {
			return nil, invalid("events[%d]: with at an event needs a ts, in RFC 3339", i)
		}
		line, err := inLine(text)
		if err != nil {
			return nil, invalid("events[%d]: %v", i, err)
		}
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

// check holds that an event of a known type has what it needs.
func (e *event) check() error {
	if !isText(e.typ) || string(e.typ) == `""` {
		return errors.New("an event is an object with a string type")
	}
	switch e.kind {
	case meta:
		return errors.New("a meta event is a session's first line only")
	case message:
		if !e.spoken() || !isText(e.text) {
			return errors.New(`a message needs the role "user" or "assistant" and a string text`)
		}
	case toolUse:
		if !e.called() {
			return errors.New("a tool_use needs an id and a name")
		}
	case toolResult:
		if str(e.useID) == "" {
			return errors.New("a tool_result needs a tool_use_id")
		}
	}
	return nil
}

// inLine is an object in one line.
func inLine(object []byte) ([]byte, error) {
	if bytes.ContainsAny(object, "\r\n") {
		var b bytes.Buffer
		if err := json.Compact(&b, object); err != nil {
			return nil, err
		}
		object = b.Bytes()
	}
	return unbroken(object), nil
}

// unbroken escapes the characters that are line breaks to some readers.
func unbroken(line []byte) []byte {
	line = bytes.ReplaceAll(line, []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(line, []byte("\u2029"), []byte(`\u2029`))
}

// origin is where a fork is from, and up to which place unless that is 0.
type origin struct {
	id    string
	until int64
}

// header is a session's first line, with the keys of an object that was given.
// Its time is that of now; with at 0 it is the object's, which must have one.
func (s *Store) header(given []byte, from *origin, at *int64) ([]byte, error) {
	ts := s.now()
	if at != nil && *at == 0 {
		ts = ""
		for key, value := range wire.Members(given) {
			if string(key) == "ts" {
				ts = timeOf(value)
			}
		}
		if ts == "" {
			return nil, invalid("header: with at 0 it needs a ts, in RFC 3339")
		}
	}
	line := []byte(`{"type":"meta","schema_version":` + strconv.Itoa(schema) + `,"ts":"` + ts + `"`)
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
		default:
			line = append(append(wire.AppendString(append(line, ','), key), ':'), value...)
		}
	}
	line, err := inLine(append(line, '}'))
	if err != nil {
		return nil, invalid("header: %v", err)
	}
	if len(line) > durable.MaxLine {
		return nil, invalid("header: %d bytes are too many", len(line))
	}
	return line, nil
}
