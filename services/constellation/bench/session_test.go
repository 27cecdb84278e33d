package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// A turn of a session involves all services. Its events pass through zino-rtr, zino-agr,
// zino-daemon and, where noted, zino.

// smallDeltas is the number of deltas of the long answer.
const smallDeltas = 5000

// sessionWorld starts a constellation with a provider of the given turns.
func (b *bench) sessionWorld(turns ...fakellm.Turn) (*constellation, *fakellm.Server, error) {
	llm := fakellm.New(turns...)
	c, err := b.constellation(true, func(cfg *config.Config) {
		cfg.Provider, cfg.API.BaseURL, cfg.Service.Model = "openai", llm.URL, "fake-model"
	}, nil, config.Services...)
	return c, llm, err
}

func leave(c *constellation, llm *fakellm.Server) {
	c.stop()
	llm.Close()
}

// benchDeltas measures the CPU time of long answers: many small deltas, and one large
// delta.
func benchDeltas(b *bench) ([]line, error) {
	many := strings.Repeat("crust", smallDeltas)
	c, llm, err := b.sessionWorld(
		fakellm.Turn{Match: "many", Text: many, Size: 5, Bytes: 16 << 10, Times: fakellm.Forever},
		fakellm.Turn{Match: "large", Text: strings.Repeat("A loaf of bread. ", 2<<20/17), Times: fakellm.Forever},
		fakellm.Turn{Text: "yes", Times: fakellm.Forever},
	)
	defer leave(c, llm)
	if err != nil {
		return nil, err
	}
	_, parts, err := b.sessionCPU(c, "many", 10)
	if err != nil {
		return nil, err
	}
	relay := (parts["daemon"] + parts["agr"]) / 2 / smallDeltas
	large, largeParts, err := b.sessionCPU(c, "large", 5)
	if err != nil {
		return nil, err
	}
	return []line{
		{
			name: "5,000 small deltas as events, CPU per delta and hop", measured: relay, goals: []goal{atMost(2e3)},
			note: fmt.Sprintf("mean of zino-agr and zino-daemon; a turn: %s", shares(parts)),
		},
		{name: "one delta of 2 MB, CPU of all services", measured: large, note: shares(largeParts)},
	}, nil
}

func shares(parts map[string]float64) string {
	var list []string
	for _, name := range config.Services {
		list = append(list, fmt.Sprintf("%s %.0f", name, parts[name]/1e3))
	}
	return strings.Join(list, ", ") + " us"
}

// sessionCPU runs a turn in each of n sessions and returns the median CPU time of all
// services, and of each.
func (b *bench) sessionCPU(c *constellation, message string, n int) (float64, map[string]float64, error) {
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	var sums []float64
	times := map[string][]float64{}
	for i := range n {
		before, err := c.clocks()
		if err != nil {
			return 0, nil, err
		}
		req := proto.Chat{Message: message, SessionID: fmt.Sprintf("%s-%d", strings.Fields(message)[0], i), Events: true}
		if _, err := rpc.CallText(context.Background(), client, proto.DaemonChat, req, sinkFunc(func([]byte) {})); err != nil {
			return 0, nil, err
		}
		after, err := c.clocks()
		if err != nil {
			return 0, nil, err
		}
		sum := 0.0
		for name := range after {
			times[name] = append(times[name], after[name]-before[name])
			sum += after[name] - before[name]
		}
		sums = append(sums, sum)
	}
	parts := map[string]float64{}
	for name, list := range times {
		parts[name] = median(list)
	}
	return median(sums), parts, nil
}

