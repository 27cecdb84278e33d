package exc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"

	"zino/pkg/zinotest"
	"zino/proto"
)

// sessionCall is a call of bash in a session.
func sessionCall(root string, input in) proto.Call {
	req := call("bash", root, input)
	req.SessionID = "S"
	return req
}

// data is the data of a result of bash.
func data(t testing.TB, r proto.CallResult, err error) (d bashData) {
	t.Helper()
	zinotest.Must(t, err)
	var envelope struct {
		OK   bool     `json:"ok"`
		Data bashData `json:"data"`
	}
	if err := json.Unmarshal(r.Result, &envelope); err != nil || !envelope.OK {
		t.Fatalf("%s: %v", r.Result, err)
	}
	return envelope.Data
}

// bashIn makes a session's call of bash and returns its data.
func (s *service) bashIn(t testing.TB, input in) bashData {
	t.Helper()
	r, err := s.call(t.Context(), sessionCall(s.dir, input), nil)
	return data(t, r, err)
}

// TestBashJobs checks the data of calls of sessions, as the model reads it.
func TestBashJobs(t *testing.T) {
	const long = time.Hour // for what happens before
	for _, tt := range []struct {
		name, input string
		change      func(*config.Exc)
		firstWait   time.Duration
		want        string // JOB stands for the job's id
		left        bool   // a directory of a job is left
	}{
		{"ends", `{"command":"echo out; echo err >&2; exit 7"}`, nil, long, `{"stdout":"out\n","stderr":"err\n","exit_code":7,"timed_out":false}`, false},
		{"signal", `{"command":"kill -9 $$"}`, nil, long, `{"stdout":"","stderr":"","exit_code":-9,"timed_out":false}`, false},
		{
			"session_timeout", `{"command":"sleep 1000"}`, func(c *config.Exc) { c.SessionTimeout = 0.2 }, long,
			`{"stdout":"","stderr":"Still running after 0.2s: it continues as job JOB.","exit_code":-1,"timed_out":true,"job":"JOB","running":true}`, true,
		},
		{
			"timeout_s", `{"command":"sleep 1000","timeout_s":1}`, nil, long,
			`{"stdout":"","stderr":"Still running after 1s: it continues as job JOB.","exit_code":-1,"timed_out":true,"job":"JOB","running":true}`, true,
		},
		{
			"background", `{"command":"sleep 1000","background":true}`, nil, time.Millisecond,
			`{"stdout":"","stderr":"","exit_code":-1,"timed_out":false,"job":"JOB","running":true}`, true,
		},
		{
			"background, ended", `{"command":"echo up","background":true}`, nil, long,
			`{"stdout":"up\n","stderr":"","exit_code":0,"timed_out":false,"job":"JOB"}`, true,
		},
		{
			"leaves a process", `{"command":"sleep 1000 & echo up"}`, nil, time.Millisecond,
			`{"stdout":"up\n","stderr":"The command has ended, and what it started runs on as job JOB.","exit_code":-1,"timed_out":false,"job":"JOB","running":true}`, true,
		},
		{
			"hard limit", `{"command":"sleep 1000"}`, func(c *config.Exc) { c.Timeout = 0.2 }, long,
			`{"stdout":"","stderr":"Execution timed out after 0.2s.","exit_code":-1,"timed_out":true}`, false,
		},
		{
			"hard limit, lowered", `{"command":"sleep 1000","timeout_s":1}`, func(c *config.Exc) { c.Timeout = 20 }, long,
			`{"stdout":"","stderr":"Execution timed out after 1s.","exit_code":-1,"timed_out":true}`, false,
		},
		{
			"hard limit, not raised", `{"command":"sleep 1000","timeout_s":500}`, func(c *config.Exc) { c.Timeout = 0.2 }, long,
			`{"stdout":"","stderr":"Execution timed out after 0.2s.","exit_code":-1,"timed_out":true}`, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, tt.change, nil)
			s.firstWait = tt.firstWait
			req := sessionCall(s.dir, nil)
			req.Input = proto.Raw(tt.input)
			r, err := s.call(t.Context(), req, nil)
			d := data(t, r, err)
			want := `{"ok":true,"data":` + strings.ReplaceAll(tt.want, "JOB", d.Job) + `}`
			zinotest.Equal(t, "result", string(r.Result), want)
			if tt.left != (zinotest.Names(t, s.dir+"/data/exc/jobs") != "") {
				t.Errorf("left: %q", zinotest.Names(t, s.dir+"/data/exc/jobs"))
			}
		})
	}
}

