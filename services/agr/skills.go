package agr

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/wire"
	"zino/proto"
)

// task carries out a <task> block of a plain run.
func (t *turn) task(body []byte) outcome {
	fields, err := object(body)
	if err != nil {
		return malformedTask(err)
	}
	return t.delegate(fields)
}

// delegate hands a request to a skill: the interpreter understands it, the
// fabricator writes the code, and exc runs it.
func (t *turn) delegate(fields map[string]json.RawMessage) outcome {
	skillName, err := text(fields, "skill")
	if err != nil {
		return malformedTask(err)
	}
	request, err := text(fields, "request")
	if err != nil {
		return malformedTask(err)
	}
	skill, ok := t.s.cat.Snapshot().Skill(skillName)
	if !ok {
		return refused(fmt.Sprintf("Unknown skill '%s'", skillName))
	}
	if strings.TrimSpace(request) == "" {
		return refused("Empty task request.")
	}
	result, err := t.pipeline(skill, request)
	if err != nil {
		return outcome{fault: &fault{codeOf(err), "Skill pipeline error: " + err.Error(), true}}
	}
	return outcome{ran: &result, confined: result.Confinement}
}

func (t *turn) pipeline(skill catalog.Skill, request string) (proto.Result, error) {
	understood, err := t.consult(skill.Interpreter, request)
	if err != nil {
		return proto.Result{}, fmt.Errorf("interpreter: %w", err)
	}
	reply, err := t.consult(skill.Fabricator, "REQUEST [KCR] "+understood)
	if err != nil {
		return proto.Result{}, fmt.Errorf("fabricator: %w", err)
	}
	code := unfence(reply)
	if strings.TrimSpace(code) == "" {
		return proto.Result{}, errors.New("the fabricator wrote no code")
	}
	return t.execute(skill.Executor, code)
}

// consult has the model answer a skill's messages and one more of the user's.
func (t *turn) consult(messages []catalog.Message, user string) (string, error) {
	list := proto.Raw("[")
	for _, m := range messages {
		list = append(append(list, m.Raw...), ',')
	}
	list = append(wire.AppendString(append(list, `{"role":"user","content":`...), user), "}]"...)
	reply, err := t.ask(proto.Infer{Messages: list, Events: t.req.Events}, aside{t})
	if err != nil {
		return "", err
	}
	return reply.Content, t.tellUsage(reply)
}

// unfence returns the content of a reply that is one fenced code block as a
// whole (CommonMark's backticks and tildes), and any other reply as it is.
func unfence(reply string) string {
	lines := strings.SplitAfter(strings.TrimSpace(reply), "\n")
	fence := fenceOf(lines[0])
	if fence == "" || len(lines) < 2 || fence[0] == '`' && strings.Contains(lines[0][len(fence):], "`") {
		return reply // the words behind backticks hold none: that would be code in a line
	}
	for i, line := range lines[1:] {
		if closes(line, fence) {
			if i+2 == len(lines) {
				return strings.Join(lines[1:len(lines)-1], "")
			}
			return reply // the block ends before the reply does
		}
	}
	return reply
}

// fenceOf returns the run of three or more backticks or tildes at the start.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// closes reports whether a line ends the block that fence opened. Indented by
// more than three spaces it is a line of the code.
func closes(line, fence string) bool {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	line = strings.TrimRight(line[min(indent, 3):], " \t\r\n")
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}
