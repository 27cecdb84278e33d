package bench_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/constellation/measure"
)

var growthTable = flag.Bool("growth.table", false, "measure the cost as work grows, print it and draw plots (make growth)")

// curve is the cost of an operation, in nanoseconds, by the amount of work.
type curve struct {
	name   string
	points []measure.Point
	why    string // it is not flat; empty: it has to be
}

// subject is a plot: what grows, and the cost of operations on it.
type subject struct {
	file, title string
	sizes       []int
	small       []int // in an ordinary test run
	run         func(b *bench, sizes []int) ([]curve, error)
}

var subjects = []subject{
	{"history", "messages of a channel", []int{100, 1000, 10_000, 100_000, 1_000_000}, []int{100, 200}, (*bench).growHistory},
	{"memories", "memories", []int{1000, 10_000, 100_000, 1_000_000}, []int{1000, 2000}, (*bench).growMemories},
	{"sessions", "sessions", []int{10, 100, 1000, 10_000, 100_000}, []int{5, 10}, (*bench).growSessions},
	{"pages", "connected pages", []int{1, 5, 20, 100, 500}, []int{1, 3}, (*bench).growPages},
	{"followers", "followers", []int{1, 4, 16, 64, 256, 500}, []int{1, 3}, (*bench).growFollowers},
}

// testGrowth measures all subjects.
func testGrowth(t *testing.T, b *bench) {
	var text strings.Builder
	fmt.Fprintf(&text, "## Cost as work grows\n\n%s\n", measure.Run())
	for _, s := range subjects {
		sizes := s.sizes
		if b.smoke {
			sizes = s.small
		}
		curves, err := s.run(b, sizes)
		if err != nil {
			t.Errorf("%s: %v (%s)", s.file, err, b.lastWords())
			continue
		}
		for _, c := range curves {
			if len(c.points) != len(sizes) {
				t.Errorf("%s: %d points for %d sizes", c.name, len(c.points), len(sizes))
			}
		}
		if b.smoke {
			continue
		}
		part := growthMarkdown(s, curves)
		fmt.Println(part)
		text.WriteString("\n" + part)
		zinotest.Must(t, os.MkdirAll(plots, 0o755))
		zinotest.Must(t, os.WriteFile(filepath.Join(plots, s.file+".svg"), []byte(growthPlot(s, curves).SVG()), 0o644))
	}
	if !b.smoke && !t.Failed() {
		text.WriteString("\n" + growthMethod)
		zinotest.Must(t, measure.Section(performance, "growth", text.String()))
	}
}

// plots is the directory of the plots.
const plots = "../../../docs/performance"

const growthMethod = `CPU is that of the services, wall time is seen by a client; each is the median of many operations
on data that was used before. Both axes are logarithmic: a flat line is a cost that does not
depend on the amount, a cost in proportion to it rises by a decade in each decade. "A decade" is
the mean factor of the cost for ten times the work: flat up to 1.15, slow up to 1.6.
`

// perDecade returns the mean factor of the cost for ten times the work.
func (c curve) perDecade() float64 {
	first, last := c.points[0], c.points[len(c.points)-1]
	return math.Pow(last.Y/first.Y, 1/math.Log10(last.X/first.X))
}

// shape names how a cost grows.
func shape(perDecade float64) string {
	switch {
	case perDecade <= 1.15:
		return "flat"
	case perDecade <= 1.6:
		return "slow"
	}
	return "grows"
}

func TestShapes(t *testing.T) {
	rising := func(f func(x float64) float64) (c curve) {
		for x := 1000.0; x <= 1e6; x *= 10 {
			c.points = append(c.points, measure.Point{X: x, Y: f(x)})
		}
		return c
	}
	for want, f := range map[string]func(float64) float64{
		"flat":  func(float64) float64 { return 7 },
		"slow":  func(x float64) float64 { return math.Log(x) },
		"grows": func(x float64) float64 { return x },
	} {
		zinotest.Equal(t, "shape of "+want, shape(rising(f).perDecade()), want)
	}
	zinotest.Equal(t, "shape of a root", shape(rising(math.Sqrt).perDecade()), "grows")
}