// benchProject compares the CPU time of a turn with a root whose project has no servers,
// skills, hooks or commands with that of a turn without a root, for which nothing of a
// project is looked up. The turns alternate.
func benchProject(b *bench) ([]line, error) {
	c, llm, err := b.sessionWorld(fakellm.Turn{Text: "yes", Times: fakellm.Forever})
	defer leave(c, llm)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(filepath.Dir(c.cfg.Mem.Socket), "src")
	if err := os.MkdirAll(filepath.Join(root, ".git"), 0o700); err != nil {
		return nil, err
	}
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	roots := []string{"", root}
	sums := map[string][]float64{}
	for i := range 160 {
		root := roots[i%2]
		before, err := c.clocks()
		if err != nil {
			return nil, err
		}
		req := proto.Chat{Message: "Where is the bread?", SessionID: fmt.Sprint("project-", i), Root: root}
		if _, err := rpc.CallText(context.Background(), client, proto.DaemonChat, req, nil); err != nil {
			return nil, err
		}
		after, err := c.clocks()
		if err != nil {
			return nil, err
		}
		sum := 0.0
		for name := range after {
			sum += after[name] - before[name]
		}
		sums[root] = append(sums[root], sum)
	}
	return []line{line{
		name: "a turn in a project without servers, skills, hooks, CPU", goals: []goal{ratioAtMost(1.1)},
		note: "of all services; floor: a turn without a root, for which no project is looked at",
	}.over(sums[root], sums[""])}, nil
}

// longSession is the number of events of the resumed session.
const longSession = 10000

// benchResume resumes a session of 10,000 events and compares the time until the
// request to the provider with that of decoding the session's lines once.
func benchResume(b *bench) ([]line, error) {
	c, llm, err := b.sessionWorld(fakellm.Turn{Text: "yes", Times: fakellm.Forever})
	defer leave(c, llm)
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
		n, begin := len(llm.Requests()), time.Now()
		asked := make(chan error, 1)
		go func() {
			_, err := rpc.CallText(context.Background(), client, proto.DaemonChat, proto.Chat{Message: "Go on.", SessionID: "long", Events: true}, sinkFunc(func([]byte) {}))
			asked <- err
		}()
		if _, err := llm.Wait(context.Background(), n+1); err != nil {
			return nil, err
		}
		wall := float64(time.Since(begin))
		if err := <-asked; err != nil {
			return nil, err
		}
		floor, err := decodeAll(lines)
		if err != nil {
			return nil, err
		}
		walls, floors = append(walls, wall), append(floors, floor)
	}
	return []line{line{
		name: "a session of 10,000 events resumed, until the provider is asked",
		note: fmt.Sprintf("wall time; %.1f MB; floor: its lines decoded once", float64(len(lines))/1e6),
	}.over(walls, floors)}, nil
}

