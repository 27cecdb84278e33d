package agr

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// jobs is a fake exc for the job j-k3v2q2mx of the session s-1. It records requests.
type jobs struct {
	read rpctest.Record[proto.ReadJob]
	wait rpctest.Record[proto.WaitJob]
	stop rpctest.Record[proto.JobID]
}

const job = "j-k3v2q2mx"

func (j *jobs) register(s *rpc.Server) {
	check := func(id, session string) error {
		if id != job || session != "s-1" {
			return proto.Errorf(proto.CodeNotFound, "no job %s in this session", id)
		}
		return nil
	}
	code := 0
	rpc.Handle(s, proto.ExcJobOutput, func(_ context.Context, req proto.ReadJob) (proto.JobText, error) {
		j.read.Add(req)
		return proto.JobText{Job: req.Job, State: proto.JobRunning, Stdout: "new\n", ExitCode: -1, Running: true, Next: "4-0"}, check(req.Job, req.SessionID)
	})
	rpc.Handle(s, proto.ExcJobWait, func(_ context.Context, req proto.WaitJob) (proto.JobInfo, error) {
		j.wait.Add(req)
		return proto.JobInfo{ID: req.Job, State: proto.JobExited, ExitCode: &code, StdoutBytes: 4, Command: "left out"}, check(req.Job, req.SessionID)
	})
	rpc.Handle(s, proto.ExcJobStop, func(_ context.Context, req proto.JobID) (proto.JobInfo, error) {
		j.stop.Add(req)
		return proto.JobInfo{ID: req.Job, State: proto.JobExited, Stopped: true}, check(req.Job, req.SessionID)
	})
}

// TestJob checks the requests and results of the tool job.
func TestJob(t *testing.T) {
	t.Parallel()
	cases := []struct{ input, want string }{
		{`{"action":"output","job":"` + job + `"}`, `{"ok":true,"data":{"job":"` + job + `","state":"running","stdout":"new\n","stderr":"","exit_code":-1,"running":true,"next":"4-0"}}`},
		{`{"action":"output","job":"` + job + `","from":"9-1"}`, ""},
		{`{"action":"output","job":"` + job + `","from":0}`, ""},
		{`{"action":"wait","job":"` + job + `"}`, `{"ok":true,"data":{"job":"` + job + `","state":"exited","exit_code":0,"stdout_bytes":4,"stderr_bytes":0}}`},
		{`{"action":"wait","job":"` + job + `","timeout_s":600}`, ""},
		{`{"action":"stop","job":"` + job + `"}`, `{"ok":true,"data":{"job":"` + job + `","state":"exited","stopped":true,"stdout_bytes":0,"stderr_bytes":0}}`},
		{`{"action":"stop","job":"j-other"}`, failedWith("not_found", "no job j-other in this session")},
		{`{"action":"output"}`, failedWith("invalid_input", `The field "job" is missing.`)},
		{`{"action":"kill","job":"x"}`, failedWith("invalid_input", "action must be output, wait or stop")},
		{`{"action":"wait","job":"x","timeout_s":601}`, failedWith("invalid_input", "Malformed tool_call JSON: timeout_s must be a whole number from 1 to 600")},
		{`{"action":1,"job":2,"from":[]}`, failedWith("invalid_input", "Malformed tool_call JSON: action must be a string; job must be a string; from must be a string")},
	}
	var calls []string
	for i, c := range cases {
		calls = append(calls, native(fmt.Sprint(i), "job", c.input))
	}
	e := newEnv(t, asks("", calls...), says("Done."))
	j := &jobs{}
	e.excServes(j.register)
	e.ask(request(question, inSession))
	results := toolResults(t, e.rtr.asked()[1])
	for i, c := range cases {
		if c.want != "" && results[i] != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.input, results[i], c.want)
		}
	}
	var asked []string
	for _, r := range j.read.All() {
		asked = append(asked, fmt.Sprint("output ", r.From, " ", r.OutputBytes))
	}
	for _, r := range j.wait.All() {
		asked = append(asked, fmt.Sprint("wait ", *r.TimeoutS))
	}
	for _, r := range j.stop.All() {
		asked = append(asked, "stop "+r.Job)
	}
	want := []string{"output  262144", "output 9-1 262144", "output 0 262144", "wait 60", "wait 600", "stop " + job, "stop j-other"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestWaitsAreNotCounted checks that a turn may wait for a job as often as it likes.
func TestWaitsAreNotCounted(t *testing.T) {
	t.Parallel()
	calls := slices.Repeat([]string{native("a", "job", `{"action":"wait","job":"`+job+`"}`)}, 12)
	e := newEnv(t, asks("", calls...), says("Done."))
	e.excServes((&jobs{}).register)
	_, last := e.ask(request(question, inSession))
	zinotest.Equal(t, "answer", last.Text(), "Done.")
	if results := strings.Join(toolResults(t, e.rtr.asked()[1]), ""); strings.Contains(results, "note") {
		t.Errorf("results %s", results)
	}
}