func growthMarkdown(s subject, curves []curve) string {
	var b strings.Builder
	fmt.Fprintf(&b, "![%s](performance/%s.svg)\n\n| %s |", s.title, s.file, s.title)
	for _, p := range curves[0].points {
		fmt.Fprintf(&b, " %.0f |", p.X)
	}
	b.WriteString(" a decade | |\n|---|" + strings.Repeat("---|", len(curves[0].points)+2) + "\n")
	for _, c := range curves {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, p := range c.points {
			fmt.Fprintf(&b, " %s |", nanoseconds.text(p.Y))
		}
		verdict := shape(c.perDecade())
		if c.why != "" && verdict != "flat" {
			verdict += ": " + c.why
		}
		fmt.Fprintf(&b, " %.2fx | %s |\n", c.perDecade(), verdict)
	}
	return b.String()
}

func growthPlot(s subject, curves []curve) measure.Plot {
	panel := measure.Panel{Title: "cost by the number of " + s.title, Unit: nanoseconds.text, Log: true}
	for _, c := range curves {
		panel.Curves = append(panel.Curves, measure.Curve{Name: c.name, Points: c.points})
	}
	return measure.Plot{Title: s.title, Panels: []measure.Panel{panel}}
}

// add adds a point.
func (c *curve) add(size int, cost float64) {
	c.points = append(c.points, measure.Point{X: float64(size), Y: max(cost, 1)})
}

// cpu returns the CPU time that services need for one call of f, the median of batches.
func (c *constellation) cpu(batches, n int, f func() error) (float64, error) {
	var list []float64
	for range batches {
		before, err := c.clocks()
		if err != nil {
			return 0, err
		}
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		after, err := c.clocks()
		if err != nil {
			return 0, err
		}
		sum := 0.0
		for name := range after {
			sum += after[name] - before[name]
		}
		list = append(list, sum/float64(n))
	}
	return median(list), nil
}

// growHistory measures turns in channels with long histories, and what mem does for them.
func (b *bench) growHistory(sizes []int) ([]curve, error) {
	provider := fakellm.New(fakellm.Turn{Text: "It is in the oven.", Times: fakellm.Forever})
	defer provider.Close()
	c, err := b.constellation(false, func(cfg *config.Config) {
		cfg.Provider, cfg.API.BaseURL, cfg.Service.Model = "openai", provider.URL, "fake-model"
		cfg.Mem.Durability = "os"
	}, nil, config.Services...)
	defer c.stop()
	if err != nil {
		return nil, err
	}
	daemon, mem := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}, &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
	defer daemon.Close()
	defer mem.Close()
	turn, get, add := curve{name: "a turn, CPU of all services"}, curve{name: "get_history, the last 50, CPU"}, curve{name: "append_history, CPU"}
	for _, n := range sizes {
		channel := fmt.Sprint("history-", n)
		if err := writeHistory(c.cfg.Mem.DataDir, channel, n); err != nil {
			return nil, err
		}
		for _, m := range []struct {
			curve      *curve
			batches, n int
			f          func() error
		}{
			{&turn, 15, 1, func() error {
				_, err := rpc.CallText(context.Background(), daemon, proto.DaemonChat, proto.Chat{Message: "Where is the bread?", ChannelID: channel}, nil)
				return err
			}},
			{&get, 15, 20, func() error {
				_, err := rpc.Call(context.Background(), mem, proto.MemGetHistory, proto.GetHistory{ChannelID: channel, Limit: 50})
				return err
			}},
			{&add, 15, 20, func() error {
				_, err := rpc.Call(context.Background(), mem, proto.MemAppendHistory, proto.AppendHistory{ChannelID: channel, Messages: proto.Raw(`[{"role":"user","content":"Where is the walnut bread?"}]`)})
				return err
			}},
		} {
			if err := m.f(); err != nil { // the first one opens the file
				return nil, err
			}
			cost, err := c.cpu(m.batches, m.n, m.f)
			if err != nil {
				return nil, err
			}
			m.curve.add(n, cost)
		}
	}
	return []curve{turn, get, add}, nil
}

