package zino_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
)

// status matches the status line of an interactive chat.
const status = ` · `

// shellScreen is a shell on a terminal, with a scripted provider.
type shellScreen struct {
	*zinotest.Screen
	provider *fakellm.Server
	t        *testing.T
}

// faultScript is the provider's script of the tests of this file. A turn with "hold" goes
// on when the gate "hold" is opened.
var faultScript = []fakellm.Turn{
	{Match: "again", Times: fakellm.Forever, Text: "answered"},
	{Match: "hold", Times: fakellm.Forever, Text: "so far", Pause: "hold"},
	{Match: "sleep", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo begun; sleep 1000.7"}`}}},
	{Times: fakellm.Forever, Text: "answered"},
}

func newShellScreen(t *testing.T, env ...string) *shellScreen {
	t.Helper()
	provider := fakellm.New(faultScript...)
	t.Cleanup(provider.Close)
	s := zinotest.NewScreen(t, bin, append(env, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host, "TMUX=yes")...)
	s.Tmux("set", "-g", "status", "off")
	s.Enter("stty -a > before; clear")
	s.Eventually("a clear screen", func(text string) bool { return text == "$" || text == "$ " })
	return &shellScreen{s, provider, t}
}

// zino opens an interactive chat. Its exit status is printed when it ends.
func (s *shellScreen) zino(args string) {
	s.t.Helper()
	s.Enter("clear; zino " + args + "; echo status $?")
	s.Shows("/help", status)
}

// ask sends a message and waits for its answer.
func (s *shellScreen) ask(message string) {
	s.t.Helper()
	s.Enter(message)
	s.Eventually("the answer to "+message, func(text string) bool {
		_, answer, found := strings.Cut(text, "> "+message+"\n")
		return found && strings.Contains(answer, "answered") && !strings.Contains(answer, "Esc stops")
	})
}

// key presses a key of tmux.
func (s *shellScreen) key(name string) {
	s.t.Helper()
	s.Tmux("send-keys", name)
}

// processes returns the processes of this screen by their name.
func (s *shellScreen) processes() map[string][]int {
	s.t.Helper()
	list := map[string][]int{}
	for pid := range zinotest.CommandLines() {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		comm, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || err2 != nil || zinotest.Gone(pid) || !strings.Contains("\x00"+string(environ), "\x00HOME="+filepath.Join(s.Dir, "home")+"\x00") {
			continue // ended, or of another test
		}
		name := strings.TrimSpace(string(comm))
		list[name] = append(list[name], pid)
	}
	return list
}

// pid returns the one process of a name. zino is the chat's, not the supervisor of its
// services.
func (s *shellScreen) pid(name string) int {
	s.t.Helper()
	list := s.processes()[name]
	for _, pid := range list {
		if name != "zino" || !strings.Contains(zinotest.CommandLines()[pid], " up") {
			return pid
		}
	}
	s.t.Fatalf("no process %s: %v", name, s.processes())
	return 0
}

func (s *shellScreen) kill(pid int, sig syscall.Signal) {
	s.t.Helper()
	zinotest.Must(s.t, syscall.Kill(pid, sig))
}

// ended waits for the exit status, and checks that the terminal is as before and that no
// process is left.
func (s *shellScreen) ended(code int) (text string) {
	s.t.Helper()
	s.Shows("status "+strconv.Itoa(code)+"\n", shell)
	text = s.Tmux("capture-pane", "-p", "-J")
	s.restored()
	s.nothingLeft()
	return text
}

// nothingLeft waits for the end of all processes but the shell.
func (s *shellScreen) nothingLeft() {
	s.t.Helper()
	zinotest.Eventually(s.t, "the end of all processes", func() bool {
		list := s.processes()
		delete(list, "sh")
		return len(list) == 0
	})
}

func (s *shellScreen) restored() {
	s.t.Helper()
	s.Enter("clear; stty -a > after; cmp before after && echo same terminal")
	s.Shows("same terminal", shell)
}

// contains checks that a screen has the lines.
func (s *shellScreen) contains(text string, lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text+"\n", "\n"+line) {
			s.t.Errorf("no line begins with %q:\n%s", line, text)
		}
	}
}

