package bench_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/wire"
	"zino/pkg/zinotest/fakedaemon"
	"zino/proto"
)

// The interactive chat: zino and zino-chat on a pseudo-terminal.

// frame is part of the chat's frames with an empty editor.
const frame = ">\r\n"

// benchChatStart measures the time from Enter in a shell to the first frame of zino,
// and to the first line, which needs the services. The floor is a program that writes
// one line.
func benchChatStart(b *bench) ([]line, error) {
	hello, err := b.program("line.c")
	if err != nil {
		return nil, err
	}
	c, llm, err := b.sessionWorld()
	defer leave(c, llm)
	if err != nil {
		return nil, err
	}
	shell, err := b.terminal(exec.Command("sh"))
	if err != nil {
		return nil, err
	}
	if _, err := shell.until(0, "$ "); err != nil {
		return nil, err
	}
	var floors, frames, ready, alone []float64
	for range 15 {
		var lines []float64
		for range 5 {
			mark := shell.mark()
			took, err := shell.typed(hello+"\n", "one line")
			if err == nil {
				_, err = shell.until(mark, "$ ")
			}
			if err != nil {
				return nil, err
			}
			lines = append(lines, took)
		}
		mark := shell.mark()
		first, err := shell.typed("zino --socket "+c.cfg.Daemon.Socket+"\n", frame)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		end, err := shell.until(mark, "/help")
		if err != nil {
			return nil, err
		}
		if _, err := shell.typed("\x04", "$ "); err != nil {
			return nil, err
		}
		mark = shell.mark()
		private, err := shell.typed("zino --provider offline\n", frame)
		if err != nil {
			return nil, err
		}
		if _, err := shell.until(mark, "/help"); err != nil {
			return nil, err
		}
		if _, err := shell.typed("\x04", "$ "); err != nil {
			return nil, err
		}
		floors, frames, alone = append(floors, median(lines)), append(frames, first), append(alone, private)
		ready = append(ready, first+float64(end.Sub(begin)))
	}
	return []line{
		line{
			name: "zino, Enter in a shell to the first frame", goals: []goal{atMost(25e6)},
			note: fmt.Sprintf("wall time with running services; first line after %s; limit 40 ms; floor: a program that writes one line", nanoseconds.text(median(ready))),
		}.over(frames, floors),
		line{name: "the same while its services start", goals: []goal{atMost(40e6)}, note: "wall time; eight services share the cores"}.over(alone, floors),
	}, shell.close("exit\n")
}

// benchChatParent measures the CPU time of zino until zino-chat runs, whose place a
// program that writes one line takes.
func benchChatParent(b *bench) ([]line, error) {
	stub, err := b.program("line.c")
	if err != nil {
		return nil, err
	}
	zino, err := b.binary("zino")
	if err != nil {
		return nil, err
	}
	dir := b.path("siblings")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Symlink(stub, filepath.Join(dir, "zino-chat")), copyFile(filepath.Join(dir, "zino"), zino)); err != nil {
		return nil, err
	}
	socket := b.path("nobody.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	defer l.Close() // never answers: zino waits while its time is read
	var cpus []float64
	for range 30 {
		x, err := b.terminal(exec.Command(filepath.Join(dir, "zino"), "--socket", socket))
		if err != nil {
			return nil, err
		}
		_, err = x.until(0, "one line")
		cpu, err2 := cpuOf(x.cmd.Process.Pid)
		x.cmd.Process.Kill()
		x.cmd.Wait() // killed: the status is ignored
		if err := errors.Join(err, err2, x.master.Close()); err != nil {
			return nil, err
		}
		cpus = append(cpus, cpu)
	}
	return []line{{name: "zino, CPU until zino-chat runs", measured: median(cpus), goals: []goal{atMost(3e6)}, note: "a program that writes one line stands for zino-chat"}}, nil
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o700)
}

