package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// fakeExc knows jobs that end when a test says so.
type fakeExc struct {
	stop  func()
	mu    sync.Mutex
	jobs  map[string]proto.JobInfo
	ended map[string]chan struct{}
}

// run starts jobs that were started 812 s ago.
func (x *fakeExc) run(ids ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		x.jobs[id] = proto.JobInfo{ID: id, SessionID: "s-1", State: proto.JobRunning, Wake: true, Background: true, Started: time.Now().Add(-812 * time.Second).UTC().Format(time.RFC3339)}
		x.ended[id] = make(chan struct{})
	}
}

// end ends a job with exit status 0, and what change changes.
func (x *fakeExc) end(id string, change func(*proto.JobInfo)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	job := x.jobs[id]
	started, _ := time.Parse(time.RFC3339, job.Started)
	job.State, job.ExitCode, job.Ended = proto.JobExited, new(0), started.Add(812*time.Second).UTC().Format(time.RFC3339)
	change(&job)
	x.jobs[id] = job
	close(x.ended[id])
}

func exits(*proto.JobInfo) {}

func (x *fakeExc) get(id string) (proto.JobInfo, chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.jobs[id], x.ended[id]
}

func (x *fakeExc) wait(ctx context.Context, req proto.WaitJob, stopping <-chan struct{}) (proto.JobInfo, error) {
	job, ended := x.get(req.Job)
	if job.ID == "" {
		return job, proto.Errorf(proto.CodeNotFound, "no job %s in this session", req.Job)
	}
	if *req.TimeoutS == 0 {
		return job, nil
	}
	select {
	case <-ended:
		job, _ = x.get(req.Job)
		return job, nil
	case <-stopping:
		return job, proto.Errorf(proto.CodeUnavailable, "exc is stopping: try again")
	case <-ctx.Done():
		return job, ctx.Err()
	}
}

// jobEnv is a daemon with a fake exc.
type jobEnv struct {
	*resumeEnv
	exc *fakeExc
}

func newJobEnv(t *testing.T, wake bool, scripts ...runScript) *jobEnv {
	t.Helper()
	e := &jobEnv{newResumeEnv(t, scripts...), &fakeExc{jobs: map[string]proto.JobInfo{}, ended: map[string]chan struct{}{}}}
	e.cfg.Daemon.JobWake = wake
	e.cfg.Daemon.DataDir = filepath.Join(zinotest.Dir(t), "daemon")
	e.startExc()
	return e
}

// startExc starts exc, which can be stopped and started again.
func (e *jobEnv) startExc() {
	stopping := make(chan struct{})
	s := rpc.NewServer("exc", slog.New(slog.DiscardHandler))
	rpc.Handle(s, proto.ExcJobWait, func(ctx context.Context, req proto.WaitJob) (proto.JobInfo, error) {
		return e.exc.wait(ctx, req, stopping)
	})
	rpc.Handle(s, proto.ExcJobs, func(context.Context, proto.ListJobs) (proto.JobList, error) {
		return proto.JobList{Jobs: []proto.JobInfo{}}, nil
	})
	rpc.Handle(s, proto.ExcStopTurn, func(context.Context, proto.StopTurn) (proto.Empty, error) { return proto.Empty{}, nil })
	s.BeforeShutdown(func(context.Context) { close(stopping) })
	_, e.exc.stop = rpctest.Serve(e.t, s, e.cfg.Exc.Socket)
}

// starts is an inference that starts a job with wake, and its result.
func starts(id string) func(r *run, step int) error {
	return func(r *run, step int) error {
		return r.call(step, "bash", `{"command":"make","background":true,"wake":true}`, `{"ok":true,"data":{"job":"`+id+`","running":true}}`)
	}
}

