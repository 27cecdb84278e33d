package exc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/gate"
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

// TestConfinedPipe runs programs at each level with standard input: with a root, without
// one, and with a home that is kept.
func TestConfinedPipe(t *testing.T) {
	a := newHarness(t, nil)
	c := a.dial(t)
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		request := func(code string) proto.Pipe {
			req := sh(a.env()+code, new("input\n"))
			req.Sandbox, req.Network = a.at(level), new(false)
			return req
		}
		run := func(req proto.Pipe) ended {
			t.Helper()
			e := pipeTo(t, c, req)
			if e.err != nil || e.Confinement.Sandbox != req.Sandbox || e.Confinement.Network {
				t.Fatalf("%+v", e)
			}
			return e
		}
		req := request(`cat; cat $OUT/victim $REALHOME/.ssh/id; echo x >$OUT/new; (echo x >$ROOT/new) && echo written; pwd`)
		req.Root = a.root
		written := "written\n"
		if level == proto.LevelReadOnly {
			written = ""
		}
		zinotest.Equal(t, "with a root", run(req).stdout, "input\n"+written+a.root+"\n")
		zinotest.Equal(t, "a file outside was made", exists(a.outside+"/new"), false)

		req = request(`cat; [ "$PWD" = "$HOME" ] && echo home; cat "$HOME/kept" "$HOME/other"; echo kept >"$HOME/kept" && echo "$EXTRA_TOKEN"; ls $ROOT`)
		req.Env = map[string]string{"EXTRA_TOKEN": "given"}
		zinotest.Equal(t, "without a root", run(req).stdout, "input\nhome\ngiven\n")
		name := func(digit string) string { return strings.Repeat(digit, 64) }
		req.Home = name("a")
		zinotest.Equal(t, "a new home", run(req).stdout, "input\nhome\ngiven\n")
		zinotest.Equal(t, "a kept home", run(req).stdout, "input\nhome\nkept\ngiven\n")
		zinotest.Equal(t, "it is below the data", exists(a.cfg.DataDir+"/mcp/home/"+name("a")+"/kept"), true)
		req.Argv[2] += "; cat " + a.cfg.DataDir + "/mcp/home/" + name("a") + "/kept; ls " + a.cfg.DataDir
		req.Home = name("b")
		zinotest.Equal(t, "another home", run(req).stdout, "input\nhome\ngiven\n")

		running := sh("sleep 1000", nil)
		running.Sandbox, running.Home = a.at(level), name("b")
		ctx, cancel := context.WithCancel(t.Context())
		_, end := open(ctx, t, c, running)
		remove := func() error {
			_, err := rpc.Call(t.Context(), c, proto.ExcRemoveHome, proto.RemoveHome{Home: name("b")})
			return err
		}
		zinotest.Error(t, remove(), proto.ErrBusy, "is running")
		cancel()
		zinotest.Receive(t, "the end", end)
		zinotest.Eventually(t, "the home is removed", func() bool { return remove() == nil })
		zinotest.Equal(t, "the home is there", exists(a.cfg.DataDir+"/mcp/home/"+name("b")), false)
		_, err := rpc.Call(t.Context(), c, proto.ExcRemoveHome, proto.RemoveHome{Home: name("a")})
		zinotest.Must(t, errors.Join(err, os.RemoveAll(a.root+"/new")))
	})
}

// TestPipeHomeLimit: a home that is too large is refused at the start.
func TestPipeHomeLimit(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := sh("pwd; echo $HOME", new(""))
	req.Home = strings.Repeat("0", 64)
	dir := s.cfg.DataDir + "/mcp/home/" + req.Home
	if e := pipeTo(t, c, req); e.err != nil || e.stdout != dir+"\n"+os.Getenv("HOME")+"\n" {
		t.Errorf("at the level off: %+v", e)
	}
	f, err := os.Create(dir + "/large")
	zinotest.Must(t, err)
	defer f.Close()
	zinotest.Must(t, syscall.Fallocate(int(f.Fd()), 0, 0, 1<<20))
	s.homes.max = 1 << 20
	zinotest.Error(t, pipeTo(t, c, req).err, proto.ErrInvalid, "more than 1 MiB", dir)
	zinotest.Equal(t, "programs that count", len(s.homes.used), 0)
}

func TestPipeRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	c := s.dial(t)
	for _, tt := range []struct {
		name, want string
		code       error
		req        proto.Pipe
	}{
		{"no program", "argv is empty", proto.ErrInvalid, proto.Pipe{}},
		{"a NUL", "NUL", proto.ErrInvalid, proto.Pipe{Argv: []string{"a\x00"}}},
		{"unknown", "cannot start zino-none", proto.ErrNotFound, proto.Pipe{Argv: []string{"zino-none"}}},
		{"not a program", "permission denied", proto.ErrDenied, proto.Pipe{Argv: []string{"./tools/bash.json"}, Root: s.dir}},
		{"stdin", "at most 1048576", proto.ErrTooLarge, sh("cat", new(strings.Repeat("x", 1<<20+1)))},
		{"env", "env: ", proto.ErrInvalid, proto.Pipe{Argv: []string{"true"}, Env: map[string]string{"A=B": ""}}},
		{"home", "invalid home", proto.ErrInvalid, proto.Pipe{Argv: []string{"true"}, Home: "../" + strings.Repeat("a", 61)}},
		{"upper case", "invalid home", proto.ErrInvalid, proto.Pipe{Argv: []string{"true"}, Home: strings.Repeat("A", 64)}},
		{"root", "Cannot work in", proto.ErrInvalid, proto.Pipe{Argv: []string{"true"}, Root: "/none"}},
		{"timeout", "timeout_s", proto.ErrInvalid, proto.Pipe{Argv: []string{"true"}, TimeoutS: -1}},
		{"level", "unknown sandbox", proto.ErrInvalid, proto.Pipe{Argv: []string{"true"}, Sandbox: "none"}},
	} {
		zinotest.Error(t, pipeTo(t, c, tt.req).err, tt.code, tt.want)
	}
}

// TestPipeEnvironment: the caller's variables without secrets, and those of env with them,
// which no log shows.
func TestPipeEnvironment(t *testing.T) {
	t.Setenv("OWN", "own")
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := sh("echo $OWN-$BASE-$BASE_TOKEN-$PATH_TOKEN-$BOTH; cat", new("canary-in-stdin"))
	req.Base = map[string]string{"BASE": "base", "BASE_TOKEN": "canary-of-base", "BOTH": "1", "PATH": os.Getenv("PATH")}
	req.Env = map[string]string{"PATH_TOKEN": "canary-of-env", "BOTH": "2"}
	zinotest.Equal(t, "output", pipeTo(t, c, req).stdout, "-base--canary-of-env-2\ncanary-in-stdin")
	req.Base, req.Env = nil, nil
	zinotest.Equal(t, "output with exc's own", pipeTo(t, c, req).stdout, "own----\ncanary-in-stdin")
	id, _ := open(t.Context(), t, c, sh("cat >/dev/null", nil))
	zinotest.Must(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "canary-in-text"}))
	if log := s.log.String(); strings.Contains(log, "canary") || !strings.Contains(log, "level=DEBUG") {
		t.Errorf("the log shows it, or has no debug lines: %s", log)
	}
}

// TestPipeStopsWithTurn: stop_turn ends the programs of a turn, and later ones are refused.
func TestPipeStopsWithTurn(t *testing.T) {
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := sh("sleep 1000", nil)
	req.SessionID, req.Turn = "s", "t-1"
	_, end := open(t.Context(), t, c, req)
	_, err := rpc.Call(t.Context(), c, proto.ExcStopTurn, proto.StopTurn{SessionID: "s", Turn: "t-1"})
	zinotest.Must(t, err)
	zinotest.Error(t, zinotest.Receive(t, "the end", end).err, proto.ErrDenied, "was stopped")
	zinotest.Error(t, pipeTo(t, c, req).err, proto.ErrDenied, "was stopped")
}

// TestPipeBlocks writes 30 MB, or $ZINO_PIPE_BYTES, to a caller that stops reading, and then reads all of it: exc
// keeps none of it, also when the program has ended meanwhile.
func TestPipeBlocks(t *testing.T) {
	dir := zinotest.Dir(t)
	writeTools(t, dir, tools)
	zinotest.Must(t, zinotest.Build(dir, "./zino-exc"))
	p, c := program(t, filepath.Join(dir, "zino-exc"), dir, nil)
	zinotest.Equal(t, "warmed up", pipeTo(t, c, sh("head -c 10000000 /dev/zero | tr '\\0' x; sleep 0.1", new(""))).ExitCode, 0)
	before := rss(t, p.Process.Pid)
	size := 30_000_000
	if n, err := strconv.Atoi(os.Getenv("ZINO_PIPE_BYTES")); err == nil {
		size = n
	}
	most, read, wrote := before, 0, ""
	_, err := rpc.CallEvents(t.Context(), c, proto.ExcPipe, sh(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; printf end", size), new("")), func(typ string, payload []byte) error {
		if typ != proto.TypePipeOutput {
			return nil
		}
		var o proto.PipeOutput
		if err := wire.DecodeReply(payload, &o); err != nil {
			return err
		}
		if read += len(o.Text); wrote == "" {
			zinotest.Eventually(t, "the program is blocked", func() bool { return idle(&wrote) })
		}
		most = max(most, rss(t, p.Process.Pid))
		return nil
	})
	zinotest.Must(t, err)
	zinotest.Equal(t, "bytes", read, size+len("end"))
	if more := most - before; more > 4<<20 {
		t.Errorf("exc has grown by %d KiB", more>>10)
	} else {
		t.Logf("exc has grown by %d KiB", more>>10)
	}
}