// benchChatStream types keys while an answer of 1,000 deltas a second arrives, and
// measures the CPU time of zino-chat during another one.
func benchChatStream(b *bench) ([]line, error) {
	p, err := newPaced(b)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	defer p.client.Close()
	p.text = recipe
	x, pid, err := b.chat(p.cfg.Daemon.Socket)
	if err != nil {
		return nil, err
	}
	stream := func(during func() error) error {
		if _, err := x.typed("Count.\r", "Working"); err != nil {
			return err
		}
		mark := x.mark()
		select {
		case p.begin <- struct{}{}:
		case <-time.After(ttyTimeout):
			return fmt.Errorf("no turn begins: the terminal shows %q", x.tail())
		}
		if err := during(); err != nil {
			return err
		}
		_, err := x.until(mark, theEnd)
		if err == nil {
			_, err = x.until(mark, atRest)
		}
		return err
	}
	var echoes []float64
	for range 3 {
		err := stream(func() error {
			for n := range 25 {
				time.Sleep(40*time.Millisecond + rand.N(50*time.Millisecond)) // in no step with the frames
				echo, err := x.typed("q", "> "+strings.Repeat("q", n+1)+"\r\n")
				if err != nil {
					return err
				}
				echoes = append(echoes, echo)
			}
			_, err := x.typed("\x15", frame) // Ctrl-U
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var cpus []float64
	for range 3 {
		before, err := cpuOf(pid)
		if err != nil {
			return nil, err
		}
		if err := stream(func() error { return nil }); err != nil {
			return nil, err
		}
		after, err := cpuOf(pid)
		if err != nil {
			return nil, err
		}
		cpus = append(cpus, after-before)
	}
	return []line{
		{
			name: "echo of a key during 1,000 deltas a second", measured: percentile(echoes, 95), goals: []goal{atMost(20e6)},
			note: fmt.Sprintf("wall time through the terminal, p95 of %d; p50 %s, largest %s", len(echoes), nanoseconds.text(median(echoes)), nanoseconds.text(percentile(echoes, 100))),
		},
		{name: "an answer of 3 s, a delta a millisecond, CPU", measured: median(cpus), goals: []goal{atMost(90e6)}, note: "of zino-chat"},
	}, x.close("\x04")
}

// atRest begins a frame of a chat without a turn: a blank row stands above the editor.
const atRest = "\x1b[?7l\r\n>"

// theEnd is the last word of recipe.
const theEnd = "crumbs."

// recipe returns the i-th delta of an answer: words in paragraphs.
func recipe(i int) string {
	switch {
	case i == deltasOfRun-1:
		return theEnd
	case i%60 == 59:
		return "loaf.\n\n"
	}
	return [...]string{"bread ", "and ", "*butter* ", "for ", "`breakfast` "}[i%5]
}

// benchChatIdle measures a chat that waits for a key: CPU time and wake-ups of zino and
// zino-chat over five seconds, and memory.
func benchChatIdle(b *bench) ([]line, error) {
	c, llm, err := b.sessionWorld()
	defer leave(c, llm)
	if err != nil {
		return nil, err
	}
	x, chat, err := b.chat(c.cfg.Daemon.Socket)
	if err != nil {
		return nil, err
	}
	var cpu [2]float64
	for i := range cpu {
		time.Sleep(5 * time.Second) // the first time to come to rest
		for _, pid := range []int{x.cmd.Process.Pid, chat} {
			v, err := cpuOf(pid)
			if err != nil {
				return nil, err
			}
			cpu[i] += v
		}
	}
	rss, err := status(chat, "VmRSS")
	if err != nil {
		return nil, err
	}
	own, err := pss(chat)
	if err != nil {
		return nil, err
	}
	parent, err := pss(x.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	return []line{
		{name: "an idle chat, CPU in 5 s", measured: cpu[1] - cpu[0], goals: []goal{atMost(0)}, note: "zino and zino-chat"},
		{name: "an idle chat, RSS of zino-chat", unit: megabytes, measured: rss * 1024, goals: []goal{atMost(24 << 20)}, note: fmt.Sprintf("PSS %s, of zino %s", megabytes.text(own), megabytes.text(parent))},
	}, x.close("\x04")
}

// answers is the number of answers of the long text.
const answers = 800

// benchChatMarkdown shows a text of 608 KB in 800 answers.
func benchChatMarkdown(b *bench) ([]line, error) {
	answer := "## Bread\n\nTake *flour*, **water** and `salt`; see [the book](https://example.com/bread).\n\n" +
		"| what | grams |\n|---|---:|\n| flour | 500 |\n| water | 350 |\n| salt | 10 |\n\n" +
		"1. Mix.\n2. Wait for an hour.\n3. Bake.\n\n```go\nfunc bake(loaf string, minutes int) error {\n\tif minutes < 40 {\n\t\treturn errors.New(\"not yet\") // patience\n\t}\n\treturn nil\n}\n```\n\n"
	answer += strings.Repeat("Bread rises in a warm kitchen, slowly. ", (760-len(answer))/39) + "\n"
	d := fakedaemon.New(b.t)
	x, chat, err := b.chat(d.Socket)
	if err != nil {
		return nil, err
	}
	before, err := cpuOf(chat)
	if err != nil {
		return nil, err
	}
	if _, err := x.typed("bread\r", "Working"); err != nil {
		return nil, err
	}
	turn := d.Turn()
	for range answers {
		for i := 0; i < len(answer); i += 16 {
			turn.Send(packet(proto.TypeAssistantDelta, proto.AssistantDelta{Text: answer[i:min(i+16, len(answer))]}))
		}
		turn.Send(packet(proto.TypeAssistantFinal, proto.AssistantFinal{Text: answer}))
	}
	turn.Send(packet(proto.TypeNotice, proto.Notice{Text: "all of it"}))
	turn.End(proto.TurnDone)
	if _, err := x.until(0, "all of it"); err != nil {
		return nil, err
	}
	after, err := cpuOf(chat)
	if err != nil {
		return nil, err
	}
	peak, err := status(chat, "VmHWM")
	if err != nil {
		return nil, err
	}
	return []line{{
		name: "Markdown in 800 answers, CPU", measured: after - before, goals: []goal{atMost(800e6)},
		note: fmt.Sprintf("of zino-chat; %d KB in pieces of 16 bytes; peak RSS %s", answers*len(answer)/1000, megabytes.text(peak*1024)),
	}}, x.close("\x04")
}

// benchChatTurns runs 10,000 turns with a command and an answer each, and measures by how
// much zino-chat has grown since the first 100.
func benchChatTurns(b *bench) ([]line, error) {
	const turns, first = 10_000, 100
	d := fakedaemon.New(b.t)
	d.Remove("turn_say") // a message for a turn that has just ended waits here
	x, chat, err := b.chat(d.Socket)
	if err != nil {
		return nil, err
	}
	var sizes [2]float64
	begin := time.Now()
	for n := 1; n <= turns; n++ {
		if _, err := x.master.WriteString("what is in the oven?\x1b[13u"); err != nil { // Enter, as kitty reports it: never part of a paste
			return nil, err
		}
		turn, id := d.Turn(), fmt.Sprint("call_", n)
		turn.Send(packet(proto.TypeToolRequested, proto.ToolRequested{ID: id, Name: "bash", Input: proto.Raw(`{"command":"ls oven"}`)}))
		turn.Send(packet(proto.TypeToolStarted, proto.ToolStarted{ID: id, Name: "bash"}))
		turn.Send(packet(proto.TypeToolFinished, proto.ToolFinished{ID: id, Name: "bash", OK: true, Result: ovenOutput}))
		turn.Send(packet(proto.TypeAssistantDelta, proto.AssistantDelta{Text: "There are **twenty** loaves"}))
		turn.Send(packet(proto.TypeAssistantFinal, proto.AssistantFinal{Text: fmt.Sprintf("There are **twenty** loaves in the oven, as before turn %d.", n)}))
		turn.Send(packet(proto.TypeUsage, proto.InferenceUsage{InputTokens: 1000, OutputTokens: 50, ContextWindow: 200_000}))
		turn.End(proto.TurnDone)
		if n != first && n != turns {
			continue
		}
		if _, err := x.until(0, fmt.Sprintf("before turn %d.", n)); err != nil {
			return nil, err
		}
		if sizes[n/turns], err = status(chat, "VmRSS"); err != nil {
			return nil, err
		}
	}
	return []line{{
		name: "10,000 turns, growth of zino-chat", unit: megabytes, measured: (sizes[1] - sizes[0]) * 1024, goals: []goal{atMost(8 << 20)},
		note: fmt.Sprintf("RSS after 100 turns %s; a turn takes %s", megabytes.text(sizes[0]*1024), nanoseconds.text(float64(time.Since(begin))/turns)),
	}}, x.close("\x04")
}

// packet returns a packet of a turn.
func packet(typ string, v any) string {
	b, err := wire.AppendObject(nil, typ, v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// ovenOutput is the result of a command with 20 lines of output.
var ovenOutput = proto.Raw(`{"ok":true,"data":{"stdout":"` + strings.Repeat(`a loaf of bread, not done yet\n`, 20) + `","stderr":"","exit_code":0,"timed_out":false}}`)

// chat opens a chat with a daemon, and returns its terminal and the pid of zino-chat.
func (b *bench) chat(socket string) (*tty, int, error) {
	zino, err := b.binary("zino")
	if err != nil {
		return nil, 0, err
	}
	x, err := b.terminal(exec.Command(zino, "--socket", socket))
	if err != nil {
		return nil, 0, err
	}
	if _, err := x.until(0, "/help"); err != nil {
		return nil, 0, err
	}
	pid, err := child(x.cmd.Process.Pid, "zino-chat")
	return x, pid, err
}

// percentile returns the p-th percentile of a list.
func percentile(list []float64, p int) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[min(len(list)-1, len(list)*p/100)]
}
