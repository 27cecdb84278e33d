package agr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"zino/pkg/attach"
	"zino/pkg/attach/kind"
	"zino/pkg/rpc"
	"zino/proto"
)

// attachments are those of a turn that are not stored with its session: the files of the
// request, and images in results if nothing is stored.
type attachments struct {
	mu   sync.Mutex
	data map[string][]byte // by id
}

func (a *attachments) put(id string, data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.data == nil {
		a.data = map[string][]byte{}
	}
	a.data[id] = data
}

func (a *attachments) get(id string) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.data[id]
}

// keepFiles stores the images of a result with the session, and returns the references to
// them. problems say why some were left out, for the model. Calls run side by side, so it
// is safe for concurrent use. conclude calls it for result.files.
func (t *turn) keepFiles(files []proto.FileData) (kept []proto.Attachment, problems []string) {
	for i, f := range files {
		if i == proto.AttachmentsMax {
			problems = append(problems, fmt.Sprintf("%d more files are left out: a result has at most %d", len(files)-i, proto.AttachmentsMax))
			break
		}
		if m := t.madeMask(); m.err == nil {
			f.Name = maskText(m.masker, f.Name)
		}
		f, a, err := attach.Prepare(f)
		switch {
		case err != nil:
		case t.req.NoSave || !t.session:
			t.files.put(a.ID, f.Data)
		default:
			a, err = rpc.Call(t.ctx, t.mem, proto.MemPutAttachment, proto.PutAttachment{SessionID: t.req.SessionID, Name: f.Name, MediaType: f.MediaType, Data: f.Data})
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s is left out: %v", kind.Name(f.Name), err))
			continue
		}
		kept = append(kept, a)
	}
	return kept, problems
}

// unheld returns the ids of the attachments that rtr asks for, nil for any other error.
func unheld(err error) []string {
	e, ok := errors.AsType[*proto.Error](err)
	if !ok || e.Code != proto.CodeNotFound || e.Kind != proto.ErrorKindAttachment {
		return nil
	}
	return strings.Fields(e.Details)
}

// hold gives rtr the bytes of attachments: those of the turn, else those that mem stores
// with the session. It reports those that are missing or damaged as lost, so that they
// don't make the session useless.
func (t *turn) hold(ctx context.Context, ids []string) error {
	for _, id := range ids {
		req := proto.Hold{ID: id, Data: t.files.get(id)}
		if req.Data == nil && t.req.SessionID != "" {
			got, err := rpc.Call(ctx, t.mem, proto.MemGetAttachment, proto.GetAttachment{SessionID: t.req.SessionID, ID: id})
			if err != nil && !errors.Is(err, proto.ErrNotFound) {
				return err
			}
			if err != nil {
				t.log.Warn("an attachment is lost", "error", err, "trace", rpc.Trace(ctx))
			}
			req.MediaType, req.Data = got.MediaType, got.Data
		}
		if _, err := rpc.Call(ctx, t.rtr, proto.RtrHold, req); err != nil {
			return err
		}
	}
	return nil
}
