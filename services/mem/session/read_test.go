package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// fill writes a session of n events without the store and returns its lines.
func (b *env) fill(id string, n int) []string {
	b.t.Helper()
	lines := make([]string, n)
	for i := range lines {
		switch i % 4 {
		case 0:
			lines[i] = timed(user(fmt.Sprint("question ", i)))
		case 1:
			lines[i] = timed(use(fmt.Sprint(i)))
		case 2:
			lines[i] = timed(result(fmt.Sprint(i - 1)))
		case 3:
			lines[i] = timed(says(fmt.Sprint("answer ", i)))
		}
	}
	b.write(id, append([]string{head}, lines...)...)
	return append([]string{head}, lines...)
}

// pages reads a session in pages and returns its events and the number of pages.
func (b *env) pages(id string, limit int) (events []string, n int) {
	b.t.Helper()
	return b.pagesOf(proto.ReadSession{SessionID: id, Limit: limit})
}

func (b *env) pagesOf(req proto.ReadSession) (events []string, n int) {
	b.t.Helper()
	for {
		reply, err := b.Read(b.t.Context(), req)
		zinotest.Must(b.t, err)
		list, err := wire.Elements(reply.Events)
		zinotest.Must(b.t, err)
		for _, e := range list {
			events = append(events, string(e))
		}
		n++
		if !reply.More {
			return events, n
		}
		req.From = reply.Next
	}
}

func TestReadPages(t *testing.T) {
	b := newEnv(t, "")
	want := b.fill("s", 10_000)
	for limit, pages := range map[int]int{0: 1, 999: 11, 10_000: 2} {
		if got, n := b.pages("s", limit); strings.Join(got, "\n") != strings.Join(want, "\n") || n != pages {
			t.Errorf("limit %d: %d events in %d pages, want %d", limit, len(got), n, pages)
		}
	}
}

// TestReadOn reads a growing session from the end of the last read.
func TestReadOn(t *testing.T) {
	b := newEnv(t, "")
	next := b.put("s", user("0"))
	for i := range 5 {
		end := b.put("s", user(fmt.Sprint(i)))
		reply, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s", From: next})
		if err != nil || string(reply.Events) != "["+timed(user(fmt.Sprint(i)))+"]" || reply.Next != end || reply.More {
			t.Errorf("%s to %d, %v, %v", reply.Events, reply.Next, reply.More, err)
		}
		next = end
	}
	reply, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s", From: next})
	if err != nil || string(reply.Events) != "[]" || reply.Next != next {
		t.Errorf("at the end: %s to %d, %v", reply.Events, reply.Next, err)
	}
	for _, place := range []int64{-1, 1, next - 2, next + 1, 1 << 60} {
		_, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s", From: place})
		zinotest.Error(t, err, proto.ErrInvalid, fmt.Sprintf("from %d is not the start of an event", place))
	}
}

// TestReadRoom checks that a page has as many events as fit.
func TestReadRoom(t *testing.T) {
	b := newEnv(t, "")
	long := func(n int) string { return `{"t":"` + strings.Repeat("x", n-len(`{"t":""}`)) + `"}` }
	b.write("s", long(100), long(98), long(100), long(99), long(5000), "{}")
	room := len(`[`) + 100 + len(`,`) + 98 + 2*offsetRoom
	want := strings.Split(strings.TrimSpace(b.file("s")), "\n")
	for what, req := range map[string]proto.ReadSession{"of the packet": {SessionID: "s"}, "that was asked for": {SessionID: "s", MaxBytes: room}} {
		if req.MaxBytes == 0 {
			b.room = room
		} else {
			b.room = readRoom
		}
		if got, n := b.pagesOf(req); n != 5 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("room %s: %d events in %d pages", what, len(got), n)
		}
	}
}

// TestReadOffsets checks that each event of a page ends at its offset, and that the
// page may be read again from there.
func TestReadOffsets(t *testing.T) {
	b := newEnv(t, "")
	b.writeText("s", "rubbish\n"+head+"\r\n\n"+user("a")+"\n{\n"+user("é")+"\n  "+says("b"))
	text := b.file("s") + "\n" // the next append adds the line break
	for _, from := range []int64{0, int64(len("rubbish\n"))} {
		reply, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s", From: from})
		zinotest.Must(t, err)
		events, err := wire.Elements(reply.Events)
		zinotest.Must(t, err)
		if len(reply.Offsets) != 4 || len(events) != 4 || reply.Offsets[3] != reply.Next {
			t.Fatalf("from %d: %d offsets of %d events, next %d", from, len(reply.Offsets), len(events), reply.Next)
		}
		for i, end := range reply.Offsets {
			if !strings.HasSuffix(strings.TrimSpace(text[:end]), string(events[i])) || text[end-1] != '\n' {
				t.Errorf("event %d does not end at %d", i, end)
			}
			rest, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s", From: end})
			zinotest.Must(t, err)
			zinotest.Equal(t, "the rest", fmt.Sprint(rest.Offsets), fmt.Sprint(reply.Offsets[i+1:]))
		}
	}
}

// TestPacketRoom checks that the largest list of events and its envelope fit into a
// packet.
func TestPacketRoom(t *testing.T) {
	for typ, reply := range map[string]any{
		"session_events": proto.SessionEvents{SessionID: strings.Repeat("ü", proto.SessionIDMax/2), Events: proto.Raw("[]"), Next: 1 << 62, More: true, Skipped: 1 << 62},
		"messages":       proto.SessionMessages{Messages: proto.Raw("[]"), Count: 1 << 62, Next: 1 << 62},
	} {
		packet, err := wire.AppendObject(nil, typ, reply)
		if err != nil || len(packet)+readRoom > wire.MaxPayload || durable.MaxLine+len("[]") > readRoom {
			t.Errorf("%s: %d bytes around the events, %v", typ, len(packet), err)
		}
	}
}

func TestReadSkips(t *testing.T) {
	b := newEnv(t, "")
	b.write("s", "rubbish", head, "more", "", user("a"), "{", user("b"))
	for limit, want := range map[int]string{0: "3 false", 1: "1 true", 2: "2 true", 3: "3 false"} {
		reply, err := b.Read(t.Context(), proto.ReadSession{SessionID: "s", Limit: limit})
		if got := fmt.Sprint(reply.Skipped, reply.More); got != want || err != nil {
			t.Errorf("limit %d: %s, %v", limit, got, err)
		}
	}
	b.write("s", head)
	if b.read("s"); b.skipped["s.jsonl"] != 0 {
		t.Errorf("skipped %v", b.skipped)
	}
}

func TestReadErrors(t *testing.T) {
	b := newEnv(t, "")
	zinotest.Must(t, os.Mkdir(b.path("dir"), 0o700))
	zinotest.Must(t, os.Symlink("/etc/hostname", b.path("link")))
	for _, id := range []string{"dir", "link"} {
		_, err := b.Read(t.Context(), proto.ReadSession{SessionID: id})
		if err == nil || errors.Is(err, proto.ErrNotFound) || !strings.Contains(err.Error(), b.path(id)) {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := b.add(proto.AppendSession{SessionID: id, Create: true}, user("x")); err == nil {
			t.Errorf("%s: appended", id)
		}
	}
	b.fill("s", 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Read(ctx, proto.ReadSession{SessionID: "s"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Read with a canceled context: %v", err)
	}
}