// call is an inference with one call.
func (r *run) call(step int, name, input, result string) error {
	id := "c" + string(rune('0'+step))
	err := r.send(`{"type":"tool_requested","id":"`+id+`","name":"`+name+`","input":`+input+`}`, `{"type":"usage","input_tokens":1,"output_tokens":1}`)
	if err == nil {
		_, err = r.at(step, proto.PointCalls, id)
	}
	if err != nil {
		return err
	}
	return r.send(`{"type":"tool_finished","id":"` + id + `","name":"` + name + `","ok":true,"result":` + result + `,"duration_ms":1}`)
}

// says is the messages of an answer to a checkpoint.
func says(p proto.Proceed) string {
	var texts []string
	for _, say := range p.Says {
		texts = append(texts, say.Text)
	}
	return strings.Join(texts, "|")
}

// final is the last inference.
func (r *run) final(step int) (proto.Text, proto.Proceed, error) {
	err := r.send(`{"type":"assistant_final","text":"ok"}`)
	var p proto.Proceed
	if err == nil {
		p, err = r.at(step, proto.PointEnd)
	}
	return proto.Text{Content: "ok", Iterations: new(step), StopReason: "stop"}, p, err
}

// viaJob are the messages about jobs in the session's log, with their says.
func (e *jobEnv) viaJob() (lines []string) {
	for _, line := range e.file("s-1") {
		if strings.Contains(line, `"via":"job"`) || strings.Contains(line, `"mode":"job"`) {
			lines = append(lines, sayID.ReplaceAllString(line, `"s"`))
		}
	}
	return lines
}

// forgotten waits until no session is remembered for its jobs: the file goes right behind
// the packets of the event.
func (e *jobEnv) forgotten() {
	e.t.Helper()
	zinotest.Eventually(e.t, "no file is left", func() bool { return zinotest.Names(e.t, e.service.wakeDir()) == "" })
}

const endOf1 = "[job j-1 ended: exit 0 after 812s]"

// TestJobEndsInTurn checks that the end of a job joins the next inference, once, and
// not if the model has read of it.
func TestJobEndsInTurn(t *testing.T) {
	var e *jobEnv
	e = newJobEnv(t, false, func(r *run) (proto.Text, error) {
		e.exc.run("j-1", "j-2", "j-3")
		err := errors.Join(starts("j-1")(r, 1))
		p, err2 := r.at(1, proto.PointInfer)
		zinotest.Equal(t, "while it runs", says(p), "")
		err3 := starts("j-2")(r, 2)
		e.exc.end("j-1", exits)
		p, err4 := r.at(2, proto.PointInfer)
		zinotest.Equal(t, "after its end", says(p), endOf1)
		e.exc.end("j-2", exits)
		err5 := r.call(3, "job", `{"action":"wait","job":"j-2"}`, `{"ok":true,"data":{"job":"j-2","state":"exited","exit_code":0}}`)
		p, err6 := r.at(3, proto.PointInfer)
		zinotest.Equal(t, "read before", says(p), "")
		zinotest.Must(t, errors.Join(err, err2, err3, err4, err5, err6))

		zinotest.Must(t, starts("j-3")(r, 4))
		_, err = r.at(4, proto.PointInfer)
		zinotest.Must(t, err)
		e.exc.end("j-3", func(j *proto.JobInfo) { j.ExitCode = new(-9) })
		_, p, err = r.final(5)
		zinotest.Must(t, err)
		zinotest.Equal(t, "at the end of the answer", says(p), "[job j-3 ended: signal 9 after 812s]")
		text, p, err := r.final(6)
		zinotest.Equal(t, "behind it", says(p), "")
		return text, err
	})
	e.startTurn("go", "")
	packets := e.follow("")
	zinotest.Equal(t, "the end", packets[len(packets)-1], packetEnd)
	equalLists(t, "the log", e.viaJob(), []string{
		`{"type":"say","say":"s","turn":"t","mode":"job","job":"j-1","text":"` + endOf1 + `"}`,
		`{"type":"message","role":"user","text":"` + endOf1 + `","turn":"t","say":"s","via":"job"}`,
		`{"type":"say","say":"s","turn":"t","mode":"job","job":"j-3","text":"[job j-3 ended: signal 9 after 812s]"}`,
		`{"type":"message","role":"user","text":"[job j-3 ended: signal 9 after 812s]","turn":"t","say":"s","via":"job"}`,
	})
	at := slices.IndexFunc(packets, func(p string) bool { return strings.Contains(p, `"via":"job"`) })
	zinotest.Equal(t, "the packet", sayID.ReplaceAllString(strings.Replace(packets[at], `,"replay":true`, "", 1), `"s"`), `{"type":"user_message","turn":"t","text":"`+endOf1+`","say":"s","via":"job"}`)
	e.forgotten()
	e.read("s-1")
}

