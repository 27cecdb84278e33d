package bench_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/constellation/measure"
)

// started is one start of a program.
type started struct{ wall, cpu float64 }

// benchCLIStart measures the time from the start of zino to the first byte of its
// request, and the CPU time up to then.
func benchCLIStart(b *bench) ([]line, error) {
	client, err := b.program("client.c")
	if err != nil {
		return nil, err
	}
	zino, err := b.binary("zino")
	if err != nil {
		return nil, err
	}
	path := b.path("cli.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var zinos, clients, cpuRatios []float64
	for range 60 {
		c, err := firstByte(l, exec.Command(client, path))
		if err != nil {
			return nil, err
		}
		z, err := firstByte(l, exec.Command(zino, "--socket", path, "hello", "there"))
		if err != nil {
			return nil, err
		}
		zinos, clients = append(zinos, z.wall), append(clients, c.wall)
		cpuRatios = append(cpuRatios, z.cpu/c.cpu)
	}
	return []line{line{
		name: "zino MESSAGE, start to first byte on the socket", goals: []goal{ratioAtMost(2.5), atMost(3e6)},
		note: fmt.Sprintf("wall time; CPU time %.2fx; floor: static C client", median(cpuRatios)),
	}.over(zinos, clients)}, nil
}

// firstByte starts cmd and waits for its first byte on l. Connections closed without
// one are ignored: zino probes whether a daemon is listening.
func firstByte(l net.Listener, cmd *exec.Cmd) (s started, err error) {
	begin := time.Now()
	if err := start(cmd, false); err != nil {
		return s, err
	}
	var one [1]byte
	for {
		nc, err := l.Accept()
		if err != nil {
			return s, err
		}
		_, err = io.ReadFull(nc, one[:])
		s.wall = float64(time.Since(begin))
		if err == nil {
			s.cpu, err = cpuOf(cmd.Process.Pid)
			cmd.Process.Kill()
			cmd.Wait() // killed: the status is ignored
			return s, errors.Join(err, nc.Close())
		}
		nc.Close()
	}
}

// benchServiceStart measures the time from the start of a service with an inherited
// socket to its answer to a ping that is already queued.
func benchServiceStart(b *bench) ([]line, error) {
	minimal, err := b.program("minimal")
	if err != nil {
		return nil, err
	}
	c, err := b.constellation(false, nil, nil) // for its configuration
	if err != nil {
		return nil, err
	}
	floor, worst, slowest := []float64{}, 0.0, ""
	for _, name := range config.Services {
		var walls []float64
		for range 15 {
			f, err := b.untilPong(c, "minimal", minimal)
			if err != nil {
				return nil, err
			}
			w, err := b.untilPong(c, name, "")
			if err != nil {
				return nil, err
			}
			floor, walls = append(floor, f), append(walls, w)
		}
		if m := median(walls); m > worst {
			worst, slowest = m, name
		}
	}
	together := []float64{}
	for range 9 {
		t, err := b.allUntilPong(c)
		if err != nil {
			return nil, err
		}
		together = append(together, t)
	}
	return []line{
		{
			name: "one service, exec to first pong", measured: worst, floors: floor, ratio: worst / median(floor), goals: []goal{atMost(4e6)},
			note: "wall time, socket handed over; the slowest: " + slowest + "; floor: a minimal Go service",
		},
		{name: fmt.Sprintf("all %d services, exec to last pong", len(config.Services)), measured: median(together), goals: []goal{atMost(20e6)}, note: "wall time, all started at once"},
	}, nil
}

// launch starts a service, or program if it is not empty, and sends a ping to its
// inherited socket.
func (b *bench) launch(c *constellation, name, program string) (*process, net.Conn, error) {
	var err error
	args := []string{}
	if program == "" {
		if program, err = b.binary("zino-" + name); err != nil {
			return nil, nil, err
		}
		args = []string{"--config", c.cfg.File}
	}
	p, err := b.serve(false, name, program, args...)
	if err != nil {
		return nil, nil, err
	}
	frame, err := wire.AppendFrame(nil, []byte(pingRequest))
	if err != nil {
		return p, nil, err
	}
	nc, err := net.Dial("unix", p.path)
	if err != nil {
		return p, nil, err
	}
	_, err = nc.Write(frame)
	return p, nc, err
}

func (b *bench) untilPong(c *constellation, name, program string) (float64, error) {
	began := time.Now()
	p, nc, err := b.launch(c, name, program)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	defer nc.Close()
	_, err = nc.Read(make([]byte, 4096))
	return float64(time.Since(began)), err
}

func (b *bench) allUntilPong(c *constellation) (float64, error) {
	began := time.Now()
	var conns []net.Conn
	for _, name := range config.Services {
		p, nc, err := b.launch(c, name, "")
		if err != nil {
			return 0, err
		}
		defer p.stop()
		defer nc.Close()
		conns = append(conns, nc)
	}
	for _, nc := range conns {
		if _, err := nc.Read(make([]byte, 4096)); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began)), nil
}

