package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"zino/pkg/durable"
	"zino/pkg/mask"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Redact replaces the secrets in a session's file by placeholders, and in the damaged
// parts that were set apart from it. Texts of results with secrets are removed. The caller
// has the session locked. With dryRun it counts the secrets.
func (s *Store) Redact(ctx context.Context, id string, m *mask.Masker, dryRun bool) (masked int, err error) {
	if err := proto.CheckSessionID(id); err != nil {
		return 0, err
	}
	if dryRun {
		return s.countSecrets(ctx, id, m)
	}
	d, err := s.look(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(d.OpenTurns) > 0 {
		return 0, &proto.Error{Code: proto.CodeBusy, Kind: "session", Message: "session " + text.Quote(id) + " has an open turn " + d.OpenTurns[0].Turn + ": wait for its end, or zino stop " + id}
	}
	err = s.log(id).Update(ctx, false, func(tx *durable.Tx) error {
		file, err := tx.Open()
		if err != nil {
			return err
		}
		defer file.Close()
		masked, err = s.redact(ctx, id, file, tx.End(), m)
		return err
	})
	if err != nil {
		return 0, s.fileError(id, err)
	}
	n, err := s.redactDamaged(id, m, false)
	inTexts, textsErr := s.redactTexts(id, m, false)
	return masked + n + inTexts, s.fileError(id, errors.Join(err, textsErr))
}

// redact replaces the locked file of a session, if it has secrets.
func (s *Store) redact(ctx context.Context, id string, file *os.File, end int64, m *mask.Masker) (masked int, err error) {
	// A client that has an offset of this file must not go on in the middle of another
	// event of the new one: no event of that begins or ends at an old offset.
	old := map[int64]bool{end: true}
	for line, err := range durable.ReadLines(file, 0, end) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
		old[line.Start], old[line.Next] = true, true
		_, n := maskLine(m, lineText(file, line))
		masked += n
	}
	if masked == 0 {
		return 0, nil
	}
	info, err := file.Stat()
	if err == nil {
		err = s.opt.Removing(id) // the index has hashes of the words
	}
	if err != nil {
		return 0, err
	}
	err = durable.ReplaceWith(s.root, id+fileEnd, durable.FileMode, func(w io.Writer) error {
		at := int64(0)
		for line, err := range durable.ReadLines(file, 0, end) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			masked, _ := maskLine(m, lineText(file, line))
			if at == 0 {
				masked = s.redactedHeader(masked)
			}
			for old[at+int64(len(masked))+1] {
				masked = append(bytes.Clone(masked[:len(masked)-1]), ' ', masked[len(masked)-1])
			}
			at += int64(len(masked)) + 1
			if _, err := w.Write(append(masked[:len(masked):len(masked)], '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	// The order of lists is that of the last events. Only the order depends on it.
	_ = s.root.Chtimes(id+fileEnd, info.ModTime(), info.ModTime())
	return masked, errors.Join(s.forget(id), s.opt.Removing(id))
}

// lineText returns the text of a line, also of one that is longer than an event may be.
func lineText(file io.ReaderAt, line durable.Line) []byte {
	if line.Text != nil {
		return line.Text
	}
	b := make([]byte, line.Next-line.Start)
	n, _ := file.ReadAt(b, line.Start) // at the end of the file there may be no line break
	return bytes.TrimSpace(b[:n])
}

// redactedHeader adds the time of the redaction to the first line of a file.
func (s *Store) redactedHeader(line []byte) []byte {
	if !isObject(line) || !wire.Valid(line) {
		return line
	}
	if e := parse(line); e.kind != proto.TypeMeta {
		return line
	}
	header := []byte{'{'}
	for key, value := range wire.Members(line) {
		if string(key) != "redacted" {
			header = append(append(append(wire.AppendString(header, key), ':'), value...), ',')
		}
	}
	return append(append(header, `"redacted":"`...), s.now()+`"}`...)
}

// structural are the members of an event that are no text: a placeholder in them would
// separate a result from its call.
var structural = map[string]bool{
	"type": true, "ts": true, "role": true, "id": true, "tool_use_id": true, "turn": true, "session_id": true, "say": true, "state": true,
}

// maskLine masks the strings of an event, or a line that is none. A reasoning_state with
// secrets is left out: it is signed, so the provider would refuse a changed one.
func maskLine(m *mask.Masker, line []byte) (masked []byte, count int) {
	if !isObject(line) || !wire.Valid(line) {
		return m.Text(line)
	}
	masked = []byte{'{'}
	for key, value := range wire.Members(line) {
		member := append(append(wire.AppendString(nil, key), ':'), value...)
		if !structural[string(key)] {
			changed, n := maskMember(m, string(key), member)
			if count += n; n > 0 && string(key) == "reasoning_state" {
				continue
			}
			member = changed
		}
		if len(masked) > 1 {
			masked = append(masked, ',')
		}
		masked = append(masked, member...)
	}
	if count == 0 {
		return line, 0
	}
	return append(masked, '}'), count
}

// maskMember masks a member of an event. Of attachments it masks the names: by their ids
// the files are found.
func maskMember(m *mask.Masker, key string, member []byte) (masked []byte, count int) {
	elements, err := wire.Elements(member[bytes.IndexByte(member, ':')+1:])
	if key != "attachments" || err != nil {
		return m.JSON(member)
	}
	masked = append(masked, `"attachments":[`...)
	for i, element := range elements {
		if i > 0 {
			masked = append(masked, ',')
		}
		var a proto.Attachment
		if wire.DecodeReply(element, &a) == nil {
			if name, n := m.Text([]byte(a.Name)); n > 0 {
				a.Name, count = string(name), count+n
				element, _ = wire.AppendObject(nil, "", a)
			}
		}
		masked = append(masked, element...)
	}
	return append(masked, ']'), count
}

// countSecrets counts what Redact would mask. It reads what is complete.
func (s *Store) countSecrets(ctx context.Context, id string, m *mask.Masker) (count int, err error) {
	file, err := s.root.Open(id + fileEnd)
	if err != nil {
		return 0, s.fileError(id, err)
	}
	defer file.Close()
	for line, err := range s.log(id).From(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, s.fileError(id, err)
		}
		_, n := maskLine(m, lineText(file, line))
		count += n
	}
	n, err := s.redactDamaged(id, m, true)
	inTexts, textsErr := s.redactTexts(id, m, true)
	return count + n + inTexts, s.fileError(id, errors.Join(err, textsErr))
}

// redactDamaged masks the damaged parts of a session's file.
func (s *Store) redactDamaged(id string, m *mask.Masker, dryRun bool) (masked int, err error) {
	names, err := durable.Quarantined(s.root, id+fileEnd)
	for _, name := range names {
		if err != nil {
			break
		}
		var data []byte
		if data, err = s.root.ReadFile(name); err != nil {
			break
		}
		n, clean := 0, make([]byte, 0, len(data))
		for line := range bytes.Lines(data) {
			text := bytes.TrimRight(line, "\r\n")
			changed, found := maskLine(m, text)
			n += found
			clean = append(append(clean, changed...), line[len(text):]...)
		}
		if masked += n; n > 0 && !dryRun {
			err = durable.Replace(s.root, name, clean)
		}
	}
	return masked, err
}

// WithSecrets calls found for each session with secrets, and problem for those that
// cannot be read.
func (s *Store) WithSecrets(ctx context.Context, m *mask.Masker, found func(id string, secrets int) error, problem func(error)) error {
	ids, err := s.ids()
	if err != nil {
		return err
	}
	for _, id := range ids {
		n, err := s.countSecrets(ctx, id, m)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isGone(err):
		case err != nil:
			problem(err)
		case n > 0:
			if err := found(id, n); err != nil {
				return err
			}
		}
	}
	return nil
}