// TestJobEndsLater checks that the end of a job between two turns is reported with the
// first inference of the next one, by the next daemon too, and that no turn starts.
func TestJobEndsLater(t *testing.T) {
	e := newJobEnv(t, false, func(r *run) (proto.Text, error) {
		zinotest.Must(t, starts("j-1")(r, 1))
		_, err := r.at(1, proto.PointInfer)
		zinotest.Must(t, err)
		text, _, err := r.final(2)
		return text, err
	}, func(r *run) (proto.Text, error) {
		if len(r.Says) != 1 || r.Says[0].Text != endOf1 {
			t.Errorf("says of the run: %+v", r.Says)
		}
		text, _, err := r.final(1)
		return text, err
	})
	e.exc.run("j-1")
	e.startTurn("go", "")
	e.follow("")
	zinotest.Equal(t, "remembered", zinotest.Names(t, e.service.wakeDir()), "s-1")
	e.exc.end("j-1", exits)
	zinotest.Eventually(t, "the session leaves the memory", e.idle)
	zinotest.Equal(t, "it does not keep the daemon", e.service.wakes.any(), false)

	next := New(e.cfg, e.log.Logger())
	t.Cleanup(func() { zinotest.Must(t, next.Close()) })
	zinotest.Must(t, os.Remove(e.cfg.Daemon.Socket))
	rpctest.New(t, "daemon", e.cfg.Daemon.Socket, next.Register)
	next.Resume()
	e.startTurn("and?", "")
	e.follow("")
	zinotest.Equal(t, "messages about it", len(e.viaJob()), 2)
	e.forgotten()
}

// TestJobEndsWhileDaemonIsDown checks that a resumed turn reports the end of its job once:
// with its first inference, or behind the result that it waits for.
func TestJobEndsWhileDaemonIsDown(t *testing.T) {
	const woken = `{"type":"tool_use","id":"a","name":"bash","input":{"command":"x","wake":true},"turn":"t-1","step":1}`
	const runs = `{"type":"tool_result","tool_use_id":"a","name":"bash","output":{"ok":true,"data":{"job":"j-1","running":true}},"ok":true,"duration_ms":1,"turn":"t-1","step":1}`
	t.Run("between two inferences", func(t *testing.T) {
		e := newJobEnv(t, true, func(r *run) (proto.Text, error) {
			if len(r.Says) != 1 || r.Says[0].Text != endOf1 {
				t.Errorf("says of the run: %+v", r.Says)
			}
			return proto.Text{}, errors.Join(r.send(`{"type":"assistant_delta","text":"I s"}`), proto.Errorf(proto.CodeCanceled, "agr stops"))
		}, answer)
		e.exc.run("j-1")
		e.exc.end("j-1", exits)
		e.write("s-1", openTurn, openAsked, woken, runs)
		e.service.Resume()
		zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, proto.TurnDone)
		zinotest.Equal(t, "in the log", len(e.viaJob()), 2)
	})
	t.Run("behind an open call", func(t *testing.T) {
		e := newJobEnv(t, false, func(r *run) (proto.Text, error) {
			zinotest.Equal(t, "says of the run", len(r.Says), 0)
			zinotest.Must(t, r.send(finishedB))
			p, err := r.at(1, proto.PointInfer)
			zinotest.Equal(t, "says", says(p), endOf1)
			if err != nil {
				return proto.Text{}, err
			}
			return answer(r)
		})
		e.exc.run("j-1")
		e.exc.end("j-1", exits)
		e.write("s-1", openTurn, openAsked, woken, openCallB, runs)
		e.service.Resume()
		zinotest.Equal(t, "state", e.ended("s-1", "t-1").State, proto.TurnDone)
		zinotest.Equal(t, "in the log", len(e.viaJob()), 2)
	})
}