// growMemories searches among many memories, and stores one more.
func (b *bench) growMemories(sizes []int) ([]curve, error) {
	search := curve{name: "search_hard, 5 words, CPU", why: "the lists of common words' memories are longer, and those that cannot be among the best are skipped: less than in proportion"}
	rare, add := curve{name: "search_hard, a rare word, CPU"}, curve{name: "store_hard, CPU"}
	for _, n := range sizes {
		w := measure.NewWords()
		c, err := b.memory(false, "os")
		if err != nil {
			c.stop()
			return nil, err
		}
		err = func() error {
			texts := w.Texts(n, 10)
			texts[n/2] += " unicorn"
			if err := measure.WriteMemories(c.cfg.Mem.DataDir, texts); err != nil {
				return err
			}
			client := &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
			defer client.Close()
			find := func(query string) error {
				found, err := rpc.Call(context.Background(), client, proto.MemSearchHard, proto.SearchHard{Query: query})
				if err == nil && len(found.Results) == 0 {
					err = fmt.Errorf("%q finds nothing", query)
				}
				return err
			}
			if err := find("unicorn"); err != nil { // loads all memories
				return err
			}
			queries, at := w.Texts(200, 5), 0
			for _, m := range []struct {
				curve *curve
				f     func() error
			}{
				{&search, func() error { at++; return find(queries[at%len(queries)]) }},
				{&rare, func() error { return find("unicorn") }},
				{&add, func() error {
					_, err := rpc.Call(context.Background(), client, proto.MemStoreHard, proto.StoreHard{Messages: proto.Raw(`[{"role":"user","content":"` + w.Text(10) + `"}]`)})
					return err
				}},
			} {
				cost, err := c.cpu(10, 20, m.f)
				if err != nil {
					return err
				}
				m.curve.add(n, cost)
			}
			return nil
		}()
		c.stop()
		if err != nil {
			return nil, err
		}
	}
	return []curve{search, rare, add}, nil
}

// growSessions lists and opens sessions.
func (b *bench) growSessions(sizes []int) ([]curve, error) {
	zino, err := b.binary("zino")
	if err != nil {
		return nil, err
	}
	list := curve{name: "list_sessions, the last 20, CPU", why: "the time and size of each session's file are compared, since other programs may change it; nothing is read"}
	open := curve{name: "read_session, CPU"}
	program := curve{name: "zino sessions list -n 20, wall time", why: list.why}
	for _, n := range sizes {
		c, err := b.constellation(false, func(cfg *config.Config) { cfg.Mem.Durability = "os" }, nil, "mem", "daemon")
		if err == nil {
			err = func() error {
				client := &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
				defer client.Close()
				if err := writeSessions(filepath.Join(c.cfg.Mem.DataDir, "sessions"), n); err != nil {
					return err
				}
				lists := func() error {
					l, err := rpc.Call(context.Background(), client, proto.MemListSessions, proto.ListSessions{Limit: 20})
					if err == nil && l.Total != n {
						err = fmt.Errorf("%d of %d sessions", l.Total, n)
					}
					return err
				}
				if err := lists(); err != nil { // reads all of them
					return err
				}
				cost, err := c.cpu(5, 2, lists)
				if err != nil {
					return err
				}
				list.add(n, cost)
				if cost, err = c.cpu(10, 20, func() error {
					_, err := rpc.Call(context.Background(), client, proto.MemReadSession, proto.ReadSession{SessionID: fmt.Sprint("session-", n/2)})
					return err
				}); err != nil {
					return err
				}
				open.add(n, cost)
				cost, err = medianTime(7, func(int) error {
					cmd := exec.Command(zino, "--config", c.cfg.File, "sessions", "list", "-n", "20", "--all")
					cmd.Env = append(os.Environ(), "ZINO_HOME="+b.dir, "XDG_RUNTIME_DIR="+b.dir)
					out, err := cmd.CombinedOutput()
					if err != nil {
						err = fmt.Errorf("%w: %s", err, out)
					}
					return err
				})
				program.add(n, cost)
				return err
			}()
		}
		c.stop()
		if err != nil {
			return nil, err
		}
		os.RemoveAll(c.cfg.Mem.DataDir)
	}
	return []curve{list, open, program}, nil
}

