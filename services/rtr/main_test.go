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

// testKey contains characters that JSON and URLs escape.
const testKey = `sk-te"st/0123+45\6789`

// quotedKey is testKey inside a JSON string.
const quotedKey = `sk-te\"st/0123+45\\6789`

// variables lists the environment variables that configure a router.
var variables = []string{
	"ZINO_API_KEY", "LLM_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_HOST",
	"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GEMINI_BASE_URL", "OPENROUTER_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CREDENTIALS_DIRECTORY", "ZDX_HOME", "XDG_CONFIG_HOME",
}

// alone clears variables, once per test: variables that the test sets afterwards are
// kept.
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

// router is a Service behind a real socket. Pauses before a retry take no time;
// the clock of now advances by them.
type router struct {
	*Service
	client *rpc.Client
	socket string
	log    *zinotest.Buffer
	close  func() // also called by t.Cleanup; does not close the socket

	mu     sync.Mutex
	pauses []time.Duration
}

// now returns the time plus all pauses so far.
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

// start serves a router with the given configuration, and without variables except
// those that the test set after calling alone.
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

// openaiRouter serves a router that asks a scripted provider on OpenAI's wire with
// testKey.
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

// chunks is a sink that records text and events.
type chunks struct {
	list    []string
	events  []string // other packets
	onChunk func()
	onEvent func()
}

func (c *chunks) Text(delta []byte) error {
	c.list = append(c.list, string(delta))
	if c.onChunk != nil {
		c.onChunk()
	}
	return nil
}

func (c *chunks) Event(_ string, payload []byte) error {
	c.events = append(c.events, string(payload))
	if c.onEvent != nil {
		c.onEvent()
	}
	return nil
}

func (c *chunks) Flush() error { return nil }

func (c *chunks) text() string { return strings.Join(c.list, "") }

func ask(text string, stream bool) proto.Infer {
	return proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"` + text + `"}]`), Temperature: 0, TopP: 1, Stream: stream}
}

// infer sends a request over the socket and returns the answer's text.
func (r *router) infer(ctx context.Context, in proto.Infer, sink *chunks) (string, error) {
	text, err := r.answer(ctx, in, sink)
	return text.Content, err
}

// answer sends a request over the socket and returns the whole answer.
func (r *router) answer(ctx context.Context, in proto.Infer, sink *chunks) (proto.Text, error) {
	return rpc.CallText(ctx, r.client, proto.RtrInfer, in, sink)
}

func (r *router) caps(t *testing.T) proto.RouterCapabilities {
	t.Helper()
	caps, err := rpc.Call(t.Context(), r.client, proto.RtrCapabilities, proto.ModelSelector{})
	zinotest.Must(t, err)
	return caps
}

func (r *router) report(t *testing.T, req proto.UsageRequest) (proto.UsageReport, error) {
	t.Helper()
	return rpc.Call(t.Context(), r.client, proto.RtrUsage, req)
}

// failure returns err as a protocol error.
func failure(t *testing.T, err error) *proto.Error {
	t.Helper()
	e, ok := errors.AsType[*proto.Error](err)
	if !ok {
		t.Fatalf("got %v, want a *proto.Error", err)
	}
	return e
}

// noSecret fails the test if text contains testKey in any encoding.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{testKey, quotedKey, url.QueryEscape(testKey), url.PathEscape(testKey)} {
		if strings.Contains(text, form) {
			t.Errorf("%s contains the key: %s", where, text)
		}
	}
}

// ordinary is the uid to which root drops its privileges.
const ordinary = 65534

// roles of the test binary: a process with a secret in its environment, protected or
// not, and one that tries to read it, both with an unprivileged uid.
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

// becomeOrdinary drops root. Changing the uid clears the dumpable flag, which is then
// set again.
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

// TestProtectMemory checks that a process with the same uid can read the environment
// of an unprotected process, but not of a protected one.
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

// TestConformance runs the checks that apply to every service.
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

// stalled implements rpctest.Blocked with requests that the provider does not answer.
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

// Canceled waits until the router closes its connection to the provider.
func (s *stalled) Canceled(t testing.TB) {
	zinotest.Receive(t, "the end of the request", s.llm.Requests()[s.n-1].Gone)
}
