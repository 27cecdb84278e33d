package constellation_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
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

// TestReadImage checks that the model sees an image that it reads, without its metadata,
// that it stays part of the session, and that one that cannot be decoded is left out.
func TestReadImage(t *testing.T) {
	shot := pngFile(t, "shot.png", 30, 20)
	const claim = 8 + 8 + 4 // where the header has the height
	bomb := slices.Clone(shot.Data)
	copy(bomb[claim:], "\x00\x00\x20\x00") // the checksum is that of the true header
	const head = 8 + 25                    // signature and header
	place := []byte("\x00\x00\x00\x0ctEXtPlace\x0048.2 N")
	place = binary.BigEndian.AppendUint32(place, crc32.ChecksumIEEE(place[4:]))
	photo := slices.Insert(pngFile(t, "", 31, 21).Data, head, place...)
	var calls []fakellm.Call
	for _, name := range []string{"shot.jpg", "photo.png", "bomb.png", "wide.png"} {
		calls = append(calls, fakellm.Call{Name: "read", Args: fmt.Sprintf(`{"path":%q}`, name)})
	}
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelReadOnly, proto.LevelWorkspaceWrite} {
		t.Run(string(level), func(t *testing.T) {
			e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Calls: calls}, fakellm.Turn{Text: "I see."}, fakellm.Turn{Text: "Still."})
			for name, data := range map[string][]byte{"shot.jpg": shot.Data, "photo.png": photo, "bomb.png": bomb, "wide.png": []byte(string(shot.Data[:claim-4]) + "\x00\x01\x00\x00\x00\x01\x00\x00\x08\x00\x00\x00\x00")} {
				zinotest.Write(t, filepath.Join(e.root, name), string(data))
			}
			e.begin(proto.TurnStart{Sandbox: level})
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			zinotest.Equal(t, "the images that the model saw", e.sentImages([]proto.FileData{shot, {Data: photo}}), 1)
			zinotest.Equal(t, "stored files", len(e.attachments()), 2)
			for _, path := range e.attachments() {
				if strings.Contains(zinotest.Read(t, path), "48.2 N") {
					t.Error("the place of a photo is stored")
				}
			}
			zinotest.Contains(t, "session", zinotest.Read(t, e.file("parent")), `"media_type":"image/png","bytes":`, `"name":"shot.jpg","media_type":"image/png"`,
				"bomb.png is left out: bomb.png cannot be decoded", "wide.png has 65536x65536 pixels; at most 50 million are taken")
			e.stop()
			e.start()
			e.begin(proto.TurnStart{Sandbox: level})
			zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
			zinotest.Equal(t, "the images of the next turn", e.sentImages([]proto.FileData{shot}), 1)
		})
	}
}

// TestImageOfCommand checks that images which the file of a slash command names are
// attached, a large one scaled, and that the text says why another one is not.
func TestImageOfCommand(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	zinotest.Write(t, filepath.Join(home, ".claude/commands/look.md"), "Compare @shot.png with @$1 and @bomb.png")
	e := newAgents(t, func(*config.Config) {}, fakellm.Turn{Text: "I see."})
	files := []proto.FileData{pngFile(t, "shot.png", 3, 3), pngFile(t, "wide.png", 2001, 1)}
	for _, f := range files {
		zinotest.Write(t, filepath.Join(e.root, f.Name), string(f.Data))
	}
	zinotest.Write(t, filepath.Join(e.root, "bomb.png"), string(files[0].Data[:16])+"\x00\x00\x20\x00"+string(files[0].Data[20:]))
	_, err := rpc.Call(t.Context(), e.daemon, proto.DaemonTurnStart, proto.TurnStart{SessionID: "parent", Root: e.root, Command: "look", Arguments: "wide.png"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "state", e.end("parent").State, proto.TurnDone)
	zinotest.Equal(t, "images", e.sentImages(files), 1)
	zinotest.Contains(t, "session", zinotest.Read(t, e.file("parent")), `"text":"Compare @shot.png with @wide.png and @bomb.png\n\nContents of bomb.png:\n`,
		"bomb.png is left out: bomb.png cannot be decoded: ", `"name":"shot.png"`, `"name":"wide.png","media_type":"image/png","bytes":`, `"width":2000,"height":1}`)
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
