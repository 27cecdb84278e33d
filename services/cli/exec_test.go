package cli

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/command"
)

// TestExecRequest checks the request for flags before and after the command.
func TestExecRequest(t *testing.T) {
	w, none := newWorld(t), ""
	zinotest.Must(t, os.Symlink("..", filepath.Join(w.cwd, "link")))
	for _, test := range []struct {
		name, args string
		want       proto.Chat
	}{
		{"nothing", "exec -p hello", proto.Chat{Message: "hello", Root: w.cwd}},
		{"before", "--root / --model m --provider p --effort max --max-tokens 5 --no-save --session x.1 exec --prompt hello", proto.Chat{Message: "hello", Root: "/", Model: "m", Provider: "p", MaxTokens: 5, Effort: "max", NoSave: true, SessionID: "x.1"}},
		{"no command", "-p hello --model m", proto.Chat{Message: "hello", Root: w.cwd, Model: "m"}},
		{"a word", "exec hello", proto.Chat{Message: "hello", Root: w.cwd}},
		{"behind", "exec --prompt=hello --root=.. --session known --system-prompt=", proto.Chat{Message: "hello", Root: w.cwd[:len(w.cwd)-2], SessionID: "known-and-more", SystemPrompt: &none}},
		{"a link", "exec -p hello --root link", proto.Chat{Message: "hello", Root: filepath.Dir(w.cwd)}},
		{"confined", "--sandbox read-only exec -p hello --network=false", proto.Chat{Message: "hello", Root: w.cwd, Sandbox: "read-only", Network: new(false)}},
		{"its own name before", "--session known-and exec -p hello", proto.Chat{Message: "hello", Root: w.cwd, SessionID: "known-and-more"}},
		{"a name that several begin with", "--session twin exec -p hello", proto.Chat{Message: "hello", Root: w.cwd, SessionID: "twin"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			f.has(map[string]int{"known-and-more": 0, "twin1": 3, "twin2": 3, "ab1": 1, "ab2": 1})
			expect(t, w.command(append([]string{"--socket", f.socket}, strings.Fields(test.args)...)...), "", 0, "echo: hello\n", "")
			got := f.requests()[0]
			if test.want.SessionID == "" {
				if !uuid.MatchString(got.SessionID) {
					t.Errorf("the session is %q", got.SessionID)
				}
				got.SessionID = ""
			}
			test.want.Events, test.want.NeedModel, test.want.Mode = true, true, proto.ModeDerived
			if len(got.Env) == 0 || got.Cwd == "" || got.Umask == nil {
				t.Errorf("sent without the environment: %+v", got)
			}
			got.Env, got.Cwd, got.Umask = nil, "", nil
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("sent %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// TestExecSession checks the note about loaded messages, and prefixes of ids.
func TestExecSession(t *testing.T) {
	f := newFake(t, "")
	f.has(map[string]int{"notes": 4, "ab1": 1, "ab2": 1})
	status, _, stderr := run(t, newWorld(t).command("--socket", f.socket, "--session", "notes", "exec", "-p", "hello"), "")
	if status != 0 || stderr != "Loaded 4 previous messages\n" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	f.has(map[string]int{"notes": 4})
	for _, args := range []string{"--continue -p hello", "exec --continue hello"} {
		status, out, stderr := run(t, newWorld(t).command(append([]string{"--socket", f.socket}, strings.Fields(args)...)...), "")
		if status != 0 || out != "echo: hello\n" || !strings.HasPrefix(stderr, "Loaded ") || f.requests()[len(f.requests())-1].SessionID != "notes" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, out, stderr)
		}
	}
	f.has(map[string]int{"ab1": 1, "ab2": 1})
	status, out, stderr := run(t, newWorld(t).command("--socket", f.socket, "--session", "ab", "exec", "-p", "hello"), "")
	if status != 1 || out != "" || stderr != "Error [session]: Several sessions begin with that.\n" || len(f.messages()) != 3 {
		t.Errorf("an ambiguous prefix: status %d, stdout %q, stderr %q", status, out, stderr)
	}
}

// TestExecInput checks that standard input is appended to the prompt.
func TestExecInput(t *testing.T) {
	for _, test := range []struct{ name, input, want, stderr string }{
		{"text", "a\nb\n", "look\n\na\nb", ""},
		{"nothing", "", "look", ""},
		{"blanks", " \n\n", "look", ""},
		{"binary", "a\x00b", "", "Error [usage]: standard input: it is binary: byte 1 is NUL; give text\n"},
		{"not UTF-8", "a\xe9b", "", "Error [usage]: standard input: it is not UTF-8 text; convert it first, with iconv\n"},
		{"an image", "\x89PNG\r\n\x1a\n\x00", "", "Error [usage]: standard input: it is an image: give it to zino exec with --image FILE\n"},
		{"too much", strings.Repeat("x", 8<<20+1), "", "Error [usage]: standard input: it has more than 8 MiB: "},
		{"control characters", "a\x1b[31m\r\n", "look\n\na\x1b[31m", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			status, _, stderr := run(t, newWorld(t).command("--socket", f.socket, "exec", "-p", "look"), test.input)
			if (status == 0) != (test.stderr == "") || !strings.HasPrefix(stderr, test.stderr) || test.stderr == "" && stderr != "" {
				t.Errorf("status %d, stderr %q", status, stderr)
			}
			if got := strings.Join(f.messages(), "|"); strings.TrimSpace(got) != test.want {
				t.Errorf("sent %.100q, want %q", got, test.want)
			}
		})
	}
}

// TestExecInputAlone checks that standard input can be the prompt.
func TestExecInputAlone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"exec"}, {"exec", "-p", ""}, {"-p", ""}} {
		f := newFake(t, "")
		expect(t, newWorld(t).command(append([]string{"--socket", f.socket}, args...)...), "one\ntwo\n", 0, "echo: one\ntwo\n", "")
	}
}

