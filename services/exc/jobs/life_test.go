package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// serve serves the methods of jobs.
func (e *env) serve(t testing.TB) string {
	t.Helper()
	socket, _ := rpctest.New(t, "exc", "", func(r *rpc.Server) {
		e.Register(r)
		rpc.Handle(r, proto.ExcJobStop, e.Stop) // exc decides first whether the caller may
	})
	return socket
}

// background has a job go on without its call.
func background(t testing.TB, job *Job) {
	t.Helper()
	zinotest.Must(t, job.Background(t.Context()))
	job.Leave()
}

// TestOldProgressAfterBackground checks that progress from before a job was sent to the
// background, received afterwards, does not bring it back.
func TestOldProgressAfterBackground(t *testing.T) {
	e := open(t, nil)
	job := e.start(t, "sleep 1000")
	old := job.State()
	background(t, job)
	job.update(old)
	zinotest.Equal(t, "background", job.State().Background, true)
}

// TestExpire checks whose time is over, and when.
func TestExpire(t *testing.T) {
	e := open(t, func(c *Config) { c.Linger, c.MaxAge, c.Orphan = time.Minute, time.Hour, 10*time.Minute })
	start := time.Now()
	waited := e.start(t, "sleep 1000")
	orphan := e.start(t, "sleep 1000")
	orphan.Leave()
	session := e.start(t, "sleep 1000")
	background(t, session)
	leased := e.start(t, "sleep 1000", func(s *Spec) { s.Session = "s2" })
	background(t, leased)
	kept := e.start(t, "sleep 1000")
	background(t, kept)
	zinotest.Must(t, kept.Keep())
	for _, tt := range []struct {
		after time.Duration
		want  []*Job
	}{
		{50 * time.Second, nil},
		{70 * time.Second, []*Job{session}},
		{11 * time.Minute, []*Job{orphan}},
		{61 * time.Minute, []*Job{kept}},
	} {
		e.mu.Lock()
		e.leases["s2"] = start.Add(tt.after - 30*time.Second)
		e.mu.Unlock()
		e.expire(start.Add(tt.after))
		for _, job := range tt.want {
			if state := wait(t, job); !state.Stopped {
				t.Errorf("after %v: %+v", tt.after, state)
			}
		}
	}
	for _, job := range []*Job{waited, leased} {
		if job.Ended() {
			t.Errorf("%s has ended: %+v", job.ID(), job.State())
		}
	}
	e.expire(start.Add(63 * time.Minute))
	wait(t, leased)
}

// TestKeepInPrivateConstellation checks that a job that ends with its services cannot
// be kept.
func TestKeepInPrivateConstellation(t *testing.T) {
	e := open(t, func(c *Config) { c.Private = true })
	job := e.start(t, "sleep 1000")
	zinotest.Error(t, job.Keep(), proto.ErrInvalid, "ends with the run")
}

// TestCollect checks which finished jobs are removed: the oldest first.
func TestCollect(t *testing.T) {
	e := open(t, nil)
	now := time.Now()
	var ended []*Job
	for i := range keepCount + 5 {
		rec := Record{ID: fmt.Sprintf("j-%08d", i), Session: "s", Started: now.Add(time.Duration(i) * time.Second).Format(time.RFC3339Nano), Limits: Limits{OutputMax: 1}}
		job := newJob(e.Jobs, rec)
		zinotest.Must(t, os.MkdirAll(job.dir, 0o700))
		job.end(proto.JobState{State: proto.JobExited, Ended: rec.Started})
		zinotest.Must(t, e.add(job))
		ended = append(ended, job)
	}
	running := e.start(t, "sleep 1000")
	e.collect(now)
	for i, job := range ended {
		if _, err := os.Stat(job.dir); (err == nil) != (i >= 5) {
			t.Errorf("job %d: %v", i, err)
		}
	}
	e.collect(now.Add(keepAge + 100*time.Second)) // the first 100 are older now
	zinotest.Equal(t, "jobs left", len(e.list("")), keepCount+5-100+1)
	big, err := os.Create(filepath.Join(ended[150].dir, stdoutFile))
	zinotest.Must(t, errors.Join(err, big.Truncate(keepBytes+1), big.Close())) // a sparse file
	e.collect(now)
	if left := e.list(""); len(left) != 1+keepCount+5-151 {
		t.Errorf("%d jobs are left behind a large one", len(left))
	}
	if running.Ended() {
		t.Error("a running job was removed")
	}
}

