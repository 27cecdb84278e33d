package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
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
	model, sandbox, mode string   // "": as configured
	current              *running // the prompt that runs; nil: none does

	// Of the prompt that runs, or of the replay:
	asked map[string]bool // requests for approval and input that the client was asked about
	ids   map[string]int  // of calls: how often an id was used
	cost  float64         // of all inferences, in US dollars
}

// running is a prompt that runs.
type running struct {
	request jsonrpc2.ID
	signals chan os.Signal // one at most: the second would end the process
	stopped bool
	over    chan struct{} // closed when it has ended
}

// stop ends the prompt that runs: with SIGHUP only the following of its turn. agent.mu is
// locked.
func (sess *session) stop(s os.Signal) {
	if r := sess.current; r != nil && !r.stopped {
		r.stopped = true
		r.signals <- s
	}
}

// wait waits for the end of the prompt that runs.
func (sess *session) wait() {
	sess.mu.Lock()
	r := sess.current
	sess.mu.Unlock()
	if r != nil {
		<-r.over
	}
}

// prompt runs a turn. The session is busy, and can be cancelled, when it returns.
func (a *agent) prompt(_ context.Context, p sessionParams) (any, error) {
	sess, err := a.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case sess.current == nil:
	case a.version == 2:
		return later(func(ctx context.Context) (any, error) { return a.say(ctx, sess, p) }), nil
	default:
		return nil, failure(jsonrpc2.CodeInvalidRequest, "a prompt is running")
	}
	r := &running{request: p.request, signals: make(chan os.Signal, 1), over: make(chan struct{})}
	sess.current = r
	req := proto.Chat{
		SessionID: sess.id, Root: sess.root, Provider: a.env.Provider, MaxTokens: a.env.MaxTokens, Effort: a.env.Effort,
		NeedModel: true, Reachable: true, Events: true, MCPServers: sess.servers, ClientFiles: a.clientFiles(),
		Model: sess.model, Sandbox: proto.Level(sess.sandbox), Mode: cmp.Or(sess.mode, proto.ModeDerived),
	}
	if a.env.NetworkSet {
		req.Network = &a.env.Network
	}
	return later(func(context.Context) (any, error) { return sess.turn(r, p, req) }), nil
}

// turn carries out a prompt. In version 2 it returns when the turn begins.
func (sess *session) turn(r *running, p sessionParams, req proto.Chat) (any, error) {
	a := sess.agent
	ctx, _, stop := command.CancelOn(context.Background(), r.signals)
	end := func() {
		stop()
		a.mu.Lock()
		sess.current = nil
		a.mu.Unlock()
		close(r.over)
	}
	text, files, err := sess.message(ctx, a.unsaved(ctx, sess, p.Prompt))
	if err != nil && ctx.Err() == nil {
		end()
		return nil, err
	}
	req.Message = text
	if a.version == 1 {
		defer end()
		return a.run(ctx, sess, req, files)
	}
	messageID := proto.NewSessionID()
	u := &updates{session: sess}
	u.send(object{"sessionUpdate": "user_message", "messageId": messageID, "content": p.rawPrompt()})
	a.running.Go(func() {
		u.send(object{"sessionUpdate": "state_update", "state": "running"})
		idle := object{"sessionUpdate": "state_update", "state": "idle"}
		answer, err := a.run(ctx, sess, req, files)
		end()
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
func (a *agent) say(ctx context.Context, sess *session, p sessionParams) (any, error) {
	text, files, err := sess.message(ctx, a.unsaved(ctx, sess, p.Prompt))
	if err != nil {
		return nil, err
	}
	if len(files) > 0 {
		return nil, invalid("images cannot be added to the turn that runs")
	}
	said, err := call(ctx, a, proto.DaemonTurnSay, proto.TurnSay{SessionID: sess.id, Text: text})
	if err != nil {
		return nil, err
	}
	u := &updates{session: sess}
	u.send(object{"sessionUpdate": "user_message", "messageId": said.Say, "content": p.rawPrompt()})
	return object{"messageId": said.Say}, nil
}

// run has the daemon carry out a turn, and returns the answer to the prompt.
func (a *agent) run(ctx context.Context, sess *session, req proto.Chat, files []proto.FileData) (any, error) {
	ctx, stop := context.WithCancel(ctx)
	u := &updates{session: sess, ctx: ctx}
	defer u.end()
	defer stop() // questions that are open
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
	trusts := false
	defer func() {
		if trusts {
			sess.agent.running.Go(sess.announce) // the project's commands can be used now
		}
	}()
	return turn.TrustBy(ctx, sess.env, d, sess.root, func(question, details string) (trusted, answered bool) {
		answer := sess.ask(ctx, "trust-"+proto.NewSessionID(), question, details, object{"toolCallId": "trust", "title": question, "kind": "other", "status": "pending", "content": []object{toolContent(details)}}, []object{
			{"optionId": "yes", "name": "Use them", "kind": "allow_once"}, {"optionId": "no", "name": "Do not use them", "kind": "reject_once"},
		})
		trusts = answer == "yes"
		return trusts, answer != ""
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
	list := []object{
		choice("model", "Model", "model", model, sess.modelNames(ctx)),
		choice("sandbox", "Sandbox", "", sandbox, proto.LevelNames()),
	}
	if sess.approvals {
		list = append(list, choice("mode", "Approvals", "mode", mode, config.Modes))
	}
	return list
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
	switch {
	case p.ConfigID == "model":
		to = &sess.model
	case p.ConfigID == "sandbox":
		if _, err := proto.ParseLevel(value); value != "" && err != nil {
			return nil, invalid("sandbox: %v", err)
		}
		to = &sess.sandbox
	case p.ConfigID == "mode" && a.approvals:
		if value != "" && !slices.Contains(config.Modes, value) {
			return nil, invalid("mode %q is not one of %v", value, config.Modes)
		}
		to = &sess.mode
	default:
		return nil, invalid("unknown option %q", p.ConfigID)
	}
	a.mu.Lock()
	*to = value
	running := sess.current != nil
	a.mu.Unlock()
	if p.ConfigID == "mode" && running {
		if _, err := call(ctx, a, proto.DaemonTurnMode, proto.TurnMode{SessionID: sess.id, Mode: cmp.Or(value, proto.ModeDerived)}); err != nil && !errors.Is(err, proto.ErrNotFound) {
			return nil, err
		}
	}
	return object{"configOptions": sess.options(ctx)}, nil
}

// serverName returns the name of a server, which is text for people, in the characters of a
// tool's name.
func serverName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}

// clientServers returns the servers of the client in the form of .mcp.json.
func clientServers(list []mcpServer) (proto.Raw, error) {
	if len(list) == 0 {
		return nil, nil
	}
	servers := object{}
	for i, s := range list {
		name := serverName(s.Name)
		if name == "" || servers[name] != nil {
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
			servers[name] = object{"type": "stdio", "command": s.Command, "args": s.Args, "env": values(s.Env)}
		case "http":
			servers[name] = object{"type": "http", "url": s.URL, "headers": values(s.Headers)}
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
