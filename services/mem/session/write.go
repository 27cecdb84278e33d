package session

import (
	"bytes"
	"context"
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
	header, err := s.header(req.Header, nil)
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
// asked for. They are valid JSON without lone surrogates; what else is wrong
// with one of them is an error, and nothing is stored.
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
	lines, err := s.prepare(events)
	if err != nil {
		return reply, err
	}
	header, err := s.header(req.Header, nil)
	if err == nil {
		reply.Next, err = s.append(ctx, req.SessionID, req.Create, header, lines)
	}
	return reply, err
}

// append writes lines to a session, the header first if it has none yet.
func (s *Store) append(ctx context.Context, id string, create bool, header []byte, lines [][]byte) (next int64, err error) {
	if err := s.writable(ctx, id, create); err != nil {
		return 0, err
	}
	err = s.lines(id).Update(ctx, create, func(p *durable.Tx) error {
		if p.End() == 0 && (create || len(lines) > 0) {
			lines = append([][]byte{header}, lines...)
		}
		err := p.Append(lines)
		next = p.End()
		return err
	})
	return next, s.wrong(id, err)
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

// prepare checks events and makes lines of them.
func (s *Store) prepare(events []proto.Raw) (lines [][]byte, err error) {
	now := s.now()
	for i, event := range events {
		line, err := prepare(event, now)
		if err != nil {
			return nil, invalid("events[%d]: %v", i, err)
		}
		if len(line) > durable.MaxLine {
			return nil, &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf("events[%d] has %d bytes, the limit is %d", i, len(line), durable.MaxLine)}
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// prepare checks an event and adds the time if it has none.
func prepare(text []byte, now string) ([]byte, error) {
	text = bytes.Trim(text, " \t\r\n")
	if !isObject(text) {
		return nil, errors.New("an event is an object with a string type")
	}
	e := read(text)
	if err := e.check(); err != nil {
		return nil, err
	}
	line := unbroken(text)
	if len(e.ts) == 0 {
		line = append(line[:len(line)-1:len(line)-1], `,"ts":"`+now+`"}`...)
	}
	return line, nil
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
func (s *Store) header(given []byte, from *origin) ([]byte, error) {
	line := []byte(`{"type":"meta","schema_version":` + strconv.Itoa(schema) + `,"ts":"` + s.now() + `"`)
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
	if line = unbroken(append(line, '}')); len(line) > durable.MaxLine {
		return nil, invalid("header: %d bytes are too many", len(line))
	}
	return line, nil
}