// TestBashJobLimits checks how many jobs a session may have.
func TestBashJobLimits(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.SessionTimeout = 0.001 }, nil)
	for range 16 {
		if d := s.bashIn(t, in{"command": "sleep 1000"}); !d.Running {
			t.Fatalf("got %+v", d)
		}
	}
	r, err := s.call(t.Context(), sessionCall(s.dir, in{"command": "sleep 1000"}), nil)
	zinotest.Must(t, err)
	zinotest.Contains(t, "the result", string(r.Result), `{"ok":false,"error":{"code":"busy","message":"16 jobs of this session are running: stop one first`)
	other := sessionCall(s.dir, in{"command": "sleep 1000"})
	other.SessionID = "T"
	if r, err := s.call(t.Context(), other, nil); !data(t, r, err).Running {
		t.Error("another session cannot start a job")
	}
}

// TestBashJobOutput checks that a long output names the file that has all of it, that
// confined code can read it, and that it stays.
func TestBashJobOutput(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.OutputMax, c.JobOutputMax = 1024, 8<<10 }, nil)
	d := s.bashIn(t, in{"command": "seq 1000"}) // 3893 bytes
	_, file, ok := strings.Cut(d.Stdout, " bytes left out; the full output is in ")
	file, _, _ = strings.Cut(file, "]")
	text, err := os.ReadFile(file)
	if !ok || !d.Truncated || err != nil || len(text) != 3893 || !strings.HasSuffix(d.Stdout, "999\n1000\n") {
		t.Errorf("stdout %q, file %q, %v", d.Stdout, file, err)
	}
	req := sessionCall(zinotest.Dir(t), in{"command": "tail -n 1 " + file})
	req.Sandbox = proto.LevelReadOnly
	r, err := s.call(t.Context(), req, nil)
	if d := data(t, r, err); d.Stdout != "1000\n" {
		t.Errorf("confined code read %+v", d)
	}
	d = s.bashIn(t, in{"command": "seq 10000"}) // 48894 bytes
	zinotest.Contains(t, "stdout", d.Stdout, "1\n2\n", " bytes left out; the first 4096 bytes are in ", "/stdout]\n", "9999\n10000\n")
}

// TestBashJobCancelled checks that hanging up stops the command.
func TestBashJobCancelled(t *testing.T) {
	marked := mark(t)
	s := newService(t, nil, nil)
	c := s.dial(t)
	req := sessionCall(s.dir, in{"command": "touch up; sleep 1000 & wait"})
	answer, hangUp := calling(t, c, req)
	zinotest.Eventually(t, "the command is up", func() bool { return exists(s.dir + "/up") })
	hangUp()
	zinotest.Receive(t, "the answer", answer)
	zinotest.Eventually(t, "nothing is left", func() bool { return len(marked()) == 0 })
}

// TestBashJobConfined checks that a job is confined, and what it must not change is
// checked at its end.
func TestBashJobConfined(t *testing.T) {
	s := newService(t, nil, nil)
	root := zinotest.Dir(t)
	req := sessionCall(root, in{"command": `touch here; touch "$HOME/there"; echo "$HOME"; touch /etc/zino-no; mkdir .git; echo x >.git/config`})
	req.Sandbox = proto.LevelWorkspaceWrite
	r, err := s.call(t.Context(), req, nil)
	d := data(t, r, err)
	if !exists(root+"/here") || exists(root+"/.git") || exists("/etc/zino-no") || d.Stdout != "/tmp\n" {
		t.Errorf("got %+v, the root has %s", d, zinotest.Names(t, root))
	}
	if r.Confinement == nil || r.Confinement.Sandbox != proto.LevelWorkspaceWrite || len(r.Confinement.Refused) != 1 {
		t.Errorf("confinement %+v", r.Confinement)
	}
	zinotest.Equal(t, "jobs left", zinotest.Names(t, s.dir+"/data/exc/jobs"), "")
}

// TestBashJobRecovered checks that a call finds its job again after exc was
// restarted: while the command runs, and when it has ended meanwhile.
func TestBashJobRecovered(t *testing.T) {
	for _, ended := range []bool{false, true} {
		s := newService(t, nil, nil)
		fifo := filepath.Join(s.dir, "fifo")
		req := keyed(sessionCall(s.dir, in{"command": "mkfifo fifo; echo before; cat fifo; exit 3"}), "c1")
		answer, _ := calling(t, s.dial(t), req)
		zinotest.Eventually(t, "the command is up", func() bool { return exists(fifo) })
		again := s.restart(t)
		if got := zinotest.Receive(t, "the first answer", answer); !strings.Contains(got, "unavailable") {
			t.Errorf("the first answer: %s", got)
		}
		feed := func() { zinotest.Must(t, os.WriteFile(fifo, []byte("after\n"), 0o600)) }
		if ended {
			feed()
			zinotest.Receive(t, "the end of the job", again.jobs.All()[0].Done())
		}
		recovered, _ := calling(t, again.dial(t), recovering(req))
		if !ended {
			feed()
		}
		want := `recovered: {"ok":true,"data":{"stdout":"before\nafter\n","stderr":"","exit_code":3,"timed_out":false}}`
		zinotest.Equal(t, "the result", zinotest.Receive(t, "the second answer", recovered), want)
	}
}
