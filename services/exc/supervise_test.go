package exc

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseReport(t *testing.T) {
	tests := []struct {
		text string
		want report
		code int
	}{
		{"", report{}, -1},
		{"exit 0\n", report{verdict: exited, number: 0}, 0},
		{"exit 255\n", report{verdict: exited, number: 255}, 255},
		{"signal 9\n", report{verdict: signaled, number: 9}, -9},
		{"start 2\n", report{verdict: unstarted, number: 2}, -1},
		{"start 13\nexit 127\n", report{verdict: unstarted, number: 13}, -1},
		{"confine no mount: a b\nexit 127\n", report{verdict: unconfined, why: "no mount: a b"}, -1},
		{"confine cut", report{}, -1},
		{"exit 1", report{}, -1}, // cut short
		{"exit\nexit -1\nexit x\nwho 3\n\n", report{}, -1},
		{"exit 99999999999\n", report{}, -1},
	}
	for _, tt := range tests {
		got := parseReport(tt.text)
		if got != tt.want || got.exitCode() != tt.code {
			t.Errorf("%q: got %+v, code %d, want %+v, %d", tt.text, got, got.exitCode(), tt.want, tt.code)
		}
	}
}

func TestEndOf(t *testing.T) {
	for code, want := range map[string]string{"exit 7": "exit 7\n", "kill -9 $$": "signal 9\n", "kill -15 $$": "signal 15\n"} {
		cmd := exec.Command("sh", "-c", code)
		_ = cmd.Run() // how it ends is what is looked at
		if got := endOf(cmd.ProcessState.Sys().(syscall.WaitStatus)); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add("exit 0\n")
	f.Add("signal 9\n")
	f.Add("start 2\n")
	f.Add("confine this\nexit 1\n")
	f.Add("exit \n 3\nexit 3")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseReport(text)
		if r.number < 0 || r.verdict == lost && (r.number != 0 || r.exitCode() != -1) {
			t.Errorf("%q: %+v", text, r)
		}
		line := endLine(r.verdict, r.number)
		if r.verdict == unconfined {
			line = refusalLine(errors.New(r.why))
		}
		if again := parseReport(line); r.verdict != lost && len(r.why) < reportMax/2 && again != r {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}

func TestParseStat(t *testing.T) {
	tests := []struct {
		stat string
		want parentage
		ok   bool
	}{
		{"12 (bash) S 7 12 13 0 -1", parentage{7, 13}, true},
		{"12 (a ) b) (S 9 9) R 7 12 13", parentage{7, 13}, true},
		{"12 (bash) S 7 12", parentage{}, false},
		{"12 (bash) S x 12 13", parentage{}, false},
		{"12 (bash) S 7 12 x", parentage{}, false},
		{"", parentage{}, false},
		{")", parentage{}, false},
	}
	for _, tt := range tests {
		if got, ok := parseStat([]byte(tt.stat)); got != tt.want || ok != tt.ok {
			t.Errorf("%q: got %v, %v", tt.stat, got, ok)
		}
	}
	proc := openProc()
	defer unix.Close(proc)
	if p, ok := parentageOf(proc, "self"); !ok || p.parent != os.Getppid() {
		t.Errorf("own parentage: %v, %v", p, ok)
	}
	if _, ok := parentageOf(proc, "0"); ok {
		t.Error("there is no process 0")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("12 (bash) S 7 12 12 0 -1")
	f.Add("12 (a ) b) R 7 1 1")
	f.Add("(()")
	f.Fuzz(func(t *testing.T, stat string) {
		p, ok := parseStat([]byte(stat))
		if ok && !strings.Contains(stat, ")") || !ok && p != (parentage{}) {
			t.Errorf("%q: got %v, %v", stat, p, ok)
		}
	})
}

func TestSupervisorEnv(t *testing.T) {
	env := []string{"PATH=/bin", "GODEBUG=inittrace=1", "+PLUS=1"}
	marked := supervisorEnv(env)
	for _, entry := range marked {
		if strings.HasPrefix(entry, "GODEBUG") {
			t.Errorf("the supervisor's runtime would obey %s", entry)
		}
	}
	if got := commandEnv(marked); strings.Join(got, " ") != strings.Join(env, " ") {
		t.Errorf("got %q, want %q", got, env)
	}
}

func TestCloseEachOnExec(t *testing.T) {
	const high = 700 // above what else is open
	if err := unix.Dup3(0, high, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(high)
	closeEachOnExec(high)
	if flags, err := unix.FcntlInt(high, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}
