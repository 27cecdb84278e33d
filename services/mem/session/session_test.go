package session

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

var goodNames = []string{
	"a", "A-b_c.d", "550e8400-e29b-41d4-a716-446655440000", "_x", "1", "küche", "日本", "हिन्दी", "a..b", "x.jsonl", "x.lock", strings.Repeat("n", 200),
}

// badNames would leave the directory, be hidden, look like a flag, or contain
// characters that are unsafe in a terminal.
var badNames = []string{
	"", ".", "..", "../x", "../../etc/passwd", "a/b", "/etc/passwd", "a/../b", `a\b`, ".hidden", ".index", "-p", "--session", "a b", "a\nb", "a\x00", "a\x1b[1m",
	"\xff", "a:b", "a*", "~", "$HOME", "%2e%2e", "..%2f", "a\u202eb", "a\u2028", "\ufeffa", "…", strings.Repeat("n", 201), strings.Repeat("ü", 101),
}

func TestNames(t *testing.T) {
	b := newEnv(t, "")
	for _, id := range goodNames {
		b.put(id, user(id))
		if got := b.read(id); !strings.Contains(got, id) {
			t.Errorf("%q contains %s", id, got)
		}
	}
	if list, err := b.List(t.Context(), proto.ListSessions{}); err != nil || list.Total != len(goodNames) {
		t.Errorf("%d sessions are listed, %v", list.Total, err)
	}
	before := b.files()
	for _, id := range badNames {
		for what, err := range b.everything(t.Context(), id) {
			zinotest.Error(t, err, proto.ErrInvalid, "invalid session name")
			if t.Failed() {
				t.Fatalf("%s %q", what, id)
			}
		}
	}
	zinotest.Equal(t, "files", b.files(), before)
}

// everything calls every method with an id.
func (b *env) everything(ctx context.Context, id string) map[string]error {
	errs := map[string]error{}
	if id != "" { // an empty id is valid for these methods
		_, errs["create"] = b.Create(ctx, proto.CreateSession{SessionID: id})
		_, errs["find"] = b.Find(ctx, proto.FindSession{SessionID: id})
		b.write("source", head)
		_, errs["fork to"] = b.Fork(ctx, proto.ForkSession{SessionID: "source", NewID: id})
		errs["remove source"] = errors.Join(os.Remove(b.path("source")), errs["fork to"])
	}
	_, errs["append"] = b.add(proto.AppendSession{SessionID: id, Create: true}, user("x"))
	_, errs["read"] = b.Read(ctx, proto.ReadSession{SessionID: id})
	_, errs["fork"] = b.Fork(ctx, proto.ForkSession{SessionID: id})
	_, errs["export"] = b.Export(ctx, proto.ExportSession{SessionID: id, Format: "md"})
	_, errs["remove"] = b.Remove(ctx, proto.RemoveSession{SessionID: id})
	_, errs["messages"] = b.Messages(ctx, proto.GetMessages{SessionID: id})
	errs["hold"] = b.Hold(ctx, proto.HoldSession{SessionID: id}, func() error { return nil }, func(proto.SessionHeld) error { return nil })
	return errs
}

func TestUnknown(t *testing.T) {
	b := newEnv(t, "")
	for what, err := range map[string]func() error{
		"append": func() error {
			_, err := b.add(proto.AppendSession{SessionID: "nope"}, user("x"))
			return err
		},
		"read": func() error { _, err := b.Read(t.Context(), proto.ReadSession{SessionID: "nope"}); return err },
		"find": func() error { _, err := b.Find(t.Context(), proto.FindSession{SessionID: "nope"}); return err },
		"fork": func() error { _, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "nope"}); return err },
		"export": func() error {
			_, err := b.Export(t.Context(), proto.ExportSession{SessionID: "nope", Format: "md"})
			return err
		},
		"remove":   func() error { _, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "nope"}); return err },
		"messages": func() error { _, err := b.Messages(t.Context(), proto.GetMessages{SessionID: "nope"}); return err },
	} {
		t.Run(what, func(t *testing.T) { zinotest.Error(t, err(), proto.ErrNotFound, `"nope"`, "zino sessions list") })
	}
	_, err := b.Find(t.Context(), proto.FindSession{})
	zinotest.Error(t, err, proto.ErrNotFound, "No sessions found")
	zinotest.Equal(t, "files", b.files(), "")
}

func TestPrefixes(t *testing.T) {
	b := newEnv(t, "")
	for _, id := range []string{"abc1", "abc2", "abc", "x-1", "many1", "many2", "many3", "many4", "many5", "many6"} {
		b.put(id, user(id))
	}
	for short, want := range map[string]string{"abc": "abc", "abc1": "abc1", "x": "x-1", "x-": "x-1", "x-1": "x-1", "many4": "many4"} {
		for what, find := range map[string]func() (string, error){
			"find": func() (string, error) {
				r, err := b.Find(t.Context(), proto.FindSession{SessionID: short})
				return r.SessionID, err
			},
			"read": func() (string, error) {
				r, err := b.Read(t.Context(), proto.ReadSession{SessionID: short})
				return r.SessionID, err
			},
			"export": func() (string, error) {
				r, err := b.Export(t.Context(), proto.ExportSession{SessionID: short, Format: "json"})
				return r.SessionID, err
			},
		} {
			if got, err := find(); got != want || err != nil {
				t.Errorf("%s %s: %q, %v", what, short, got, err)
			}
		}
	}
	_, err := b.Read(t.Context(), proto.ReadSession{SessionID: "ab"})
	zinotest.Error(t, err, proto.ErrInvalid, `begin with "ab": abc, abc1, abc2. Give more`)
	_, err = b.Remove(t.Context(), proto.RemoveSession{SessionID: "many"})
	zinotest.Error(t, err, proto.ErrInvalid, "many1, many2, many3, many4 and 2 more")
	_, err = b.Read(t.Context(), proto.ReadSession{SessionID: "abc12"})
	zinotest.Error(t, err, proto.ErrNotFound)
	if gone, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "x"}); err != nil || gone.SessionID != "x-1" {
		t.Errorf("removed %v, %v", gone, err)
	}
	// An append needs the whole id: a new id may be a prefix of another.
	b.put("ma", user("new"))
	_, err = b.Messages(t.Context(), proto.GetMessages{SessionID: "man"})
	zinotest.Error(t, err, proto.ErrNotFound)
}
