package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"zino/pkg/config"
	keystore "zino/pkg/keys"
	"zino/proto"
)

// resume is a chat on a session: the one that id names or begins, a new one of
// that name, or, where id is empty, the one that changed last.
func (a *app) resume(ctx context.Context, id string) error {
	if id != "" && !isSessionID(id) {
		return usageError{notSession(id)}
	}
	a.agent, a.session, a.latest = true, id, id == ""
	return a.chat()
}

// chat reads lines and answers each as a turn, until the input ends. Its turns
// share a history of their own that is cleared at the end.
func (a *app) chat() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	if a.modelSet(cfg) != nil && isTerminal(a.in) {
		cfg.Provider = "auto"
	}
	if err := a.modelSet(cfg); err != nil && !a.running(cfg, false) {
		return err
	}
	d, err := a.connect(cfg, false)
	if err != nil {
		return err
	}
	defer d.close()
	a.greet(a.introduce(ctx, d))
	a.compare(ctx, d)
	req := proto.Chat{ChannelID: "chat-" + strings.ToLower(rand.Text()), Stream: isTerminal(a.out)}
	defer a.forget(d, req.ChannelID)
	next, leave := a.reader()
	defer leave()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	return a.converse(ctx, d, req, next, interrupts)
}

// converse answers line after line. On a terminal neither a turn that fails
// nor one that is interrupted ends the chat.
func (a *app) converse(ctx context.Context, d *daemon, req proto.Chat, next func() (string, error), interrupts chan os.Signal) error {
	for {
		if isTerminal(a.in) {
			forgetOne(interrupts) // it was meant for the turn that had just ended
		}
		line, err := await(ctx, next, interrupts)
		switch text := strings.TrimSpace(line); {
		case errors.Is(err, io.EOF) && text == "", text == ":q", text == "/quit":
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case text == "":
			continue
		}
		req.Message = line
		err = a.interruptible(ctx, d, req, interrupts)
		switch {
		case errors.Is(err, errInterrupted) && (ctx.Err() != nil || !isTerminal(a.in)):
			return err
		case err != nil && !errors.Is(err, errInterrupted):
			a.say("Error: %s", oneLine(err))
		}
	}
}

func forgetOne(interrupts chan os.Signal) {
	select {
	case <-interrupts:
	default:
	}
}

// await is next, unless somebody wants an end while it waits. On a terminal
// Ctrl-C is a key meanwhile; the signal may still come from elsewhere.
func await(ctx context.Context, next func() (string, error), interrupts chan os.Signal) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := next()
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-interrupts:
	case <-ctx.Done():
	}
	return "", errInterrupted
}

// interruptible runs one turn that Ctrl-C ends.
func (a *app) interruptible(ctx context.Context, d *daemon, req proto.Chat, interrupts chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-interrupts:
			signal.Stop(interrupts) // a second Ctrl-C leaves at once
			cancel()
		case <-ctx.Done():
		}
	}()
	defer signal.Notify(interrupts, os.Interrupt)
	return a.turn(ctx, d, req)
}

// greet says how to connect a model where there is none.
func (a *app) greet(c proto.RouterCapabilities) {
	if !c.Fallback && c.Provider != "offline" {
		return
	}
	a.say("No model is connected: the offline provider answers (no AI). To connect one:")
	a.say("  zino auth login openrouter; zino auth set PROVIDER; ANTHROPIC_API_KEY (or OPENAI_, GEMINI_, OPENROUTER_API_KEY) in the environment;")
	a.say("  [api] base_url; or a model server on this host (Ollama, llama.cpp, LM Studio, vLLM). For now: run, python, remember, recall, tour.")
}

// forget clears the chat's history.
func (a *app) forget(d *daemon, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := forward(ctx, d, "mem", proto.MemClearHistory, proto.ClearHistory{ChannelID: channel}); err != nil {
		a.say("Warning: the chat's history stays in channel %s: %v", channel, err)
	}
}

// modelSet is an error that says how to connect a model if neither the
// configuration nor the environment nor the user's keys name one.
func (a *app) modelSet(cfg *config.Config) error {
	if cfg.Provider != "" || cfg.API.BaseURL != "" || cfg.API.Key != "" || cfg.API.KeyFile != "" || cfg.OpenAIBaseURL != "" || keyGiven() {
		return nil
	}
	return errors.New("no model is connected: set ANTHROPIC_API_KEY (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY), " +
		"run `zino auth set PROVIDER` or `zino auth login openrouter`, or set [api] base_url in the configuration; " +
		`provider = "auto" looks for a model server on this host, provider = "offline" does without`)
}

// keyGiven reports whether the environment or the user's store has a key, or
// says where a model is. rtr decides what is made of it.
func keyGiven() bool {
	for _, name := range slices.Concat(providerKeys, []string{"OPENAI_BASE_URL"}) {
		if strings.TrimSpace(os.Getenv(name)) != "" {
			return true
		}
	}
	store, err := keystore.OpenUser(os.Getenv)
	if err != nil {
		return false
	}
	list, err := store.List()
	return err != nil || len(list) > 0 // rtr says what is wrong with it
}
