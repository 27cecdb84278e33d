package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// side is one of the two sides of a comparison.
type side struct {
	Kind    string // "raw": kept connection; "dial": new connections; "call", "callnew": the same through pkg/rpc
	Path    string
	PIDs    []int // the servers behind it
	Request string
	Writers int // connections at a time; 0: one
}

// pairTask runs N operations of each side alternately, Pairs times.
type pairTask struct {
	Pairs, N int
	A, B     side
}

// cost is the cost of one operation; times are in nanoseconds.
type cost struct{ CPU, Server, Wall, Allocs float64 }

// pairResult has the medians of each side's cost, the costs in each pair, and the
// medians of B over A.
type pairResult struct {
	A, B                cost
	As, Bs              []cost
	RatioCPU, RatioWall float64
}

func pair() error {
	var t pairTask
	if err := task(&t); err != nil {
		return err
	}
	a, err := t.A.open()
	if err != nil {
		return err
	}
	b, err := t.B.open()
	if err != nil {
		return err
	}
	var as, bs []cost
	for i := range t.Pairs + 1 {
		x, errA := t.A.batch(a, t.N)
		y, errB := t.B.batch(b, t.N)
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
		if i > 0 { // the first warms up
			as, bs = append(as, x), append(bs, y)
		}
	}
	return found(summary(as, bs))
}

func summary(as, bs []cost) pairResult {
	r := pairResult{A: middle(as), B: middle(bs), As: as, Bs: bs}
	var cpu, wall []float64
	for i := range as {
		cpu, wall = append(cpu, bs[i].CPU/as[i].CPU), append(wall, bs[i].Wall/as[i].Wall)
	}
	r.RatioCPU, r.RatioWall = median(cpu), median(wall)
	return r
}

func middle(costs []cost) cost {
	of := func(f func(cost) float64) float64 {
		var list []float64
		for _, c := range costs {
			list = append(list, f(c))
		}
		return median(list)
	}
	return cost{
		of(func(c cost) float64 { return c.CPU }), of(func(c cost) float64 { return c.Server }),
		of(func(c cost) float64 { return c.Wall }), of(func(c cost) float64 { return c.Allocs }),
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// batch runs n operations in each of the side's writers.
func (s side) batch(ops []func() error, n int) (cost, error) {
	client, server, err := s.clocks()
	if err != nil {
		return cost{}, err
	}
	mallocs, started := allocated(), time.Now()
	errs := make([]error, len(ops))
	var wg sync.WaitGroup
	for i, op := range ops[1:] {
		wg.Go(func() { errs[i+1] = repeat(op, n) })
	}
	errs[0] = repeat(ops[0], n)
	wg.Wait()
	wall, total := time.Since(started), float64(n*len(ops))
	mallocs = allocated() - mallocs
	client2, server2, err := s.clocks()
	errs = append(errs, err)
	return cost{
		CPU: (client2 - client + server2 - server) / total, Server: (server2 - server) / total,
		Wall: float64(wall) / total, Allocs: float64(mallocs) / total,
	}, errors.Join(errs...)
}

func repeat(op func() error, n int) error {
	for range n {
		if err := op(); err != nil {
			return err
		}
	}
	return nil
}

// clocks reads the CPU time of this process and of the servers.
func (s side) clocks() (client, server float64, err error) {
	if client, err = ownCPU(); err != nil {
		return 0, 0, err
	}
	for _, pid := range s.PIDs {
		t, err := cpuOf(pid)
		if err != nil {
			return 0, 0, err
		}
		server += t
	}
	return client, server, nil
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// open returns the operation of each writer.
func (s side) open() ([]func() error, error) {
	var ops []func() error
	for range max(1, s.Writers) {
		op, err := s.operation()
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func (s side) operation() (func() error, error) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(s.Request)))
	frame = append(frame, s.Request...)
	buf := make([]byte, 64<<10)
	switch s.Kind {
	case "raw":
		nc, err := net.Dial("unix", s.Path)
		return func() error { return exchange(nc, frame, buf) }, err
	case "dial":
		return func() error {
			nc, err := net.Dial("unix", s.Path)
			if err != nil {
				return err
			}
			defer nc.Close()
			return exchange(nc, frame, buf)
		}, nil
	case "call":
		c := &rpc.Client{Service: "peer", Path: s.Path}
		return func() error { return ping(c) }, nil
	case "callnew":
		return func() error {
			c := &rpc.Client{Service: "peer", Path: s.Path}
			defer c.Close()
			return ping(c)
		}, nil
	}
	return nil, errors.New("no kind of side " + s.Kind)
}

func ping(c *rpc.Client) error {
	_, err := rpc.Call(context.Background(), c, proto.Ping, proto.PingRequest{})
	return err
}
