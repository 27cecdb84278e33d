package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"daemon": serveKilled})
	m.Run()
}

// serveKilled is a daemon that kills itself at a fault point: before or behind an append,
// before or behind a proceed. Its arguments are the directory of the neighbours' sockets,
// its own socket, and the number of the fault point, from 1; 0: none.
func serveKilled(args []string) error {
	point, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	cfg := config.Default()
	cfg.Agent.ContinueAt = 0.5 // of a context that only TestContinueKilledAtEachWrite has
	for _, name := range config.Services {
		*cfg.SocketOf(name) = filepath.Join(args[0], name)
	}
	cfg.Daemon.DataDir = filepath.Join(args[0], "data")
	f := &faultPoints{}
	f.left.Store(int64(point))
	for name, socket := range map[string]*string{"mem": &cfg.Mem.Socket, "agr": &cfg.Agr.Socket} {
		l, err := net.Listen("unix", args[1]+name)
		if err != nil {
			return err
		}
		go f.serve(l, *socket)
		*socket = args[1] + name
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	d := New(cfg, log)
	d.resumePauses = []time.Duration{time.Millisecond}
	s := rpc.NewServer("daemon", log)
	d.Register(s)
	d.Resume()
	l, err := net.Listen("unix", args[1])
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// faultPoints counts the requests and answers between the daemon and its neighbours, and
// kills the process at one of them.
type faultPoints struct{ left atomic.Int64 }

func (f *faultPoints) pass(name string) {
	if f.left.Add(-1) == 0 {
		fmt.Println(name)
		syscall.Kill(os.Getpid(), syscall.SIGKILL) // an error cannot happen
		select {}
	}
}

func (f *faultPoints) serve(l net.Listener, path string) {
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", path)
		if err != nil {
			near.Close()
			continue
		}
		go f.relay(far, near, map[string]string{proto.MemAppendSession.Type: "before an append", proto.AgrProceed.Type: "before proceed"})
		go f.relay(near, far, map[string]string{proto.MemAppendSession.Reply: "behind an append", "ok": "behind proceed"})
	}
}

// relay passes packets on. Those of the given types are fault points.
func (f *faultPoints) relay(to, from net.Conn, points map[string]string) {
	defer to.Close()
	defer from.Close()
	in := wire.NewReader(from)
	for {
		payload, err := in.Next()
		if err != nil {
			return
		}
		typ, err := wire.RequestType(payload)
		if err == nil && points[typ] != "" {
			f.pass(points[typ])
		}
		frame, err := wire.AppendFrame(nil, payload)
		if err != nil {
			return
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// killedTurn is a turn of two calls, whose daemon is killed. Calls have a journal, as in
// exc: a call that ran is not repeated.
type killedTurn struct {
	*resumeEnv
	socket string

	mu  sync.Mutex
	ran map[string]int // by session and call
}

// call carries out a call, or finds its result, and returns the packet.
func (k *killedTurn) call(r *run, id string, recover bool) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, recovered := r.SessionID+" "+id, ""
	if recover && k.ran[key] > 0 {
		recovered = `"recovered":true,`
	} else {
		k.ran[key]++
		if log := zinotest.Read(k.t, filepath.Join(k.sessions, r.SessionID+".jsonl")); !strings.Contains(log, `{"type":"tool_use","id":"`+id+`"`) {
			k.t.Errorf("call %s starts before it is stored:\n%s", key, log)
		}
	}
	return `{"type":"tool_finished","id":"` + id + `","name":"bash","ok":true,` + recovered + `"result":{"ok":true},"duration_ms":1}`
}

// run settles the open calls and carries out the steps that are left.
func (k *killedTurn) run(r *run) (proto.Text, error) {
	for i, open := range r.Calls {
		if open.Action == proto.ActionRun {
			if _, err := r.at(open.Step, proto.PointCalls, open.ID); err != nil {
				return proto.Text{}, err
			}
		}
		if err := r.send(k.call(r, open.ID, open.Action == proto.ActionRecover)); err != nil {
			return proto.Text{}, err
		}
		if i == len(r.Calls)-1 {
			if _, err := r.at(open.Step, proto.PointInfer); err != nil {
				return proto.Text{}, err
			}
		}
	}
	for step := max(r.FirstStep, 1); step <= 2; step++ {
		id := fmt.Sprint("c", step)
		err := r.send(`{"type":"assistant_delta","text":"step"}`, `{"type":"assistant_final","text":"step"}`,
			`{"type":"tool_requested","id":"`+id+`","name":"bash","input":{}}`, `{"type":"usage","input_tokens":1,"output_tokens":1}`)
		if err == nil {
			_, err = r.at(step, proto.PointCalls, id)
		}
		if err == nil {
			err = r.send(k.call(r, id, false))
		}
		if err == nil {
			_, err = r.at(step, proto.PointInfer)
		}
		if err != nil {
			return proto.Text{}, err
		}
		r.FirstStep = step + 1
	}
	return answer(r)
}

// daemon starts the daemon with a fault point.
func (k *killedTurn) daemon(point int) *zinotest.Process {
	k.t.Helper()
	for _, end := range []string{"", "mem", "agr"} {
		if err := os.Remove(k.socket + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			k.t.Fatal(err)
		}
	}
	p := zinotest.Start(k.t, zinotest.Command(k.t, "daemon", filepath.Dir(k.cfg.Mem.Socket), k.socket, fmt.Sprint(point)))
	p.Eventually("the daemon listens", func() bool {
		nc, err := net.Dial("unix", k.socket)
		if err == nil {
			nc.Close()
		}
		return err == nil || p.Out.String() != ""
	})
	return p
}

// TestKilledAtEachWrite kills the daemon between every two writes of a turn, and the
// next daemon between every two writes of its resume. It checks that each call ran
// once, none before its tool_use was on disk, and that the log is legal.
func TestKilledAtEachWrite(t *testing.T) {
	k := &killedTurn{resumeEnv: newResumeEnv(t), socket: filepath.Join(zinotest.Dir(t), "d"), ran: map[string]int{}}
	k.each = k.run
	var names []string
	for first := 1; ; first++ {
		name := k.round(t, first, 0)
		if name == "" {
			break
		}
		names = append(names, name)
	}
	var want []string
	for range 5 { // A1, A2 and A3 twice; each but the first is followed by a proceed
		want = append(want, "before an append", "behind an append", "before proceed", "behind proceed")
	}
	want = slices.Delete(want, 2, 4)
	want = append(want, "before proceed", "behind proceed", "before an append", "behind an append") // the end and A4
	equalLists(t, "fault points", names, want)
	for _, first := range []int{4, 6} { // before the first call starts, and when it has run
		for second := 1; k.round(t, first, second) != ""; second++ {
		}
	}
}

// round carries out a turn whose daemon is killed at a fault point, and the next one at
// another. It returns the name of the last fault point, empty if it was not reached.
func (k *killedTurn) round(t *testing.T, first, second int) (name string) {
	t.Helper()
	id := fmt.Sprintf("s-%d-%d", first, second)
	p := k.daemon(first)
	daemon := &rpc.Client{Service: "daemon", Path: k.socket}
	defer daemon.Close()
	ctx, cancel := context.WithTimeout(t.Context(), zinotest.Timeout)
	defer cancel()
	points, state := []int{second, 0}, ""
	for !proto.TurnEnded(state) && ctx.Err() == nil {
		_, err := rpc.Call(ctx, daemon, proto.DaemonTurnStart, proto.TurnStart{Message: "hi", SessionID: id, Root: "/r", RequestID: "a"})
		if err == nil {
			var end proto.Followed
			end, err = rpc.CallEvents(ctx, daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: id}, func(string, []byte) error { return nil })
			state = end.State
		}
		if err != nil && len(points) > 0 {
			zinotest.Receive(t, "the end of the daemon", p.Done())
			if name = strings.TrimSpace(p.Out.String()); name == "" {
				t.Fatalf("the daemon ended by itself: %v\n%s", err, p.Err)
			}
			p, points = k.daemon(points[0]), points[1:]
		}
	}
	p.Kill()
	zinotest.Receive(t, "the end of the daemon", p.Done())
	where := fmt.Sprintf("killed at %d, then at %d: ", first, second)
	turn := k.read(id).Turns[0]
	zinotest.Equal(t, where+"state", turn.State, proto.TurnDone)
	for _, call := range []string{"c1", "c2"} {
		zinotest.Equal(t, where+call, k.ran[id+" "+call], 1)
	}
	if second > 0 && len(points) > 0 {
		return ""
	}
	return name
}
