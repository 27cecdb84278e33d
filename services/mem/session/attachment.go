package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"zino/pkg/attach/kind"
	"zino/pkg/durable"
	"zino/pkg/mask"
	"zino/pkg/text"
	"zino/proto"
)

// PutAttachment stores a file with a session. It is complete and on disk when it has its
// name, so a torn write leaves nothing that an event can refer to.
func (s *Store) PutAttachment(_ context.Context, req proto.PutAttachment) (proto.Attachment, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Attachment{}, err
	}
	reference := kind.Reference
	if req.MediaType == kind.Text {
		reference = kind.TextReference
	}
	reply, err := reference(req.Name, req.Data)
	if err != nil {
		return reply, err
	}
	s.attaching.Lock()
	defer s.attaching.Unlock()
	return reply, s.fileError(req.SessionID, s.putAttachment(req.SessionID, reply.ID, req.Data))
}

func (s *Store) putAttachment(id, attachment string, data []byte) error {
	dir := id + filesEnd
	if err := s.root.Mkdir(dir, durable.DirMode); err == nil {
		if err := durable.SyncDir(s.root); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := s.root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name, _ := kind.Sum(attachment)
	if have, err := root.ReadFile(name); err == nil && kind.ID(have) == attachment {
		return nil
	}
	files, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	sum := int64(len(data))
	for _, file := range files {
		if info, err := file.Info(); err == nil {
			sum += info.Size()
		}
	}
	if sum > proto.AttachmentSessionMax {
		return &proto.Error{Code: proto.CodeTooLarge, Kind: proto.ErrorKindSession, Message: fmt.Sprintf(
			"The attachments of session %s would have more than %d MiB. Go on in a new session.", text.Quote(id), proto.AttachmentSessionMax>>20)}
	}
	return durable.Replace(root, name, data)
}

// GetAttachment returns a file of a session, if its bytes are those of its id.
func (s *Store) GetAttachment(_ context.Context, req proto.GetAttachment) (proto.AttachmentData, error) {
	reply := proto.AttachmentData{ID: req.ID}
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return reply, err
	}
	name, ok := kind.Sum(req.ID)
	if !ok {
		return reply, invalid("id: want sha256: and 64 hexadecimal digits, not %.80q", req.ID)
	}
	path := filepath.Join(req.SessionID+filesEnd, name)
	missing := func(why string) error {
		return &proto.Error{
			Code: proto.CodeNotFound, Kind: proto.ErrorKindAttachment, Details: req.ID,
			Message: fmt.Sprintf("Session %s has no attachment %s: %s %s", text.Quote(req.SessionID), name[:12], filepath.Join(s.root.Name(), path), why),
		}
	}
	info, err := s.root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return reply, missing("does not exist")
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > proto.AttachmentPDFMax) {
		return reply, missing("is not an attachment")
	}
	if err == nil {
		reply.Data, err = s.root.ReadFile(path)
	}
	if err != nil {
		return reply, s.fileError(req.SessionID, err)
	}
	is, ok := kind.Of(reply.Data)
	if kind.ID(reply.Data) != req.ID || !ok && !utf8.Valid(reply.Data) {
		return reply, missing("is damaged")
	}
	reply.MediaType = cmp.Or(is.MediaType, kind.Text)
	return reply, nil
}

// inOutput matches the references to texts in the result of a tool.
var inOutput = regexp.MustCompile(proto.AttachmentPath + `(sha256:[0-9a-f]{64})`)

// texts returns the texts that the result of a tool refers to.
func texts(e *event) (list []proto.Attachment) {
	if e.kind != proto.TypeToolResult {
		return nil
	}
	for _, match := range inOutput.FindAllSubmatch(e.output, -1) {
		list = append(list, proto.Attachment{ID: string(match[1])})
	}
	return list
}

// readText reads a file if it is not an image or a PDF file.
func (s *Store) readText(path string) ([]byte, error) {
	f, err := s.root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 16)
	n, err := io.ReadFull(f, head)
	if _, ok := kind.Of(head[:n]); ok {
		return nil, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return head[:n], nil
	}
	rest, readErr := io.ReadAll(io.LimitReader(f, proto.AttachmentTextMax))
	return append(head, rest...), errors.Join(err, readErr)
}

// redactTexts removes the texts of results that have secrets: one that is changed has
// another id. It returns the number of secrets.
func (s *Store) redactTexts(id string, m *mask.Masker, dryRun bool) (masked int, err error) {
	dir := id + filesEnd
	files, err := fs.ReadDir(s.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		data, readErr := s.readText(path)
		err = errors.Join(err, readErr)
		_, n := m.Text(data)
		if masked += n; n > 0 && !dryRun {
			err = errors.Join(err, s.root.Remove(path))
		}
	}
	return masked, err
}

// unusedAge is how long attachments wait for the first message of their session.
const unusedAge = 24 * time.Hour

// RemoveUnused removes the attachments of sessions that do not exist: they never began, or
// their removal was cut off.
func (s *Store) RemoveUnused() error {
	dirs, err := fs.Glob(s.root.FS(), "*"+filesEnd)
	for _, dir := range dirs {
		id := strings.TrimSuffix(dir, filesEnd)
		info, statErr := s.root.Lstat(dir)
		if proto.CheckSessionID(id) != nil || statErr != nil || !info.IsDir() || s.opt.Now().Sub(info.ModTime()) < unusedAge || !s.absent(id) {
			continue
		}
		lock, lockErr := durable.TryLockFile(s.root, id+lockEnd)
		if errors.Is(lockErr, durable.ErrLocked) { // its first turn begins
			continue
		}
		if lockErr != nil {
			return errors.Join(err, lockErr)
		}
		if s.absent(id) {
			err = errors.Join(err, s.root.RemoveAll(dir))
		}
		err = errors.Join(err, lock.Unlock())
	}
	return err
}

// absent reports whether a session has no file.
func (s *Store) absent(id string) bool {
	_, err := s.root.Lstat(id + fileEnd)
	return errors.Is(err, fs.ErrNotExist)
}

// linkAttachments gives a copy of a session its own links to attachments. One that is
// missing stays missing.
func (s *Store) linkAttachments(from, to string, list []proto.Attachment) error {
	for _, a := range list {
		name, _ := kind.Sum(a.ID)
		if err := s.root.Mkdir(to+filesEnd, durable.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		old := filepath.Join(from+filesEnd, name)
		err := s.root.Link(old, filepath.Join(to+filesEnd, name))
		switch {
		case err == nil, errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
			continue
		}
		data, readErr := s.root.ReadFile(old) // a file system without hard links
		if readErr != nil {
			return errors.Join(err, readErr)
		}
		if err := s.putAttachment(to, a.ID, data); err != nil {
			return err
		}
	}
	return nil
}
