package bench_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/wire"
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
	var zinos, clients, ratios, cpuRatios []float64
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
		ratios, cpuRatios = append(ratios, z.wall/c.wall), append(cpuRatios, z.cpu/c.cpu)
	}
	return []line{{
		name: "zino MESSAGE, start to first byte on the socket", measured: median(zinos), floor: median(clients), ratio: median(ratios),
		goals: []goal{ratioAtMost(2.5), atMost(3e6)}, note: fmt.Sprintf("wall time; CPU time %.2fx; floor: static C client", median(cpuRatios)),
	}}, nil
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
			name: "one service, exec to first pong", measured: worst, floor: median(floor), ratio: worst / median(floor), goals: []goal{atMost(4e6)},
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

// benchIdleMemory measures the memory (PSS: shared pages count in proportion) of a
// constellation that has only answered pings.
func benchIdleMemory(b *bench) ([]line, error) {
	minimal, err := b.program("minimal")
	if err != nil {
		return nil, err
	}
	floor, err := b.serve(false, "minimal", minimal)
	if err != nil {
		return nil, err
	}
	defer floor.stop()
	c, err := b.constellation(false, nil, nil, config.Services...)
	defer c.stop()
	if err != nil {
		return nil, err
	}
	least, err := pss(floor.pid())
	if err != nil {
		return nil, err
	}
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
	n := float64(len(config.Services))
	return []line{
		{
			name: fmt.Sprintf("idle constellation of %d, PSS in all", len(config.Services)), unit: megabytes, measured: sum, floor: n * least, ratio: sum / n / least,
			goals: []goal{atMost(35e6)}, note: strings.Join(parts, ", ") + "; floor: as many minimal Go services",
		},
		{name: "the largest service without heavy libraries, PSS", unit: megabytes, measured: largest, floor: least, ratio: largest / least, goals: []goal{atMost(4e6)}, note: "all but rtr"},
	}, nil
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
