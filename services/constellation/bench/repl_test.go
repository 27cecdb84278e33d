package bench_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// replWorld is zino-repl with pages in this process.
type replWorld struct {
	dir    string
	config string
	http   string // URL of its pages
	p      *process
	client *rpc.Client
	leave  context.CancelFunc
}

// repl starts zino-repl with its defaults in a new directory.
func (b *bench) repl() (*replWorld, error) {
	program, err := b.binary("zino-repl")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "r")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	cfg := config.Default()
	cfg.Repl.Dir, cfg.Repl.HTTP, cfg.Repl.Socket = filepath.Join(dir, "work"), l.Addr().String(), filepath.Join(dir, "repl.sock")
	cfg.File = filepath.Join(dir, config.FileName)
	cfg.Repl.Serve = filepath.Join(dir, "served")
	if err := errors.Join(os.Mkdir(cfg.Repl.Dir, 0o700), os.Mkdir(cfg.Repl.Serve, 0o700), cfg.Write(cfg.File)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(cfg.Repl.Serve, "page.html"), []byte("<!doctype html><title>page</title>"), 0o600); err != nil {
		return nil, err
	}
	w := &replWorld{dir: cfg.Repl.Dir, config: cfg.File, http: "http://" + cfg.Repl.HTTP, client: &rpc.Client{Service: "repl", Path: cfg.Repl.Socket}}
	if w.p, err = b.serveAt(false, cfg.Repl.Socket, "repl", program, "--config", cfg.File); err != nil {
		return nil, err
	}
	_, err = rpc.Call(context.Background(), w.client, proto.Ping, proto.PingRequest{})
	return w, err
}

func (w *replWorld) stop() {
	if w.leave != nil {
		w.leave()
	}
	w.client.Close()
	w.p.stop()
}

// attach connects n pages that answer every job with 2, and returns them.
func (w *replWorld) attach(n int) (pages []proto.Attached, err error) {
	if w.leave != nil {
		return nil, errors.New("there are pages already")
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.leave = cancel
	attached, failed := make(chan proto.Attached), make(chan error, n)
	for i := range n {
		go func() {
			var me proto.Attached
			_, err := rpc.CallEvents(ctx, w.client, proto.ReplAttach, proto.Attach{Name: fmt.Sprintf("page %d", i)}, func(typ string, payload []byte) error {
				if typ == "attached" {
					err := json.Unmarshal(payload, &me)
					attached <- me
					return err
				}
				var job proto.Job
				if err := json.Unmarshal(payload, &job); err != nil || typ != "job" {
					return err
				}
				_, err := rpc.Call(ctx, w.client, proto.ReplResult, proto.JobResult{ID: me.ID, Nonce: me.Nonce, Job: job.Job, OK: true, Kind: "json", Value: "2"})
				return err
			}) // ends with ctx
			if ctx.Err() == nil {
				failed <- cmp.Or(err, errors.New("the REPL ended a page"))
			}
		}()
	}
	for range n {
		select {
		case me := <-attached:
			pages = append(pages, me)
		case err := <-failed:
			return nil, err
		case <-time.After(20 * time.Second):
			return nil, errors.New("a page was not attached")
		}
	}
	return pages, nil
}

// log has a page log the lines of an application that is never quiet, until the
// returned function is called.
func (w *replWorld) log(page proto.Attached, each time.Duration) (stop func() error) {
	done, result := make(chan struct{}), make(chan error)
	go func() {
		ticker := time.NewTicker(each)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				result <- nil
				return
			case <-ticker.C:
			}
			_, err := rpc.Call(context.Background(), w.client, proto.ReplEvents, proto.PageEvents{
				ID: page.ID, Nonce: page.Nonce, Events: []proto.PageEvent{{Type: "console", Level: "log", Message: "tick"}},
			})
			if err != nil {
				<-done
				result <- err
				return
			}
		}
	}()
	return func() error {
		close(done)
		return <-result
	}
}

// benchRepl measures the time from a save to the reply in the file: with an empty log,
// with a page that logs 60 times a second, and with a long log; and the CPU time at rest.
func benchRepl(b *bench) ([]line, error) {
	w, err := b.repl()
	if err != nil {
		return nil, err
	}
	defer w.stop()
	pages, err := w.attach(1)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.dir, pages[0].File)
	empty, err := saves(file, 8)
	if err != nil {
		return nil, err
	}
	stop := w.log(pages[0], time.Second/60)
	busy, err := saves(file, 8)
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	if err := lengthen(file, 10<<20); err != nil {
		return nil, err
	}
	long, err := saves(file, 8)
	if err != nil {
		return nil, err
	}
	idle, err := idleCPU(w)
	if err != nil {
		return nil, err
	}
	const debounce = 150e6 // nanoseconds, the default
	saved := func(name string, measured float64) line {
		return line{name: "repl, save to reply" + name, measured: measured, goals: []goal{atMost(debounce + 8e6)}, note: "wall time; 150 ms of it are the debounce"}
	}
	return []line{
		saved("", empty), saved(", a page that logs 60 times a second", busy), saved(", a log of 10 MB", long),
		{name: "repl, idle for 5 s, CPU a second", measured: idle, goals: []goal{atMost(1e6)}, note: "one page, a log of 10 MB"},
	}, nil
}

// saves appends requests to a log, one after the other, and returns the median time
// until the reply.
func saves(file string, n int) (float64, error) {
	const reply = "```JSON\n2\n```"
	var times []float64
	for range n {
		before, err := tailOf(file)
		if err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := appendTo(file, "```js\n1+1\n```\n"); err != nil {
			return 0, err
		}
		for answered := false; !answered; {
			if time.Since(begin) > 10*time.Second {
				return 0, fmt.Errorf("no reply in %s", file)
			}
			now, err := tailOf(file)
			if err != nil {
				return 0, err
			}
			answered = strings.Count(now, reply) > strings.Count(before, reply)
			time.Sleep(time.Millisecond)
		}
		times = append(times, float64(time.Since(begin)))
	}
	return median(times), nil
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// tailOf returns the last 64 KiB of a file.
func tailOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-64<<10), 64<<10))
	return string(text), err
}

// lengthen inserts history before the content of a log file.
func lengthen(file string, bytesMore int) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	exchange := []byte("> **agent** to page-0 at 10:00:00\n```js\n1+1\n```\n> **page-0** to agent at 10:00:00 (1ms)\n```JSON\n3\n```\n\n")
	return os.WriteFile(file, append(bytes.Repeat(exchange, bytesMore/len(exchange)), old...), 0o600)
}

// idleCPU returns the service's CPU time per idle second.
func idleCPU(w *replWorld) (float64, error) {
	time.Sleep(5 * time.Second) // what attaching pages has begun ends
	before, err := cpuOf(w.p.pid())
	if err != nil {
		return 0, err
	}
	time.Sleep(5 * time.Second)
	after, err := cpuOf(w.p.pid())
	return (after - before) / 5, err
}
