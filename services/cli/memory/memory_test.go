package memory

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

const pair = `[{"role":"user","content":"q"},{"content":"a\u009b","role":"assistant","x":[1]}]`

func TestReadLine(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("short\n"+strings.Repeat("x", 40)+"\n0123456789\n"+strings.Repeat("y", 40)), 16)
	for _, want := range []struct {
		line string
		err  error
	}{{"short\n", nil}, {"", errLongLine}, {"0123456789\n", nil}, {"", errLongLine}, {"", io.EOF}} {
		if line, err := readLine(r, 20); line != want.line || !errors.Is(err, want.err) {
			t.Errorf("%q, %v; want %q, %v", line, err, want.line, want.err)
		}
	}
}

// FuzzMemoryLine checks that a parsed memory has messages, and is equal after another
// export.
func FuzzMemoryLine(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"messages":[{"role":"user","content":"a\n\u009b"}],"tag":"t","channel_id":"c","session_id":"s","created":"2026-11-21T14:03:00Z"}`,
		`{"messages":[{"content":"x","role":"r","content":"y"}]}`, `{"messages":[{}]}`, `{"messages":[]}`, `{"messages":null}`, `[]`, `{`, "", "\xff",
		`{"messages":[{"role":"user","content":"\ud800"}],"tag":"\ud800"}`, "{\"messages\":\r\n[ {\"role\" :\"\",\"content\":\"\"}]}\r",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		req, _, err := parseMemory(line)
		if err != nil {
			return
		}
		list, err := render.ReadMessages(req.Messages)
		if err != nil || len(list) == 0 {
			t.Fatalf("%q: %d messages, %v", line, len(list), err)
		}
		var out strings.Builder
		zinotest.Must(t, render.JSON(&out, req))
		if n := strings.Count(out.String(), "\n"); n != 1 || !wire.Valid([]byte(out.String())) {
			t.Errorf("%q becomes %d lines: %q", line, n, out.String())
		}
		again, _, err := parseMemory(out.String())
		if err != nil || render.MessageTexts(again.Messages) != render.MessageTexts(req.Messages) || again.Tag != req.Tag || again.ChannelID != req.ChannelID {
			t.Errorf("%q becomes %q: %v", line, out.String(), err)
		}
	})
}

// FuzzEdited checks that an unchanged memory is equal, and that what an editor wrote
// is a list of messages or an error.
func FuzzEdited(f *testing.F) {
	f.Add(`[{"role":"user","content":"a\u2028"}]`, "b\n")
	f.Add(pair, `{"role":"a","content":"b"}`+"\n\n"+`{"role":"c","content":"d"}`)
	f.Add(pair, `{"role":"a","content":"b"},{"role":"c","content":"d"}`)
	f.Add("[{\"r\\u006fle\":\"\",\n\"content\":\"x\",\"content\":\"y\"}]", "\xff")
	f.Add(`[]`, "]")
	f.Fuzz(func(t *testing.T, old, text string) {
		before, _, err := editable(proto.Raw(old))
		if err != nil {
			return
		}
		same, err := edited(proto.Raw(old), before)
		if err != nil || render.MessageTexts(same) != render.MessageTexts(proto.Raw(old)) {
			t.Fatalf("%q, unchanged, becomes %q: %v", old, same, err)
		}
		messages, err := edited(proto.Raw(old), text)
		if err != nil {
			return
		}
		if list, err := render.ReadMessages(messages); err != nil || len(list) == 0 && len(strings.TrimSpace(text)) > 0 {
			t.Errorf("%q, %q becomes %q: %d messages, %v", old, text, messages, len(list), err)
		}
	})
}

// newDaemon returns a daemon whose mem is answer.
func newDaemon(t *testing.T, answer func(request proto.Raw) (typ string, reply any, err error)) *connect.Daemon {
	t.Helper()
	socket, _ := rpctest.New(t, "daemon", "", func(s *rpc.Server) {
		rpc.HandleRelay(s, proto.DaemonForward, func(_ context.Context, req proto.Forward, out *rpc.Out) error {
			typ, reply, err := answer(req.Request)
			if err != nil {
				return err
			}
			return out.Event(typ, reply)
		})
	})
	d := connect.At(connect.Place{Socket: socket})
	t.Cleanup(d.Close)
	return d
}

// TestPagesEnd checks the error if pages repeat.
func TestPagesEnd(t *testing.T) {
	d := newDaemon(t, func(proto.Raw) (string, any, error) {
		return proto.MemListHard.Reply, proto.HardList{Items: []proto.HardItem{{Messages: proto.Raw("[]")}}, Next: new(1)}, nil
	})
	n := 0
	err := pages(t.Context(), d, proto.ListHard{}, 0, func([]proto.HardItem) (bool, error) { n++; return false, nil })
	if err == nil || !strings.Contains(err.Error(), "does not end") || n != 2 {
		t.Errorf("%d pages, %v", n, err)
	}
	stop := errors.New("enough")
	err = pages(t.Context(), d, proto.ListHard{}, 0, func([]proto.HardItem) (bool, error) { return false, stop })
	zinotest.Error(t, err, stop)
}

// TestPagesShrink checks that pages shrink until their memories fit into a packet.
func TestPagesShrink(t *testing.T) {
	const total, most = 1203, 120 // memories in all, and per packet
	d := newDaemon(t, func(request proto.Raw) (string, any, error) {
		var req proto.ListHard
		if err := wire.Decode(request, &req); err != nil {
			return "", nil, err
		}
		if req.Limit > most {
			return "", nil, proto.Errorf(proto.CodeTooLarge, "too large")
		}
		var list proto.HardList
		top := total
		if req.Before != nil {
			top = *req.Before
		}
		for id := top - 1; id >= max(0, top-req.Limit); id-- {
			list.Items = append(list.Items, proto.HardItem{ID: id, Messages: proto.Raw("[]")})
		}
		if top > req.Limit {
			list.Next = new(top - req.Limit)
		}
		return proto.MemListHard.Reply, list, nil
	})
	next := total
	err := pages(t.Context(), d, proto.ListHard{}, 0, func(page []proto.HardItem) (bool, error) {
		for _, item := range page {
			if next--; item.ID != next {
				t.Fatalf("id %d, want %d", item.ID, next)
			}
		}
		return false, nil
	})
	if err != nil || next != 0 {
		t.Errorf("ended before id %d: %v", next, err)
	}
}

// importing runs an import whose stores are answered by stored, and returns what is
// printed.
func importing(t *testing.T, ctx context.Context, in io.Reader, stored func() (proto.Stored, error)) (string, error) {
	t.Helper()
	d := newDaemon(t, func(request proto.Raw) (string, any, error) {
		if typ, err := wire.RequestType(request); err != nil || typ == proto.MemListHard.Type {
			return proto.MemListHard.Reply, proto.HardList{Items: []proto.HardItem{}}, err
		}
		reply, err := stored()
		return proto.MemStoreHard.Reply, reply, err
	})
	stderr, err := os.Create(filepath.Join(zinotest.Dir(t), "stderr"))
	zinotest.Must(t, err)
	defer stderr.Close()
	err = importAll(ctx, &command.Env{Target: connect.Target{Err: stderr}}, d, in)
	return zinotest.Read(t, stderr.Name()), err
}

// TestImportStops checks that an internal error stops the import and an invalid line
// does not.
func TestImportStops(t *testing.T) {
	const lines = `{"messages":[{"role":"user","content":"a"}]}` + "\n" + `{"messages":[{"role":"user","content":"b"}]}` + "\n"
	printed, err := importing(t, t.Context(), strings.NewReader(lines), func() (proto.Stored, error) {
		return proto.Stored{}, proto.Errorf(proto.CodeInternal, "the disk is full")
	})
	zinotest.Equal(t, "printed", printed, "0 added, 0 known already, 0 refused\n")
	if err == nil || err.Error() != "the import stopped at line 1: the disk is full; it can be repeated: what is stored is not stored twice" {
		t.Errorf("error %v", err)
	}
	n := 0
	printed, err = importing(t, t.Context(), strings.NewReader(lines), func() (proto.Stored, error) {
		if n++; n == 1 {
			return proto.Stored{}, proto.Errorf(proto.CodeInvalid, "not\nthis")
		}
		return proto.Stored{}, nil
	})
	zinotest.Equal(t, "printed", printed, "line 1: not this\n1 added, 0 known already, 1 refused\n")
	zinotest.Error(t, err, render.ErrReported)
}

// TestImportInterrupted checks that an import can be interrupted while it reads.
func TestImportInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		io.WriteString(w, `{"messages":[{"role":"user","content":"a"}]}`+"\n")
		w.Write([]byte("{")) // the next line is being read when this returns
		cancel()
	}()
	printed, err := importing(t, ctx, r, func() (proto.Stored, error) { return proto.Stored{}, nil })
	zinotest.Error(t, err, render.ErrInterrupted)
	zinotest.Equal(t, "printed", strings.TrimLeft(printed, "01"), " added, 0 known already, 0 refused\n") // mem's answer may arrive after the interrupt
}
