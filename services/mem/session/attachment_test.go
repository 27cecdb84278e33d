package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/attach/kind"
	"zino/pkg/durable"
	"zino/pkg/mask"
	"zino/pkg/zinotest"
	"zino/proto"
)

// pngHeader is a PNG that has a header alone, with padding.
func pngHeader(width, height uint32, padding int) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, width), height)
	b = append(b, 8, 2, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
	return append(b, make([]byte, padding)...)
}

func (b *env) attach(id, name string, data []byte) proto.Attachment {
	b.t.Helper()
	a, err := b.PutAttachment(b.t.Context(), proto.PutAttachment{SessionID: id, Name: name, Data: data})
	zinotest.Must(b.t, err)
	return a
}

func withFile(role string, a proto.Attachment) string {
	return fmt.Sprintf(`{"type":"message","role":%q,"text":"look","attachments":[{"id":%q,"name":%q,"media_type":%q,"bytes":%d,"width":%d,"height":%d}],"ts":%q}`,
		role, a.ID, a.Name, a.MediaType, a.Bytes, a.Width, a.Height, now)
}

func TestAttachments(t *testing.T) {
	b := newEnv(t, "")
	data := pngHeader(12, 10, 3)
	a := b.attach("one", "/tmp/a dir/shot.png", data)
	want := proto.Attachment{ID: kind.ID(data), Name: "shot.png", MediaType: kind.PNG, Bytes: len(data), Width: 12, Height: 10}
	if a != want || b.attach("one", "shot.png", data) != want {
		t.Fatalf("%+v, want %+v", a, want)
	}
	sum, _ := kind.Sum(a.ID)
	path := filepath.Join(b.dir, "one.files", sum)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want mode 0600", info, err)
	}
	b.write("one", head, withFile("user", a), use("1"),
		fmt.Sprintf(`{"type":"tool_result","tool_use_id":"1","output":{"ok":true},"ok":true,"attachments":[{"id":%q,"media_type":"image/png","bytes":9},{"id":"../../x","media_type":"image/png"}],"ts":%q}`, a.ID, now))
	reference := fmt.Sprintf(`{"type":"attachment","id":%q,"name":"shot.png","media_type":"image/png","bytes":%d,"width":12,"height":10}`, a.ID, len(data))
	list := b.messages("one")
	if !strings.HasPrefix(list, `[{"role":"user","content":[{"type":"text","text":"look"},`+reference+`]}`) ||
		!strings.Contains(list, `"content":[{"type":"text","text":"{\"ok\":true}"},{"type":"attachment","id":"`+a.ID+`","media_type":"image/png","bytes":9}],"ok":true}`) {
		t.Error(list)
	}

	fork, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "one", NewID: "two"})
	zinotest.Must(t, err)
	if text, err := b.Export(t.Context(), proto.ExportSession{SessionID: "two", Format: "md"}); err != nil || !strings.Contains(text.Content, "*Attached: shot.png, image/png, "+sum+"*") {
		t.Errorf("%s, %v", text.Content, err)
	}
	_, err = b.Remove(t.Context(), proto.RemoveSession{SessionID: "one"})
	zinotest.Must(t, err)
	if _, err := os.Lstat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory of a removed session remains")
	}
	got, err := b.GetAttachment(t.Context(), proto.GetAttachment{SessionID: fork.SessionID, ID: a.ID})
	if err != nil || !bytes.Equal(got.Data, data) || got.MediaType != kind.PNG {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTexts checks that the text of a result is stored as such, follows into a fork, and
// goes when it has secrets.
func TestTexts(t *testing.T) {
	b := newEnv(t, "")
	put := func(data string) (proto.Attachment, error) {
		return b.PutAttachment(t.Context(), proto.PutAttachment{SessionID: "one", Name: "result.txt", MediaType: kind.Text, Data: []byte(data)})
	}
	a, err := put("a long text with the secret hunter2hunter2")
	zinotest.Must(t, err)
	short, err := put("é")
	zinotest.Must(t, err)
	for _, data := range []string{"\xff", "%PDF-1", strings.Repeat("a", proto.AttachmentTextMax+1)} {
		if _, err := put(data); err == nil {
			t.Errorf("%.10q is stored", data)
		}
	}
	image := b.attach("one", "shot.png", pngHeader(1, 1, 0))
	b.write("one", head, use("1"), fmt.Sprintf(`{"type":"tool_result","tool_use_id":"1","output":{"ok":true,"data":{"text":"attachment:%s and then attachment:%s"}},"ok":true,"ts":%q}`, a.ID, short.ID, now))
	_, err = b.Fork(t.Context(), proto.ForkSession{SessionID: "one", NewID: "two"})
	zinotest.Must(t, err)
	get := func(session, id string) string {
		got, err := b.GetAttachment(t.Context(), proto.GetAttachment{SessionID: session, ID: id})
		if err != nil {
			return "none"
		}
		return got.MediaType + " " + string(got.Data)
	}
	zinotest.Equal(t, "the text of the fork", get("two", a.ID), "text/plain a long text with the secret hunter2hunter2")
	zinotest.Equal(t, "the other text of the fork", get("two", short.ID), "text/plain é")
	m, err := mask.New(mask.Config{Salt: []byte("x"), Values: []string{"hunter2hunter2"}})
	zinotest.Must(t, err)
	for _, dryRun := range []bool{true, false} {
		n, err := b.Redact(t.Context(), "one", m, dryRun)
		zinotest.Must(t, err)
		zinotest.Equal(t, "secrets", n, 1)
	}
	zinotest.Equal(t, "the redacted text", get("one", a.ID), "none")
	zinotest.Equal(t, "the other text", get("one", short.ID), "text/plain é")
	if !strings.HasPrefix(get("one", image.ID), "image/png") {
		t.Error("the image is gone")
	}
}

// TestDamagedAttachments checks that a damaged file is never returned, and is repaired by
// storing it again.
func TestDamagedAttachments(t *testing.T) {
	b := newEnv(t, "")
	data := pngHeader(12, 10, 100)
	a := b.attach("one", "shot.png", data)
	sum, _ := kind.Sum(a.ID)
	path := filepath.Join(b.dir, "one.files", sum)
	for n := range data { // torn at each byte
		zinotest.Must(t, os.WriteFile(path, data[:n], 0o600))
		_, err := b.GetAttachment(t.Context(), proto.GetAttachment{SessionID: "one", ID: a.ID})
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeNotFound || e.Kind != proto.ErrorKindAttachment || e.Details != a.ID {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	b.attach("one", "shot.png", data)
	_, err := b.GetAttachment(t.Context(), proto.GetAttachment{SessionID: "one", ID: a.ID})
	zinotest.Must(t, err)
	zinotest.Must(t, os.Remove(path))
	zinotest.Must(t, os.Symlink("/etc/passwd", path))
	for _, id := range []string{a.ID, "sha256:..", "sha256:" + strings.Repeat("A", 64), "", sum} {
		if got, err := b.GetAttachment(t.Context(), proto.GetAttachment{SessionID: "one", ID: id}); err == nil {
			t.Errorf("%q: %+v", id, got)
		}
	}
}

// TestUnusedAttachments checks that the attachments of a session that never began are
// removed after a day, and no others.
func TestUnusedAttachments(t *testing.T) {
	b := newEnv(t, "")
	old := b.opt.Now().Add(-unusedAge)
	for _, id := range []string{"old", "new", "begun", "locked"} {
		b.attach(id, "shot.png", pngHeader(2, 2, 0))
		if id != "new" {
			zinotest.Must(t, os.Chtimes(filepath.Join(b.dir, id+filesEnd), old, old))
		}
	}
	b.write("begun", head)
	zinotest.Must(t, os.Chtimes(filepath.Join(b.dir, "new"+filesEnd), old.Add(time.Second), old.Add(time.Second)))
	zinotest.Must(t, os.Mkdir(filepath.Join(b.dir, "not a session.files"), 0o700))
	zinotest.Must(t, os.Chtimes(filepath.Join(b.dir, "not a session.files"), old, old))
	lock, err := durable.TryLockFile(b.root, "locked"+lockEnd)
	zinotest.Must(t, err)
	zinotest.Must(t, b.RemoveUnused())
	zinotest.Must(t, lock.Unlock())
	kept, err := filepath.Glob(filepath.Join(b.dir, "*"))
	zinotest.Must(t, err)
	for i := range kept {
		kept[i] = filepath.Base(kept[i])
	}
	zinotest.Equal(t, "what is kept", strings.Join(kept, " "), "begun.files begun.jsonl locked.files new.files not a session.files")
}

// TestRedactAttachments checks that the names of attachments are masked, and that the
// files are still found.
func TestRedactAttachments(t *testing.T) {
	b := newEnv(t, "")
	data := pngHeader(2, 2, 0)
	a := b.attach("one", "corporate-value-1.png", data)
	b.write("one", head, withFile("user", a))
	masked, err := b.Redact(t.Context(), "one", newMasker(t), false)
	zinotest.Must(t, err)
	zinotest.Equal(t, "secrets", masked, 1)
	zinotest.Contains(t, "the file", b.file("one"), `"attachments":[{"id":"`+a.ID+`","name":"[masked:secret:`, `.png","media_type":"image/png","bytes":33,"width":2,"height":2}]`)
	zinotest.Contains(t, "messages", b.messages("one"), `{"type":"attachment","id":"`+a.ID+`","name":"[masked:secret:`)
}

func TestAttachmentLimits(t *testing.T) {
	b := newEnv(t, "")
	for want, data := range map[string][]byte{
		"x.png is not a PNG, JPEG, GIF, WebP or PDF file":           []byte("text"),
		"x.png has 12000x9000 pixels; at most 50 million are taken": pngHeader(12000, 9000, 0),
		"x.png is damaged: its header names no width and height":    []byte("\x89PNG\r\n\x1a\n"),
		"x.png has 4000033 bytes; at most 3932160 are taken":        pngHeader(1, 1, 4_000_000),
		"x.png has 10485761 bytes; at most 10485760 are taken":      append([]byte("%PDF-"), make([]byte, 10<<20-4)...),
	} {
		if _, err := b.PutAttachment(t.Context(), proto.PutAttachment{SessionID: "one", Name: "x.png", Data: data}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	large := append([]byte("%PDF-"), make([]byte, 10<<20-5)...)
	var err error
	for i := range 21 {
		large[9] = byte(i)
		if _, err = b.PutAttachment(t.Context(), proto.PutAttachment{SessionID: "one", Data: large}); err != nil {
			if i != 20 {
				t.Errorf("file %d: %v", i, err)
			}
			break
		}
	}
	if !errors.Is(err, proto.ErrTooLarge) {
		t.Errorf("over 200 MiB: %v", err)
	}
}