// TestStartFails checks that a job that cannot be recorded is not started, and leaves
// nothing.
func TestStartFails(t *testing.T) {
	e := open(t, nil)
	s := spec("touch " + e.dir + "/ran")
	zinotest.Must(t, os.Mkdir(e.Dir(s.ID), 0o700))
	zinotest.Must(t, os.Mkdir(filepath.Join(e.Dir(s.ID), recordFile), 0o700)) // in the way, as a full disk is
	if _, err := e.Start(t.Context(), s); err == nil {
		t.Error("started")
	}
	if _, err := os.Stat(e.dir + "/ran"); err == nil {
		t.Error("the command ran")
	}
	zinotest.Equal(t, "directories left", zinotest.Names(t, e.cfg.Dir), "")
	if e.Running() {
		t.Error("it counts as running")
	}
}

// TestFound checks what Open makes of the directories that it finds.
func TestFound(t *testing.T) {
	dir := zinotest.Dir(t)
	record := func(id, runtime string) string {
		b, err := json.Marshal(Record{ID: id, Session: "s", Runtime: runtime, Started: "2026-11-22T10:00:00Z", Limits: Limits{OutputMax: 10}})
		zinotest.Must(t, err)
		return string(b)
	}
	zinotest.WriteFiles(t, dir+"/jobs", map[string]string{
		"j-exited/job.json": record("j-exited", dir), "j-exited/state.json": `{"proto":1,"state":"exited","exit_code":3,"stdout_bytes":0,"stderr_bytes":0}`,
		"j-lost/job.json": record("j-lost", dir), "j-lost/state.json": `{"proto":1,"state":"running","stdout_bytes":0,"stderr_bytes":0}`, "j-lost/stdout": "abc",
		"j-early/job.json": record("j-early", dir), // killed before it had a state
		"j-torn/job.json":  record("j-torn", dir), "j-torn/state.json": `{"proto":1,"sta`,
		"j-other/job.json": record("j-other", "/elsewhere"), "j-other/state.json": `{"proto":1,"state":"running","stdout_bytes":0,"stderr_bytes":0}`,
		"j-damaged/job.json": `{"id":"j-da`,
		"j-renamed/job.json": record("j-exited", dir),
		"notes/job.json":     "no job",
	})
	e := openAt(t, dir, nil)
	var got strings.Builder
	for _, job := range e.list("") {
		got.WriteString(job.ID() + " " + job.State().State + "\n")
		zinotest.Equal(t, job.ID()+" has ended", job.Ended(), true)
	}
	zinotest.Equal(t, "jobs", got.String(), "j-early lost\nj-exited exited\nj-lost lost\nj-other lost\nj-torn lost\n")
	zinotest.Contains(t, "the log", e.log.String(), "j-damaged", "j-renamed")
	lost, err := e.Get("j-lost", "")
	zinotest.Must(t, err)
	zinotest.Equal(t, "its state is recorded", lost.State().StdoutBytes, 3)
	stored, err := parseState([]byte(zinotest.Read(t, dir+"/jobs/j-lost/state.json")))
	if err != nil || stored.State != proto.JobLost {
		t.Errorf("stored %+v, %v", stored, err)
	}
}

// TestOtherConstellation checks that a job of another constellation is left to that.
func TestOtherConstellation(t *testing.T) {
	one := open(t, nil)
	job := one.start(t, "sleep 1000")
	other := openAt(t, zinotest.Dir(t), func(c *Config) { c.Dir = one.cfg.Dir })
	zinotest.Equal(t, "jobs of the other", len(other.list("")), 0)
	if job.Ended() {
		t.Error("it was ended")
	}
}

