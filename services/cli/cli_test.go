package cli

import (
	"strings"
	"testing"
)

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", ""},
		{"-ch kitchen hello you", "--channel kitchen hello you"},
		{"-ch=kitchen hello", "--channel=kitchen hello"},
		{"-ch= hello", "--channel= hello"},
		{"--channel=x -c f", "--channel=x -c f"},
		{"-c hx -chx", "-c hx -chx"},
		{"-- -ch kitchen", "-- -ch kitchen"},
		{"--resume 5b0c --model m", "resume 5b0c --model m"},
		{"exec --resume", "exec --resume"},
		{"-ch a -- -ch b", "--channel a -- -ch b"},
	} {
		if got := strings.Join(normalize(strings.Fields(test.args)), " "); got != test.want {
			t.Errorf("%q becomes %q, want %q", test.args, got, test.want)
		}
	}
}

// TestMessageArguments sends what stands on the command line.
func TestMessageArguments(t *testing.T) {
	for _, test := range []struct {
		args             []string
		message, channel string
		stream           bool
	}{
		{[]string{"hello", "you"}, "hello you", "", false},
		{[]string{"one line"}, "one line", "", false},
		{[]string{"--", "hello"}, "hello", "", false},
		{[]string{"--", "-x", "--stream"}, "-x --stream", "", false},
		{[]string{"--", "status"}, "status", "", false},
		{[]string{"hello"}, "hello", "", false},
		{[]string{"hi"}, "hi", "", false},
		{[]string{"warum?"}, "warum?", "", false},
		{[]string{"-s", "hello"}, "hello", "", true},
		{[]string{"hello", "--stream"}, "hello", "", true},
		{[]string{"-ch", "kitchen", "hello"}, "hello", "kitchen", false},
		{[]string{"-ch=kitchen", "hello", "you"}, "hello you", "kitchen", false},
		{[]string{"--channel=kitchen", "hello"}, "hello", "kitchen", false},
		{[]string{"two\nlines"}, "two\nlines", "", false},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			status, out, said := run(t, newWorld(t).command(append([]string{"--socket", f.socket}, test.args...)...), "")
			if status != 0 || out != "echo: "+test.message+"\n" || said != "" {
				t.Errorf("status %d, printed %q, said %q", status, out, said)
			}
			if n := len(f.requests()); n != 1 {
				t.Fatalf("%d requests", n)
			}
			if got := f.requests()[0]; got.Message != test.message || got.ChannelID != test.channel || got.Stream != test.stream || !got.NeedModel {
				t.Errorf("sent %+v", got)
			}
		})
	}
}

// TestMistakes end with status 2 and one line, and nothing is sent.
func TestMistakes(t *testing.T) {
	f := newFake(t, "")
	defer func() {
		if len(f.messages()) > 0 {
			t.Errorf("sent %q", f.messages())
		}
	}()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"quit"}, `Error [usage]: unknown command "quit": a chat ends with :q or Ctrl-D; to send it as a message, type: zino -- quit`},
		{[]string{"stauts"}, `Error [usage]: unknown command "stauts": the nearest one is "status"; to send it as a message, type: zino -- stauts`},
		{[]string{"hlep"}, `Error [usage]: unknown command "hlep": the nearest one is "help"; to send it as a message, type: zino -- hlep`},
		{[]string{"logout"}, `Error [usage]: unknown command "logout": use zino auth logout; `},
		{[]string{"--nope", "a", "b"}, "Error [usage]: unknown flag: --nope; try zino --help"},
		{[]string{"-x"}, "Error [usage]: unknown shorthand flag: 'x' in -x; try zino --help"},
		{[]string{"a", "b", "--channel"}, "Error [usage]: flag needs an argument: --channel; try zino --help"},
		{[]string{"a", "b", "-ch"}, "Error [usage]: flag needs an argument: --channel; try zino --help"},
		{[]string{"status", "-s"}, "Error [usage]: unknown shorthand flag: 's' in -s; try zino --help"},
		{[]string{"status", "now"}, `Error [usage]: zino status: it takes no arguments, but was given "now"; try zino status --help`},
		{[]string{"up", "now"}, `Error [usage]: zino up: it takes no arguments, but was given "now"; try zino up --help`},
		{[]string{"describe"}, "Error [usage]: name one service: daemon, sys, ctx, mem, agr, rtr, exc"},
		{[]string{"describe", "mem", "rtr"}, "Error [usage]: name one service: daemon, sys, ctx, mem, agr, rtr, exc"},
		{[]string{"help", "nothing"}, `Error [usage]: there is no command "nothing": zino --help lists them`},
		{[]string{"help", "stauts"}, `Error [usage]: there is no command "stauts": the nearest one is "status"`},
		{[]string{"chat", "about", "Go"}, `Error [usage]: zino chat: too many arguments; to send this as a message, type: zino -- chat about Go`},
		{[]string{"resume", "the", "work"}, `Error [usage]: zino resume: too many arguments; to send this as a message, type: zino -- resume the work`},
		{[]string{"login", "at", "noon"}, `Error [usage]: zino login: too many arguments; to send this as a message, type: zino -- login at noon`},
		{[]string{"version", "two"}, `Error [usage]: zino version: too many arguments; `},
		{[]string{"sessions", "delete"}, `Error [usage]: zino sessions: there is no command "delete": use zino sessions rm; `},
		{[]string{"sessions", "bogus"}, `Error [usage]: zino sessions: there is no command "bogus": there are export, `},
		{[]string{"memory", "serach"}, `Error [usage]: zino memory: there is no command "serach": the nearest one is "search"; `},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			status, out, said := run(t, newWorld(t).command(append([]string{"--socket", f.socket}, test.args...)...), "")
			if status != exitUsage || out != "" || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, test.want) {
				t.Errorf("status %d, printed %q, said %q", status, out, said)
			}
		})
	}
}

// TestHelp goes to standard output, whatever stands in the way.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"up", "--help"}, {"help", "status"}, {"--version"}, {"version"}, {"login"}, {"auth", "login"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			status, out, said := run(t, newWorld(t).command(args...), "")
			if status != 0 || out == "" || said != "" {
				t.Errorf("status %d, printed %q, said %q", status, out, said)
			}
			if strings.Contains(out, "--private") {
				t.Error("a hidden flag is shown")
			}
		})
	}
}
