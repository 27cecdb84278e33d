package rtr

import (
	"slices"
	"strings"

	jsontext "zino/pkg/wire"
	"zino/services/rtr/wire"
)

// The offline provider in a turn of a session. There it has the tools in their
// native form, and their results come back as messages of their own.

// sessionCommand is a plain command of a session.
type sessionCommand struct {
	word  string
	usage string // as the help shows it
	tool  string // that has to be offered
	doing string // what is said before the call, in front of what it is about
	reads func(rest string) (about string, args []string)
}

// sessionCommands are in the order in which the help lists them.
var sessionCommands = []sessionCommand{
	{"run", "run COMMAND", "bash", "$ ", whole("command")},
	{"python", "python CODE", "execute_python3", "running Python", unnamed("code")},
	{"read", "read PATH", "read", "reading ", whole("path")},
	{"write", "write PATH TEXT", "write", "writing ", pathAndText},
	{"remember", "remember TEXT", "remember", "storing a memory", unnamed("text")},
	{"recall", "recall WORDS", "recall", "searching the memories", unnamed("query")},
}

// whole makes all that follows the word one argument, and shows it.
func whole(parameter string) func(string) (string, []string) {
	return func(rest string) (string, []string) {
		if rest == "" {
			return "", nil
		}
		return rest, []string{parameter, rest}
	}
}

// unnamed is whole for what need not be said twice.
func unnamed(parameter string) func(string) (string, []string) {
	return func(rest string) (string, []string) {
		_, args := whole(parameter)(rest)
		return "", args
	}
}

func pathAndText(rest string) (string, []string) {
	path, text := cutWord(rest)
	if text == "" {
		return "", nil
	}
	return path, []string{"path", path, "content", text}
}

// inSession tells a turn of a session by its tools.
func inSession(tools []wire.Tool) bool { return offers(tools, "bash") }

func offers(tools []wire.Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t wire.Tool) bool { return t.Name == name })
}

// reply is what the provider says in a session.
type reply struct {
	text  string
	calls []offlineCall
}

// offlineCall is a call of a tool; args are names and values by turns.
type offlineCall struct {
	tool string
	args []string
}

// sessionReply is offlineReply for a turn of a session.
func sessionReply(req *wire.Request) reply {
	ask, results := sessionTurn(req.Messages)
	made := commanded(ask, req.Tools)
	switch {
	case made.calls == nil:
		return reply{text: sessionHelp(req.Tools)}
	case len(results) > 0:
		return reply{text: sessionClosing(results, req.Stream)}
	}
	return made
}

// sessionTurn returns what the user said last and the results since.
func sessionTurn(list []wire.Message) (ask string, results []string) {
	for _, m := range list {
		switch m.Role {
		case "user":
			ask, results = strings.TrimSpace(m.Said()), nil
		case "tool":
			results = append(results, defuse(strings.TrimRight(resultText(m.Said()), "\n")))
		}
	}
	return ask, results
}

// commanded is the reply to a plain command, without calls if it is none.
func commanded(ask string, tools []wire.Tool) reply {
	word, rest := cutWord(ask)
	word = strings.ToLower(word)
	if word == "tour" && rest == "" {
		return sessionTour(tools)
	}
	for _, c := range sessionCommands {
		if c.word != word || !offers(tools, c.tool) {
			continue
		}
		if about, args := c.reads(rest); args != nil {
			return reply{sign + c.doing + defuse(about), []offlineCall{{c.tool, args}}}
		}
	}
	return reply{}
}

// sessionHelp says how to connect a model, and what can be tried without one.
func sessionHelp(tools []wire.Tool) string {
	var usages []string
	for _, c := range sessionCommands {
		if offers(tools, c.tool) {
			usages = append(usages, c.usage)
		}
	}
	return notConnected + strings.Join(append(usages, "tour"), ", ") + "."
}

// sessionTour is the demonstration, with a task where there are skills.
func sessionTour(tools []wire.Tool) reply {
	r := reply{
		text:  sign + "What an agent does, played from a script. It calls a tool: a command is run, and its output comes back.",
		calls: []offlineCall{{"bash", []string{"command", tourCommand}}},
	}
	if offers(tools, "task") {
		r.text += " It hands on a task: a skill makes code of a request, and the code is run."
		r.calls = append(r.calls, offlineCall{"task", []string{"skill", "bash", "request", tourTask}})
	}
	return r
}

// sessionClosing ends a turn. A terminal shows no output of tools, so the
// results are told whole.
func sessionClosing(results []string, streamed bool) string {
	all := strings.Join(results, "\n")
	if streamed && !strings.Contains(all, "\n") {
		return sign + "Result: " + all
	}
	return all + "\n" + strings.TrimSpace(sign)
}

// send hands on the reply as a provider's answer. The calls get ids of their
// own where they are gathered.
func (r reply) send(sink wire.Sink) error {
	events := []wire.Event{{Kind: wire.Text, Delta: []byte(r.text)}}
	reason := "stop"
	for i, c := range r.calls {
		events = append(events, wire.Event{Kind: wire.ToolStart, Index: i, Name: c.tool}, wire.Event{Kind: wire.ToolArgs, Index: i, Delta: c.arguments()})
		reason = "tool_calls"
	}
	for _, e := range append(events, wire.Event{Kind: wire.Finish, Reason: reason}) {
		if err := sink.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// arguments are the call's as a JSON object.
func (c offlineCall) arguments() []byte {
	b := []byte("{")
	for pair := range slices.Chunk(c.args, 2) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(jsontext.AppendString(b, pair[0]), ':')
		b = jsontext.AppendString(b, pair[1])
	}
	return append(b, '}')
}
