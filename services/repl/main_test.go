package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/watch"
	"zino/proto"
)

// env is a service in a directory of the test's own.
type env struct {
	*Service
	t   testing.TB
	dir string
	out *syncBuffer
}

// newDir returns a short directory: socket paths must not exceed 108 bytes.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// settings are the configuration of a service whose times are short.
func settings(dir string) config.Repl {
	cfg := config.Default().Repl
	cfg.Dir, cfg.Socket = dir, filepath.Join(dir, "s")
	cfg.DebounceMS, cfg.Quiet, cfg.Cadence = 30, 0.2, 0.3
	return cfg
}

// newEnv starts a service, in a fresh directory if none is given.
func newEnv(t testing.TB, dir string, change ...func(*config.Repl)) *env {
	t.Helper()
	if dir == "" {
		dir = newDir(t)
	}
	cfg := settings(dir)
	for _, f := range change {
		f(&cfg)
	}
	b := &env{t: t, dir: dir, out: &syncBuffer{}}
	b.open(cfg)
	b.run(watch.New([]string{filepath.Join(cfg.Dir, logDir)}, 200*time.Millisecond, b.log))
	return b
}

// open makes a service that does not run yet.
func (b *env) open(cfg config.Repl) {
	b.t.Helper()
	var err error
	if b.Service, err = open(cfg, quiet(b.out)); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.stop)
}

func (b *env) stop() {
	if err := b.Close(); err != nil {
		b.t.Errorf("Close: %v", err)
	}
}

func (b *env) path(file string) string { return filepath.Join(b.dir, file) }

// file is a file's text, "" if there is none.
func (b *env) file(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

// add appends as "echo >>" does.
func (b *env) add(name, text string) {
	b.t.Helper()
	f, err := os.OpenFile(b.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		b.t.Error(err)
	}
	if err := f.Close(); err != nil {
		b.t.Error(err)
	}
}

func (b *env) write(name, text string) {
	b.t.Helper()
	must(b.t, os.WriteFile(b.path(name), []byte(text), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until a file's text satisfies ok. What never comes true is ended by
// go test's own time limit, with this line on the stack.
func (b *env) await(name string, ok func(text string) bool) string {
	b.t.Helper()
	for {
		text := b.file(name)
		if ok(text) {
			return text
		}
		pause()
	}
}

// has awaits a text in a file.
func (b *env) has(name string, words ...string) string {
	b.t.Helper()
	return b.await(name, func(text string) bool {
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
}

// settled awaits that a file ends with the footer and has n replies.
func (b *env) settled(name string, n int) string {
	b.t.Helper()
	return b.await(name, func(text string) bool {
		return strings.HasSuffix(text, "\n\n"+b.cfg.Footer+"\n") && len(reply.FindAllString(text, -1)) == n
	})
}

// reply is the header of a reply.
var reply = regexp.MustCompile(`(?m)^> \*\*[a-z0-9-]+\*\* to .* at [0-9:]{8} \(.*\)$`)

var tick = time.NewTicker(2 * time.Millisecond)

// pause is the distance between two looks.
func pause() { <-tick.C }

// eventually waits until ok holds.
func eventually(ok func() bool) {
	for !ok() {
		pause()
	}
}

// fake is a realm that answers at once, unless it is told to hold.
type fake struct {
	*Page
	b    *env
	done chan struct{}

	mu   sync.Mutex
	ran  []string // the code of its jobs
	jobs []proto.Job
	told []string // what was cancelled
	mute bool
}

// realm connects a realm that answers with the length of the code.
func (b *env) page(a proto.Attach) *fake {
	b.t.Helper()
	r, err := b.Connect(a)
	if err != nil {
		b.t.Fatal(err)
	}
	f := &fake{Page: r, b: b, done: make(chan struct{})}
	go f.serve()
	b.t.Cleanup(f.leave)
	return f
}

// silent connects a realm that never answers by itself.
func (b *env) silentPage(a proto.Attach) *fake {
	b.t.Helper()
	f := b.page(a)
	f.mu.Lock()
	f.mute = true
	f.mu.Unlock()
	return f
}

func (f *fake) leave() {
	f.Close()
	<-f.done
}

func (f *fake) serve() {
	defer close(f.done)
	for {
		typ, packet, err := f.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			f.b.t.Errorf("Next: %v", err)
			return
		}
		f.take(typ, packet)
	}
}

func (f *fake) take(typ string, packet any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if typ == "cancel" {
		f.told = append(f.told, packet.(proto.JobName).Job)
		return
	}
	job := packet.(proto.Job)
	f.ran, f.jobs = append(f.ran, job.Code), append(f.jobs, job)
	if !f.mute {
		// It answers from another goroutine, as every transport does.
		go f.answer(job.Job, fmt.Sprint(len(job.Code)))
	}
}

// answer is the realm's answer to a job; the error is for those who look at it.
func (f *fake) answer(job, value string) error {
	a := f.Attached()
	_, err := f.b.Result(context.Background(), proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: job, OK: true, Kind: "json", Value: value})
	return err
}

// code are the jobs that it got.
func (f *fake) code() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.ran...)
}

// job awaits the n-th job, from 0.
func (f *fake) job(n int) proto.Job {
	eventually(func() bool { return len(f.code()) > n })
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs[n]
}

// syncBuffer is a log that a test reads while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

const fence = "```"

// js is a block of code.
func js(code string) string { return fence + "js\n" + code + "\n" + fence + "\n" }

// quiet is a logger for the test to look at.
func quiet(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
