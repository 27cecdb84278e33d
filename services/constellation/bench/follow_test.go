package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/constellation/measure"
)

// benchDetach measures zino exec --detach until it has ended: the turn is then stored
// and running without a terminal. The floor is an append with fdatasync and a start of
// zino.
func benchDetach(b *bench) ([]line, error) {
	c, llm, err := b.sessionWorld(fakellm.Turn{Text: "yes", Times: fakellm.Forever})
	defer leave(c, llm)
	if err != nil {
		return nil, err
	}
	zino, err := b.binary("zino")
	if err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	file, err := os.Create(b.path("synced"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	wall := func(f func() error) (float64, error) {
		begin := time.Now()
		err := f()
		return float64(time.Since(begin)), err
	}
	var detached, started, floors []float64
	for i := range 30 {
		program, err := wall(exec.Command(zino, "--socket", c.cfg.Daemon.Socket, "exec", "--detach", "-p", "Where is the bread?").Run)
		if err != nil {
			return nil, err
		}
		call, err := wall(func() error {
			_, err := rpc.Call(context.Background(), client, proto.DaemonTurnStart, proto.TurnStart{Message: "Where is the bread?", SessionID: fmt.Sprint("d", i)})
			return err
		})
		if err != nil {
			return nil, err
		}
		floor, err := wall(func() error {
			_, err := file.Write(make([]byte, 500))
			return errors.Join(err, unix.Fdatasync(int(file.Fd())), exec.Command(zino, "--version").Run())
		})
		if err != nil {
			return nil, err
		}
		detached, started, floors = append(detached, program), append(started, call), append(floors, floor)
	}
	return []line{line{
		name: "zino exec --detach, until the turn runs alone",
		note: fmt.Sprintf("wall time of the process; turn_start alone %s; floor: an fdatasync and zino --version", nanoseconds.text(median(started))),
	}.over(detached, floors)}, nil
}

// deltasOfRun is the usual number of deltas of a paced turn, one each millisecond.
const deltasOfRun = 3000

// paced is a constellation without agr, whose place a handler of this process takes.
type paced struct {
	*constellation
	client *rpc.Client
	epoch  time.Time                 // that sent counts from
	sent   [deltasOfRun]atomic.Int64 // when the deltas of the last turn were sent
	took   atomic.Int64              // from the first to the last of them
	begin  chan struct{}             // receives when the deltas may begin
	text   func(i int) string        // a delta
	count  int                       // of deltas
	pace   time.Duration             // between two of them
}

func newPaced(b *bench) (*paced, error) {
	c, err := b.constellation(false, nil, nil, "daemon", "sys", "ctx", "mem")
	if err != nil {
		c.stop()
		return nil, err
	}
	p := &paced{constellation: c, client: &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}, epoch: time.Now(), begin: make(chan struct{}), text: number, count: deltasOfRun, pace: time.Millisecond}
	rpctest.New(b.t, "agr", c.cfg.Agr.Socket, func(s *rpc.Server) {
		rpc.HandleText(s, proto.AgrRun, p.run)
		rpc.Handle(s, proto.AgrProceed, func(context.Context, proto.Proceed) (proto.Empty, error) { return proto.Empty{}, nil })
	})
	return p, nil
}

// number is a delta that followers can count.
func number(i int) string { return fmt.Sprintf("%05d", i) }

// run sends an answer.
func (p *paced) run(ctx context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
	select {
	case <-p.begin:
	case <-ctx.Done():
		return proto.Text{}, ctx.Err()
	}
	begin := time.Now()
	for i := range p.count {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * p.pace)))
		p.sent[i].Store(int64(time.Since(p.epoch)))
		if err := errors.Join(out.Delta([]byte(p.text(i))), out.Flush()); err != nil {
			return proto.Text{}, err
		}
	}
	p.took.Store(int64(time.Since(begin)))
	return proto.Text{Iterations: new(1), StopReason: "stop"}, nil
}

