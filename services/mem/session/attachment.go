package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"zino/pkg/attach/kind"
	"zino/pkg/durable"
	"zino/pkg/text"
	"zino/proto"
)

// PutAttachment stores a file with a session. It is complete and on disk when it has its
// name, so a torn write leaves nothing that an event can refer to.
func (s *Store) PutAttachment(_ context.Context, req proto.PutAttachment) (proto.Attachment, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Attachment{}, err
	}
	reply, err := kind.Reference(req.Name, req.Data)
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
	if !ok || kind.ID(reply.Data) != req.ID {
		return reply, missing("is damaged")
	}
	reply.MediaType = is.MediaType
	return reply, nil
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
