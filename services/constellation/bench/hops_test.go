package bench_test

import (
	"errors"
	"os"
	"path/filepath"

	"zino/pkg/config"
)

// streamTask and streamResult are those of testdata/peer.
type streamTask struct {
	Path          string
	Daemon        bool
	Warm, Message string
	PIDs          []int
}

type streamResult struct {
	Chunks                    int
	CPU, First, Wall, Latency float64
	Others                    []float64
}

// The chain is client, zino-daemon, zino-agr and, in the router's place, a source: four
// processes and three sockets. "No hop" is the client connected to the source.
const chain = "client, zino-daemon, zino-agr, source on one core, WARN; no hop: client, source"

// hops starts the chain without the services that the daemon calls before the agent;
// it continues without them. The daemon finds its salt for masks, which it creates and
// syncs once in the life of a host.
func (b *bench) hops() (*constellation, error) {
	peer, err := b.program("peer")
	if err != nil {
		return nil, err
	}
	var failed error
	c, err := b.constellation(true, func(c *config.Config) {
		dir := filepath.Join(c.Mem.DataDir, "daemon")
		failed = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "mask.salt"), make([]byte, 32), 0o600))
	}, map[string][]string{"rtr": {peer, "source"}}, "daemon", "agr", "rtr")
	return c, errors.Join(failed, err)
}

func (c *constellation) through(message, warm string) streamTask {
	return streamTask{c.processes["daemon"].path, true, warm, message, c.pids("daemon", "agr", "rtr")}
}

func (c *constellation) direct(message, warm string) streamTask {
	return streamTask{c.processes["rtr"].path, false, warm, message, c.pids("rtr")}
}

// streams runs the chain and no hop alternately and returns the results of both.
func (b *bench) streams(c *constellation, pairs int, message string) (through, direct []streamResult, err error) {
	for range pairs {
		with, err := ask[streamResult](b, true, "stream", c.through(message, "burst 10"))
		if err != nil {
			return nil, nil, err
		}
		without, err := ask[streamResult](b, true, "stream", c.direct(message, "burst 10"))
		if err != nil {
			return nil, nil, err
		}
		through, direct = append(through, with), append(direct, without)
	}
	return through, direct, nil
}

// total is the CPU time of all processes for one chunk.
func (r streamResult) total() float64 { return (r.CPU + r.relays() + r.source()) / float64(r.Chunks) }

// source is the CPU time of the last process, relays that of the others.
func (r streamResult) source() float64 { return r.Others[len(r.Others)-1] }

func (r streamResult) relays() float64 {
	sum := 0.0
	for _, cpu := range r.Others[:len(r.Others)-1] {
		sum += cpu
	}
	return sum
}

// of returns a value of each result.
func of(list []streamResult, f func(streamResult) float64) []float64 {
	values := make([]float64, len(list))
	for i, r := range list {
		values[i] = f(r)
	}
	return values
}

func benchBurst(b *bench) ([]line, error) {
	c, err := b.hops()
	defer c.stop()
	if err != nil {
		return nil, err
	}
	through, direct, err := b.streams(c, 9, "burst 100000")
	if err != nil {
		return nil, err
	}
	return []line{{
		name: "3 hops, burst of 100k chunks, CPU per chunk in all", measured: median(of(through, streamResult.total)),
		floors: of(direct, streamResult.total), goals: []goal{atMost(800)}, note: chain + ", a copy: no ratio",
	}}, nil
}

// benchPaced sends a chunk per millisecond. The floor is the same path through two
// relays that copy bytes.
func benchPaced(b *bench) ([]line, error) {
	c, err := b.hops()
	defer c.stop()
	if err != nil {
		return nil, err
	}
	outer, err := b.rawRelay(c.processes["rtr"].path)
	if err != nil {
		return nil, err
	}
	defer outer.stop()
	inner, err := b.rawRelay(outer.path)
	if err != nil {
		return nil, err
	}
	defer inner.stop()
	var ours, raw []streamResult
	for range 7 {
		for _, try := range []struct {
			task streamTask
			list *[]streamResult
		}{
			{c.through("paced 400 1000", "burst 10"), &ours},
			{streamTask{inner.path, false, "burst 10", "paced 400 1000", []int{inner.pid(), outer.pid(), c.processes["rtr"].pid()}}, &raw},
		} {
			r, err := ask[streamResult](b, true, "stream", try.task)
			if err != nil {
				return nil, err
			}
			*try.list = append(*try.list, r)
		}
	}
	latency := func(r streamResult) float64 { return r.Latency / 3 }
	relays := func(r streamResult) float64 { return r.relays() / float64(r.Chunks) / 2 }
	return []line{
		line{
			name: "3 hops, a chunk a millisecond, p50 per hop", goals: []goal{ratioAtMost(1.25)},
			note: chain + "; a third of the time from source to client; floor: raw relays in Go",
		}.over(of(ours, latency), of(raw, latency)),
		line{
			name: "3 hops, a chunk a millisecond, CPU per hop", goals: []goal{ratioAtMost(1.25)}, note: "mean of zino-daemon and zino-agr",
		}.over(of(ours, relays), of(raw, relays)),
	}, nil
}

// rawRelay starts a relay that copies bytes to and from the socket at target.
func (b *bench) rawRelay(target string) (*process, error) {
	peer, err := b.program("peer")
	if err != nil {
		return nil, err
	}
	return b.serve(true, "relay", "env", "TARGET="+target, peer, "relay")
}

// benchFirstChunk starts new processes for each try, which have answered only one
// ping.
func benchFirstChunk(b *bench) ([]line, error) {
	var through, direct []streamResult
	for range 15 {
		c, err := b.hops()
		if err == nil {
			var with, without streamResult
			with, err = ask[streamResult](b, false, "stream", c.through("burst 1", ""))
			if err == nil {
				c.stop()
				c, err = b.hops()
			}
			if err == nil {
				without, err = ask[streamResult](b, false, "stream", c.direct("burst 1", ""))
			}
			through, direct = append(through, with), append(direct, without)
		}
		c.stop()
		if err != nil {
			return nil, err
		}
	}
	first := func(r streamResult) float64 { return r.First }
	var added []float64
	for i := range through {
		added = append(added, through[i].First-direct[i].First)
	}
	return []line{{
		name: "first chunk through 3 cold hops, added", measured: median(added), floors: of(direct, first), goals: []goal{atMost(0.4e6)},
		note: "new processes each time, wall time; floor: no hop",
	}}, nil
}
