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

// turn returns a turn event of the session s.
func turn(id, state string) string { return turnIn("s", id, state) }

func turnIn(session, id, state string) string {
	return `{"type":"turn","turn":` + quoted(id) + `,"session_id":` + quoted(session) + `,"state":` + quoted(state) + `}`
}

// openTurns returns the open turns as "session turn state".
func (b *env) openTurns() string {
	b.t.Helper()
	reply, err := b.OpenTurns(b.t.Context(), proto.ListOpenTurns{})
	zinotest.Must(b.t, err)
	return strings.Join(append(turnsOf(reply.Turns), reply.Problems...), ", ")
}

func turnsOf(turns []proto.OpenTurn) (list []string) {
	for _, o := range turns {
		list = append(list, strings.Join([]string{o.SessionID, o.Turn, o.State}, " "))
	}
	return list
}

func TestOpenTurns(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"no turn":                        {[]string{head, user("q"), use("1")}, ""},
		"running":                        {[]string{turn("t-1", "running"), user("q")}, "s t-1 running"},
		"parked":                         {[]string{turn("t-1", "running"), turn("t-1", "parked")}, "s t-1 parked"},
		"resumed":                        {[]string{turn("t-1", "running"), turn("t-1", "parked"), turn("t-1", "resumed")}, "s t-1 resumed"},
		"queued, then started":           {[]string{turn("t-1", "queued"), turn("t-1", "running")}, "s t-1 running"},
		"queued ones behind it":          {[]string{turn("t-1", "running"), turn("t-2", "queued"), turn("t-3", "queued")}, "s t-1 running, s t-2 queued, s t-3 queued"},
		"the first ended":                {[]string{turn("t-1", "running"), turn("t-2", "queued"), turn("t-1", "done")}, "s t-2 queued"},
		"a queued one was withdrawn":     {[]string{turn("t-1", "running"), turn("t-2", "queued"), turn("t-2", "interrupted")}, "s t-1 running"},
		"done":                           {[]string{turn("t-1", "running"), turn("t-1", "done")}, ""},
		"error":                          {[]string{turn("t-1", "running"), turn("t-1", "error")}, ""},
		"interrupted":                    {[]string{turn("t-1", "parked"), turn("t-1", "interrupted")}, ""},
		"continued":                      {[]string{turn("t-1", "running"), turn("t-1", "continued")}, ""},
		"of another session":             {[]string{turnIn("x", "t-1", "running"), turnIn("x", "t-2", "queued")}, ""},
		"ended in another session":       {[]string{turn("t-1", "running"), turnIn("x", "t-1", "done")}, "s t-1 running"},
		"without a session":              {[]string{`{"type":"turn","turn":"t-1","state":"running"}`}, ""},
		"ended without a session":        {[]string{turn("t-1", "running"), `{"type":"turn","turn":"t-1","state":"done"}`}, ""},
		"parked, but never started":      {[]string{turn("t-1", "parked"), turn("t-2", "resumed")}, ""},
		"an unknown state":               {[]string{turn("t-1", "running"), turn("t-1", "dreaming")}, "s t-1 running"},
		"damaged":                        {[]string{`{"type":"turn","turn":7,"session_id":"s","state":"running"}`, `{"type":"turn","turn":"t-1","session_id":"s","state":["running"]}`, `{"type":"turn"}`}, ""},
		"an event of another type":       {[]string{`{"type":"say","turn":"t-1","session_id":"s","state":"running"}`}, ""},
		"escaped":                        {[]string{`{"type":"t\u0075rn","turn":"t\u002d1","session_id":"\u0073","state":"r\u0075nning"}`, turn("t-1", "parked")}, "s t-1 parked"},
		"ended twice, and started again": {[]string{turn("t-1", "running"), turn("t-1", "done"), turn("t-1", "done"), turn("t-1", "running")}, "s t-1 running"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, "")
			b.write("s", c.events...)
			for range 2 { // the second answer comes from the index
				zinotest.Equal(t, "open turns", b.openTurns(), c.want)
				b = newEnv(t, b.dir)
			}
			h := b.holds(proto.HoldSession{SessionID: "s", Mend: new(false)}, b.unexpected())
			zinotest.Equal(t, "open turns of the locked session", strings.Join(turnsOf(h.OpenTurns), ", "), c.want)
			zinotest.Must(t, h.release())
		})
	}
}

