package exc

import (
	"context"
	"errors"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// ended is the end of a pipe.
type ended struct {
	proto.PipeResult
	err            error
	stdout, stderr string
	pieces         int
}

// open starts a program and returns its id, and a channel with its end. The order of
// packets is checked.
func open(ctx context.Context, t testing.TB, c *rpc.Client, req proto.Pipe) (id string, end chan ended) {
	t.Helper()
	started, end := make(chan string, 1), make(chan ended, 1)
	go func() {
		var e ended
		id := ""
		e.PipeResult, e.err = rpc.CallEvents(ctx, c, proto.ExcPipe, req, func(typ string, payload []byte) error {
			switch {
			case typ == proto.TypePipeStarted && id == "":
				var p proto.PipeStarted
				if err := wire.DecodeReply(payload, &p); err != nil {
					return err
				}
				id = p.Pipe
				started <- id
			case typ == proto.TypePipeOutput && id != "":
				var p proto.PipeOutput
				if err := wire.DecodeReply(payload, &p); err != nil {
					return err
				}
				e.pieces++
				if p.Stream == "stdout" {
					e.stdout += p.Text
				} else {
					e.stderr += p.Text
				}
			default:
				return errors.New("unexpected packet " + typ)
			}
			return nil
		})
		close(started)
		end <- e
	}()
	return <-started, end
}

// pipeTo runs a program to its end.
func pipeTo(t testing.TB, c *rpc.Client, req proto.Pipe) ended {
	t.Helper()
	_, end := open(t.Context(), t, c, req)
	return zinotest.Receive(t, "the end", end)
}

func writeTo(t testing.TB, c *rpc.Client, req proto.PipeWrite) error {
	t.Helper()
	_, err := rpc.Call(t.Context(), c, proto.ExcPipeWrite, req)
	return err
}

// sh is a request for a shell with that input.
func sh(code string, stdin *string) proto.Pipe {
	return proto.Pipe{Argv: []string{"sh", "-c", code}, Stdin: stdin}
}

func TestPipe(t *testing.T) {
	marked := mark(t)
	s := newService(t, nil, nil)
	c := s.dial(t)
	e := pipeTo(t, c, sh("cat; echo err >&2; exit 3", new("one\ntwo")))
	if e.err != nil || e.ExitCode != 3 || e.TimedOut || e.stdout != "one\ntwo" || e.stderr != "err\n" || e.Confinement.Sandbox != proto.LevelOff {
		t.Errorf("got %+v", e)
	}
	if e = pipeTo(t, c, sh("kill -9 $$", new(""))); e.err != nil || e.ExitCode != -9 {
		t.Errorf("got %+v", e)
	}
	req := sh("trap '' TERM; sleep 1000", nil)
	req.TimeoutS = 0.2
	if e = pipeTo(t, c, req); e.err != nil || e.ExitCode != -1 || !e.TimedOut || e.Confinement.Limit != "time" {
		t.Errorf("got %+v", e)
	}
	if e = pipeTo(t, c, sh("(setsid sh -c '(sleep 1000) & exit' &)\nexit 4", nil)); e.err != nil || e.ExitCode != 4 {
		t.Errorf("got %+v", e)
	}
	s.mustLeaveNothing(t, marked)
}

func TestPipeWrite(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	id, end := open(t.Context(), t, c, sh("head -c 4; cat; exit 7", nil))
	zinotest.Equal(t, "length of the id", len(id), 32)
	zinotest.Must(t, errors.Join(writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "one\n"}), writeTo(t, c, proto.PipeWrite{Pipe: id}), writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "two\n", Close: true})))
	e := zinotest.Receive(t, "the end", end)
	if e.err != nil || e.ExitCode != 7 || e.stdout != "one\ntwo\n" {
		t.Errorf("got %+v", e)
	}
	zinotest.Error(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "late"}), proto.ErrNotFound)
	zinotest.Error(t, writeTo(t, c, proto.PipeWrite{Pipe: "none"}), proto.ErrNotFound)

	id, end = open(t.Context(), t, c, sh("exec <&-; echo closed; sleep 1000", nil))
	zinotest.Eventually(t, "the program has closed its input", func() bool {
		return errors.Is(writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "x"}), proto.ErrInvalid)
	})
	zinotest.Error(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "x"}), proto.ErrInvalid, "does not read its standard input")
	zinotest.Must(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Close: true}))
	zinotest.Error(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "x"}), proto.ErrInvalid, "is closed")
	s.pipes.open[id].uid++
	zinotest.Error(t, writeTo(t, c, proto.PipeWrite{Pipe: id}), proto.ErrDenied, "another user")

	// A program that reads nothing: the text stays in the pipe, the writer waits, and gives up.
	id, _ = open(t.Context(), t, c, sh("sleep 1000", nil))
	zinotest.Must(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Text: strings.Repeat("x", 64<<10)}))
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := rpc.Call(ctx, c, proto.ExcPipeWrite, proto.PipeWrite{Pipe: id, Text: "more"})
		given <- err
	}()
	zinotest.Eventually(t, "the writer waits", func() bool { return len(s.pipes.open[id].write) == 1 })
	cancel()
	zinotest.Error(t, zinotest.Receive(t, "the writer", given), context.Canceled)
	zinotest.Eventually(t, "the next can write", func() bool { return len(s.pipes.open[id].write) == 0 })
	zinotest.Must(t, s.Close())
	if e := zinotest.Receive(t, "the end", end); !errors.Is(e.err, proto.ErrUnavailable) {
		t.Errorf("got %+v", e)
	}
}
