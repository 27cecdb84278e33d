package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"zino/pkg/config"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/images"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

// session is a session of the client.
type session struct {
	*agent
	id, root string
	servers  proto.Raw // that the client brings; nil: none

	// Guarded by agent.mu:
	model, sandbox, mode string // "": as configured
	request              jsonrpc2.ID
	signals              chan os.Signal // of the prompt that runs; nil: none does
	over                 chan struct{}  // closed when it has ended

	// Of the prompt that runs, or of the replay:
	asked map[string]bool // requests for approval that the client was asked about
	ids   map[string]int  // of calls: how often an id was used
	cost  float64         // of all inferences, in US dollars
}

// busy reports whether a prompt runs. agent.mu is locked.
func (sess *session) busy() bool { return sess.signals != nil }

// stop ends the prompt that runs: with SIGHUP only the following of its turn. agent.mu is
// locked.
func (sess *session) stop(s os.Signal) (stopped bool) {
	if sess.signals == nil {
		return false
	}
	select {
	case sess.signals <- s:
	default: // it was stopped before
	}
	return true
}

// wait waits for the end of the prompt that runs.
func (sess *session) wait() {
	sess.mu.Lock()
	over := sess.over
	sess.mu.Unlock()
	if over != nil {
		<-over
	}
}

// prompt runs a turn.
func (a *agent) prompt(ctx context.Context, p sessionParams) (any, error) {
	sess, err := a.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	text, files, err := sess.message(ctx, a.unsaved(ctx, sess, p.Prompt))
	if err != nil {
		return nil, err
	}
	req := proto.Chat{
		Message: text, SessionID: sess.id, Root: sess.root, Provider: a.env.Provider, MaxTokens: a.env.MaxTokens, Effort: a.env.Effort,
		NeedModel: true, Reachable: true, Events: true, MCPServers: sess.servers, ClientFiles: a.clientFiles(),
	}
	if a.env.NetworkSet {
		req.Network = &a.env.Network
	}
	a.mu.Lock()
	if sess.busy() {
		a.mu.Unlock()
		if a.version == 2 && len(files) > 0 {
			return nil, invalid("images cannot be added to the turn that runs")
		}
		if a.version == 2 {
			return a.say(ctx, sess, text, p)
		}
		return nil, failure(jsonrpc2.CodeInvalidRequest, "a prompt is running")
	}
	req.Model, req.Sandbox, req.Mode = sess.model, proto.Level(sess.sandbox), cmp.Or(sess.mode, proto.ModeDerived)
	signals, over := make(chan os.Signal, 1), make(chan struct{})
	sess.signals, sess.over = signals, over
	sess.request = p.request
	a.mu.Unlock()
	if a.version == 1 {
		return a.run(sess, req, files, signals, over)
	}
	messageID := proto.NewSessionID()
	u := &updates{session: sess}
	u.send(object{"sessionUpdate": "user_message", "messageId": messageID, "content": p.rawPrompt()})
	a.running.Go(func() {
		u.send(object{"sessionUpdate": "state_update", "state": "running"})
		idle := object{"sessionUpdate": "state_update", "state": "idle"}
		answer, err := a.run(sess, req, files, signals, over)
		if err != nil {
			idle["stopReason"], idle["error"] = "error", errorFor(err)
		} else if reason, ok := answer.(object)["stopReason"]; ok {
			idle["stopReason"] = reason
		}
		u.send(idle)
	})
	return object{"messageId": messageID}, nil
}

// announce sends the slash commands of the session's directory.
func (sess *session) announce() {
	ctx, stop := context.WithTimeout(context.Background(), answerLimit)
	defer stop()
	found, err := call(ctx, sess.agent, proto.DaemonCommands, proto.ListCommands{Root: sess.root})
	if err != nil || len(found.Commands) == 0 {
		return
	}
	list := []object{}
	for _, c := range found.Commands {
		if c.Untrusted || c.Problem != "" {
			continue
		}
		command, input := object{"name": c.Name, "description": c.Description}, object{"hint": c.ArgumentHint}
		if sess.version == 2 {
			command["type"], input["type"] = "command", "text"
		}
		if c.ArgumentHint != "" {
			command["input"] = input
		}
		list = append(list, command)
	}
	u := &updates{session: sess}
	u.send(object{"sessionUpdate": "available_commands_update", "availableCommands": list})
}

