package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/services/cli/completion"
)

func init() {
	if os.Getenv(mainEnv) != "" { // run as zino
		completion.Timeout = zinotest.Timeout
	}
}

// script writes the completions for a shell to a file, and links this program as zino
// in a directory for $PATH.
func script(t *testing.T, shell string) (file, bin string) {
	t.Helper()
	status, text, stderr := run(t, newWorld(t).command("completion", shell), "")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	dir := zinotest.Dir(t)
	file, bin = filepath.Join(dir, "_zino"), filepath.Join(dir, "bin")
	zinotest.Write(t, file, text)
	self, err := filepath.Abs(os.Args[0])
	zinotest.Must(t, err)
	zinotest.Must(t, os.Mkdir(bin, 0o700))
	zinotest.Must(t, os.Symlink(self, filepath.Join(bin, "zino")))
	return file, bin
}

// shellIn returns a shell command with zino in its PATH.
func shellIn(t *testing.T, w world, bin string, line ...string) *exec.Cmd {
	t.Helper()
	cmd := w.command()
	path, err := exec.LookPath(line[0])
	if err != nil {
		t.Fatalf("%v: install it, or run make need", err)
	}
	cmd.Path, cmd.Args = path, line
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "TZ=UTC", "TERM=dumb", "PS1=ready> ")
	return cmd
}

// TestCompletionBash presses Tab in bash without the package bash-completion.
func TestCompletionBash(t *testing.T) {
	t.Parallel()
	file, bin := script(t, "bash")
	w, f := newWorld(t), newFakeSessions(t, "550e8400", "7c1a", "7d")
	w.daemon(t, f.socket)
	x := onTerminal(t, shellIn(t, w, bin, "bash", "--noprofile", "--norc", "-i"))
	for _, line := range []string{"bind 'set enable-bracketed-paste off'", "source " + file} {
		x.Type(line + "\r")
	}
	for _, test := range []struct{ typed, shown string }{
		{"zino sessi\t", "zino sessions "},
		{"zino sessions sh\t", "zino sessions show "},
		{"zino sessions show 5\t", "zino sessions show 550e8400 "},
		{"zino sessions rm 550e8400 7c\t", "zino sessions rm 550e8400 7c1a "},
		{"zino --session 7\t\t", "(words of 7d)"},
		{"zino --session=5\t", "zino --session=550e8400 "},
		{"zino --provider openr\t", "zino --provider openrouter "},
		{"zino exec --format=j\t", "zino exec --format=json "},
		{"zino --effort h\t", "zino --effort high "},
		{"zino --sandbox w\t", "zino --sandbox workspace-write "},
		{"zino sessions export 7c1a --format m\t", "zino sessions export 7c1a --format md "},
		{"zino usage --by mo\t", "zino usage --by model "},
		{"zino auth set g\t", "zino auth set gemini "},
	} {
		x.Type(test.typed)
		x.Shows(test.shown)
		x.Type("\x15\x0b") // clears the line
	}
	x.Type("exit\r")
	x.Exit()
}

// TestCompletionZsh presses Tab in zsh.
func TestCompletionZsh(t *testing.T) {
	t.Parallel()
	file, bin := script(t, "zsh")
	w, f := newWorld(t), newFakeSessions(t, "550e8400", "7c1a")
	w.daemon(t, f.socket)
	cmd := shellIn(t, w, bin, "zsh", "-f", "-i")
	cmd.Env = append(cmd.Env, "TERM=xterm")
	x := onTerminal(t, cmd)
	x.Type("fpath=(" + filepath.Dir(file) + " $fpath); autoload -U compinit && compinit -D -u && print loaded $_comps[zino]\r")
	x.Shows("loaded _zino")
	for _, test := range []struct{ typed, shown string }{
		{"echo a; zino sessi\t", "sessions"},
		{"zino sessions show 5\t", "550e8400"},
		{"zino --format j\t", "json"},
	} {
		x.Type(test.typed)
		x.Shows(test.shown)
		x.Type("\x15")
	}
	x.Type("exit\r")
	x.Exit()
}

// TestCompletionFish runs complete -C in fish.
func TestCompletionFish(t *testing.T) {
	t.Parallel()
	file, bin := script(t, "fish")
	w, f := newWorld(t), newFakeSessions(t, "550e8400", "7c1a")
	w.daemon(t, f.socket)
	for _, test := range []struct{ line, want string }{
		{"zino sessi", "sessions\tearlier conversations: list, show, resume, search, recall, export, fork, rename, redact, rm\n"},
		{"zino sessions show ", "7c1a\twords of 7c1a\n550e8400\twords of 550e8400\n"},
		{"zino sessions fork 7c1a ", ""},
		{"zino --format=", "--format=json\n--format=text\n"},
		{"zino describe r", "rtr\n"},
	} {
		expect(t, shellIn(t, w, bin, "fish", "--no-config", "-c", "source "+file+"; complete -C "+"'"+test.line+"'"), "", 0, test.want, "")
	}
}

// TestCompletionQuiet checks that completion starts no daemon and prints no errors.
func TestCompletionQuiet(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t, "abc")
	f.with(func() { f.fails = os.ErrPermission })
	w := newWorld(t)
	zinotest.Write(t, filepath.Join(w.home, "bad.toml"), "[api\n")
	for _, args := range [][]string{
		{"__complete", "sessions", "show", ""},
		{"__complete", "--socket", f.socket, "sessions", "show", ""},
		{"__complete", "--socket", "none", "--session", ""},
		{"__complete", "--config", filepath.Join(w.home, "bad.toml"), "sessions", "rm", ""},
	} {
		expect(t, w.command(args...), "", 0, ":36\n", "Completion ended with directive: ShellCompDirectiveNoFileComp, ShellCompDirectiveKeepOrder\n")
	}
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}

// TestCompletionForeign checks that texts of sessions are escaped.
func TestCompletionForeign(t *testing.T) {
	t.Parallel()
	f := newFakeSessions(t)
	f.add("abc", "\x1b[2J\ttab\nline\u202e "+strings.Repeat("long ", 100))
	_, out, _ := run(t, f.command(t, "__complete", "--session", ""), "")
	if out != "abc\t^[[2J tab line\\u202e long long long lon…\n:36\n" {
		t.Errorf("stdout %q", out)
	}
}