// startEnds is when all that the start of a constellation has begun has ended.
const startEnds = 3 * time.Second

// benchIdleMemory measures the memory (PSS: shared pages count in proportion) of a
// constellation that has only answered pings.
func benchIdleMemory(b *bench) ([]line, error) {
	minimal, err := b.program("minimal")
	if err != nil {
		return nil, err
	}
	var floors, all []float64
	for range 3 {
		floor, err := b.serve(false, "minimal", minimal)
		if err != nil {
			return nil, err
		}
		client := &rpc.Client{Service: "minimal", Path: floor.path}
		_, err = rpc.Call(context.Background(), client, proto.Ping, proto.PingRequest{})
		least, err2 := pss(floor.pid())
		client.Close()
		floor.stop()
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		floors, all = append(floors, least), append(all, least*float64(len(config.Services)))
	}
	c, err := b.constellation(false, nil, nil, config.Services...)
	defer c.stop()
	if err != nil {
		return nil, err
	}
	time.Sleep(startEnds)
	sum, parts := 0.0, []string{}
	largest := 0.0
	for _, name := range config.Services {
		m, err := pss(c.processes[name].pid())
		if err != nil {
			return nil, err
		}
		sum += m
		parts = append(parts, fmt.Sprintf("%s %.1f", name, m/1e6))
		if name != "rtr" {
			largest = max(largest, m)
		}
	}
	lines := []line{
		{
			name: fmt.Sprintf("idle constellation of %d, PSS in all", len(config.Services)), unit: megabytes, measured: sum, floors: all, ratio: sum / median(all),
			goals: []goal{atMost(35e6)}, note: strings.Join(parts, ", ") + "; floor: as many minimal Go services",
		},
		{name: "the largest service without heavy libraries, PSS", unit: megabytes, measured: largest, floors: floors, ratio: largest / median(floors), goals: []goal{atMost(4e6)}, note: "all but rtr"},
	}
	c.stop() // else its processes halve the share of the pages of the programs
	more, err := b.afterTurn()
	return append(lines, more...), err
}

// afterTurn measures all services after a turn, with a chat that waits for a key and
// shares pages of the programs with them.
func (b *bench) afterTurn() ([]line, error) {
	c, llm, err := b.sessionWorld(fakellm.Turn{Text: "It is in the oven.", Times: fakellm.Forever})
	defer leave(c, llm)
	if err != nil {
		return nil, err
	}
	x, chat, err := b.chat(c.cfg.Daemon.Socket)
	if err != nil {
		return nil, err
	}
	time.Sleep(startEnds)
	mark := x.mark()
	if _, err := x.typed("Where is the bread?\r", "in the oven."); err != nil {
		return nil, err
	}
	if _, err := x.until(mark, atRest); err != nil {
		return nil, err
	}
	time.Sleep(3 * time.Second) // what the turn has begun ends
	pids := map[string]int{"zino": x.cmd.Process.Pid, "chat": chat}
	for name, p := range c.processes {
		pids[name] = p.pid()
	}
	var all, anonymous float64
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(pids)) {
		shared, err := pss(pids[name])
		if err != nil {
			return nil, err
		}
		own, err := measure.Anonymous(pids[name])
		if err != nil {
			return nil, err
		}
		if c.processes[name] != nil {
			all, anonymous = all+shared, anonymous+own*1e6
		}
		parts = append(parts, fmt.Sprintf("%s %.1f (%.1f)", name, shared/1e6, own))
	}
	return []line{
		{name: "idle constellation with a chat, after a turn, PSS", unit: megabytes, measured: all, goals: []goal{atMost(35e6)}, note: strings.Join(parts, ", ") + " MB, in brackets anonymous; zino and chat are not in the sum"},
		{name: "idle constellation with a chat, after a turn, anonymous", unit: megabytes, measured: anonymous, goals: []goal{atMost(12e6)}},
	}, x.close("\x04")
}

// pss returns a process's proportional set size in bytes.
func pss(pid int) (float64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) == 3 && fields[0] == "Pss:" {
			kb, err := strconv.ParseFloat(fields[1], 64)
			return kb * 1024, err
		}
	}
	return 0, errors.New("no Pss in smaps_rollup")
}