// jobTurn are the lines of a session whose turn has left the job j-1.
func jobTurn() []string {
	return []string{
		openTurn, openAsked,
		`{"type":"tool_use","id":"a","name":"bash","input":{"command":"x","wake":true},"turn":"t-1","step":1}`,
		`{"type":"tool_result","tool_use_id":"a","name":"bash","output":{"ok":true,"data":{"job":"j-1","running":true}},"ok":true,"duration_ms":1,"turn":"t-1","step":1}`,
		`{"type":"message","role":"assistant","text":"It builds.","turn":"t-1","step":2}`, `{"type":"turn","turn":"t-1","session_id":"s-1","state":"done","iterations":2}`,
	}
}

// mark writes a session with the job j-1, as an earlier daemon has left it.
func (e *jobEnv) mark(lines []string) {
	e.t.Helper()
	e.write("s-1", lines...)
	zinotest.Write(e.t, filepath.Join(e.service.wakeDir(), "s-1"), "")
	e.exc.run("j-1")
}

// TestJobWakes checks that with job_wake the end of a job starts one turn, with the
// options of the last one, and that the daemon stays for it.
func TestJobWakes(t *testing.T) {
	e := newJobEnv(t, true, func(r *run) (proto.Text, error) {
		if !strings.HasSuffix(string(r.Messages), `,{"role":"user","content":"`+endOf1+`"}]`) {
			t.Errorf("messages %s", r.Messages)
		}
		zinotest.Equal(t, "options", values(r.Root, r.Model, r.OnLimit, len(r.Says), *r.Owner), "/r m park 0 7")
		text, _, err := r.final(1)
		return text, err
	})
	e.mark(jobTurn())
	e.service.Resume()
	zinotest.Eventually(t, "the daemon waits", e.service.wakes.any)
	e.exc.end("j-1", exits)
	zinotest.Eventually(t, "the turn", func() bool { return len(e.read("s-1").Turns) == 2 && e.read("s-1").Turns[1].End > 0 })
	zinotest.Eventually(t, "the daemon may go", func() bool { return e.idle() && !e.service.wakes.any() })
	turn := e.read("s-1").Turns[1]
	zinotest.Equal(t, "turn", values(turn.State, turn.Job, turn.Root, turn.By), "done j-1 /r <nil>")
	equalLists(t, "the log", e.viaJob(), []string{`{"type":"message","role":"user","text":"` + endOf1 + `","turn":"t","via":"job"}`})
	e.forgotten()
}

// TestJobWakesAfterItsTurn checks that a job that ends after its turn starts another one,
// also if exc is restarted meanwhile, and that two jobs start one turn.
func TestJobWakesAfterItsTurn(t *testing.T) {
	gone := make(chan struct{})
	var e *jobEnv
	e = newJobEnv(t, true, func(r *run) (proto.Text, error) {
		zinotest.Must(t, errors.Join(starts("j-1")(r, 1)))
		_, err := r.at(1, proto.PointInfer)
		zinotest.Must(t, errors.Join(err, starts("j-2")(r, 2)))
		_, err = r.at(2, proto.PointInfer)
		zinotest.Must(t, err)
		text, _, err := r.final(3)
		return text, err
	}, func(r *run) (proto.Text, error) {
		e.exc.end("j-2", exits)
		_, p, err := r.final(1)
		zinotest.Must(t, err)
		zinotest.Equal(t, "the other job", says(p), strings.Replace(endOf1, "j-1", "j-2", 1))
		text, _, err := r.final(2)
		close(gone)
		return text, err
	})
	e.exc.run("j-1", "j-2")
	e.startTurn("go", "")
	e.follow("")
	zinotest.Eventually(t, "the daemon waits", e.service.wakes.any)
	e.exc.stop()
	e.startExc()
	e.exc.end("j-1", exits)
	zinotest.Receive(t, "the turn", gone)
	zinotest.Eventually(t, "the daemon may go", func() bool { return e.idle() && !e.service.wakes.any() })
	zinotest.Equal(t, "turns", len(e.read("s-1").Turns), 2)
}

