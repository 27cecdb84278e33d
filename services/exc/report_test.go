package exc

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestParseReport(t *testing.T) {
	tests := []struct {
		text string
		want report
		code int
	}{
		{"", report{}, -1},
		{"pid 71\n", report{pid: 71}, -1},
		{"pid 71\nexit 0\n", report{71, exited, 0}, 0},
		{"pid 71\nexit 255\n", report{71, exited, 255}, 255},
		{"pid 71\nsignal 9\n", report{71, signaled, 9}, -9},
		{"start 2\n", report{0, unstarted, 2}, -1},
		{"pid 71\nexit 1", report{pid: 71}, -1}, // cut short
		{"pid 71\nexit\nexit -1\nexit x\nwho 3\n\n", report{pid: 71}, -1},
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
	f.Add("pid 1\nexit 0\n")
	f.Add("pid 1\nsignal 9\n")
	f.Add("start 2\n")
	f.Add("exit \n 3\nexit 3")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseReport(text)
		if r.pid < 0 || r.number < 0 || r.verdict == lost && r.exitCode() != -1 {
			t.Errorf("%q: %+v", text, r)
		}
		again := parseReport(startLine(r.pid) + endLine(r.verdict, r.number))
		if r.verdict != lost && again != r {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}

func TestParentOf(t *testing.T) {
	tests := []struct {
		stat   string
		parent int
		ok     bool
	}{
		{"12 (bash) S 7 12 12 0 -1", 7, true},
		{"12 (a ) b) (S 9 9) R 7 12 12", 7, true},
		{"12 (bash) S", 0, false},
		{"12 (bash) S x y", 0, false},
		{"", 0, false},
		{")", 0, false},
	}
	for _, tt := range tests {
		if parent, ok := parentOf([]byte(tt.stat)); parent != tt.parent || ok != tt.ok {
			t.Errorf("%q: got %d, %v", tt.stat, parent, ok)
		}
	}
	if parent, ok := parentNow("self"); !ok || parent != os.Getppid() {
		t.Errorf("own parent: %d, %v", parent, ok)
	}
	if _, ok := parentNow("0"); ok {
		t.Error("there is no process 0")
	}
}

func FuzzParentOf(f *testing.F) {
	f.Add("12 (bash) S 7 12 12 0 -1")
	f.Add("12 (a ) b) R 7")
	f.Add("(()")
	f.Fuzz(func(t *testing.T, stat string) {
		parent, ok := parentOf([]byte(stat))
		if ok && !strings.Contains(stat, ")") || !ok && parent != 0 {
			t.Errorf("%q: got %d, %v", stat, parent, ok)
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
