package agr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"zino/pkg/attach"
	"zino/pkg/attach/kind"
	"zino/pkg/rpc"
	"zino/pkg/text"
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

// shortText returns a text with about t.outputBytes bytes. A longer one is stored with the
// session; its head and tail, and how to read all of it, take its place.
func (t *turn) shortText(s string) string {
	if t.outputBytes <= 0 || len(s) <= t.outputBytes {
		return s
	}
	return text.Middle(s, t.outputBytes/4*3, t.outputBytes/4, "\n... (%d bytes are left out here; "+t.keepText(s)+") ...\n")
}

// keepText stores a text in parts, and says how to read it.
func (t *turn) keepText(s string) string {
	var paths []string
	for s != "" {
		part := []byte(text.Head(s, proto.AttachmentTextMax))
		s = s[len(part):]
		a, err := kind.TextReference("result.txt", part)
		switch {
		case err != nil:
		case t.req.NoSave || !t.session:
			t.files.put(a.ID, part)
		default:
			a, err = rpc.Call(t.ctx, t.mem, proto.MemPutAttachment, proto.PutAttachment{SessionID: t.req.SessionID, Name: a.Name, MediaType: a.MediaType, Data: part})
		}
		if err != nil {
			return "they cannot be read later: " + strings.ReplaceAll(err.Error(), "%", "%%")
		}
		paths = append(paths, proto.AttachmentPath+a.ID)
	}
	return "read gets the whole with the path " + strings.Join(paths, " and then ")
}

// readPart is how many bytes of a stored text read returns.
const readPart = 50 << 10

// readFile has exc read a file. It reads itself what shortText has stored.
func (t *turn) readFile(c *call, f fields) result {
	path, _ := f.text("path")
	id, isText := strings.CutPrefix(path, proto.AttachmentPath)
	id, at, isPart := strings.Cut(id, "@")
	from, err := strconv.Atoi(at)
	if _, ok := kind.Sum(id); !ok || !isText || isPart && (err != nil || from < 0) {
		return t.callExc(c, f)
	}
	if c.ask() != "" { // exc, which asks else, does not take part
		if err := t.permit(c, readTool); err != nil {
			return failed(err)
		}
	}
	data := t.files.get(id)
	if data == nil {
		got, err := rpc.Call(t.ctx, t.mem, proto.MemGetAttachment, proto.GetAttachment{SessionID: t.req.SessionID, ID: id})
		if err != nil {
			return failed(err)
		}
		data = got.Data
	}
	if info, ok := kind.Of(data); ok {
		return result{text: "An attachment of the session, " + info.MediaType + ".", files: []proto.FileData{{Name: id[len(id)-8:], Data: data}}}
	}
	rest := data[min(from, len(data)):]
	part := text.Head(rest, readPart)
	reply := textPart{Path: path, Content: string(bytes.ToValidUTF8(part, []byte("\ufffd"))), Truncated: len(part) < len(rest), Bytes: len(data)}
	if reply.Truncated {
		reply.Notice = fmt.Sprintf("Bytes %d to %d of %d. The next: %s%s@%[2]d", from, from+len(part), len(data), proto.AttachmentPath, id)
	}
	return result{data: success(reply)}
}

// textPart is a part of a stored text, in the form of exc's read.
type textPart struct {
	Path      string `json:"path"`
	Content   string `json:"content"`
	Truncated bool   `json:"truncated"`
	Bytes     int    `json:"bytes"`
	Notice    string `json:"notice,omitzero"`
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
