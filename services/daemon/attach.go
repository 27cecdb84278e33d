package daemon

import (
	"context"

	"zino/pkg/attach/kind"
	"zino/pkg/rpc"
	"zino/proto"
)

// filesMax limits the bytes of the files of a request: with its base64 and a long message
// it fits into a packet.
const filesMax = 10 << 20

// attach stores a file with a session, for attachments of a later message.
func (s *Service) attach(ctx context.Context, req proto.AttachFile) (proto.Attachment, error) {
	return rpc.Call(ctx, s.mem, proto.MemPutAttachment, proto.PutAttachment(req))
}

// checkFiles validates the files of a message.
func checkFiles(req proto.Chat) error {
	if n := len(req.Files) + len(req.Attachments); n > proto.AttachmentsMax {
		return proto.Errorf(proto.CodeInvalid, "a prompt has at most %d files, not %d", proto.AttachmentsMax, n)
	}
	size := 0
	for _, f := range req.Files {
		size += len(f.Data)
		if _, err := kind.Reference(f.Name, f.Data); err != nil {
			return err
		}
	}
	if size > filesMax {
		return proto.Errorf(proto.CodeTooLarge, "the files of a request have %d bytes; at most %d are taken: send them with attach", size, filesMax)
	}
	if len(req.Attachments) > 0 && req.SessionID == "" {
		return proto.Errorf(proto.CodeInvalid, "attachments are those of a session: session_id is missing")
	}
	return nil
}

// references returns the references to the files of a message. With store the files are
// stored with the session: a model, a resumed turn and a later one find them there.
func (s *Service) references(ctx context.Context, req proto.Chat, store bool) (list []proto.Attachment, err error) {
	for _, f := range req.Files {
		a, err := kind.Reference(f.Name, f.Data)
		if err == nil && store {
			a, err = rpc.Call(ctx, s.mem, proto.MemPutAttachment, proto.PutAttachment{SessionID: req.SessionID, Name: f.Name, MediaType: f.MediaType, Data: f.Data})
		}
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	for _, ref := range req.Attachments {
		got, err := rpc.Call(ctx, s.mem, proto.MemGetAttachment, proto.GetAttachment{SessionID: req.SessionID, ID: ref.ID})
		if err != nil {
			return nil, err
		}
		a, err := kind.Reference(ref.Name, got.Data)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// copyAttachments stores attachments of a session with another one, in which a turn goes
// on. One that is lost is lost there, too.
func (s *Service) copyAttachments(ctx context.Context, from, to string, list []proto.Attachment) error {
	for _, a := range list {
		got, err := rpc.Call(ctx, s.mem, proto.MemGetAttachment, proto.GetAttachment{SessionID: from, ID: a.ID})
		if codeOf(err) == proto.CodeNotFound {
			continue
		}
		if err == nil {
			_, err = rpc.Call(ctx, s.mem, proto.MemPutAttachment, proto.PutAttachment{SessionID: to, Name: a.Name, MediaType: a.MediaType, Data: got.Data})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
