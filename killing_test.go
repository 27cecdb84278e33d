package zino_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

const (
	killedTurns    = 200
	killedSessions = 4
)

// killScript answers the turns of TestKilledTurns.
var killScript = []fakellm.Turn{
	{Match: "Is all well?", Times: fakellm.Forever, Text: "Very well."},
	{Match: "tools please", Times: fakellm.Forever, Text: "Let me look.", Calls: []fakellm.Call{
		{Name: "bash", Args: `{"command":"echo one; echo two >>made.txt; echo three"}`},
		{Name: "read", Args: `{"path":"note.txt"}`},
		{Name: "read", Args: `{"path":"missing.txt"}`},
		{Name: "edit", Args: `{"path":"note.txt","old":"note","new":"note"}`},
	}},
	{Match: "silent tool please", Times: fakellm.Forever, Reasoning: "It needs a tool.", Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo silent"}`}}},
	{Match: `"ok":`, Times: fakellm.Forever, Text: "That was the output. " + strings.Repeat("And so on. ", 20), Size: 9},
	{Match: "text please", Times: fakellm.Forever, Text: strings.Repeat("Here is some text. ", 40), Size: 7},
	{Match: "refuse please", Times: fakellm.Forever, Status: 400, Text: `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`},
}

var killRequests = []string{"text please", "tools please", "silent tool please", "refuse please", "tools please"}

// TestKilledTurns kills services and clients at random moments of turns. It checks that
// everything that a client printed is in its session, every request to the provider is
// valid, and every session can be resumed.
func TestKilledTurns(t *testing.T) {
	provider := fakellm.New(killScript...)
	defer provider.Close()
	f := startFleet(t, fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host), "ANTHROPIC_API_KEY=test")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	k := &killing{fleet: f, root: filepath.Join(f.dir, "work"), shown: make([][]shown, killedSessions), ends: map[string]int{}}
	zinotest.Write(t, filepath.Join(k.root, "note.txt"), "a note\n")
	var wg sync.WaitGroup
	for s := range killedSessions {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(s)))
			for n := range killedTurns / killedSessions {
				k.turn(t, s, fmt.Sprintf("Turn %d of session %d: %s", n, s, killRequests[dice.IntN(len(killRequests))]), dice)
			}
		})
	}
	wg.Wait()
	for s := range killedSessions {
		out, err := k.client(s, "Is all well?").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Very well.") {
			t.Errorf("session %d cannot be resumed: %v\n%s", s, err, out)
		}
		k.checkSession(t, s)
	}
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d was not legal: %v\n%s", i, err, r.Body)
		}
	}
	t.Logf("%d turns, %d kills, %d requests to the provider, ends: %v", killedTurns, k.kills, len(provider.Requests()), k.ends)
	if k.kills < killedTurns/4 || k.ends["done"] < killedTurns/20 || k.ends["done"] == killedTurns {
		t.Errorf("too few kills or turns of one kind for a meaningful test: %d kills, ends %v", k.kills, k.ends)
	}
}

// killing is the state of TestKilledTurns.
type killing struct {
	fleet *fleet
	root  string
	shown [][]shown // by session; written by the session's goroutine only

	mu    sync.Mutex
	kills int
	ends  map[string]int
}

// shown is an event that a client printed, as it must be in the session.
type shown struct{ kind, value string }

// event is a line of --format json, or of a session's file.
type event struct {
	Type      string `json:"type"`
	Role      string `json:"role"`
	Text      string `json:"text"`
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
	Code      string `json:"code"`
	Message   string `json:"message"`
}

func sessionName(s int) string { return fmt.Sprintf("killed-%d", s) }

func (k *killing) client(s int, message string) *exec.Cmd {
	cmd := program(k.fleet.env, "zino", "--socket", k.fleet.socket("daemon"), "exec",
		"--session", sessionName(s), "--root", k.root, "--format", "json", "-p", message)
	cmd.Dir = k.root
	return cmd
}

// turn runs one turn and kills a process at some of its events.
func (k *killing) turn(t *testing.T, s int, message string, dice *rand.Rand) {
	cmd := k.client(s, message)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	k.perhapsKill(cmd, dice, 10)
	end, why := "killed client", ""
	in := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		e := event{}
		if err != nil || json.Unmarshal(line, &e) != nil {
			break // a partial line: the client was killed
		}
		if k.note(s, message, e); e.Type == "done" || e.Type == "error" {
			end, why = strings.TrimSpace(e.Type+" "+e.Code), e.Message
		}
		k.perhapsKill(cmd, dice, 30)
	}
	io.Copy(io.Discard, in) // so that the client can write the rest
	cmd.Wait()              // the status is not checked: the client may have been killed
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ends[end]++; strings.HasPrefix(end, "error") && why == "" {
		t.Errorf("%s: ended with %s without a message", message, end)
	}
}

// perhapsKill kills the client or a service, once in n calls.
func (k *killing) perhapsKill(client *exec.Cmd, dice *rand.Rand, n int) {
	if dice.IntN(n) > 0 {
		return
	}
	k.mu.Lock()
	k.kills++
	k.mu.Unlock()
	if i := dice.IntN(len(config.Services) + 1); i < len(config.Services) {
		k.fleet.kill(config.Services[i])
	} else {
		client.Process.Kill() // an error: it has ended
	}
}

