package rtr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// testKey holds characters that JSON and URLs write in other ways.
const testKey = `sk-te"st/0123+45\6789`

// quotedKey is testKey inside a JSON string.
const quotedKey = `sk-te\"st/0123+45\\6789`

// variables are those of the environment that say something to a router.
var variables = []string{
	"ZINO_API_KEY", "LLM_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_HOST",
	"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GEMINI_BASE_URL", "OPENROUTER_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CREDENTIALS_DIRECTORY", "ZDX_HOME", "XDG_CONFIG_HOME",
}

// alone takes away what the host's environment says, once in a test: what the
// test sets thereafter stays.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv("ZINO_TEST_ALONE") == t.Name() {
		return
	}
	for _, name := range variables {
		t.Setenv(name, "")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("ZINO_HOME", home)
	t.Setenv("ZINO_TEST_ALONE", t.Name())
}

// router is a Service behind a real socket. Its pauses before a request is
// made again take no time, and its own clock goes on by them.
type router struct {
	*Service
	client *rpc.Client
	socket string
	log    *zinotest.Buffer
	close  func() // as a test's end does; the socket is served on

	mu     sync.Mutex
	pauses []time.Duration
}

// now is a clock in which the pauses were waited for.
func (r *router) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, d := range r.pauses {
		now = now.Add(d)
	}
	return now
}

func (r *router) paused() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pauses)
}