// TestMethods checks the methods over the socket, also what everything that answers
// has in common.
func TestMethods(t *testing.T) {
	e := open(t, nil)
	fifo := filepath.Join(e.dir, "go")
	job := e.start(t, "echo one; while [ ! -e "+fifo+" ]; do sleep 0.01; done; echo two; echo err >&2; exit 4")
	background(t, job)
	socket := e.serve(t)
	id := job.ID()
	zinotest.Eventually(t, "the first line is there", func() bool { return texts(t, job) == "one\n|" })
	rpctest.Conformance(t, socket, []rpctest.Case{
		{Request: `{"type":"jobs","session_id":"none"}`, Reply: `{"type":"job_list","jobs":[]}`},
		{Request: `{"type":"job_output","job":"` + id + `","session_id":"other"}`, Code: "not_found", Message: "no job " + id + " in this session"},
		{Request: `{"type":"job_output","job":"j-none"}`, Code: "not_found", Message: "no job j-none"},
		{Request: `{"type":"job_output","job":"` + id + `","from":"x"}`, Code: "invalid", Message: "invalid from …"},
		{Request: `{"type":"job_output","job":"` + id + `","from":"9999:0"}`, Code: "invalid", Message: "from …"},
		{Request: `{"type":"job_output"}`, Code: "invalid", Message: "Invalid request: …"},
		{Request: `{"type":"job_wait","job":"` + id + `","session_id":"other"}`, Code: "not_found", Message: "no job " + id + " in this session"},
		{Request: `{"type":"job_wait","job":"` + id + `","timeout_s":601}`, Code: "invalid", Message: "invalid timeout_s 601: …"},
		{Request: `{"type":"job_stop","job":"j-none","session_id":"s1"}`, Code: "not_found", Message: "no job j-none in this session"},
		{Request: `{"type":"job_keep","job":"j-none"}`, Code: "not_found", Message: "no job j-none"},
		{Request: `{"type":"job_lease","sessions":["s1"]}`, Reply: `{"type":"ok"}`},
	})
	c := rpctest.Client(t, "exc", socket)
	read := func(from string) proto.JobText {
		text, err := rpc.Call(t.Context(), c, proto.ExcJobOutput, proto.ReadJob{Job: id, From: from})
		zinotest.Must(t, err)
		return text
	}
	first := read("")
	if first.Stdout != "one\n" || !first.Running || first.ExitCode != -1 || read("").Stdout != "" || read("0").Stdout != "one\n" {
		t.Errorf("first %+v", first)
	}
	info, err := rpc.Call(t.Context(), c, proto.ExcJobWait, proto.WaitJob{Job: id, TimeoutS: new(0)})
	if err != nil || info.State != proto.JobRunning || !info.Background || info.ExitCode != nil {
		t.Errorf("wait: %+v, %v", info, err)
	}
	zinotest.Write(t, fifo, "")
	info, err = rpc.Call(t.Context(), c, proto.ExcJobWait, proto.WaitJob{Job: id})
	if err != nil || info.State != proto.JobExited || *info.ExitCode != 4 {
		t.Errorf("wait: %+v, %v", info, err)
	}
	second := read("")
	if again := read(first.Next); second.Stdout != "two\n" || second.Stderr != "err\n" || second.Running || second.ExitCode != 4 || again != second {
		t.Errorf("second %+v, again %+v", second, again)
	}
	stopped, err := rpc.Call(t.Context(), c, proto.ExcJobStop, proto.JobID{Job: id})
	if err != nil || *stopped.ExitCode != 4 || stopped.Stopped {
		t.Errorf("a stop after the end: %+v, %v", stopped, err)
	}
	list, err := rpc.Call(t.Context(), c, proto.ExcJobs, proto.ListJobs{SessionID: "s1"})
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].ID != id {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// TestLongOutput checks that a job that writes more than is stored keeps running, and
// that its output is read in order.
func TestLongOutput(t *testing.T) {
	e := open(t, func(c *Config) { c.OutputMax = 64 << 10 })
	job := e.start(t, "seq 1000000") // 6888896 bytes
	state := wait(t, job)
	zinotest.Equal(t, "bytes written", state.StdoutBytes, 6888896)
	zinotest.Equal(t, "bytes stored", job.size(stdoutFile), 64<<10)
	text, all := "", "0"
	for {
		piece, next, err := job.since(mustPlace(t, all), 1000, nil)
		zinotest.Must(t, err)
		text, all = text+piece.Stdout, next.String()
		if !piece.More {
			break
		}
	}
	zinotest.Contains(t, "output", text, "1\n2\n3\n", fmt.Sprintf("\n[%d bytes left out]\n", 6888896-64<<10), "\n999999\n1000000\n")
}

func mustPlace(t testing.TB, text string) place {
	t.Helper()
	p, err := parsePlace(text)
	zinotest.Must(t, err)
	return p
}

// supervised starts a supervisor that has not been asked for a command yet.
func (e *env) supervised(t testing.TB, s Spec) (job *Job, conn *net.UnixConn) {
	t.Helper()
	s.Record.Runtime, s.Record.Limits.OutputMax = e.dir, 1
	job = newJob(e.Jobs, s.Record)
	zinotest.Must(t, os.MkdirAll(job.dir, 0o700))
	zinotest.Must(t, job.rec.write(job.dir))
	d, err := job.open()
	zinotest.Must(t, err)
	defer d.close()
	conn, err = connect("")
	zinotest.Must(t, err)
	zinotest.Must(t, d.pass(conn))
	return job, conn
}

// TestSupervisorConformance checks that a supervisor runs one command.
func TestSupervisorConformance(t *testing.T) {
	e := open(t, nil)
	s := spec("sleep 1000")
	job, conn := e.supervised(t, s)
	defer conn.Close()
	request, err := startRequest(s, 1)
	zinotest.Must(t, err)
	state, err := rpc.Call(t.Context(), job.client, proto.SupervisorStart, request)
	if err != nil || state.State != proto.JobRunning || state.Proto != proto.JobProtocol {
		t.Errorf("start: %+v, %v", state, err)
	}
	rpctest.Conformance(t, job.client.Path, []rpctest.Case{
		{Request: `{"type":"start","proto":1,"command":{"argv":["true"],"env":[]},"output_file_max":1}`, Code: "invalid", Message: "a supervisor runs one command"},
		{Request: `{"type":"start","proto":1,"command":{"argv":[],"env":[]},"output_file_max":1}`, Code: "invalid", Message: "argv is empty…"},
		{Request: `{"type":"start"}`, Code: "invalid", Message: "Invalid request: …"},
	})
	state, err = rpc.Call(t.Context(), job.client, proto.SupervisorStop, proto.Empty{})
	if err != nil || state.State != proto.JobExited || !state.Stopped || state.Signal != 15 {
		t.Errorf("stop: %+v, %v", state, err)
	}
}

// TestSupervisorEndsWithoutStart checks that a supervisor ends if exc is gone before
// it has asked for the command.
func TestSupervisorEndsWithoutStart(t *testing.T) {
	e := open(t, nil)
	job, conn := e.supervised(t, spec("true"))
	if ended, err := job.load(); ended || err != nil {
		t.Errorf("before: ended %v, %v", ended, err)
	}
	zinotest.Must(t, conn.Close())
	zinotest.Eventually(t, "the supervisor has ended", func() bool {
		ended, err := job.load()
		zinotest.Must(t, err)
		return ended
	})
	zinotest.Equal(t, "state", job.State().State, proto.JobLost)
}

// TestOtherProtocol checks that a job whose supervisor answers nothing that this
// version knows is stopped through its control group.
func TestOtherProtocol(t *testing.T) {
	e := open(t, nil)
	if e.tree == nil {
		t.Log("this host has no control groups: a supervisor of another version cannot be stopped")
		return
	}
	job := e.start(t, "sleep 1000")
	other := newJob(e.Jobs, job.Record())
	other.group = job.group
	other.client.Path = rpctest.Raw(t, "", rpctest.Frame(`{"type":"error","message":"Unknown message type: stop","code":"unknown_type"}`))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-job.Done(); cancel() }()
	zinotest.Error(t, other.Stop(ctx), context.Canceled) // it saw no end: job did
	if state := job.State(); state.State != proto.JobExited || state.Signal != 9 {
		t.Errorf("state %+v", state)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"proto":1,"state":"exited","exit_code":3,"stdout_bytes":1,"stderr_bytes":0,"stdout_stored":0}`))
	f.Add([]byte(`{"state":"running","stdout_bytes":-1}` + strings.Repeat(" ", 9)))
	f.Add([]byte(`{"id":"j-x","limits":{"output_max":1}}`))
	f.Add([]byte("12:34"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		if state, err := parseState(b); err == nil && (state.State == "" || state.StdoutBytes < 0 || state.StderrBytes < 0) {
			t.Errorf("%q: %+v", b, state)
		}
		if rec, err := parseRecord(b, "j-x"); err == nil && (rec.ID != "j-x" || rec.Limits.OutputMax <= 0) {
			t.Errorf("%q: %+v", b, rec)
		}
		if p, err := parsePlace(string(b)); err == nil {
			if again, err := parsePlace(p.String()); err != nil || again != p {
				t.Errorf("%q: %v, %v, %v", b, p, again, err)
			}
		}
	})
}