// TestExecInputKinds checks that files are read, but not devices and directories.
func TestExecInputKinds(t *testing.T) {
	dir := zinotest.Dir(t)
	zinotest.Write(t, dir+"/file", "from a file")
	for path, want := range map[string]string{"/dev/null": "", dir: "", dir + "/file": "from a file"} {
		in, err := os.Open(path)
		zinotest.Must(t, err)
		got, err := readStdin(t.Context(), &command.Env{In: in}, false)
		if got != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		in.Close()
		if got, err := readStdin(t.Context(), &command.Env{In: in}, false); got != "" || err != nil {
			t.Errorf("closed: %q, %v", got, err)
		}
	}
}

// TestInterrupted checks that each signal cancels the turn with its status and that the
// text so far is printed with a newline.
func TestInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for args, want := range map[string]string{
			"--stream wait":              "so far\n",
			"exec -p wait":               "so far\n",
			"exec --format json -p wait": `{"type":"interrupted"}` + "\n" + `{"type":"error","message":"Interrupted.","code":"canceled","kind":"internal"}` + "\n",
		} {
			t.Run(signal.String()+" "+args, func(t *testing.T) {
				t.Parallel()
				f := newFake(t, "")
				p := zinotest.Start(t, newWorld(t).command(append([]string{"--socket", f.socket}, strings.Fields(args)...)...))
				f.waiting(t, 1)
				p.Signal(signal)
				zinotest.Equal(t, "status", p.Exit(), exitAfter(signal))
				<-f.ended
				zinotest.Equal(t, "stderr", p.Err.String(), "^C Interrupted.\n")
				if got := p.Out.String(); got != "" && !strings.HasSuffix(got, want) {
					t.Errorf("stdout %q", got)
				}
			})
		}
	}
}

// TestInterruptedReading checks an interrupt while standard input is read.
func TestInterruptedReading(t *testing.T) {
	f := newFake(t, "")
	cmd := newWorld(t).command("--socket", f.socket, "exec", "-p", "look")
	in, err := cmd.StdinPipe()
	zinotest.Must(t, err)
	p := zinotest.Start(t, cmd)
	_, err = in.Write(make([]byte, 1<<17)) // more than a pipe holds: it is being read
	zinotest.Must(t, err)
	p.Signal(os.Interrupt)
	if status := p.Exit(); status != exitInterrupted || p.Err.String() != "^C Interrupted.\n" || len(f.messages()) > 0 {
		t.Errorf("status %d, stderr %q, sent %d messages", status, p.Err, len(f.messages()))
	}
}