// TestOpenTurnsUpdated checks that updated is the time of the turn's last event of any
// type.
func TestOpenTurnsUpdated(t *testing.T) {
	b := newEnv(t, "")
	at := func(event, ts string) string { return with(event, "ts", quoted(ts)) }
	b.write("s", turn("t-0", "queued"), at(turn("t-1", "running"), "2026-11-22T10:00:00+01:00"))
	check := func(want string) {
		t.Helper()
		reply, err := b.OpenTurns(t.Context(), proto.ListOpenTurns{})
		zinotest.Must(t, err)
		zinotest.Equal(t, "turns", fmt.Sprint(reply.Turns), "[{s t-0 queued } {s t-1 running "+want+"}]")
	}
	check("2026-11-22T09:00:00Z")
	for _, event := range []string{use("1"), result("1"), says("x"), `{"type":"say","say":"s-1"}`} {
		b.put("s", at(with(event, "turn", `"t-2"`), "2026-11-22T09:30:00Z"), at(user("other"), "2026-11-22T09:40:00Z"))
	}
	check("2026-11-22T09:00:00Z")
	for i, event := range []string{use("1"), result("1"), says("x"), `{"type":"say","say":"s-1"}`, turn("t-1", "running")} {
		ts := fmt.Sprintf("2026-11-22T1%d:00:00Z", i)
		b.put("s", at(with(event, "turn", `"t-1"`), ts), at(with(user("q"), "turn", `"t-1"`), "yesterday"))
		check(ts)
	}
}

// TestOpenTurnsFollows checks the open turns after a crash, edits by hand, a fork and
// changes by another process.
func TestOpenTurnsFollows(t *testing.T) {
	b := newEnv(t, "")
	other := newEnv(t, b.dir)
	edit := func(old, new string) {
		b.writeText("s", strings.Replace(b.file("s"), old, new, 1))
	}
	for i, step := range []struct {
		change func()
		want   string
	}{
		{func() { b.put("s", turn("t-1", "running"), user("q")) }, "s t-1 running"},
		{func() { other.put("s", turn("t-2", "queued")) }, "s t-1 running, s t-2 queued"},
		{func() { b.writeText("s", b.file("s")+timed(turn("t-1", "done"))[:50]) }, "s t-1 running, s t-2 queued"},
		{func() { b.put("s", says("x")) }, "s t-1 running, s t-2 queued"},
		{func() { edit(`"running"`, `"resumed"`) }, "s t-2 queued"}, // of the same length
		{func() { edit(`"resumed"`, `"running"`); b.writeText("s", b.file("s")+user("x")+"\n") }, "s t-1 running, s t-2 queued"},
		{func() { // an editor replaces the file, and another process appends
			text := strings.Replace(b.file("s"), `"queued"`, `"parked"`, 1) + user("y") + "\n"
			zinotest.Must(t, os.WriteFile(b.path("s")+".new", []byte(text), 0o600))
			zinotest.Must(t, os.Rename(b.path("s")+".new", b.path("s")))
		}, "s t-1 running"},
		{func() {
			_, err := b.Fork(t.Context(), proto.ForkSession{SessionID: "s", NewID: "copy"})
			zinotest.Must(t, err)
		}, "s t-1 running"},
		{func() { zinotest.Must(t, os.WriteFile(b.path("by-hand"), []byte(b.file("s")), 0o600)) }, "s t-1 running"},
		{func() { zinotest.Must(t, os.Rename(b.path("s"), b.path("renamed"))) }, ""},
		{func() { zinotest.Must(t, os.Rename(b.path("renamed"), b.path("s"))) }, "s t-1 running"},
		{func() { other.put("s", turn("t-1", "done")) }, ""},
	} {
		step.change()
		for id := range strings.FieldsSeq(b.files()) {
			if name, ok := strings.CutSuffix(id, fileEnd); ok {
				b.touch(name, i) // otherwise two changes could have the same mtime
			}
		}
		for what, s := range map[string]*env{"the same store": b, "another store": newEnv(t, b.dir)} {
			if got := s.openTurns(); got != step.want {
				t.Errorf("step %d, %s: %s, want %s", i, what, got, step.want)
			}
		}
	}
}