// writeSessions writes sessions of a question and its answer.
func writeSessions(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const text = `{"type":"meta","schema_version":1,"ts":"2026-11-22T10:00:00Z","root":"/"}
{"type":"message","role":"user","text":"Where is the bread?","ts":"2026-11-22T10:00:00Z"}
{"type":"message","role":"assistant","text":"It is in the oven.","ts":"2026-11-22T10:00:00Z"}
`
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("session-%d.jsonl", i)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// growPages connects pages to the REPL and saves code for one of them.
func (b *bench) growPages(sizes []int) ([]curve, error) {
	reply, cpu := curve{name: "save to reply, without the debounce of 150 ms, wall time"}, curve{name: "a request, CPU of zino-repl", why: "debug.md, which lists up to 100 pages, is written at each change of state"}
	for _, n := range sizes {
		w, err := b.repl()
		if err != nil {
			return nil, err
		}
		err = func() error {
			pages, err := w.attach(n)
			if err != nil {
				return err
			}
			file := filepath.Join(w.dir, pages[0].File)
			if _, err := saves(file, 2); err != nil {
				return err
			}
			count := 11
			if b.smoke {
				count = 1
			}
			before, err := cpuOf(w.p.pid())
			if err != nil {
				return err
			}
			took, err := saves(file, count)
			if err != nil {
				return err
			}
			after, err := cpuOf(w.p.pid())
			reply.add(n, took-150e6)
			cpu.add(n, (after-before)/float64(count))
			return err
		}()
		w.stop()
		if err != nil {
			return nil, err
		}
	}
	return []curve{reply, cpu}, nil
}

// growFollowers measures a turn of 100 deltas a second with many followers. More than a
// turn may have are divided between two turns at the same time.
func (b *bench) growFollowers(sizes []int) ([]curve, error) {
	p, err := newPaced(b)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	defer p.client.Close()
	p.count, p.pace = 150, 10*time.Millisecond
	if b.smoke {
		p.count = 5
	}
	each := curve{name: "CPU of zino-daemon for a chunk and follower"}
	chunk := curve{name: "CPU of zino-daemon for a chunk to all", why: "each follower gets a copy; 500 follow two turns, since a turn may have 256"}
	for i, n := range sizes {
		before, err := cpuOf(p.processes["daemon"].pid())
		if err != nil {
			return nil, err
		}
		var packets atomic.Int64
		turns := (n + 255) / 256
		failures := make(chan error, turns)
		for j := range turns {
			go func() {
				failures <- p.turn(fmt.Sprintf("growth-%d-%d", i, j), n/turns, func(int, int) { packets.Add(1) })
			}()
		}
		for range turns {
			err = errors.Join(err, <-failures)
		}
		if err != nil {
			return nil, err
		}
		after, err := cpuOf(p.processes["daemon"].pid())
		if err != nil {
			return nil, err
		}
		if packets.Load() == 0 {
			return nil, errors.New("no packets")
		}
		chunk.add(n, (after-before)/float64(p.count))
		each.add(n, (after-before)/float64(p.count*n))
	}
	return []curve{each, chunk}, nil
}