// turn runs a turn with n followers and calls delta for each delta that they receive,
// with the number of the first and behind the last one: deltas that wait are joined.
func (p *paced) turn(session string, n int, delta func(from, to int)) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	started, err := rpc.Call(ctx, p.client, proto.DaemonTurnStart, proto.TurnStart{Message: "Count.", SessionID: session})
	if err != nil {
		return err
	}
	var live, ended sync.WaitGroup
	failures := make(chan error, n)
	live.Add(n)
	for range n {
		ended.Go(func() {
			next := 0
			once := sync.OnceFunc(live.Done)
			_, err := rpc.CallEvents(ctx, p.client, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: session, Turn: started.Turn}, func(typ string, payload []byte) error {
				switch typ {
				case proto.TypeLive:
					once()
				case proto.TypeAssistantDelta:
					var d proto.AssistantDelta
					if err := wire.DecodeReply(payload, &d); err != nil || d.Text == "" {
						return err
					}
					to := next + len(d.Text)/5
					delta(next, to)
					next = to
				}
				return nil
			})
			once()
			if err == nil && next != p.count {
				err = fmt.Errorf("a follower received %d of %d deltas", next, p.count)
			}
			failures <- err
		})
	}
	live.Wait()
	select {
	case p.begin <- struct{}{}:
	case <-ctx.Done():
	}
	ended.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// benchFollowers measures how far a follower is behind the agent, and what 100
// followers cost a turn.
func benchFollowers(b *bench) ([]line, error) {
	p, err := newPaced(b)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	defer p.client.Close()
	cpu := func(session string, n int, delta func(from, to int)) (float64, error) {
		before, err := cpuOf(p.processes["daemon"].pid())
		if err != nil {
			return 0, err
		}
		if err := p.turn(session, n, delta); err != nil {
			return 0, err
		}
		after, err := cpuOf(p.processes["daemon"].pid())
		return after - before, err
	}
	var delays, alone, took []float64
	var one, many float64
	var packets atomic.Int64
	for range 3 {
		packets.Store(0)
		one, err = cpu(fmt.Sprint("one-", len(alone)), 1, func(from, to int) {
			for i := from; i < to; i++ {
				delays = append(delays, float64(int64(time.Since(p.epoch))-p.sent[i].Load()))
			}
		})
		if err != nil {
			return nil, err
		}
		alone = append(alone, float64(p.took.Load()))
		many, err = cpu(fmt.Sprint("many-", len(took)), 100, func(int, int) { packets.Add(1) })
		if err != nil {
			return nil, err
		}
		took = append(took, float64(p.took.Load()))
	}
	return []line{
		{
			name: "a follower's delay behind the agent", measured: median(delays), goals: []goal{atMost(200e3)},
			note: fmt.Sprintf("wall time of a delta through zino-daemon, p50 of %d; CPU %s each", len(delays), nanoseconds.text(one/deltasOfRun)),
		},
		line{
			name: "a turn of 1,000 deltas a second, 100 followers", goals: []goal{ratioAtMost(1.05)},
			note: fmt.Sprintf("floor: one follower; CPU of zino-daemon a packet %s", nanoseconds.text(many/float64(packets.Load()))),
		}.over(took, alone),
	}, nil
}

// benchAttach follows a session of 10,000 events from its start until it is live.
func benchAttach(b *bench) ([]line, error) {
	c, err := b.constellation(false, nil, nil, "daemon", "mem")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	lines, err := fillSession(c, "long")
	if err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	var walls, floors []float64
	for range 8 {
		begin, packets, live := time.Now(), 0, 0.0
		_, err := rpc.CallEvents(context.Background(), client, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: "long", From: new(int64), Until: "close"}, func(typ string, _ []byte) error {
			packets++
			if typ == proto.TypeLive {
				live = float64(time.Since(begin))
				return io.EOF // closes the connection
			}
			return nil
		})
		if !errors.Is(err, io.EOF) {
			return nil, err
		}
		if packets <= longSession {
			return nil, fmt.Errorf("%d packets for %d events and live", packets, longSession)
		}
		floor, err := decodeAll(lines)
		if err != nil {
			return nil, err
		}
		walls, floors = append(walls, live), append(floors, floor)
	}
	return []line{line{
		name: "attach to a session of 10,000 events, until live", goals: []goal{atMost(100e6)}, note: "wall time, from the session's start; floor: its lines decoded once",
	}.over(walls, floors)}, nil
}

// parkedTurns is the number of parked turns of benchParked.
const parkedTurns = 10000

// benchParked compares the memory of a daemon with 10,000 parked turns and without.
func benchParked(b *bench) ([]line, error) {
	empty, _, err := b.parked(0)
	if err != nil {
		return nil, err
	}
	full, wall, err := b.parked(parkedTurns)
	if err != nil {
		return nil, err
	}
	return []line{{
		name: "memory of 10,000 parked turns", unit: megabytes, measured: full - empty, goals: []goal{atMost(8 << 20)},
		note: fmt.Sprintf("anonymous memory of zino-daemon over one without turns; all known %s after its start", nanoseconds.text(wall)),
	}}, nil
}