// TestOpenTurnsMany lists the turns of many sessions in the order of their changes.
// The second answer of a process reads no file, also after a restart.
func TestOpenTurnsMany(t *testing.T) {
	b := newEnv(t, "")
	const n = 300
	var want []string
	for i := range n {
		id := fmt.Sprintf("s%04d", i)
		state := []string{"running", "parked", "done"}[i%3]
		b.write(id, head, turnIn(id, "t-1", "running"), user("q"), turnIn(id, "t-1", state))
		b.touch(id, -i)
		if state != "done" {
			want = append(want, id+" t-1 "+state)
		}
	}
	zinotest.Equal(t, "open turns", b.openTurns(), strings.Join(want, ", "))
	// A change that keeps inode, size and time is not seen: the files are not read.
	b.writeText("s0001", strings.Replace(b.file("s0001"), "parked", "dancer", 1))
	b.touch("s0001", -1)
	zinotest.Equal(t, "open turns of another process", newEnv(t, b.dir).openTurns(), strings.Join(want, ", "))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.OpenTurns(ctx, proto.ListOpenTurns{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context: %v", err)
	}
}

// TestHoldLeavesOpenTurns checks that Hold writes nothing if that is not wanted, and
// nothing into a session with an open turn.
func TestHoldLeavesOpenTurns(t *testing.T) {
	call := []string{user("q"), use("1")}
	for name, c := range map[string]struct {
		events []string
		mends  bool
	}{
		"no turn":                    {call, true},
		"queued":                     {append(call, turn("t-1", "queued")), false},
		"running":                    {append([]string{turn("t-1", "running")}, call...), false},
		"parked":                     {append(call, turn("t-1", "parked")), false},
		"resumed":                    {append(call, turn("t-1", "resumed")), false},
		"done":                       {append(call, turn("t-1", "running"), turn("t-1", "done")), true},
		"error":                      {append(call, turn("t-1", "error")), true},
		"interrupted":                {append(call, turn("t-1", "interrupted")), true},
		"continued":                  {append(call, turn("t-1", "continued")), true},
		"an unknown state":           {append(call, turn("t-1", "dreaming")), true},
		"a queued one was withdrawn": {append([]string{turn("t-1", "running"), turn("t-2", "queued"), turn("t-2", "interrupted")}, call...), false},
		"copied from elsewhere":      {append([]string{turnIn("x", "t-1", "running")}, call...), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, "")
			b.write("s", c.events...)
			before := b.file("s")
			yes, no, zero := true, false, int64(0)
			for _, req := range []proto.HoldSession{{Mend: &no}, {Next: &zero}, {Next: &zero, Mend: &yes}, {}, {Mend: &yes}} {
				req.SessionID = "s"
				h := b.holds(req, b.unexpected())
				zinotest.Must(t, h.release())
				mended := 0
				if c.mends && req.Next == nil && req.Mend == nil {
					mended = 1 // the next requests find no open call
				}
				if text := b.file("s"); h.Mended != mended || (text == before) == (c.mends && req.Next == nil && req.Mend != &no) || h.Next != int64(len(text)) {
					t.Errorf("%+v: %+v, the file is\n%s", req, h.SessionHeld, text)
				}
			}
		})
	}
}
