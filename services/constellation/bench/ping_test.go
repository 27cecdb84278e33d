package bench_test

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"

	"zino/pkg/rpc"
	"zino/pkg/wire"
)

const pingRequest = `{"type":"ping"}`

// side, pairTask and pairResult are those of testdata/peer.
type side struct {
	Kind, Path, Request string
	PIDs                []int
	Writers             int
}

type pairTask struct {
	Pairs, N int
	A, B     side
}

type cost struct{ CPU, Server, Wall, Allocs float64 }

type pairResult struct {
	A, B                cost
	As, Bs              []cost
	RatioCPU, RatioWall float64
}

func inAll(c cost) float64    { return c.CPU }
func ofServer(c cost) float64 { return c.Server }

// each returns a value of each cost.
func each(list []cost, f func(cost) float64) []float64 {
	values := make([]float64, len(list))
	for i, c := range list {
		values[i] = f(c)
	}
	return values
}

// benchPing compares the CPU time of a service's ping, at both ends, with that of a raw
// echo of the same bytes, all on one core.
func benchPing(b *bench) ([]line, error) {
	peer, err := b.program("peer")
	if err != nil {
		return nil, err
	}
	echo, err := b.serve(true, "echo", peer, "echo")
	if err != nil {
		return nil, err
	}
	defer echo.stop()
	service, note := echo, "the source's server"
	if b.smoke {
		service, err = b.serve(true, "rtr", peer, "source")
	} else {
		service, err = b.idle("exc")
		note = "zino-exc"
	}
	if err != nil {
		return nil, err
	}
	defer service.stop()
	raw := side{Kind: "raw", Path: echo.path, PIDs: []int{echo.pid()}, Request: pingRequest}
	dial := raw
	dial.Kind = "dial"
	bare, err := ask[pairResult](b, true, "pair", pairTask{b.scale(40), b.scale(500), raw, dial})
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, c := range []struct {
		name string
		a    side
		kind string
		n    int
		goal float64
		note string
	}{
		{"ping, kept connection", raw, "raw", 2000, 1.08, "a raw client; " + note + " over an echo"},
		{"ping, kept connection, rpc.Call", raw, "call", 2000, 1.25, "pkg/rpc at both ends over raw at both ends"},
		{"ping, new connection over a warm ping", side{"raw", service.path, pingRequest, []int{service.pid()}, 0}, "dial", 500, 3.0, fmt.Sprintf("%s; an echo, which does nothing else: %.2fx", note, bare.RatioCPU)},
		{"ping, new connection, rpc.Call over a warm one", side{"call", service.path, pingRequest, []int{service.pid()}, 0}, "callnew", 500, 3.0, note},
	} {
		r, err := ask[pairResult](b, true, "pair", pairTask{
			b.scale(40), b.scale(c.n), c.a,
			side{c.kind, service.path, pingRequest, []int{service.pid()}, 0},
		})
		if err != nil {
			return lines, err
		}
		l := line{name: c.name, goals: []goal{ratioAtMost(c.goal)}, note: c.note}
		lines = append(lines, l.over(each(r.Bs, inAll), each(r.As, inAll)))
	}
	return lines, nil
}

// idle starts one service of bin alone, pinned.
func (b *bench) idle(name string) (*process, error) {
	c, err := b.constellation(true, nil, nil, name)
	if err != nil {
		c.stop()
		return nil, err
	}
	return c.processes[name], nil
}

// benchPingAllocs counts a server's allocations for a ping, in this process.
func benchPingAllocs(b *bench) ([]line, error) {
	path := b.path("allocs.sock")
	s := rpc.NewServer("exc", slog.New(slog.DiscardHandler))
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	go s.Serve(l)
	nc, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	frame, err := wire.AppendFrame(nil, []byte(pingRequest))
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	n := b.scale(20000)
	count, err := allocations(n, func() error {
		if _, err := nc.Write(frame); err != nil {
			return err
		}
		_, err := nc.Read(buf)
		return err
	})
	return []line{{name: "ping, allocations of the server", unit: allocs, measured: count, goals: []goal{atMost(0)}, note: "steady state, to two decimals"}}, err
}

// allocations returns the allocations of this process per call of f, to two decimals,
// after some calls to warm up.
func allocations(n int, f func() error) (float64, error) {
	var before, after runtime.MemStats
	for range 10 {
		if err := f(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&before)
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs-before.Mallocs)*100/uint64(n)) / 100, nil
}