// fillSession stores a long session of questions, calls and results.
func fillSession(c *constellation, id string) ([]byte, error) {
	mem := &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
	defer mem.Close()
	var all []byte
	for i := 0; i < longSession; i += 500 {
		var events []byte
		for n := i; n < i+500; n += 4 {
			events = fmt.Appendf(events, `,{"type":"message","role":"user","text":"Question %d: where is the bread?"}`, n)
			events = fmt.Appendf(events, `,{"type":"tool_use","id":"call_%d","name":"bash","input":{"command":"ls oven %d"}}`, n, n)
			events = fmt.Appendf(events, `,{"type":"tool_result","tool_use_id":"call_%d","output":{"ok":true,"data":{"stdout":"bread\n","stderr":"","exit_code":0,"timed_out":false}},"ok":true}`, n)
			events = fmt.Appendf(events, `,{"type":"message","role":"assistant","text":"It is in the oven, as %d loaves were before."}`, n)
		}
		all = append(all, bytes.ReplaceAll(events[1:], []byte(`},{"type"`), []byte("}\n{\"type\""))...)
		all = append(all, '\n')
		events[0] = '['
		req := proto.AppendSession{SessionID: id, Create: true, Events: append(events, ']')}
		if _, err := rpc.Call(context.Background(), mem, proto.MemAppendSession, req); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// decodeAll returns the median time of decoding the lines of a session.
func decodeAll(lines []byte) (float64, error) {
	return medianTime(5, func(int) error {
		for line := range bytes.Lines(lines) {
			var event map[string]json.RawMessage
			if err := json.Unmarshal(line, &event); err != nil {
				return err
			}
		}
		return nil
	})
}

// benchFirstToken measures the time from the provider's first token to standard output
// of zino exec, less that of a plain HTTP client: of the first turn of new services, and
// of later turns. The provider sends the token when the services are at rest, as a model
// does, which thinks for longer than the start of a turn takes.
func benchFirstToken(b *bench) ([]line, error) {
	warm, plain, err := b.firstTokens(50)
	if err != nil {
		return nil, err
	}
	var cold, coldPlain []float64
	for range 15 {
		one, floor, err := b.firstTokens(1)
		if err != nil {
			return nil, err
		}
		cold, coldPlain = append(cold, one...), append(coldPlain, floor...)
	}
	added := func(name string, limit float64, through, plain []float64) line {
		return line{
			name: "zino exec, first token from provider to stdout, added" + name, measured: median(through) - median(plain), floors: plain, goals: []goal{atMost(limit)},
			note: "wall time through zino-rtr, zino-agr, zino-daemon and zino on one core, all at rest before; floor: a process with an HTTP client",
		}
	}
	return []line{added("", 300e3, warm, plain), added(", cold", 800e3, cold, coldPlain)}, nil
}

// firstTokens starts services and returns the times to the first token in rounds, through
// them and without them.
func (b *bench) firstTokens(rounds int) (through, plain []float64, err error) {
	var turns []fakellm.Turn
	for i := range 2 * rounds {
		turns = append(turns, fakellm.Turn{Text: "bread", Wait: fmt.Sprint(i), Pause: afterToken(i)})
	}
	c, llm, err := b.sessionWorld(turns...)
	defer leave(c, llm)
	if err != nil {
		return nil, nil, err
	}
	zino, err := b.binary("zino")
	if err != nil {
		return nil, nil, err
	}
	fetch, err := b.program("fetch")
	if err != nil {
		return nil, nil, err
	}
	for i := range rounds {
		wall, err := b.firstToken(c, llm, 2*i, exec.Command(zino, "--socket", c.cfg.Daemon.Socket, "exec", "-p", "Where is the bread?"))
		if err != nil {
			return nil, nil, err
		}
		through = append(through, wall)
		cmd := exec.Command(fetch, llm.URL+"/chat/completions")
		cmd.Stdin = bytes.NewReader(llm.Requests()[2*i].Body)
		if wall, err = b.firstToken(c, llm, 2*i+1, cmd); err != nil {
			return nil, nil, err
		}
		plain = append(plain, wall)
	}
	return through, plain, nil
}

// afterToken is the gate behind the token of the n-th request.
func afterToken(n int) string { return fmt.Sprint("after ", n) }

// firstToken runs a command that makes the n-th request, and returns the time from the
// token to the first byte of its standard output.
func (b *bench) firstToken(c *constellation, llm *fakellm.Server, n int, cmd *exec.Cmd) (float64, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stderr = b.log
	if err := start(cmd, true); err != nil {
		return 0, err
	}
	if _, err := llm.Wait(context.Background(), n+1); err != nil {
		return 0, err
	}
	if err := c.rest(); err != nil {
		return 0, err
	}
	begin := time.Now()
	llm.Open(fmt.Sprint(n))
	var one [1]byte
	_, err = io.ReadFull(out, one[:])
	wall := float64(time.Since(begin))
	llm.Open(afterToken(n))
	_, rest := io.Copy(io.Discard, out)
	return wall, errors.Join(err, rest, cmd.Wait())
}

// rest waits until no service has used CPU time for 5 ms.
func (c *constellation) rest() error {
	var last map[string]float64
	for since := time.Now(); time.Since(since) < 5*time.Millisecond; {
		now, err := c.clocks()
		if err != nil {
			return err
		}
		if !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
	}
	return nil
}