// rss is the memory of a process in bytes.
func rss(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	zinotest.Must(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	zinotest.Must(t, err)
	return pages * os.Getpagesize()
}

// idle reports whether the programs tr have written nothing since the last call.
func idle(last *string) bool {
	var now strings.Builder
	for pid, line := range zinotest.CommandLines() {
		if strings.HasPrefix(line, "tr ") {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
			now.WriteString(string(text))
		}
	}
	same := now.String() == *last
	*last = now.String()
	time.Sleep(20 * time.Millisecond)
	return same
}

// TestPipeTokens: a program of a turn must fit the turn's token, and one of no turn that of
// a server.
func TestPipeTokens(t *testing.T) {
	g := newGuarded(t, func(cfg *config.Config) { cfg.Gate.RequireToken, cfg.Exc.Sandbox = true, proto.LevelReadOnly })
	turn := func(change func(*proto.Pipe)) error {
		req := sh("true", new(""))
		req.SessionID, req.Turn, req.Root, req.Sandbox, req.Network = "s1", "t-1", g.root, proto.LevelReadOnly, new(false)
		req.Token = g.sign(t, gate.Asks, func(t *gate.Turn) { t.Sandbox, t.Network = proto.LevelReadOnly, new(false) })
		if change != nil {
			change(&req)
		}
		return pipeTo(t, g.Client, req).err
	}
	able := g.service.levelProblem(t.Context(), proto.LevelReadOnly) == nil
	if err := turn(nil); able && err != nil {
		t.Errorf("it fits: %v", err)
	}
	for what, change := range map[string]func(*proto.Pipe){
		"session": func(p *proto.Pipe) { p.SessionID = "s2" },
		"turn":    func(p *proto.Pipe) { p.Turn = "t-2" },
		"root":    func(p *proto.Pipe) { p.Root = "/" },
		"sandbox": func(p *proto.Pipe) { p.Sandbox, p.Network = proto.LevelOff, nil },
		"network": func(p *proto.Pipe) { p.Network = new(true) },
		"":        func(p *proto.Pipe) { p.Token = "" },
	} {
		zinotest.Error(t, turn(change), proto.ErrDenied, what)
	}

	server := sh("echo $A", new(""))
	server.Sandbox, server.Env, server.Name = proto.LevelOff, map[string]string{"A": "secret"}, "mcp x"
	asked := gate.Needed(pipeTo(t, g.Client, server).err)
	if asked == nil || asked.Kind != proto.ApprovalServer || string(asked.Call.Input) != `{"name":"mcp x","argv":["sh","-c","echo $A"],"env":["A"]}` {
		t.Fatalf("asked %+v", asked)
	}
	token, err := g.signer.SignServer(gate.Server{Definition: asked.Digest, Sandbox: asked.Call.Sandbox, Network: asked.Call.Network}, time.Now())
	zinotest.Must(t, err)
	server.Token = token
	server.Env["A"] = "another secret"
	if e := pipeTo(t, g.Client, server); e.err != nil || e.stdout != "another secret\n" {
		t.Errorf("with its token: %+v", e)
	}
	for what, change := range map[string]func(*proto.Pipe){
		"argument":  func(p *proto.Pipe) { p.Argv = []string{"sh", "-c", "echo pwned"} },
		"variable":  func(p *proto.Pipe) { p.Env = map[string]string{"A": "", "LD_PRELOAD": "/x"} },
		"base":      func(p *proto.Pipe) { p.Base = map[string]string{"LD_PRELOAD": "/x"} },
		"root":      func(p *proto.Pipe) { p.Root = g.root },
		"cwd":       func(p *proto.Pipe) { p.Cwd = g.root },
		"session":   func(p *proto.Pipe) { p.SessionID = "s1" },
		"signature": func(p *proto.Pipe) { p.Token = p.Token[:len(p.Token)-8] + "AAAAAAAA" },
		"sandbox":   func(p *proto.Pipe) { p.Sandbox = proto.LevelReadOnly },
	} {
		req := server
		change(&req)
		if e := pipeTo(t, g.Client, req); !errors.Is(e.err, proto.ErrDenied) || e.stdout != "" {
			t.Errorf("another %s: %+v", what, e)
		}
	}
}
