package chat

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"zino/proto"
	"zino/services/chat/screen"
)

// testChat is a chat with a clock of its own that draws into a buffer.
type testChat struct {
	*chat
	t             *testing.T
	clock         time.Time
	drawn         bytes.Buffer
	sent          strings.Builder // sequences besides frames
	width, height int
}

// newTestChat returns a chat with an open turn.
func newTestChat(t *testing.T, change ...func(*proto.ChatStart)) *testChat {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "screen")
	t.Setenv("TERM_PROGRAM", "")
	start := proto.ChatStart{Version: "0.1.0", Root: "/srv/proj", Chat: proto.ChatOptions{PreviewLines: 5, Reasoning: "fold", Width: 100, Notify: "auto"}}
	for _, f := range change {
		f(&start)
	}
	x := &testChat{chat: newChat(start, nil), t: t, clock: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), width: 80, height: 24}
	t.Cleanup(x.cancel)
	x.now = func() time.Time { return x.clock }
	x.screen = screen.New(&x.drawn, func() (int, int) { return x.width, x.height }, x.now)
	x.write = func(seq string) { x.sent.WriteString(seq) }
	x.openTurn(x.newTurn("s-1", "t-1"))
	return x
}

func reader(start *proto.ChatStart) { start.Chat.ScreenReader = true }

// pass lets time pass.
func (x *testChat) pass(d time.Duration) { x.clock = x.clock.Add(d) }

// send handles packets of the open turn.
func (x *testChat) send(packets ...string) {
	x.t.Helper()
	for _, p := range packets {
		_, rest, ok := strings.Cut(p, `"type":"`)
		typ, _, ok2 := strings.Cut(rest, `"`)
		if !ok || !ok2 {
			x.t.Fatalf("not a packet: %s", p)
		}
		x.packet(packet{turn: x.turn, typ: typ, payload: []byte(p)})
	}
}

// styled returns what was printed since the last call, with styles.
func (x *testChat) styled() string {
	x.t.Helper()
	if err := x.screen.Leave(); err != nil {
		x.t.Fatal(err)
	}
	s := strings.ReplaceAll(x.drawn.String(), "\r\n", "\n")
	x.drawn.Reset()
	for _, seq := range []string{"\x1b[?2026h", "\x1b[?2026l", "\x1b[?25l", "\x1b[?25h"} {
		s = strings.ReplaceAll(s, seq, "")
	}
	return s
}

func (x *testChat) printed() string { return screen.Strip(x.styled()) }

// rows returns the rows of the region, without styles.
func (x *testChat) rows() []string {
	r := x.region(x.width, x.height)
	rows := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = strings.TrimRight(screen.Strip(row), " ")
	}
	return rows
}

// activityRows returns the rows above the editor.
func (x *testChat) activityRows() string {
	rows := x.rows()
	for i, row := range rows {
		if strings.HasPrefix(row, ">") {
			rows = rows[:i]
			break
		}
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// lines joins lines, each with a newline.
func lines(list ...string) string { return strings.Join(list, "\n") + "\n" }