// TestJobStartsNoTurn checks which ends start no turn.
func TestJobStartsNoTurn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lines  []string
		change func(*proto.JobInfo)
	}{
		{"stopped", jobTurn(), func(j *proto.JobInfo) { j.Stopped, j.ExitCode = true, new(-15) }},
		{"too old", jobTurn(), func(j *proto.JobInfo) {
			j.Ended = time.Now().Add(-25 * time.Hour).UTC().Format(time.RFC3339)
		}},
		{"unknown to exc", jobTurn(), func(j *proto.JobInfo) { j.ID = "" }},
		{"continued", append(jobTurn()[:5:5], `{"type":"turn","turn":"t-1","session_id":"s-1","state":"continued","to":"s-9","to_turn":"t-9"}`), exits},
		{"reported", slices.Insert(jobTurn(), 4, `{"type":"say","say":"s-1","turn":"t-1","mode":"job","job":"j-1","text":"x"}`, `{"type":"message","role":"user","text":"x","turn":"t-1","say":"s-1","via":"job"}`), exits},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newJobEnv(t, true)
			e.mark(tt.lines)
			e.exc.end("j-1", tt.change)
			e.service.Resume()
			zinotest.Eventually(t, "the end is known", func() bool {
				e.service.wakes.mu.Lock()
				defer e.service.wakes.mu.Unlock()
				waits, known := e.service.wakes.jobs["j-1"]
				return tt.name == "reported" || known && !waits
			})
			zinotest.Eventually(t, "the session leaves the memory", e.idle)
			zinotest.Equal(t, "turns", len(e.read("s-1").Turns), 1)
		})
	}
}

// TestEndLine checks how the end of a job is described.
func TestEndLine(t *testing.T) {
	job := proto.JobInfo{ID: "j-k3v9q2mx", State: proto.JobExited, Started: "2026-11-22T10:00:00.9Z", Ended: "2026-11-22T10:00:13.1Z"}
	for _, tt := range []struct {
		want   string
		change func(*proto.JobInfo)
	}{
		{"[job j-k3v9q2mx ended: exit 0 after 12s]", func(j *proto.JobInfo) { j.ExitCode = new(0) }},
		{"[job j-k3v9q2mx ended: exit 3 after 0s]", func(j *proto.JobInfo) { j.ExitCode, j.Ended = new(3), "2026-11-22T10:00:01.1Z" }},
		{"[job j-k3v9q2mx ended: signal 9 after 12s]", func(j *proto.JobInfo) { j.ExitCode = new(-9) }},
		{"[job j-k3v9q2mx ended: memory limit after 12s]", func(j *proto.JobInfo) { j.ExitCode, j.Limit = new(-9), "memory" }},
		{"[job j-k3v9q2mx ended: time limit after 12s]", func(j *proto.JobInfo) { j.ExitCode, j.Limit = new(-15), "time" }},
		{"[job j-k3v9q2mx ended: stopped after 12s]", func(j *proto.JobInfo) { j.ExitCode, j.Stopped = new(-15), true }},
		{"[job j-k3v9q2mx ended: lost]", func(j *proto.JobInfo) { j.State, j.Ended = proto.JobLost, "" }},
		{"[job j-k3v9q2mx ended: exit 0]", func(j *proto.JobInfo) { j.ExitCode, j.Started = new(0), "yesterday" }},
	} {
		j := job
		tt.change(&j)
		zinotest.Equal(t, "line", endLine(j), tt.want)
	}
}