// session returns the shortened id of the only session in a directory, by default the user's.
func (s *shellScreen) session(dir ...string) string {
	s.t.Helper()
	if len(dir) == 0 {
		dir = []string{"home", ".config", "zino", "sessions"}
	}
	files, err := filepath.Glob(filepath.Join(s.Dir, filepath.Join(dir...), "*.jsonl"))
	zinotest.Must(s.t, err)
	if len(files) != 1 {
		s.t.Fatalf("sessions: %v", files)
	}
	return filepath.Base(files[0])[:8]
}

// TestChatEnds checks each way in which the chat ends: the exit status, the terminal, what is
// printed, and that nothing of its services is left.
func TestChatEnds(t *testing.T) {
	t.Parallel()
	s := newShellScreen(t)
	resume := ""
	for i, way := range []struct {
		name, args string
		do         func()
		status     int
		line       string // %s: the command that resumes
	}{
		{"Ctrl-D", "", func() { s.key("C-d") }, 0, "Go on with: %s"},
		{"SIGKILL", "--continue", func() { s.kill(s.pid("zino-chat"), syscall.SIGKILL) }, 1, "zino-chat ended: killed. Go on with: %s"},
		{"panic", "resume", func() { s.kill(s.pid("zino-chat"), syscall.SIGABRT) }, 1, "zino-chat ended: it crashed, see ~/.config/zino/log/chat.log. Go on with: %s"},
		{"SIGTERM", "sessions resume", func() { s.kill(s.pid("zino-chat"), syscall.SIGTERM) }, 130, "Go on with: %s"},
		{"SIGTERM of zino", "--continue", func() { s.kill(s.pid("zino"), syscall.SIGTERM) }, 130, "Go on with: %s"},
		{"SIGHUP in a turn", "--continue", func() {
			s.Enter("hold it")
			s.Shows("so far", status)
			s.kill(s.pid("zino-chat"), syscall.SIGHUP)
		}, 129, "Go on with: %s"},
	} {
		t.Log(way.name)
		s.zino(way.args)
		if i == 0 {
			s.ask("first")
			resume = "zino sessions resume " + s.session()
		}
		way.do()
		text := s.ended(way.status)
		s.contains(text, fmt.Sprintf(way.line, resume))
	}
	s.zino("--continue")
	s.kill(s.pid("zino"), syscall.SIGKILL) // the shell prints its prompt while the terminal is raw
	s.nothingLeft()
	s.key("Enter")
	s.Shows("", shell)
	s.restored()
	log := filepath.Join(s.Dir, "home", ".config", "zino", "log", "chat.log")
	if text := zinotest.Read(t, log); !strings.Contains(text, "goroutine ") {
		t.Errorf("%s contains %q", log, text)
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", log, info, err)
	}
}