// parked starts a daemon for sessions that each have a turn parked for a limit, and
// returns its memory when it knows all of them, and the time until then.
func (b *bench) parked(n int) (memory, wall float64, err error) {
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	c, err := b.constellation(false, func(cfg *config.Config) { err = writeParked(filepath.Join(cfg.Mem.DataDir, "sessions"), n, until) }, nil, "mem")
	defer c.stop()
	if err != nil {
		return 0, 0, err
	}
	program, err := b.binary("zino-daemon")
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	p, err := b.serveAt(false, c.cfg.Daemon.Socket, "daemon", program, "--config", c.cfg.File)
	if err != nil {
		return 0, 0, err
	}
	c.processes["daemon"] = p
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	for {
		list, err := rpc.Call(context.Background(), client, proto.DaemonTurns, proto.ListTurns{Limit: parkedTurns})
		if err != nil {
			return 0, 0, err
		}
		if len(list.Turns) == n {
			break
		}
		if time.Since(begin) > time.Minute {
			return 0, 0, fmt.Errorf("the daemon knows %d of %d parked turns after a minute", len(list.Turns), n)
		}
		time.Sleep(100 * time.Millisecond)
	}
	wall = float64(time.Since(begin))
	time.Sleep(3 * time.Second) // the list of all turns is not kept
	memory, err = measure.Anonymous(p.pid())
	return memory * 1e6, wall, err
}

// writeParked writes n sessions, each with a parked turn.
func writeParked(dir string, n int, until string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i := range n {
		id, turn := fmt.Sprintf("parked-%05d", i), fmt.Sprintf("t-%012d", i)
		text := fmt.Sprintf(`{"type":"meta","schema_version":1,"ts":"2026-11-22T10:00:00Z","root":"/"}
{"type":"turn","turn":%q,"session_id":%q,"state":"running","by":{"uid":%d},"lifetime":"persistent","request":{"root":"/","on_limit":"park"},"ts":"2026-11-22T10:00:00Z"}
{"type":"message","role":"user","text":"Where is the bread?","turn":%q,"ts":"2026-11-22T10:00:00Z"}
{"type":"turn","turn":%q,"session_id":%q,"state":"parked","reason":"limit","until":%q,"ts":%q}
`, turn, id, os.Getuid(), turn, turn, id, until, time.Now().UTC().Format(time.RFC3339))
		if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// filesOfScan is the number of files of benchUndoScan.
const filesOfScan = 20000

// benchUndoScan measures what undo adds to a command in a directory of 20,000 files
// that it has seen before.
func benchUndoScan(b *bench) ([]line, error) {
	c, err := b.constellation(false, func(cfg *config.Config) { cfg.Undo.Files, cfg.Undo.ScanMS = 2*filesOfScan, 60000 }, nil, "exc")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	root := b.path("many")
	for i := range filesOfScan {
		dir := filepath.Join(root, fmt.Sprintf("d%03d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.go", i)), fmt.Appendf(nil, "package bread // %d\n", i), 0o600); err != nil {
			return nil, err
		}
	}
	client := &rpc.Client{Service: "exc", Path: c.cfg.Exc.Socket}
	defer client.Close()
	call := func(n int, root string) (float64, error) {
		req := proto.Call{Tool: "bash", Input: proto.Raw(`{"command":"true"}`), Root: root, SessionID: "scan", Turn: "t-scan", Key: fmt.Sprintf("scan/t-scan/1/c%d", n)}
		begin := time.Now()
		result, err := rpc.CallEvents(context.Background(), client, proto.ExcCall, req, func(string, []byte) error { return nil })
		if err == nil && result.Undo != "" {
			err = errors.New(result.Undo)
		}
		return float64(time.Since(begin)), err
	}
	empty := b.path("few")
	if err := os.MkdirAll(empty, 0o700); err != nil {
		return nil, err
	}
	var scans []float64
	for n := range 12 {
		with, err := call(2*n, root)
		if err != nil {
			return nil, err
		}
		without, err := call(2*n+1, empty)
		if err != nil {
			return nil, err
		}
		if n > 3 { // the first ones read the files
			scans = append(scans, (with-without)/2)
		}
	}
	return []line{{
		name: "undo: a scan of 20,000 files", measured: median(scans), goals: []goal{atMost(150e6)},
		note: "wall time: half of what a command adds there to the same one in an empty directory",
	}}, nil
}
