package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/watch"
	"zino/pkg/zinotest"
	"zino/proto"
)

var must, newDir = zinotest.Must, zinotest.Dir

// env is a service in a directory of its own.
type env struct {
	*Service
	t   testing.TB
	dir string
	out zinotest.Buffer
}

// settings returns the configuration of a service with short times.
func settings(dir string) config.Repl {
	cfg := config.Default().Repl
	cfg.Dir, cfg.Socket = dir, filepath.Join(dir, "s")
	cfg.DebounceMS, cfg.Quiet, cfg.Cadence = 30, 0.2, 0.3
	return cfg
}

// newEnv starts a service in a directory; "" is a new one.
func newEnv(t testing.TB, dir string, change ...func(*config.Repl)) *env {
	t.Helper()
	if dir == "" {
		dir = newDir(t)
	}
	cfg := settings(dir)
	for _, f := range change {
		f(&cfg)
	}
	b := &env{t: t, dir: dir}
	b.open(cfg, watch.New([]string{filepath.Join(dir, logDir)}, 200*time.Millisecond, b.out.Logger()))
	return b
}

func (b *env) open(cfg config.Repl, w *watch.Watcher) {
	b.t.Helper()
	var err error
	b.Service, err = open(cfg, b.out.Logger())
	must(b.t, err)
	b.run(w)
	b.t.Cleanup(b.stop)
}

func (b *env) stop() { must(b.t, b.Close()) }

func (b *env) path(file string) string { return filepath.Join(b.dir, file) }

// file returns the text of a file, "" if it does not exist.
func (b *env) file(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

// add appends to a file in one write.
func (b *env) add(name, text string) {
	b.t.Helper()
	zinotest.Append(b.t, b.path(name), text)
}

func (b *env) write(name, text string) {
	b.t.Helper()
	zinotest.Write(b.t, b.path(name), text)
}

// waitFile waits until the text of a file satisfies ok.
func (b *env) waitFile(name, what string, ok func(text string) bool) (text string) {
	b.t.Helper()
	met := false
	defer func() {
		if !met {
			b.t.Logf("%s:\n%s", name, text)
		}
	}()
	zinotest.Eventually(b.t, what, func() bool {
		text = b.file(name)
		return ok(text)
	})
	met = true
	return text
}

// has waits for texts in a file.
func (b *env) has(name string, parts ...string) string {
	b.t.Helper()
	return b.waitFile(name, fmt.Sprintf("%q in %s", parts, name), func(text string) bool {
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	})
}

// settled waits until a file ends with the footer and has n replies.
func (b *env) settled(name string, n int) string {
	b.t.Helper()
	return b.waitFile(name, fmt.Sprintf("%d replies in %s", n, name), func(text string) bool {
		return strings.HasSuffix(text, "\n\n"+b.cfg.Footer+"\n") && len(reply.FindAllString(text, -1)) == n
	})
}

// reply is the header of a reply.
var reply = regexp.MustCompile(`(?m)^> \*\*[a-z0-9-]+\*\* to .* at [0-9:]{8} \(.*\)$`)

// until waits for a condition.
func (b *env) until(what string, condition func() bool) {
	b.t.Helper()
	zinotest.Eventually(b.t, what, condition)
}

// fake is a page that answers at once, unless it is silent.
type fake struct {
	*Page
	b    *env
	done chan struct{}

	mu       sync.Mutex
	ran      []string // the code of its jobs
	jobs     []proto.Job
	canceled []string
	silent   bool
}

// page connects a page that answers with the length of the code.
func (b *env) page(a proto.Attach) *fake {
	b.t.Helper()
	p, err := b.Connect(a)
	must(b.t, err)
	f := &fake{Page: p, b: b, done: make(chan struct{})}
	go f.serve()
	b.t.Cleanup(f.leave)
	return f
}

// silentPage connects a page that never answers by itself.
func (b *env) silentPage(a proto.Attach) *fake {
	b.t.Helper()
	f := b.page(a)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = true
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
		f.mu.Lock()
		if typ == "cancel" {
			f.canceled = append(f.canceled, packet.(proto.JobName).Job)
		} else {
			job := packet.(proto.Job)
			f.ran, f.jobs = append(f.ran, job.Code), append(f.jobs, job)
			if !f.silent { // answer from another goroutine, as every transport does
				go f.answer(job.Job, fmt.Sprint(len(job.Code)))
			}
		}
		f.mu.Unlock()
	}
}

// answer sends a result.
func (f *fake) answer(job, value string) error {
	a := f.Attached()
	_, err := f.b.Result(context.Background(), proto.JobResult{ID: a.ID, Nonce: a.Nonce, Job: job, OK: true, Kind: "json", Value: value})
	return err
}

// events sends events.
func (f *fake) events(events ...proto.PageEvent) error {
	a := f.Attached()
	_, err := f.b.Events(f.b.t.Context(), proto.PageEvents{ID: a.ID, Nonce: a.Nonce, Events: events})
	return err
}

// code returns the code of its jobs.
func (f *fake) code() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.ran...)
}

// job waits for the n-th job, from 0.
func (f *fake) job(n int) proto.Job {
	f.b.t.Helper()
	f.b.until(fmt.Sprintf("job %d", n), func() bool { return len(f.code()) > n })
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs[n]
}

// wasCanceled waits for a cancel packet for the job and nothing else.
func (f *fake) wasCanceled(job string) {
	f.b.t.Helper()
	f.b.until("a cancel packet", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.canceled) == 1 && f.canceled[0] == job
	})
}

const fence = "```"

// js returns a block of code.
func js(code string) string { return fence + "js\n" + code + "\n" + fence + "\n" }

// valueOf returns the value of code that ran, or "".
func valueOf(r proto.Evaluated) string {
	if r.Value == nil {
		return ""
	}
	return *r.Value
}