// start serves a router with the given configuration, and with nothing in its
// environment but what the test has set after calling alone.
func start(t *testing.T, change func(*config.Config)) *router {
	t.Helper()
	alone(t)
	cfg := config.Default()
	cfg.Service.Model = "m"
	cfg.Rtr.DataDir = t.TempDir()
	change(cfg)
	log := &zinotest.Buffer{}
	s, err := New(cfg, log.Logger())
	zinotest.Must(t, err)
	r := &router{Service: s, log: log}
	s.probes = nil
	s.pause = func(ctx context.Context, d time.Duration) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pauses = append(r.pauses, d)
		return ctx.Err()
	}
	server := rpc.NewServer("rtr", log.Logger())
	s.Register(server)
	r.socket, _ = rpctest.Serve(t, server, "")
	r.client = &rpc.Client{Service: "rtr", Path: r.socket}
	r.close = sync.OnceFunc(func() {
		r.client.Close()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	t.Cleanup(r.close)
	return r
}

// openaiRouter serves a router that asks a scripted provider with testKey.
func openaiRouter(t *testing.T, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	llm := fakellm.New(script...)
	t.Cleanup(llm.Close)
	r := start(t, func(cfg *config.Config) {
		cfg.API.BaseURL, cfg.API.Key = llm.URL, testKey
		cfg.Rtr.StallTimeout = 20
	})
	return r, llm
}

// chunks is a sink that keeps what comes.
type chunks struct {
	list    []string
	events  []string // other packets
	onChunk func()
	onEvent func()
}

// Text keeps a chunk.
func (c *chunks) Text(delta []byte) error {
	c.list = append(c.list, string(delta))
	if c.onChunk != nil {
		c.onChunk()
	}
	return nil
}

// Event keeps another packet.
func (c *chunks) Event(_ string, payload []byte) error {
	c.events = append(c.events, string(payload))
	if c.onEvent != nil {
		c.onEvent()
	}
	return nil
}

// Flush has nothing to do.
func (c *chunks) Flush() error { return nil }

func (c *chunks) text() string { return strings.Join(c.list, "") }

func ask(text string, stream bool) proto.Infer {
	return proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"` + text + `"}]`), Temperature: 0, TopP: 1, Stream: stream}
}

// infer asks the router over its socket.
func (r *router) infer(ctx context.Context, in proto.Infer, sink *chunks) (string, error) {
	text, err := r.answer(ctx, in, sink)
	return text.Content, err
}

// answer is infer with all that belongs to the answer.
func (r *router) answer(ctx context.Context, in proto.Infer, sink *chunks) (proto.Text, error) {
	return rpc.CallText(ctx, r.client, proto.RtrInfer, in, sink)
}

func (r *router) caps(t *testing.T) proto.RouterCapabilities {
	t.Helper()
	caps, err := rpc.Call(t.Context(), r.client, proto.RtrCapabilities, proto.CapabilitiesRequest{})
	zinotest.Must(t, err)
	return caps
}

func (r *router) report(t *testing.T, req proto.UsageRequest) (proto.UsageReport, error) {
	t.Helper()
	return rpc.Call(t.Context(), r.client, proto.RtrUsage, req)
}

// failure returns the error that crossed the socket.
func failure(t *testing.T, err error) *proto.Error {
	t.Helper()
	e, ok := errors.AsType[*proto.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of the protocol", err)
	}
	return e
}

// noSecret fails if a form of testKey stands in text.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{testKey, quotedKey, url.QueryEscape(testKey), url.PathEscape(testKey)} {
		if strings.Contains(text, form) {
			t.Errorf("%s holds the key: %s", where, text)
		}
	}
}

// ordinary is the uid that root changes to.
const ordinary = 65534

// roles of the test binary: a process that holds a secret in its environment, open
// or protected, and one that wants to read it; both of an ordinary user.
var roles = zinotest.Roles{
	"open":      func([]string) error { return hold(false) },
	"protected": func([]string) error { return hold(true) },
	"read": func(args []string) error {
		if err := becomeOrdinary(); err != nil {
			return err
		}
		text, err := os.ReadFile(args[0])
		if err == nil && !strings.Contains(string(text), "THE_SECRET") {
			err = fmt.Errorf("nothing in %s", args[0])
		}
		return err
	},
}

func TestMain(m *testing.M) {
	zinotest.Child(roles)
	os.Exit(m.Run())
}

// becomeOrdinary gives up root. A change of uid makes a process not dumpable, which
// is taken back.
func becomeOrdinary() error {
	if os.Getuid() != 0 {
		return nil
	}
	for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(ordinary), syscall.Setuid(ordinary)} {
		if err != nil {
			return err
		}
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 1, 0); errno != 0 {
		return errno
	}
	return nil
}

func hold(protect bool) error {
	if err := becomeOrdinary(); err != nil {
		return err
	}
	if protect {
		if err := ProtectMemory(); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "ready")
	_, err := io.Copy(io.Discard, os.Stdin) // until the test closes the pipe
	return err
}

// TestProtectMemory checks that another process of the same uid reads the
// environment of a process that is not protected, and not of one that is.
func TestProtectMemory(t *testing.T) {
	for role, readable := range map[string]bool{"open": true, "protected": false} {
		holder := zinotest.Command(t, role)
		holder.Env = append(holder.Env, "THE_SECRET=1")
		in, err := holder.StdinPipe()
		zinotest.Must(t, err)
		process := zinotest.Start(t, holder)
		process.WaitFor("ready")
		reader := zinotest.Command(t, "read", fmt.Sprintf("/proc/%d/environ", holder.Process.Pid))
		said, err := reader.CombinedOutput()
		if denied := strings.Contains(string(said), "permission denied"); readable != (err == nil) || !readable && !denied {
			t.Errorf("%s: %s, %v", role, said, err)
		}
		in.Close()
		if status := process.Exit(); status != 0 {
			t.Errorf("%s: status %d", role, status)
		}
	}
}

// TestConformance checks what the protocol demands of every service.
func TestConformance(t *testing.T) {
	r, llm := openaiRouter(t, fakellm.Turn{Silent: true, End: fakellm.Stall, Times: fakellm.Forever})
	infer := func(fields string) string {
		return `{"type":"infer","temperature":0,"top_p":1,"stream":false` + fields + `}`
	}
	const noList = "Invalid request: messages must be a list of objects, each with a string role"
	rpctest.Conformance(t, r.socket, []rpctest.Case{
		{Name: "capabilities", Request: `{"type":"capabilities"}`},
		{Name: "usage", Request: `{"type":"usage"}`},
		{Name: "models", Request: `{"type":"models"}`},
		{Name: "no messages", Request: infer(``), Code: "invalid", Message: "Invalid request: …"},
		{Name: "messages that are not a list", Request: infer(`,"messages":{}`), Code: "invalid", Message: "…"},
		{Name: "a message that is a number", Request: infer(`,"messages":[7]`), Code: "invalid", Message: noList},
		{Name: "a message without a role", Request: infer(`,"messages":[{}]`), Code: "invalid", Message: "Invalid request: messages[0] has no string role"},
		{Name: "an unknown provider", Request: infer(`,"messages":[],"provider":"gpt"`), Code: "invalid", Message: `there is no provider "gpt": it is one of anthropic, openai, gemini, openrouter, ollama, offline, auto`},
		{Name: "a provider that does not answer", Request: infer(`,"messages":[{"role":"user","content":"hi"}]`), Block: &stalled{llm: llm}},
	})
}

// stalled is work on a request that a provider does not answer.
type stalled struct {
	llm *fakellm.Server
	n   int // requests seen
}

// Begun waits for the next request to the provider.
func (s *stalled) Begun(t testing.TB) {
	s.n++
	for {
		req, err := s.llm.Wait(t.Context(), s.n)
		zinotest.Must(t, err)
		if req.Method == "POST" {
			return
		}
		s.n++
	}
}

// Canceled waits until the provider has lost its caller.
func (s *stalled) Canceled(t testing.TB) {
	zinotest.Receive(t, "the end of the request", s.llm.Requests()[s.n-1].Gone)
}
