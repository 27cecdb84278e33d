package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"zino/pkg/config"
	"zino/proto"
)

// chat reads lines and answers each as a turn, until the input ends. Its turns
// share a history of their own that is cleared at the end.
func (a *app) chat(ctx context.Context) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	terminal := isTerminal(a.in)
	if a.modelSet(cfg) != nil && terminal {
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
	channel := "chat-" + strings.ToLower(rand.Text())
	defer a.forget(d, channel)
	lines := a.reader(terminal)
	defer lines.close()
	return a.converse(ctx, d, lines, proto.Chat{ChannelID: channel, Stream: isTerminal(a.out)})
}

// converse answers line after line. A turn that fails or is interrupted does
// not end the chat.
func (a *app) converse(ctx context.Context, d *daemon, lines lines, req proto.Chat) error {
	for {
		line, err := lines.next(ctx)
		switch text := strings.TrimSpace(line); {
		case errors.Is(err, io.EOF) && text == "", text == ":q", text == "/quit":
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case text == "":
			continue
		}
		req.Message = line
		if err := a.interruptible(d, req); err != nil {
			return err
		}
		if ctx.Err() != nil && !isTerminal(a.in) {
			return errInterrupted
		}
	}
}

// interruptible runs one turn that Ctrl-C ends without ending the chat.
func (a *app) interruptible(d *daemon, req proto.Chat) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	err := a.turn(ctx, d, req)
	if err != nil && !errors.Is(err, errInterrupted) {
		fmt.Fprintf(a.err, "Error: %s\n", oneLine(err))
	}
	return nil
}

// greet says how to connect a model where there is none.
func (a *app) greet(c proto.RouterCapabilities) {
	if !c.Fallback && c.Provider != "offline" {
		return
	}
	a.say("No model is connected: the offline provider answers (no AI). To connect one:")
	a.say("  set [api] base_url and key in the configuration, or LLM_API_KEY or OPENAI_API_KEY in the environment,")
	a.say("  or start a model server on this host (Ollama, llama.cpp, LM Studio, vLLM). For now: run COMMAND, python CODE, tour.")
}

// forget clears the chat's history.
func (a *app) forget(d *daemon, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := forward(ctx, d, "mem", proto.MemClearHistory, proto.ClearHistory{ChannelID: channel}); err != nil {
		a.say("Warning: the chat's history stays in channel %s: %v", channel, err)
	}
}

// modelSet is an error that says how to connect a model if the configuration
// and the environment name none.
func (a *app) modelSet(cfg *config.Config) error {
	if cfg.Provider != "" || cfg.API.BaseURL != "" || cfg.API.Key != "" || os.Getenv("LLM_API_KEY") != "" || os.Getenv("OPENAI_API_KEY") != "" {
		return nil
	}
	return errors.New(`no model is connected: set LLM_API_KEY or OPENAI_API_KEY, or [api] base_url in the configuration; provider = "auto" looks for a model server on this host, provider = "offline" does without`)
}
