package repl

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// serveEnv makes the test binary a service in its own process, until it is killed:
// its value is the directory, which takes the socket too.
const serveEnv = "REPL_TEST_SERVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serve(dir string) error {
	s, err := New(settings(dir), quiet(io.Discard))
	if err != nil {
		return err
	}
	srv := rpc.NewServer("repl", quiet(io.Discard))
	s.Register(srv)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	return srv.Serve(l)
}

// process starts a service that can be killed.
func process(t *testing.T, dir string) (kill func()) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(dir, "s")))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+dir)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	kill = func() {
		if cmd.ProcessState == nil {
			must(t, cmd.Process.Kill())
			cmd.Wait() // it was killed: that is its error
		}
	}
	t.Cleanup(kill)
	client := dial(t, dir)
	eventually(func() bool {
		_, err := rpc.Call(t.Context(), client, proto.ReplPages, proto.PagesRequest{})
		return err == nil
	})
	return kill
}

func dial(t *testing.T, dir string) *rpc.Client {
	client := &rpc.Client{Service: "repl", Path: filepath.Join(dir, "s")}
	t.Cleanup(client.Close)
	return client
}

// attached connects a realm over the socket and returns what it is told.
func attached(t *testing.T, dir string, a proto.Attach) (self proto.Attached, jobs chan proto.Job) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	first, jobs := make(chan proto.Attached, 1), make(chan proto.Job, 100)
	go func() {
		_, err := rpc.CallEvents(ctx, dial(t, dir), proto.ReplAttach, a, func(typ string, payload []byte) error {
			switch typ {
			case "attached":
				return into(payload, first)
			case "job":
				return into(payload, jobs)
			}
			return nil
		})
		_ = err // killed, or the test has ended
	}()
	return <-first, jobs
}

// TestKilled kills the service while it executes: the next one marks the request
// as interrupted, for a page that comes back and for one that does not, and runs
// what was written meanwhile, and nothing else.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	b := &env{t: t, dir: dir}
	kill := process(t, dir)
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
	kill()
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
		t.Error("an answer to a job of the service that was killed was taken")
	}
	next := <-jobs
	if strings.TrimSpace(next.Code) != "second" || next.Job == job.Job {
		t.Errorf("it was given %+v", next)
	}
	if _, err := rpc.Call(t.Context(), client, proto.ReplResult, proto.JobResult{ID: back.ID, Nonce: "n", Job: next.Job, OK: true, Kind: "text", Value: "done"}); err != nil {
		t.Error(err)
	}
	text := b.has(back.File, "done")
	if strings.Count(text, "interrupted") != 1 || strings.Count(text, js("first")) != 1 || strings.Count(text, js("second")) != 1 {
		t.Errorf("the file: %s", text)
	}
	if len(jobs) != 0 {
		t.Errorf("it was given %+v too", <-jobs)
	}
}

// TestKilledOften kills the service again and again while requests are written and
// answered: none runs twice, and no byte of a user's is lost.
func TestKilledOften(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	b := &env{t: t, dir: dir}
	const file = "debug/a-1a2b.md"
	ran := map[string]int{}
	for round := range 8 {
		kill := process(t, dir)
		self, jobs := attached(t, dir, proto.Attach{Name: "a", ID: "1a2b", Nonce: "n"})
		if self.File != file {
			t.Fatalf("%+v", self)
		}
		client := dial(t, dir)
		for i := range 3 {
			b.add(file, js(fmt.Sprintf("r%d.%d.", round, i)))
		}
		for range round % 3 { // so far it gets
			job := <-jobs
			ran[strings.TrimSpace(job.Code)]++
			rpc.Call(t.Context(), client, proto.ReplResult, proto.JobResult{ID: self.ID, Nonce: "n", Job: job.Job, OK: true, Kind: "text", Value: "x"})
		}
		kill()
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

// TestDrain: who waits for an answer gets it before the service stops; nobody new
// is let in.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.silentPage(proto.Attach{Name: "a"})
	answered := make(chan error, 1)
	go func() {
		r, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "1"})
		if err == nil && r.Value != "1" {
			err = fmt.Errorf("%+v", r)
		}
		answered <- err
	}()
	job := f.job(0)
	drained := make(chan error, 1)
	go func() { drained <- b.Drain(t.Context()) }()
	eventually(func() bool { return b.work.draining() })
	if _, err := b.Connect(proto.Attach{Name: "b"}); err == nil {
		t.Error("a new page was let in")
	}
	if _, err := b.Eval(t.Context(), proto.Eval{Page: "a", Code: "2"}); err == nil {
		t.Error("new code was let in")
	}
	must(t, f.answer(job.Job, "1"))
	must(t, <-answered)
	must(t, <-drained)
	<-f.done
	b = newEnv(t, "")
	f = b.silentPage(proto.Attach{Name: "a"})
	b.add(f.Attached().File, js("1"))
	f.job(0)
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, b.Drain(expired))
}