// TestChatKilledBytes checks what zino writes to the terminal after zino-chat was killed, and
// before a session has begun.
func TestChatKilledBytes(t *testing.T) {
	t.Parallel()
	home := zinotest.Dir(t)
	x := zinotest.NewTerminal(t)
	x.Resize(80)
	cmd := exec.Command(filepath.Join(bin, "zino"))
	cmd.Dir = home
	cmd.Env = append(zinotest.CoverEnv(), "HOME="+home, "XDG_RUNTIME_DIR="+home, "TERM=xterm", "ANTHROPIC_API_KEY=test", "PATH="+os.Getenv("PATH"))
	x.Start(cmd)
	x.Shows("/help")
	parent := x.Process.Cmd.Process.Pid
	for pid, line := range zinotest.CommandLines() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && strings.Contains(line, "zino-chat") && strings.Contains(string(stat), fmt.Sprintf(") S %d ", parent)) {
			zinotest.Must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	zinotest.Equal(t, "status", x.Exit(), 1)
	x.Shows("\x1b[?7h\x1b[?2026l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[>4m\x1b[?25h\x1b[m\r\x1b[999Mzino-chat ended: killed.\r\n")
	if !x.Cooked() {
		t.Error("the terminal is still raw")
	}
}

// TestChatSuspended checks that Ctrl-Z and SIGTSTP give the terminal to the shell, with and
// without a turn, and that the chat is drawn again when it goes on.
func TestChatSuspended(t *testing.T) {
	t.Parallel()
	s := newShellScreen(t)
	again := func() {
		s.t.Helper()
		s.Enter("clear; fg; echo status $?")
		s.Shows("", status)
	}
	s.zino("")
	for _, stop := range []struct {
		name string
		do   func()
	}{
		{"Ctrl-Z", func() { s.key("C-z") }},
		{"SIGTSTP", func() { s.kill(s.pid("zino-chat"), syscall.SIGTSTP) }},
		{"SIGTSTP of zino", func() { s.kill(s.pid("zino"), syscall.SIGTSTP) }},
		{"SIGTSTP of the group", func() { s.kill(-s.pid("zino"), syscall.SIGTSTP) }},
	} {
		t.Log(stop.name)
		stop.do()
		s.Shows("Stopped", shell)
		s.restored()
		again()
	}
	s.kill(s.pid("zino-chat"), syscall.SIGCONT) // without a stop
	s.ask("first")
	s.Enter("hold it")
	s.Shows("so far", status)
	s.key("C-z")
	s.Shows("Stopped", shell)
	s.Tmux("resize-window", "-x", "60", "-y", "20")
	again()
	s.provider.Open("hold")
	s.Eventually("the end of the turn", func(text string) bool {
		return strings.Contains(text, "so far") && !strings.Contains(text, "Esc stops")
	})
	s.ask("second")
	text := s.Text()
	if n := strings.Count(text, "YOLO · claude"); n != 1 {
		t.Errorf("%d status lines:\n%s", n, text)
	}
	s.key("C-d")
	s.Shows("Go on with", shell)
	s.Tmux("resize-window", "-x", "80", "-y", "30")
	s.contains(s.ended(0), "Go on with: zino sessions resume "+s.session())
}

// TestChatDaemonKilled checks that a turn is followed again when its daemon comes back, that
// a closed terminal leaves the turn running, and that leaving interrupts it.
func TestChatDaemonKilled(t *testing.T) {
	t.Parallel()
	s := newShellScreen(t)
	up := exec.Command(filepath.Join(bin, "zino"), "up")
	up.Dir = s.Dir
	up.Env = append(zinotest.CoverEnv(), "HOME="+filepath.Join(s.Dir, "home"), "XDG_RUNTIME_DIR="+filepath.Join(s.Dir, "run"), "PATH="+os.Getenv("PATH"),
		"ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+s.provider.Host)
	services := zinotest.Start(t, up)
	services.WaitFor("zino: up")
	quit := func() (text string) {
		t.Helper()
		s.Shows("status 0\n", shell)
		text = s.Tmux("capture-pane", "-p", "-J")
		s.restored()
		return text
	}

	s.zino("")
	s.ask("first")
	s.Enter("hold it")
	s.Shows("so far", status)
	s.kill(s.pid("zino-daemon"), syscall.SIGKILL)
	s.Eventually("the daemon again", func(string) bool { return len(s.provider.Requests()) == 3 })
	s.Shows("so far", status)
	s.kill(s.pid("zino-chat"), syscall.SIGHUP)
	s.contains(quit(), "Detached. The turn goes on: zino attach "+s.session())

	s.zino("--continue")
	s.Shows("Working ", status)
	s.provider.Open("hold")
	s.Eventually("the end of the turn", func(text string) bool { return strings.Contains(text, "so far") && !strings.Contains(text, "Working ") })
	s.Enter("now sleep")
	s.Shows("begun", status)
	s.key("C-d")
	s.contains(quit(), "Go on with: zino sessions resume "+s.session())
	zinotest.Eventually(t, "the end of the command", func() bool { return len(s.processes()["sleep"]) == 0 })

	services.Signal(os.Interrupt)
	services.Exit()
}

// TestChatPrivateDaemonKilled checks that a chat with services of its own reports a killed
// daemon, and that the session can be used.
func TestChatPrivateDaemonKilled(t *testing.T) {
	t.Parallel()
	s := newShellScreen(t)
	s.zino("")
	s.Enter("hold it")
	s.Shows("so far", status)
	s.kill(s.pid("zino-daemon"), syscall.SIGKILL)
	s.Eventually("the error", func(text string) bool {
		return strings.Contains(text, "The daemon of this chat was restarted") && !strings.Contains(text, "Esc stops")
	})
	s.ask("again")
	s.key("C-d")
	s.contains(s.ended(0), "Go on with: zino sessions resume "+s.session())
}

// linkPrograms makes a directory of all programs but zino-chat.
func linkPrograms(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(bin)
	zinotest.Must(t, err)
	zinotest.Must(t, os.Mkdir(dir, 0o755))
	for _, f := range files {
		if f.Name() != "zino-chat" {
			zinotest.Must(t, os.Link(filepath.Join(bin, f.Name()), filepath.Join(dir, f.Name())))
		}
	}
}

// TestChatWithoutProgram checks the plain chat where zino-chat is missing or of another
// version, and what zino-chat says when it is not started by zino.
func TestChatWithoutProgram(t *testing.T) {
	t.Parallel()
	s := newShellScreen(t)
	programs := filepath.Join(s.Dir, "programs")
	linkPrograms(t, programs)
	plain := func(warning string) {
		t.Helper()
		s.Enter("clear; " + filepath.Join(programs, "zino"))
		s.Shows(warning+": using plain output", chat)
		s.key("C-d")
		s.Shows("using plain output", shell)
		s.restored()
	}
	plain("Warning: zino-chat is missing")
	other := filepath.Join(programs, "zino-chat")
	zinotest.Must(t, os.WriteFile(other, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo 'zino-chat 9.8.7 (abc)'\nexit 3\n"), 0o755))
	plain("Warning: zino-chat has version 9.8.7")

	s.Enter("clear; zino-chat; echo status $?; zino-chat --version")
	s.Shows("zino-chat is started by zino\nstatus 1\nzino-chat "+rpc.VersionText(), shell)
	s.Enter(`clear; echo '{"type":"start","version":"9.8.7","later":1}' | (zino-chat 3<&0 </dev/tty; echo status $?)`)
	s.Shows("status 3\n", shell)
	s.restored()
	for _, command := range []string{"zino --plain", "TERM=dumb zino", "TERM= zino", "zino --format json", "zino </dev/null", "zino --plain | cat"} {
		s.Enter("clear; " + command + "; echo status $?")
		if !strings.Contains(command, "/dev/null") {
			s.Shows("", chat)
			s.key("C-d")
		}
		s.Shows("status 0\n", shell)
		if text := s.Text(); strings.Contains(text, "/help") {
			t.Errorf("%s:\n%s", command, text)
		}
		s.restored()
	}
}

// TestChatStart checks what the chat begins with: notes, errors, sessions of other
// directories, and --no-save.
func TestChatStart(t *testing.T) {
	t.Parallel()
	s := newShellScreen(t)
	config := filepath.Join(s.Dir, "work", "some.toml")
	zinotest.Write(t, config, "[agent]\ntemperature = 0.3\n")

	s.Enter("clear; zino --config some.toml --no-save; echo status $?")
	s.Enter("first") // before the services are there
	s.Eventually("its answer", func(text string) bool {
		return strings.Contains(text, "answered") && strings.Contains(text, "not saved")
	})
	s.ask("second")
	s.key("C-d")
	text := s.ended(0)
	if strings.Contains(text, "Go on with") {
		t.Errorf("a session that is not stored:\n%s", text)
	}
	if last := s.provider.Requests()[1]; !strings.Contains(string(last.Body), "first") {
		t.Errorf("the second request forgets the first message: %s", last.Body)
	}

	s.zino("--config some.toml")
	s.key("C-d")
	s.ended(0)
	s.zino("--config some.toml")
	s.ask("third")
	s.key("C-d")
	s.contains(s.ended(0), "Go on with: zino sessions resume "+s.session("work", "data", "mem", "sessions")+" --config "+config)

	s.zino("")
	s.ask("fourth")
	s.key("C-d")
	s.ended(0)
	s.Enter("mkdir other; clear; (cd other; zino --session " + s.session() + "); echo status $?")
	s.Shows("is of ", `Go on \(t\)here, \(h\)ere, or \(q\)uit\?`)
	s.key("q")
	s.ended(1)
	s.Enter("clear; (cd other; zino --session " + s.session() + "); echo status $?")
	s.Shows("is of ", `Go on \(t\)here, \(h\)ere, or \(q\)uit\?`)
	s.key("t")
	s.Shows("> fourth", status)
	s.ask("fifth")
	s.key("C-d")
	s.ended(0)

	s.Enter("clear; (cd other; zino resume); echo status $?")
	s.Shows("Error [session]: No sessions found to resume", shell)
	s.ended(1)
	s.Enter("clear; zino --socket none; echo status $?")
	s.Shows("Error [", shell)
	s.ended(1)
	err := filepath.WalkDir(filepath.Join(s.Dir, "run"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), "zino-") {
			t.Errorf("left: %s", path)
		}
		return err
	})
	zinotest.Must(t, err)
}
