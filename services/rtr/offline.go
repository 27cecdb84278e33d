package rtr

import (
	"context"
	"regexp"
	"strings"

	"zino/services/rtr/wire"
)

// The provider "offline" is no model and uses no network. It reads the last
// thing that the user said:
//
//	run COMMAND     a tool call that has bash run it
//	python CODE     the same with Python
//	remember TEXT   a tool call that stores a memory
//	recall WORDS    a tool call that finds memories
//	tour            a demonstration with a tool call and a task
//
// and answers everything else with one line on how to connect a model. When
// the results of its own calls stand in the conversation, it closes the turn
// with them, and writes no further tags. In the pipeline of a skill it plays
// both parts (skill.go). In a turn of a session its calls are native ones, and
// there are more of them (offline_session.go).

const sign = "[offline, no AI] "

const (
	notConnected = sign + "No model is connected: " + howToConnect + ", or start a model server on loopback. Without one there are: "
	offlineHelp  = notConnected + "run COMMAND, python CODE, remember TEXT, recall WORDS, tour."
)

// commands are the plain commands; the value tells whether something must
// follow the word, or nothing may.
var commands = map[string]bool{"run": true, "python": true, "remember": true, "recall": true, "tour": false}

// answerOffline is the provider "offline".
func answerOffline(_ context.Context, _ *wire.Endpoint, req *wire.Request, sink wire.Sink) error {
	if inSession(req.Tools) {
		return sessionReply(req).send(sink)
	}
	text := offlineReply(req.Messages, req.Stream)
	if err := sink.Event(wire.Event{Kind: wire.Text, Delta: []byte(text)}); err != nil {
		return err
	}
	return sink.Event(wire.Event{Kind: wire.Finish, Reason: "stop"})
}

// offlineReply is the whole of the provider: what it says depends on nothing
// but the conversation and on whether it is streamed.
func offlineReply(list []wire.Message, streamed bool) string {
	ask, since := lastTurn(list)
	if _, interpreted, ok := strings.Cut(ask, kcr); ok {
		return fabricate(interpreted)
	}
	if request, ok := strings.CutPrefix(ask, tourRequest); ok {
		return request // as interpreter: it is clear already
	}
	word, rest := command(ask)
	if results := resultsIn(since, word); len(results) > 0 {
		return closing(results, streamed)
	}
	switch word {
	case "run":
		return sign + "$ " + defuse(rest) + "\n" + toolCall("execute_bash", "code", rest)
	case "python":
		return sign + "running Python\n" + toolCall("execute_python3", "code", rest)
	case "remember":
		return sign + "storing a memory\n" + toolCall("remember", "text", rest)
	case "recall":
		return sign + "searching the memories\n" + toolCall("recall", "query", rest)
	case "tour":
		return tour()
	}
	return offlineHelp
}

// lastTurn returns what the user said last and what the assistant has said since.
func lastTurn(list []wire.Message) (ask, since string) {
	for _, m := range list {
		switch {
		case m.Role == "user":
			ask, since = strings.TrimSpace(m.Said()), ""
		case m.Role == "assistant":
			since += m.Said()
		}
	}
	return ask, since
}

// command cuts a plain command into its word and the rest; the word is empty
// where there is none.
func command(ask string) (word, rest string) {
	word, rest = cutWord(ask)
	word = strings.ToLower(word)
	if takesRest, known := commands[word]; !known || takesRest != (rest != "") {
		return "", ""
	}
	return word, rest
}

// cutWord cuts a text behind its first word.
func cutWord(text string) (word, rest string) {
	if i := strings.IndexAny(text, " \t\n"); i >= 0 {
		return text[:i], strings.TrimSpace(text[i:])
	}
	return text, ""
}

// closing ends a turn. Whoever has the answer whole sees nothing but this text,
// so the results are in it. Whoever has it streamed has just seen them: a short
// one is said again, a long one is not.
func closing(results []string, streamed bool) string {
	all := strings.Join(results, "\n")
	switch {
	case !streamed:
		return all + "\n" + strings.TrimSpace(sign)
	case strings.Contains(all, "\n"):
		return sign + "The output stands above."
	}
	return sign + "Result: " + all
}

// resultsIn returns the results that agr has put behind the tags of our reply
// to a command.
func resultsIn(text, word string) []string {
	if word != "tour" {
		return resultOf(text, "tool_call", "tool_response")
	}
	first, second, _ := strings.Cut(text, tourSecond)
	return append(resultOf(first, "tool_call", "tool_response"), resultOf(second, "task", "task_response")...)
}

// resultOf returns the result behind a tag of ours, as a list of at most one.
// There is no '<' in our tags (block), so the first closing tag is ours; a
// command may have printed anything, so the last end of a result is agr's.
func resultOf(text, tag, response string) []string {
	_, rest, _ := strings.Cut(text, "</"+tag+">")
	result, ok := strings.CutPrefix(rest, "\n<"+response+">\n")
	if !ok {
		return nil
	}
	if i := strings.LastIndex(result, "\n</"+response+">\n"); i >= 0 {
		result = result[:i]
	}
	return []string{defuse(strings.TrimRight(result, "\n"))}
}

var tags = regexp.MustCompile(`<(/?(?:tool_call|task|tool_response|task_response)>)`)

// defuse makes text that others wrote harmless for agr, which would carry out
// any tag in an answer.
func defuse(text string) string { return tags.ReplaceAllString(text, "< $1") }
