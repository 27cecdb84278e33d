package input

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
)

// TestMark checks that a mark stands behind all that was typed before it was asked for,
// however much of it is still in the terminal's buffer.
func TestMark(t *testing.T) {
	master, name := zinotest.OpenPTY(t)
	tty, err := os.OpenFile(name, os.O_RDWR, 0)
	zinotest.Must(t, err)
	defer tty.Close()
	state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	zinotest.Must(t, err)
	state.Lflag &^= unix.ICANON | unix.ECHO
	zinotest.Must(t, unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, state))
	r, err := NewReader(int(tty.Fd()))
	zinotest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan Event), make(chan error, 1)
	go func() { ended <- r.Run(ctx, events) }()
	for round := range 50 {
		typed := strings.Repeat("x", round*50)
		_, err := master.WriteString(typed)
		zinotest.Must(t, err)
		marks := []Mark{r.Mark(), r.Mark()}
		var got strings.Builder
		for {
			event := zinotest.Receive(t, "an event", events)
			if mark, ok := event.(Mark); ok {
				if mark == marks[1] {
					break
				}
				continue // of the first one, which may be passed alone
			}
			got.WriteString(event.(Key).Text)
		}
		zinotest.Equal(t, "what was typed before the mark", got.String(), typed)
	}
	cancel()
	zinotest.Must(t, zinotest.Receive(t, "the end", ended))
}
