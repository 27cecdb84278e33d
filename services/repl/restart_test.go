package repl

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"serve": func(args []string) error { return serve(args[0]) }})
	os.Exit(m.Run())
}

// serve serves a directory, with its socket, until it is killed.
func serve(dir string) error {
	log := slog.New(slog.DiscardHandler)
	s, err := New(settings(dir), nil, log)
	if err != nil {
		return err
	}
	srv := rpc.NewServer("repl", log)
	s.Register(srv)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	return srv.Serve(l)
}

// process starts a service that can be killed.
func process(t *testing.T, dir string) *zinotest.Process {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(dir, "s")))
	p := zinotest.Start(t, zinotest.Command(t, "serve", dir))
	client := dial(t, dir)
	p.Eventually("it answers", func() bool {
		_, err := rpc.Call(t.Context(), client, proto.ReplPages, proto.PagesRequest{})
		return err == nil
	})
	return p
}

func dial(t *testing.T, dir string) *rpc.Client {
	return rpctest.Client(t, "repl", filepath.Join(dir, "s"))
}

func into[T any](payload []byte, out chan<- T) error {
	var v T
	err := json.Unmarshal(payload, &v)
	out <- v
	return err
}

// attached connects a page over the socket and returns its identity and its jobs.
func attached(t *testing.T, dir string, a proto.Attach) (self proto.Attached, jobs chan proto.Job) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	first, jobs := make(chan proto.Attached, 1), make(chan proto.Job, 100)
	go func() { // until the service is killed or the test ends
		rpc.CallEvents(ctx, dial(t, dir), proto.ReplAttach, a, func(typ string, payload []byte) error {
			switch typ {
			case "attached":
				return into(payload, first)
			case "job":
				return into(payload, jobs)
			}
			return nil
		})
	}()
	return <-first, jobs
}

// TestKilled kills the service during a job: the next one marks the request as
// interrupted, for a page that comes back and for one that does not, and runs only
// what was written meanwhile.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	b := &env{t: t, dir: dir}
	p := process(t, dir)
	back, jobs := attached(t, dir, proto.Attach{Name: "back", Nonce: "n"})
	away, others := attached(t, dir, proto.Attach{Name: "away"})
	for _, file := range []string{back.File, away.File} {
		b.add(file, js("first"))
	}
	job := <-jobs
	<-others
	for _, file := range []string{back.File, away.File} {
		b.has(file, "executing (")
	}
	p.Kill()
	b.add(back.File, fmt.Sprintf("\n> **me** to back-%s at 10:00:00\n%s", back.ID, js("second")))
	process(t, dir)
	if text := b.has(away.File, "interrupted"); !strings.Contains(text, "(**ERROR** after ") || strings.Contains(text, "executing (") {
		t.Errorf("the page that does not come back: %s", text)
	}
	again, jobs := attached(t, dir, proto.Attach{Name: "back", ID: back.ID, Nonce: "n"})
	if again.File != back.File {
		t.Errorf("%+v, before %+v", again, back)
	}
	client := dial(t, dir)
	if _, err := rpc.Call(t.Context(), client, proto.ReplResult, proto.JobResult{ID: back.ID, Nonce: "n", Job: job.Job, OK: true}); err == nil {
		t.Error("an answer to a job of the service that was killed was accepted")
	}
	next := <-jobs
	if strings.TrimSpace(next.Code) != "second" || next.Job == job.Job {
		t.Errorf("the next job is %+v", next)
	}
	if _, err := rpc.Call(t.Context(), client, proto.ReplResult, proto.JobResult{ID: back.ID, Nonce: "n", Job: next.Job, OK: true, Kind: "text", Value: "done"}); err != nil {
		t.Error(err)
	}
	text := b.has(back.File, "done")
	if strings.Count(text, "interrupted") != 1 || strings.Count(text, js("first")) != 1 || strings.Count(text, js("second")) != 1 {
		t.Errorf("the file: %s", text)
	}
	if len(jobs) != 0 {
		t.Errorf("another job is %+v", <-jobs)
	}
}

// TestKilledOften kills the service repeatedly while requests are written and answered:
// no request runs twice, and no byte of the user is lost.
func TestKilledOften(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	b := &env{t: t, dir: dir}
	const file = "debug/a-1a2b.md"
	ran := map[string]int{}
	for round := range 8 {
		p := process(t, dir)
		self, jobs := attached(t, dir, proto.Attach{Name: "a", ID: "1a2b", Nonce: "n"})
		if self.File != file {
			t.Fatalf("%+v", self)
		}
		client := dial(t, dir)
		for i := range 3 {
			b.add(file, js(fmt.Sprintf("r%d.%d.", round, i)))
		}
		for range round % 3 {
			job := <-jobs
			ran[strings.TrimSpace(job.Code)]++
			rpc.Call(t.Context(), client, proto.ReplResult, proto.JobResult{ID: self.ID, Nonce: "n", Job: job.Job, OK: true, Kind: "text", Value: "x"})
		}
		p.Kill()
		for len(jobs) > 0 {
			job := <-jobs
			ran[strings.TrimSpace(job.Code)]++
		}
	}
	text := b.file(file)
	for round := range 8 {
		for i := range 3 {
			code := fmt.Sprintf("r%d.%d.", round, i)
			if n := strings.Count(text, js(code)); n != 1 || ran[code] > 1 {
				t.Errorf("%s is there %d times and ran %d times", code, n, ran[code])
			}
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestDrain: a caller that waits gets its answer before the service stops; new pages
// and new code are refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	answered := b.eval(proto.Eval{Page: "a", Code: "1"})
	job := f.job(0)
	drained := make(chan error, 1)
	go func() { drained <- b.Drain(t.Context()) }()
	b.until("it drains", func() bool { return b.work.draining() })
	if _, err := b.Connect(proto.Attach{Name: "b"}); err == nil {
		t.Error("a new page was accepted")
	}
	if _, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "2"}); err == nil {
		t.Error("new code was accepted")
	}
	must(t, f.answer(job.Job, "1"))
	if r := zinotest.Receive(t, "the answer", answered); valueOf(r) != "1" {
		t.Errorf("%+v", r)
	}
	must(t, zinotest.Receive(t, "the end of the drain", drained))
	<-f.done
	b = newEnv(t, "")
	f = b.silentPage(proto.Attach{Name: "a"})
	b.add(f.Attached().File, js("1"))
	f.job(0)
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, b.Drain(expired))
}