// TestReaderGone checks that EPIPE on standard output is not printed.
func TestReaderGone(t *testing.T) {
	for _, args := range []string{"--stream flood", "exec -p flood", "exec -p flood --format json"} {
		f := newFake(t, "")
		cmd := newWorld(t).command(append([]string{"--socket", f.socket}, strings.Fields(args)...)...)
		r, w, err := os.Pipe()
		zinotest.Must(t, err)
		cmd.Stdout = w
		p := zinotest.Start(t, cmd)
		w.Close()
		_, err = io.ReadFull(r, make([]byte, 100))
		zinotest.Must(t, err)
		r.Close()
		<-f.ended
		if status := p.Exit(); status != exitError && status != -1 || p.Err.String() != "" { // -1: SIGPIPE
			t.Errorf("%s: status %d, stderr %q", args, status, p.Err)
		}
	}
}

// TestDiskFull checks the error for ENOSPC on standard output.
func TestDiskFull(t *testing.T) {
	for _, args := range []string{"hello you", "exec -p hello", "exec -p hello --format json"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		zinotest.Must(t, err)
		defer full.Close()
		cmd := newWorld(t).command(append([]string{"--socket", newFake(t, "").socket}, strings.Fields(args)...)...)
		cmd.Stdout = full
		p := zinotest.Start(t, cmd)
		if status, stderr := p.Exit(), p.Err.String(); status != exitError || !strings.HasSuffix(stderr, "no space left on device\n") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, stderr %q", args, status, stderr)
		}
	}
}

// TestExecNoDaemon checks the advice if no daemon runs and no model is configured.
func TestExecNoDaemon(t *testing.T) {
	status, out, stderr := run(t, newWorld(t).command("exec", "-p", "hello"), "")
	if status != 1 || out != "" || !strings.HasPrefix(stderr, "Error [internal]: no model is connected: run `zino auth set PROVIDER` ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	for _, flag := range []string{"--socket=none.sock", "--host"} {
		status, out, stderr = run(t, newWorld(t).command("exec", "-p", "hello", flag), "")
		if status != 1 || out != "" || !strings.HasPrefix(stderr, "Error [internal]: Could not connect to daemon: ") || !strings.HasSuffix(stderr, "; is the daemon running? try: zino status\n") {
			t.Errorf("%s: status %d, stderr %q", flag, status, stderr)
		}
	}
}

// TestExecHost checks that the host's daemon gets no root.
func TestExecHost(t *testing.T) {
	w := newWorld(t)
	f := newFake(t, w.runtime+"/host.sock")
	status, out, stderr := run(t, w.command("exec", "--host", "-p", "hello", "--root", "/"), "")
	if status != 0 || out != "echo: hello\n" || stderr != "" || f.requests()[0].Root != "" {
		t.Errorf("status %d, stdout %q, stderr %q, sent %+v", status, out, stderr, f.requests())
	}
}

// TestPlainOptions checks the request for the options of a plain message.
func TestPlainOptions(t *testing.T) {
	f := newFake(t, "")
	status, out, _ := run(t, newWorld(t).command("--socket", f.socket, "--model", "m", "hello", "you", "--provider=p", "--max-tokens=9", "--effort", "off"), "")
	want := proto.Chat{Message: "hello you", NeedModel: true, Model: "m", Provider: "p", MaxTokens: 9, Effort: "off"}
	got := f.requests()
	for i := range got {
		got[i].Env, got[i].Cwd, got[i].Umask = nil, "", nil
	}
	if status != 0 || out != "echo: hello you\n" || !reflect.DeepEqual(got, []proto.Chat{want}) {
		t.Errorf("status %d, stdout %q, sent %+v", status, out, got)
	}
}
