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
	reply, err := t.consult(skill.Fabricator, request+" [KCR] "+understood)
	if err != nil {
		return proto.Result{}, fmt.Errorf("fabricator: %w", err)
	}
	code, err := codeIn(reply)
	if err != nil {
		return proto.Result{}, fmt.Errorf("fabricator: %w", err)
	}
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

// codeIn returns the content of the one fenced code block in a reply, and a
// reply without any as it is: fabricators of other origin write no fences.
func codeIn(reply string) (string, error) {
	blocks, unclosed := fencedBlocks(reply)
	switch {
	case len(blocks) == 0:
		return reply, nil
	case len(blocks) > 1 || unclosed:
		n := len(blocks)
		if unclosed {
			n++
		}
		return "", fmt.Errorf("the reply has %d code blocks", n)
	}
	return blocks[0], nil
}

// fencedBlocks returns the contents of the fenced code blocks in a text by
// CommonMark's rules for backticks and tildes. unclosed reports one more block,
// the last, that has no closing fence: a reply that was cut.
func fencedBlocks(text string) (blocks []string, unclosed bool) {
	var content strings.Builder
	var fence string // of the open block
	var indent int   // of its opening fence
	for line := range strings.SplitAfterSeq(text, "\n") {
		switch {
		case fence == "":
			fence, indent = openingFence(line)
			content.Reset()
		case closes(line, fence):
			blocks, fence = append(blocks, content.String()), ""
		default:
			content.WriteString(line[min(indent, leadingSpaces(line)):])
		}
	}
	return blocks, fence != ""
}

// openingFence returns the three or more backticks or tildes that open a block
// on this line, and their indentation. An info string behind backticks contains
// none: such a line is inline code.
func openingFence(line string) (fence string, indent int) {
	indent = leadingSpaces(line)
	if indent > 3 {
		return "", 0
	}
	line = line[indent:]
	for _, c := range []string{"`", "~"} {
		info := strings.TrimLeft(line, c)
		if n := len(line) - len(info); n >= 3 && (c == "~" || !strings.Contains(info, c)) {
			return line[:n], indent
		}
	}
	return "", 0
}

// closes reports whether a line ends the block that fence opened. A line
// indented by more than three spaces belongs to the code.
func closes(line, fence string) bool {
	line = strings.TrimRight(line[min(leadingSpaces(line), 3):], " \t\r\n")
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

func leadingSpaces(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
