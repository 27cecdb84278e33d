package memory

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
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
		req, err := parseMemory(line)
		if err != nil {
			return
		}
		list, err := render.ReadMessages(req.Messages)
		if err != nil || len(list) == 0 {
			t.Fatalf("%q: %d messages, %v", line, len(list), err)
		}
		var out strings.Builder
		if err := render.JSON(&out, req); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != 1 || !wire.Valid([]byte(out.String())) {
			t.Errorf("%q becomes %d lines: %q", line, n, out.String())
		}
		again, err := parseMemory(out.String())
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

// TestPagesEnd returns an error for a mem whose pages do not end.
func TestPagesEnd(t *testing.T) {
	socket, _ := rpctest.New(t, "daemon", "", func(s *rpc.Server) {
		rpc.HandleRelay(s, proto.DaemonForward, func(_ context.Context, _ proto.Forward, out *rpc.Out) error {
			return out.Event(proto.MemListHard.Reply, proto.HardList{Items: []proto.HardItem{{Messages: proto.Raw("[]")}}, Next: new(1)})
		})
	})
	d := connect.At(connect.Place{Socket: socket})
	defer d.Close()
	n := 0
	err := pages(t.Context(), d, proto.ListHard{}, 0, func([]proto.HardItem) (bool, error) { n++; return false, nil })
	if err == nil || !strings.Contains(err.Error(), "does not end") || n != 2 {
		t.Errorf("%d pages, %v", n, err)
	}
	stop := errors.New("enough")
	if err := pages(t.Context(), d, proto.ListHard{}, 0, func([]proto.HardItem) (bool, error) { return false, stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
