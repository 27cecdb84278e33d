package bench_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
)

// historyOf returns an append_history request for a channel.
func historyOf(channel string) string {
	return `{"type":"append_history","channel_id":"` + channel + `","messages":[{"role":"user","content":"Where is the walnut bread?"}]}`
}

func writeHistory(dir, channel string, n int) error {
	message := `{"role":"user","content":"Where is the walnut bread?"}`
	text := "[\n" + strings.Repeat(message+",\n", n-1) + message + "\n]"
	if err := os.MkdirAll(filepath.Join(dir, "channels"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "channels", channel+".json"), []byte(text), 0o600)
}

// benchAppend appends to histories, without and with a sync per append.
func benchAppend(b *bench) ([]line, error) {
	unsynced, err := appendUnsynced(b)
	if err != nil {
		return nil, err
	}
	synced, err := appendSynced(b)
	return append(unsynced, synced...), err
}

func (b *bench) memory(pin bool, durability string) (*constellation, error) {
	return b.constellation(pin, func(cfg *config.Config) { cfg.Mem.Durability = durability }, nil, "mem")
}

func appendUnsynced(b *bench) ([]line, error) {
	c, err := b.memory(true, "os")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(writeHistory(c.cfg.Mem.DataDir, "short", 100), writeHistory(c.cfg.Mem.DataDir, "long", 1_000_000)); err != nil {
		return nil, err
	}
	to := func(channel string) side {
		return side{Kind: "raw", Path: c.cfg.Mem.Socket, PIDs: c.pids("mem"), Request: historyOf(channel)}
	}
	r, err := ask[pairResult](b, true, "pair", pairTask{20, 100, to("short"), to("long")})
	if err != nil {
		return nil, err
	}
	ping := to("")
	ping.Request = pingRequest
	p, err := ask[pairResult](b, true, "pair", pairTask{20, 100, ping, to("short")})
	return []line{
		line{
			name: "append_history, not synced, CPU of mem", goals: []goal{atMost(10e3)},
			note: "a history of 100 messages, the socket included; floor: a ping of mem, so the rest is the append",
		}.over(each(p.Bs, ofServer), each(p.As, ofServer)),
		line{name: "append_history, 1M messages over 100", goals: []goal{ratioAtMost(1.1)}}.over(each(r.Bs, ofServer), each(r.As, ofServer)),
	}, err
}

// appendSynced measures wall time, because most of it is waiting for the disk.
func appendSynced(b *bench) ([]line, error) {
	c, err := b.memory(true, "fsync")
	defer c.stop()
	if err != nil {
		return nil, err
	}
	one := side{Kind: "raw", Path: c.cfg.Mem.Socket, PIDs: c.pids("mem"), Request: historyOf("sync")}
	many := one
	many.Writers = 64
	var floors, walls []float64
	for range 15 {
		floor, err := b.syncs(30)
		if err != nil {
			return nil, err
		}
		r, err := ask[pairResult](b, true, "pair", pairTask{1, 30, one, one})
		if err != nil {
			return nil, err
		}
		floors, walls = append(floors, floor), append(walls, r.B.Wall)
	}
	r, err := ask[pairResult](b, true, "pair", pairTask{5, 30, many, one})
	return []line{
		line{name: "append_history, synced", goals: []goal{ratioAtMost(1.3)}, note: "wall time; floor: a write and one fdatasync"}.over(walls, floors),
		{
			name: "append_history, synced, 64 writers at a time", measured: r.A.Wall, floors: each(r.Bs, func(c cost) float64 { return c.Wall }), ratio: r.RatioWall,
			goals: []goal{ratioAtLeast(10)}, note: "wall time of each; ratio: how much cheaper than a single writer's",
		},
	}, err
}

// syncs returns the time of appending a line to a file and syncing it.
func (b *bench) syncs(n int) (float64, error) {
	f, err := os.OpenFile(b.path("synced"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	began := time.Now()
	for range n {
		if _, err := f.WriteString(historyOf("sync") + "\n"); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began)) / float64(n), nil
}
