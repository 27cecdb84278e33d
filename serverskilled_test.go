package zino_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// serverRounds is the number of rounds of TestKilledServers.
var serverRounds = flag.Int("servers", 12, "rounds of TestKilledServers")

// serverVictims are the services that TestKilledServers kills, with the programs that end
// with each. A server belongs to mcp, a hook to the turn in agr and daemon; all run in exc.
var serverVictims = []struct {
	service      string
	server, hook bool
}{{"mcp", true, false}, {"exc", true, true}, {"agr", false, true}, {"daemon", false, true}}

// escape starts processes that leave their process group and their session.
const escape = "setsid sh -c 'setsid sleep 10009 & sleep 10009' & (setsid sleep 10009 &)\n"

// serveHold is an MCP server of 2025-11-25. Its tool echo answers; its tool hold creates the
// file args[0] instead.
func serveHold(args []string) error {
	if err := exec.Command("sh", "-c", escape).Run(); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			return err
		}
		reply := `"result":{}`
		switch req.Method {
		case "server/discover":
			reply = `"error":{"code":-32601,"message":"unknown method"}`
		case "initialize":
			reply = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"hold","version":"1"}}`
		case "tools/list":
			reply = `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"hold","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			reply = `"result":{"content":[{"type":"text","text":"hello"}]}`
			if req.Params.Name == "hold" {
				if err := os.WriteFile(args[0], nil, 0o600); err != nil {
					return err
				}
				continue
			}
		}
		if req.ID != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", req.ID, reply)
		}
	}
	return lines.Err()
}

// killedServers is the state of TestKilledServers.
type killedServers struct {
	fleet        *fleet
	dir, root    string
	server, hook string // variables by which their processes are found

	longest map[string]time.Duration // until all processes were gone, by service
	codes   map[string]int           // of the calls in flight, by service
}

// TestKilledServers kills a service while a call of an MCP server runs in one session and a
// hook in another. No process is left of what ends with the service, both turns are done, and
// the next calls work.
func TestKilledServers(t *testing.T) {
	provider := fakellm.New(
		fakellm.Turn{Match: "hold please", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "mcp_call", Args: `{"server":"test","tool":"hold","arguments":{}}`}}},
		fakellm.Turn{Match: "echo please", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "mcp_call", Args: `{"server":"test","tool":"echo","arguments":{}}`}}},
		fakellm.Turn{Match: "bash please", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo hello"}`}}},
		fakellm.Turn{Match: `"ok":`, Times: fakellm.Forever, Text: "That was it."},
	)
	defer provider.Close()
	exe, err := os.Executable()
	zinotest.Must(t, err)
	dir := zinotest.Dir(t)
	k := &killedServers{
		dir: dir, root: filepath.Join(dir, "work"), longest: map[string]time.Duration{}, codes: map[string]int{},
		server: "server of " + filepath.Base(dir), hook: "hook of " + filepath.Base(dir),
	}
	zinotest.Must(t, os.Mkdir(k.root, 0o700))
	zinotest.WriteFiles(t, dir, map[string]string{
		"hook.sh": fmt.Sprintf("test -e %[1]s/block || exit 0\nexport KILLED=%[2]q\nexec sh %[1]s/hold.sh\n", dir, k.hook),
		"hold.sh": escape + fmt.Sprintf(": >%s/hooked\nsleep 10009\n", dir),
	})
	k.fleet = startFleet(t, fmt.Sprintf(`provider = "anthropic"
anthropic_base_url = %q
[mcp.servers.test]
command = [%q, %q]
env = { ZINOTEST_ROLE = "server", KILLED = %q, GORACE = "atexit_sleep_ms=0" }
[[hooks.PreToolUse]]
matcher = "Bash"
command = "sh %s/hook.sh"
timeout = 600
`, provider.Host, exe, dir+"/held", k.server, dir), "ANTHROPIC_API_KEY=test")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	k.turn(t, "calls", "echo please, before") // the session has the offer of tools from now on
	for n := range *serverRounds {
		if k.round(t, n, dice); t.Failed() {
			break
		}
	}
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d was not legal: %v\n%s", i, err, r.Body)
		}
	}
	k.fleet.stop()
	zinotest.Eventually(t, "no process is left", func() bool { return len(having(k.server))+len(having(k.hook)) == 0 })
	t.Logf("%d rounds; the last process was gone after, at most: %v; results of calls in flight: %v", *serverRounds, k.longest, k.codes)
}

