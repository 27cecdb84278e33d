package zino_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// The last line of a screen that waits for input.
const (
	shell = `^\$ ?$`
	chat  = `^> ?$`
)

var update = flag.Bool("update", false, "write the screens of testdata/screens")

// screen is a terminal of 80 by 30 characters: a shell in tmux.
type screen struct {
	t   *testing.T
	dir string
}

// newScreen starts a shell, in an empty directory and with an empty home.
func newScreen(t *testing.T, env ...string) *screen {
	t.Helper()
	return screenOf(t, []string{"sh"}, env...)
}

// newUserScreen starts a shell that is not root's, also where the tests are: in
// a user namespace that shows this uid as another.
func newUserScreen(t *testing.T, env ...string) *screen {
	t.Helper()
	if os.Geteuid() != 0 {
		return newScreen(t, env...)
	}
	return screenOf(t, []string{"unshare", "--user", "--map-user=1000", "--map-group=1000", "sh"}, env...)
}

func screenOf(t *testing.T, shell []string, env ...string) *screen {
	t.Helper()
	dir := zinotest.Dir(t)
	s := &screen{t, dir}
	for _, name := range []string{"home", "work", "run"} {
		zinotest.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	env = slices.Concat([]string{
		"HOME=" + filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "TMPDIR=" + filepath.Join(dir, "run"),
		"PATH=" + bin + ":" + os.Getenv("PATH"), "PS1=$ ", "TERM=screen", "LC_ALL=C.UTF-8",
	}, zinotest.CoverEnv(), env)
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "30", "-c", filepath.Join(dir, "work"), "env", "-i"}
	s.tmux(slices.Concat(args, env, shell)...) // tmux's own -e does not reach PATH
	t.Cleanup(func() { s.tmux("kill-server") })
	s.shows("", `^[$[]`)
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", filepath.Join(s.dir, "tmux")}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// types sends text and Enter.
func (s *screen) types(text string) {
	s.t.Helper()
	s.tmux("send-keys", "-l", text)
	s.tmux("send-keys", "Enter")
}

func (s *screen) text() string {
	s.t.Helper()
	return strings.TrimRight(s.tmux("capture-pane", "-p"), "\n")
}

// shows waits until the last line of the screen matches and part stands above.
func (s *screen) shows(part, last string) {
	s.t.Helper()
	want := regexp.MustCompile(last)
	s.eventually(fmt.Sprintf("%q and a last line like %q", part, last), func(text string) bool {
		return strings.Contains(text, part) && want.MatchString(text[strings.LastIndexByte(text, '\n')+1:])
	})
}

// matches waits until the whole screen matches a multi-line pattern.
func (s *screen) matches(pattern string) {
	s.t.Helper()
	s.eventually(pattern, regexp.MustCompile("(?m)"+pattern).MatchString)
}

func (s *screen) eventually(what string, condition func(text string) bool) {
	s.t.Helper()
	text, ok := "", false
	defer func() {
		if !ok {
			s.t.Logf("the screen:\n%s", text)
		}
	}()
	zinotest.Eventually(s.t, what, func() bool {
		text = s.text()
		ok = condition(text)
		return ok
	})
}

// changing lists what differs from run to run, and its replacement.
var changing = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "SESSION"},
	{regexp.MustCompile(`resume [0-9a-f]{8}`), "resume SESSION"},
	{regexp.MustCompile(`\b\d+\.\d+s\b`), "0.00s"},
	{regexp.MustCompile(`\d+ tokens in, \d+ out(, \$\d\.\d+)?`), "N tokens in, N out"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "YYYY-MM-DD"},
}

// is compares the screen with a golden one, and clears it.
func (s *screen) is(name string) {
	s.t.Helper()
	text := strings.ReplaceAll(s.text(), s.dir, "$DIR") + "\n"
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.with)
	}
	golden := filepath.Join("testdata", "screens", name+".txt")
	if *update {
		zinotest.Must(s.t, os.WriteFile(golden, []byte(text), 0o644))
	}
	if want := zinotest.Read(s.t, golden); text != want {
		s.t.Errorf("the screen %s differs (go test -run TestScreens -update writes it):\n%s\nwant:\n%s", name, text, want)
	}
}

// screenScript is the model of TestScreens.
var screenScript = []fakellm.Turn{
	{Match: "typo", Text: "I look at the file first.", Calls: []fakellm.Call{{Name: "read", Args: `{"path":"greeting.txt"}`}}},
	{Match: "Helo", Calls: []fakellm.Call{{Name: "edit", Args: `{"path":"greeting.txt","old":"Helo","new":"Hello"}`}}},
	{Match: "replacements", Text: "The greeting is spelled right now.", Size: 5},
	{Match: "wait", Text: "This takes a while.", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo begun; sleep 1000.5"}`}}},
	{Match: "were we", Text: "You had me mend a typo, and then you stopped a long command."},
}

// TestScreens is what a new user sees: a chat, a tool that edits a file, the
// diff, Ctrl-C in a long command, the session resumed, and its handoff.
func TestScreens(t *testing.T) {
	provider := fakellm.New(screenScript...)
	defer provider.Close()
	s := newScreen(t, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host)
	file := filepath.Join(s.dir, "work", "greeting.txt")
	zinotest.Write(t, file, "Dear all,\nHelo to you.\nYours\n")
	s.types("clear; zino")
	s.shows("", chat)
	s.types("There is a typo in greeting.txt.")
	s.shows("spelled right now", chat)
	s.is("edit")
	s.types("Now wait for a thousand seconds.")
	s.shows("begun; sleep", "begun")
	s.tmux("send-keys", "C-c")
	s.shows("Interrupted", chat)
	s.is("interrupt")
	s.tmux("send-keys", "C-d")
	s.shows("sessions resume", shell)
	s.types("clear; zino sessions resume")
	s.shows("Loaded", chat)
	s.types("Where were we?")
	s.shows("a long command", chat)
	s.types(":q")
	s.shows("sessions resume", shell)
	s.is("resume")
	s.types("clear; zino handoff --goal 'Translate the greeting' --offline")
	s.shows("Repro", shell)
	s.is("handoff")
	zinotest.Equal(t, "the edited file", zinotest.Read(t, file), "Dear all,\nHello to you.\nYours\n")
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if left := zinotest.Processes("sleep 1000.5"); len(left) > 0 {
		t.Error(fmt.Sprint("the long command is left: ", left))
	}
}
