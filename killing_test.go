package zino_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/fakellm"
)

const (
	killedTurns    = 200
	killedSessions = 4
)

// killScript answers every turn of TestKilledTurns by its words.
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

var killWishes = []string{"text please", "tools please", "silent tool please", "refuse please", "tools please"}

// TestKilledTurns runs turns while processes are killed at every kind of
// moment, the client included. Whatever a client was shown is in its session,
// every request to the provider is legal, and every session can go on.
func TestKilledTurns(t *testing.T) {
	provider := fakellm.New(killScript...)
	defer provider.Close()
	f := startFleet(t, fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host), "ANTHROPIC_API_KEY=test")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	root := filepath.Join(f.dir, "work")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "note.txt"), []byte("a note\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &killing{fleet: f, root: root, shown: make([][]shown, killedSessions), ends: map[string]int{}}
	var wg sync.WaitGroup
	for s := range killedSessions {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(s)))
			for n := range killedTurns / killedSessions {
				k.turn(t, s, fmt.Sprintf("Turn %d of session %d: %s", n, s, killWishes[dice.IntN(len(killWishes))]), dice)
			}
		})
	}
	wg.Wait()
	for s := range killedSessions {
		k.resumes(t, s)
		k.complete(t, s)
	}
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d was not legal: %v\n%s", i, err, r.Body)
		}
	}
	t.Logf("%d turns, %d kills, %d requests to the provider, ends: %v", killedTurns, k.kills, len(provider.Requests()), k.ends)
	if k.kills < killedTurns/4 || k.ends["done"] < killedTurns/20 || k.ends["done"] == killedTurns {
		t.Errorf("%d kills and these ends say little: %v", k.kills, k.ends)
	}
}

// killing is the state of the test.
type killing struct {
	fleet *fleet
	root  string
	shown [][]shown // by session: only its own turns touch it

	mu    sync.Mutex
	kills int
	ends  map[string]int
}

// shown is something that a client has seen of a session.
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
	Synthetic bool   `json:"synthetic"`
}

func sessionName(s int) string { return fmt.Sprintf("killed-%d", s) }

func (k *killing) client(s int, message string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "zino"), "--socket", k.fleet.socket("daemon"), "exec",
		"--session", sessionName(s), "--root", k.root, "--format", "json", "-p", message)
	cmd.Env, cmd.Dir = k.fleet.env, k.root
	return cmd
}

// turn runs one turn and kills something at some of the steps that it shows.
func (k *killing) turn(t *testing.T, s int, message string, dice *rand.Rand) {
	cmd := k.client(s, message)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	k.perhaps(cmd, dice, 10)
	end, why := "killed client", ""
	for line := range lines(out) {
		e := event{}
		if err := json.Unmarshal(line, &e); err != nil {
			break // its end was not written: the client was killed
		}
		if k.saw(s, message, e); e.Type == "done" || e.Type == "error" {
			end, why = strings.TrimSpace(e.Type+" "+e.Code), e.Message
		}
		k.perhaps(cmd, dice, 60)
	}
	cmd.Wait() // its status follows from how the turn ended
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ends[end]++; strings.HasPrefix(end, "error") && why == "" {
		t.Errorf("%s: ended with %s and said nothing", message, end)
	}
}

// lines are the lines of a stream, whole ones only.
func lines(r io.Reader) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil || !yield(line) {
				io.Copy(io.Discard, r) // so that the client does not wait for us
				return
			}
		}
	}
}

// perhaps kills a process, once in n times.
func (k *killing) perhaps(client *exec.Cmd, dice *rand.Rand, n int) {
	if dice.IntN(n) > 0 {
		return
	}
	k.mu.Lock()
	k.kills++
	k.mu.Unlock()
	if i := dice.IntN(len(config.Services) + 1); i < len(config.Services) {
		k.fleet.kill(config.Services[i])
	} else {
		client.Process.Kill() // one that has ended does no harm
	}
}

// saw notes what must be in the session now.
func (k *killing) saw(s int, message string, e event) {
	note := func(kind, value string) { k.shown[s] = append(k.shown[s], shown{kind, value}) }
	switch e.Type {
	case "assistant_delta", "reasoning":
		if user := (shown{"user", message}); !slices.Contains(k.shown[s], user) {
			note("user", message)
		}
	case "assistant_final":
		note("assistant", e.Text)
	case "tool_requested":
		note("tool_use", e.ID)
	case "tool_finished":
		note("tool_result", e.ID)
	}
}

// resumes holds that a session can go on.
func (k *killing) resumes(t *testing.T, s int) {
	out, err := k.client(s, "Is all well?").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Very well.") {
		t.Errorf("session %d does not go on: %v\n%s", s, err, out)
	}
}

// complete holds that a session has all that its clients were shown, in that
// order, and for each call one result.
func (k *killing) complete(t *testing.T, s int) {
	file := filepath.Join(k.fleet.dir, "data", "sessions", sessionName(s)+".jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, calls := k.shown[s], map[string]int{}
	for line := range strings.Lines(string(data)) {
		e := event{}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // torn: nobody was told that it is there
		}
		switch e.Type {
		case "tool_use":
			calls[e.ID]++
		case "tool_result":
			calls[e.ToolUseID]--
		}
		for len(want) > 0 && want[0] == stored(e) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("session %d lacks %d of %d things that were shown, the first one is %v", s, len(want), len(k.shown[s]), want[0])
	}
	for id, n := range calls {
		if n != 0 {
			t.Errorf("session %d: call %s has %d results too few", s, id, n)
		}
	}
}

func stored(e event) shown {
	switch e.Type {
	case "message":
		return shown{e.Role, e.Text}
	case "tool_use":
		return shown{e.Type, e.ID}
	case "tool_result":
		return shown{e.Type, e.ToolUseID}
	}
	return shown{}
}
