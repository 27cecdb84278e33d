package constellation_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// pngFile is a PNG of one colour.
func pngFile(t testing.TB, name string, width, height int) proto.FileData {
	t.Helper()
	var b bytes.Buffer
	zinotest.Must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))
	return proto.FileData{Name: name, Data: b.Bytes()}
}

// sentImages returns how many of the files are in the provider's last request, which is
// legal.
func (e *agentsEnv) sentImages(files []proto.FileData) (n int) {
	e.t.Helper()
	all := e.provider.Requests()
	last := all[len(all)-1]
	zinotest.Must(e.t, last.Legal())
	for _, f := range files {
		if strings.Contains(string(last.Body), `"`+base64.StdEncoding.EncodeToString(f.Data)+`"`) {
			n++
		}
	}
	return n
}

func (e *agentsEnv) attachments() []string {
	e.t.Helper()
	names, err := filepath.Glob(filepath.Join(e.cfg.Mem.DataDir, "sessions", "parent.files", "*"))
	zinotest.Must(e.t, err)
	return names
}

// TestImages checks that the images of a session reach the provider in each turn: of the
// first one, after a restart of all services, forty of them, and without one that is
// damaged.
func TestImages(t *testing.T) {
	script := make([]fakellm.Turn, 6)
	for i := range script {
		script[i].Text = "I see."
	}
	e := newAgents(t, func(*config.Config) {}, script...)
	var files []proto.FileData
	for i := range 40 {
		files = append(files, pngFile(t, fmt.Sprintf("shot-%d.png", i), 10+i, 20))
	}
	turn := func(req proto.TurnStart) {
		t.Helper()
		e.begin(req)
		if end := e.end("parent"); end.State != proto.TurnDone {
			t.Fatalf("%+v: %s", end, zinotest.Read(t, e.file("parent")))
		}
	}
	turn(proto.TurnStart{Files: files[:20]})
	zinotest.Equal(t, "images of the first turn", e.sentImages(files), 20)
	zinotest.Contains(t, "session", zinotest.Read(t, e.file("parent")), `"text":"begin","attachments":[{"id":"sha256:`, `"name":"shot-0.png","media_type":"image/png"`)
	if log := zinotest.Read(t, e.file("parent")); strings.Contains(log, base64.StdEncoding.EncodeToString(files[0].Data)) {
		t.Error("the log has the bytes of an image")
	}

	e.stop()
	e.start()
	var refs []proto.AttachmentRef
	for _, f := range files[20:] {
		a, err := rpc.Call(t.Context(), e.daemon, proto.DaemonAttach, proto.AttachFile{SessionID: "parent", Name: f.Name, Data: f.Data})
		zinotest.Must(t, err)
		refs = append(refs, proto.AttachmentRef{ID: a.ID, Name: f.Name})
	}
	turn(proto.TurnStart{Attachments: refs})
	zinotest.Equal(t, "images after a restart", e.sentImages(files), 40)

	e.stop()
	stored := e.attachments()
	zinotest.Equal(t, "stored files", len(stored), 40)
	zinotest.Must(t, os.Truncate(stored[0], 20))
	e.start()
	turn(proto.TurnStart{})
	zinotest.Equal(t, "images without the damaged one", e.sentImages(files), 39)
	zinotest.Contains(t, "request", string(e.provider.Requests()[2].Body), "lost: its file is missing or damaged]")

	unsaved := pngFile(t, "unsaved.png", 7, 7)
	_, err := rpc.CallText(t.Context(), e.daemon, proto.DaemonChat, proto.Chat{Message: "begin", SessionID: "parent", NoSave: true, Files: []proto.FileData{unsaved}}, nil)
	zinotest.Must(t, err)
	zinotest.Equal(t, "the unsaved image", e.sentImages([]proto.FileData{unsaved}), 1)
	zinotest.Equal(t, "stored files", len(e.attachments()), 40)

	_, err = rpc.CallText(t.Context(), e.daemon, proto.DaemonChat, proto.Chat{Message: "begin", Files: []proto.FileData{unsaved}}, nil)
	zinotest.Must(t, err)
	zinotest.Equal(t, "the image of a plain message", e.sentImages([]proto.FileData{unsaved}), 1)

	for want, req := range map[string]proto.TurnStart{
		"a prompt has at most 20 files, not 21":               {Files: slices.Repeat([]proto.FileData{unsaved}, 21)},
		"x is not a PNG, JPEG, GIF, WebP or PDF file":         {Files: []proto.FileData{{Name: "x", Data: []byte("text")}}},
		"Session \"parent\" has no attachment 000000000000: ": {Attachments: []proto.AttachmentRef{{ID: "sha256:" + strings.Repeat("0", 64)}}},
	} {
		req.Message, req.SessionID = "begin", "parent"
		if _, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, req); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestModelWithoutImages checks the error of a model that takes no images, and that the
// session goes on with one that does.
func TestModelWithoutImages(t *testing.T) {
	no := false
	e := newAgents(t, func(cfg *config.Config) {
		cfg.Rtr.Model = append(cfg.Rtr.Model, config.Model{Name: "claude-blind", Images: &no})
	}, fakellm.Turn{Text: "I see."})
	shot := pngFile(t, "shot.png", 5, 5)
	e.begin(proto.TurnStart{Model: "claude-blind", Files: []proto.FileData{shot}})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnError)
	zinotest.Contains(t, "session", zinotest.Read(t, e.file("parent")), "claude-blind takes no images: use another model, or a session without shot.png")
	e.begin(proto.TurnStart{})
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "images", e.sentImages([]proto.FileData{shot}), 1)
}