// note records what the session must contain after an event.
func (k *killing) note(s int, message string, e event) {
	add := func(kind, value string) { k.shown[s] = append(k.shown[s], shown{kind, value}) }
	switch e.Type { // the first one of a turn: text is not repeated for a client that comes late
	case "assistant_delta", "reasoning", "assistant_final", "tool_requested":
		if !slices.Contains(k.shown[s], shown{"user", message}) {
			add("user", message)
		}
	}
	switch e.Type {
	case "assistant_final":
		add("assistant", e.Text)
	case "tool_requested":
		add("tool_use", e.ID)
	case "tool_finished":
		add("tool_result", e.ID)
	}
}

// checkSession checks that a session contains everything that its clients printed, in
// order, and one result for each call.
func (k *killing) checkSession(t *testing.T, s int) {
	data := zinotest.Read(t, filepath.Join(k.fleet.dir, "data", "sessions", sessionName(s)+".jsonl"))
	want, calls := k.shown[s], map[string]int{}
	for line := range strings.Lines(data) {
		e := event{}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // torn: it was not acknowledged
		}
		var stored shown
		switch e.Type {
		case "message":
			stored = shown{e.Role, e.Text}
		case "tool_use":
			stored = shown{e.Type, e.ID}
			calls[e.ID]++
		case "tool_result":
			stored = shown{e.Type, e.ToolUseID}
			calls[e.ToolUseID]--
		}
		for len(want) > 0 && want[0] == stored {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("session %d lacks %d of %d printed events, first %v", s, len(want), len(k.shown[s]), want[0])
	}
	for id, n := range calls {
		if n != 0 {
			t.Errorf("session %d: call %s lacks %d results", s, id, n)
		}
	}
}

// fleet runs all services as processes and restarts those that a test kills. It keeps
// the listening sockets open, so that callers wait during a restart.
type fleet struct {
	t           *testing.T
	dir, config string
	env         []string
	files       map[string]*os.File // the listening sockets

	mu       sync.Mutex
	running  map[string]*exec.Cmd
	stopped  bool
	restarts sync.WaitGroup
}

// startFleet starts all services with a configuration that begins with text.
func startFleet(t *testing.T, text string, env ...string) *fleet {
	t.Helper()
	dir := zinotest.Dir(t)
	f := &fleet{t: t, dir: dir, config: filepath.Join(dir, config.FileName), files: map[string]*os.File{}, running: map[string]*exec.Cmd{}}
	f.env = append([]string{"HOME=" + dir, "ZINO_HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + dir}, env...)
	text += fmt.Sprintf("\n[mem]\ndata_dir = %q\nsocket = %q\n", filepath.Join(dir, "data"), f.socket("mem"))
	services := config.Services
	if strings.Contains(text, "[mcp.servers.") {
		services = append(slices.Clone(services), "mcp")
	}
	for _, name := range services {
		if name != "mem" {
			text += fmt.Sprintf("[%s]\nsocket = %q\n", name, f.socket(name))
		}
		l, err := net.Listen("unix", f.socket(name))
		zinotest.Must(t, err)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		f.files[name], err = l.(*net.UnixListener).File()
		zinotest.Must(t, err)
		l.Close()
		t.Cleanup(func() { f.files[name].Close() })
	}
	zinotest.Write(t, f.config, text)
	lifeline, end, err := os.Pipe()
	zinotest.Must(t, err)
	t.Cleanup(func() { end.Close(); lifeline.Close() })
	for _, name := range services {
		f.restarts.Go(func() {
			for {
				cmd := program(f.env, "zino-"+name, "--config", f.config)
				cmd.ExtraFiles = []*os.File{f.files[name]}
				cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES="+name)
				if name == "exc" { // its jobs outlive it
					cmd.ExtraFiles = append(cmd.ExtraFiles, lifeline)
					cmd.Env = append(cmd.Env, "LISTEN_FDS=2", "LISTEN_FDNAMES=exc:lifeline")
				}
				if !f.start(name, cmd) {
					return
				}
				cmd.Wait() // killed, most likely
			}
		})
	}
	t.Cleanup(f.stop)
	return f
}

func (f *fleet) socket(name string) string { return filepath.Join(f.dir, name+".sock") }

func (f *fleet) start(name string, cmd *exec.Cmd) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	if err := cmd.Start(); err != nil {
		f.t.Errorf("zino-%s does not start: %v", name, err)
		return false
	}
	f.running[name] = cmd
	return true
}

func (f *fleet) kill(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cmd := f.running[name]; cmd != nil {
		cmd.Process.Kill() // an error: it has ended and is started again
	}
}

func (f *fleet) stop() {
	f.mu.Lock()
	f.stopped = true
	for _, cmd := range f.running {
		cmd.Process.Signal(syscall.SIGTERM) // an error: it has ended
	}
	f.mu.Unlock()
	f.restarts.Wait()
}