// say adds a message to the turn that runs, in version 2.
func (a *agent) say(ctx context.Context, sess *session, text string, p sessionParams) (any, error) {
	said, err := call(ctx, a, proto.DaemonTurnSay, proto.TurnSay{SessionID: sess.id, Text: text})
	if err != nil {
		return nil, err
	}
	u := &updates{session: sess}
	u.send(object{"sessionUpdate": "user_message", "messageId": said.Say, "content": p.rawPrompt()})
	return object{"messageId": said.Say}, nil
}

// run carries out a turn to its end, and returns the answer to the prompt.
func (a *agent) run(sess *session, req proto.Chat, files []proto.FileData, signals chan os.Signal, over chan struct{}) (any, error) {
	ctx, _, stop := command.CancelOn(context.Background(), signals)
	defer func() {
		stop()
		a.mu.Lock()
		sess.signals, sess.request = nil, jsonrpc2.ID{}
		a.mu.Unlock()
		close(over)
	}()
	u := &updates{session: sess, ctx: ctx}
	defer u.end()
	d, err := a.daemon(ctx)
	if err != nil {
		return nil, err
	}
	d = again(d)
	defer d.Client.Close()
	if err := sess.trust(ctx, d); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if ctx.Err() == nil {
		if err := images.Add(ctx, d.Client, &req, files); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	if ctx.Err() == nil {
		turn.Slash(ctx, d, &req)
		env := *a.env
		_, err = turn.Run(ctx, &env, d, req, u)
	}
	switch {
	case ctx.Err() != nil && (command.Signal(ctx) == os.Interrupt || errors.Is(u.err, render.ErrInterrupted)):
		return object{"stopReason": "cancelled"}, nil
	case ctx.Err() != nil:
		return nil, failure(codeCanceled, "the client has gone")
	case errors.Is(u.err, render.ErrInterrupted): // elsewhere
		return object{"stopReason": "cancelled"}, nil
	case u.over && u.err == nil:
		return object{"stopReason": stopReason(u.done.StopReason)}, nil
	case u.limited && errors.Is(cmp.Or(u.err, err), proto.ErrTooLarge):
		return object{"stopReason": "max_turn_requests"}, nil
	}
	return nil, cmp.Or(u.err, err)
}

// stopReason is the end of a turn in the words of the protocol.
func stopReason(reason string) string {
	switch reason {
	case "length":
		return "max_tokens"
	case "refusal", "filter":
		return "refusal"
	}
	return "end_turn"
}

// trust asks about the files of the project that are new or have changed, as a request for
// permission.
func (sess *session) trust(ctx context.Context, d *connect.Daemon) error {
	return turn.TrustBy(ctx, sess.env, d, sess.root, func(question, details string) (trusted, answered bool) {
		answer := sess.ask(ctx, "trust-"+proto.NewSessionID(), question, details, object{"toolCallId": "trust", "title": question, "kind": "other", "status": "pending", "content": []object{toolContent(details)}}, []object{
			{"optionId": "yes", "name": "Use them", "kind": "allow_once"}, {"optionId": "no", "name": "Do not use them", "kind": "reject_once"},
		})
		return answer == "yes", answer != ""
	})
}

// options are the settings that the client may show.
func (sess *session) options(ctx context.Context) []object {
	sess.mu.Lock()
	model, sandbox, mode := sess.model, sess.sandbox, sess.mode
	sess.mu.Unlock()
	id := "id"
	if sess.version == 2 {
		id = "configId"
	}
	choice := func(name, title, category, current string, values []string) object {
		list := []object{{"value": defaultValue, "name": "As configured"}}
		if current = cmp.Or(current, defaultValue); current != defaultValue && !slices.Contains(values, current) {
			values = append([]string{current}, values...)
		}
		for _, v := range values {
			list = append(list, object{"value": v, "name": v})
		}
		option := object{id: name, "name": title, "type": "select", "currentValue": current, "options": list}
		if category != "" {
			option["category"] = category
		}
		return option
	}
	return []object{
		choice("model", "Model", "model", model, sess.modelNames(ctx)),
		choice("sandbox", "Sandbox", "", sandbox, proto.LevelNames()),
		choice("mode", "Approvals", "mode", mode, config.Modes),
	}
}

// defaultValue is the value of an option that is not set.
const defaultValue = "default"

// modelsLimit is how long the list of models is waited for. Without it the option has
// only the present one.
const modelsLimit = 2 * time.Second

func (a *agent) modelNames(ctx context.Context) (names []string) {
	a.modelsLock.Lock()
	defer a.modelsLock.Unlock()
	if a.models == nil {
		ctx, cancel := context.WithTimeout(ctx, modelsLimit)
		defer cancel()
		if list, err := forward(ctx, a, "rtr", proto.RtrModels, proto.ModelsRequest{Provider: a.env.Provider}); err == nil {
			a.models = list.Models
		}
	}
	for _, m := range a.models {
		names = append(names, m.Name)
	}
	return slices.Compact(names)
}

// setOption changes a setting: from the next prompt on, and the mode at once.
func (a *agent) setOption(ctx context.Context, p sessionParams) (any, error) {
	sess, err := a.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	var value string
	if json.Unmarshal(p.Value, &value) != nil {
		return nil, invalid("value: want a text")
	}
	if value == defaultValue {
		value = ""
	}
	var to *string
	switch p.ConfigID {
	case "model":
		to = &sess.model
	case "sandbox":
		if _, err := proto.ParseLevel(value); value != "" && err != nil {
			return nil, invalid("sandbox: %v", err)
		}
		to = &sess.sandbox
	case "mode":
		if value != "" && !slices.Contains(config.Modes, value) {
			return nil, invalid("mode %q is not one of %v", value, config.Modes)
		}
		to = &sess.mode
	default:
		return nil, invalid("unknown option %q", p.ConfigID)
	}
	a.mu.Lock()
	*to = value
	running := sess.busy()
	a.mu.Unlock()
	if p.ConfigID == "mode" && running {
		if _, err := call(ctx, a, proto.DaemonTurnMode, proto.TurnMode{SessionID: sess.id, Mode: cmp.Or(value, proto.ModeDerived)}); err != nil && !errors.Is(err, proto.ErrNotFound) {
			return nil, err
		}
	}
	return object{"configOptions": sess.options(ctx)}, nil
}

// clientServers returns the servers of the client in the form of .mcp.json.
func clientServers(list []mcpServer) (proto.Raw, error) {
	if len(list) == 0 {
		return nil, nil
	}
	servers := object{}
	for i, s := range list {
		if s.Name == "" || servers[s.Name] != nil {
			return nil, invalid("mcpServers[%d]: a server needs a name of its own", i)
		}
		values := func(pairs []pair) map[string]string {
			m := map[string]string{}
			for _, p := range pairs {
				m[p.Name] = p.Value
			}
			return m
		}
		switch s.Type {
		case "", "stdio":
			if s.Command == "" {
				return nil, invalid("mcpServers[%d]: a server needs a command or a URL", i)
			}
			servers[s.Name] = object{"type": "stdio", "command": s.Command, "args": s.Args, "env": values(s.Env)}
		case "http":
			servers[s.Name] = object{"type": "http", "url": s.URL, "headers": values(s.Headers)}
		default:
			return nil, invalid("mcpServers[%d]: the transport %q is not supported", i, s.Type)
		}
	}
	return json.Marshal(object{"mcpServers": servers})
}

// replay sends what a session has as updates.
func (sess *session) replay(ctx context.Context) error {
	u := &updates{session: sess, ctx: ctx, replaying: true}
	defer u.end()
	for from := int64(0); ; {
		page, err := forward(ctx, sess.agent, "mem", proto.MemReadSession, proto.ReadSession{SessionID: sess.id, From: from})
		if err != nil {
			return err
		}
		for event := range wire.Items(page.Events) {
			if err := u.stored(event); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		from = page.Next
	}
}