// round starts both turns, kills a service, and checks what follows.
func (k *killedServers) round(t *testing.T, n int, dice *rand.Rand) {
	block, held, hooked := k.dir+"/block", k.dir+"/held", k.dir+"/hooked"
	zinotest.Write(t, block, "")
	k.start(t, "calls", fmt.Sprint("hold please, round ", n))
	k.start(t, "hooks", fmt.Sprint("bash please, round ", n))
	var server, hook []int
	zinotest.Eventually(t, "the call and the hook run", func() bool {
		server, hook = having(k.server), having(k.hook)
		return exists(held) && exists(hooked) && len(server) >= 4 && len(hook) >= 4
	})
	for _, file := range []string{block, held, hooked} { // a hook that runs again does not wait
		zinotest.Must(t, os.Remove(file))
	}
	time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)

	v := serverVictims[dice.IntN(len(serverVictims))]
	var doomed []int
	if v.server {
		doomed = append(doomed, server...)
	}
	if v.hook {
		doomed = append(doomed, hook...)
	}
	began := time.Now()
	k.fleet.kill(v.service)
	zinotest.Eventually(t, fmt.Sprintf("round %d: no process is left after the end of %s", n, v.service), func() bool {
		return !slices.ContainsFunc(doomed, func(pid int) bool { return !zinotest.Gone(pid) })
	})
	k.longest[v.service] = max(k.longest[v.service], time.Since(began))
	if !v.hook {
		for _, pid := range hook {
			_ = syscall.Kill(pid, syscall.SIGKILL) // an error: it ended with another one
		}
	}

	k.finish(t, "calls")
	k.finish(t, "hooks")
	code := k.lastResult(t, "calls").Error.Code
	k.codes[v.service+": "+code]++
	want := "interrupted" // the server may have done it
	if v.service == "exc" {
		want = proto.ToolUnavailable
	}
	zinotest.Equal(t, fmt.Sprintf("round %d: result of the call after the end of %s", n, v.service), code, want)
	k.turn(t, "calls", fmt.Sprint("echo please, round ", n))
	k.turn(t, "hooks", fmt.Sprint("bash please again, round ", n))
}

// turn runs a turn whose call must succeed.
func (k *killedServers) turn(t *testing.T, session, message string) {
	t.Helper()
	k.start(t, session, message)
	k.finish(t, session)
	if r := k.lastResult(t, session); !r.OK || !strings.Contains(string(r.Data), "hello") {
		t.Errorf("%s: the call failed: %+v", message, r)
	}
}

func (k *killedServers) start(t *testing.T, session, message string) {
	t.Helper()
	daemon := &rpc.Client{Service: "daemon", Path: k.fleet.socket("daemon")}
	defer daemon.Close()
	zinotest.Must(t, again(t.Context(), func() error {
		_, err := rpc.Call(t.Context(), daemon, proto.DaemonTurnStart, proto.TurnStart{Message: message, SessionID: session, Root: k.root, RequestID: strings.NewReplacer(" ", "-", ",", "").Replace(message)})
		return err
	}))
}

// finish waits until the turn of a session is done.
func (k *killedServers) finish(t *testing.T, session string) {
	t.Helper()
	daemon := &rpc.Client{Service: "daemon", Path: k.fleet.socket("daemon")}
	defer daemon.Close()
	zinotest.Must(t, again(t.Context(), func() error {
		end, err := rpc.CallEvents(t.Context(), daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: session}, func(string, []byte) error { return nil })
		if err == nil && !proto.TurnEnded(end.State) {
			return errors.New("the turn is " + end.State)
		}
		if err == nil && end.State != proto.TurnDone {
			t.Errorf("%s: the turn ended as %s", session, end.State)
		}
		return err
	}))
}

// callResult is the result of a call in a session.
type callResult struct {
	OK    bool
	Data  json.RawMessage
	Error struct{ Code, Message string }
}

// lastResult returns the result of the last call of a session.
func (k *killedServers) lastResult(t *testing.T, session string) (r callResult) {
	t.Helper()
	for line := range strings.Lines(zinotest.Read(t, filepath.Join(k.fleet.dir, "data", "sessions", session+".jsonl"))) {
		var e struct {
			Type   string
			Output json.RawMessage
		}
		zinotest.Must(t, json.Unmarshal([]byte(line), &e))
		if e.Type == proto.TypeToolResult {
			r = callResult{}
			zinotest.Must(t, json.Unmarshal(e.Output, &r))
		}
	}
	return r
}

// having lists the processes whose variable KILLED has that value.
func having(value string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is valid
	for _, file := range files {
		env, err := os.ReadFile(file)
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && pidErr == nil && strings.Contains("\x00"+string(env), "\x00KILLED="+value+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}
