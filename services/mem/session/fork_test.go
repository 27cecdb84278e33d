package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// forked returns the first line of a copy.
func forked(id string, until int64, more string) string {
	at := ""
	if until > 0 {
		at = fmt.Sprintf(`,"until":%d`, until)
	}
	return strings.TrimSuffix(head, "}") + fmt.Sprintf(`,"forked_from":{"session_id":%q%s}%s}`, id, at, more)
}

func TestFork(t *testing.T) {
	b := newEnv(t, "")
	first := strings.TrimSuffix(head, "}") + `,"root":"/a"}`
	raw := strings.Replace(user("one"), "one", "one\u2028", 1)
	b.write("source", first, raw, "rubbish", use("1"), strings.Replace(user("yes"), "yes", "a\xff", 1))
	one := int64(len(first) + len(raw) + 2)
	two := one + int64(len("rubbish")+len(use("1"))+2)
	before := b.file("source")
	all := []string{user("one\u2028"), use("1"), user("a\ufffd"), closed("1")}
	for until, events := range map[int64][]string{0: all, int64(len(before)): all, one: all[:1], two: {all[0], all[1], all[3]}, int64(len(first)) + 1: {}} {
		place, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "sou", Until: until})
		want := strings.Join(append([]string{forked("source", until, `,"root":"/a"`)}, events...), "\n") + "\n"
		if err != nil || proto.CheckSessionID(place.SessionID) != nil || place.Next != int64(len(want)) {
			t.Fatalf("%+v, %v", place, err)
		}
		if got := b.file(place.SessionID); got != want {
			t.Errorf("until %d:\n%s\nwant\n%s", until, got, want)
		}
		if sum, err := b.Find(t.Context(), proto.FindSession{SessionID: place.SessionID}); err != nil || sum.ForkedFrom != "source" {
			t.Errorf("%+v, %v", sum, err)
		}
	}
	zinotest.Equal(t, "the source", b.file("source"), before)
}

// TestForkTurns checks that turns and says stay with the original, and that calls whose
// results the copy lacks are closed in it.
func TestForkTurns(t *testing.T) {
	b := newEnv(t, "")
	meta := `{"type":"meta","schema_version":1,"parent":{"session_id":"p","turn":"t-0","call":"c"},"continues":{"session_id":"o","turn":"t-9","until":7},"generation":2}`
	of := func(event string) string { return with(event, "turn", `"t-1"`) }
	lines := []string{
		meta, turn("t-1", "running"), of(user("q")), of(use("1")), of(use("2")), `{"type":"say","say":"s-1","turn":"t-1","text":"x"}`,
		of(result("1")), turn("t-1", "parked"), `{"type":"todo","items":[]}`, of(result("2")), turn("t-1", "done"),
	}
	b.write("s", lines...)
	header := forked("s", 0, `,"continues":{"session_id":"o","turn":"t-9","until":7},"generation":2`)
	until := int64(0)
	var copied []string
	for i, line := range lines {
		until += int64(len(line)) + 1
		if i > 0 && !strings.HasPrefix(line, `{"type":"turn"`) && !strings.HasPrefix(line, `{"type":"say"`) {
			copied = append(copied, line)
		}
		want := append([]string{strings.Replace(header, `"s"}`, fmt.Sprintf(`"s","until":%d}`, until), 1)}, copied...)
		if i >= 3 && i < 6 {
			want = append(want, closed("1"))
		}
		if i >= 4 && i < 9 {
			want = append(want, closed("2"))
		}
		id := fmt.Sprint("copy", i)
		place, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "s", Until: until, NewID: id})
		zinotest.Must(t, err)
		zinotest.Equal(t, fmt.Sprintf("up to line %d", i), b.file(id), strings.Join(want, "\n")+"\n")
		zinotest.Equal(t, "next", place.Next, int64(len(b.file(id))))
		h := b.hold(id, b.unexpected())
		zinotest.Equal(t, "calls closed by hold", h.Mended, 0)
		zinotest.Must(t, h.release())
	}
	zinotest.Equal(t, "open turns", b.openTurns(), "")
}

func TestForkNames(t *testing.T) {
	b := newEnv(t, "")
	b.write("bare", user("x"))
	if _, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "bare", NewID: "copy"}); err != nil {
		t.Fatal(err)
	}
	zinotest.Equal(t, "the copy", b.file("copy"), forked("bare", 0, "")+"\n"+user("x")+"\n")
	if _, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "copy", NewID: "second"}); err != nil {
		t.Fatal(err)
	}
	zinotest.Equal(t, "the copy of the copy", b.file("second"), forked("copy", 0, "")+"\n"+user("x")+"\n")
	b.writeText("empty", "")
	if _, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "empty", NewID: "none"}); err != nil || b.file("none") != forked("empty", 0, "")+"\n" {
		t.Errorf("of an empty one: %v", err)
	}
	for _, names := range [][2]string{{"bare", "copy"}, {"bare", "bare"}, {"empty", "empty"}, {"emp", "empty"}} {
		_, err := b.Fork(t.Context(), proto.ForkSession{SessionID: names[0], NewID: names[1]})
		zinotest.Error(t, err, proto.ErrInvalid, "already")
	}
}

// TestForkFails checks that a failed fork leaves no partial copy.
func TestForkFails(t *testing.T) {
	b := newEnv(t, "")
	b.fill("s", 100)
	size := int64(len(b.file("s")))
	for _, until := range []int64{1, int64(len(head)), size - 1, size + 1, 1 << 60} {
		_, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "s", Until: until, NewID: "copy"})
		zinotest.Error(t, err, proto.ErrInvalid, fmt.Sprintf("until %d is not the start of an event", until))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Fork(ctx, proto.ForkSession{SessionID: "s", NewID: "copy"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the client hung up: %v", err)
	}
	zinotest.Must(t, os.Mkdir(b.path("dir"), 0o700))
	if _, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "dir", NewID: "copy"}); err == nil {
		t.Error("a directory was copied")
	}
	zinotest.Equal(t, "files", b.files(), "dir.jsonl s.jsonl")
}

// TestForkLong copies a session that is longer than forkPiece.
func TestForkLong(t *testing.T) {
	b := newEnv(t, "")
	lines := []string{head}
	for i := range 30 {
		lines = append(lines, user(fmt.Sprint(i, strings.Repeat("x", forkPiece/10))))
	}
	b.write("s", lines...)
	if _, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "s", NewID: "copy"}); err != nil {
		t.Fatal(err)
	}
	lines[0] = forked("s", 0, "")
	if b.file("copy") != strings.Join(lines, "\n")+"\n" {
		t.Error("the copy differs from the source")
	}
}
