package agr

import (
	"errors"
	"fmt"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
)

// runTask hands a request to a skill: the interpreter restates it, the
// fabricator writes the code, and exc runs it.
func (t *turn) runTask(c *call, f fields) result {
	name, err := f.text("skill")
	if err != nil {
		return malformedTask(err)
	}
	request, err := f.text("request")
	if err != nil {
		return malformedTask(err)
	}
	skill, ok := t.cat.Snapshot().Skill(name)
	if !ok {
		return refused("Unknown skill '%s'", name)
	}
	if strings.TrimSpace(request) == "" {
		return refused("Empty task request.")
	}
	r, err := t.runSkill(c, skill, request)
	if err != nil {
		if r := failed(err); r.err == nil { // the answer to a question about its code
			return r
		}
		return result{err: &toolError{toolCode(err), "Skill pipeline error: " + err.Error(), true}}
	}
	return result{ran: &r, confined: r.Confinement}
}

func (t *turn) runSkill(c *call, skill catalog.Skill, request string) (proto.Result, error) {
	restated, err := t.consult(skill.Interpreter, request)
	if err != nil {
		return proto.Result{}, fmt.Errorf("interpreter: %w", err)
	}
	reply, err := t.consult(skill.Fabricator, request+" [KCR] "+restated)
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
	return t.execute(c, skill.Executor, code)
}

// consult sends the messages of a skill and one of the user to the model.
func (t *turn) consult(messages []catalog.Message, user string) (string, error) {
	list := []byte{'['}
	for i, m := range messages {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, m.Raw...)
	}
	req := proto.Infer{Messages: message.Close(message.Append(list, proto.RoleUser, user)), Events: t.req.Events}
	reply, err := t.ask(req, skillSink{t})
	if err != nil {
		return "", err
	}
	return reply.Content, t.reportUsage(reply)
}

// skillSink receives the answer to a skill's inference. Its text and reasoning are
// internal to the skill; notices are forwarded to the waiting caller.
type skillSink struct{ *turn }

func (s skillSink) Text([]byte) error { return s.ctx.Err() }
func (s skillSink) Flush() error      { return s.out.Flush() }

func (s skillSink) Event(typ string, payload []byte) error {
	if typ == proto.TypeReasoning {
		return nil
	}
	return s.turn.Event(typ, payload)
}

var _ rpc.EventSink = skillSink{}

// codeIn returns the content of the only fenced code block of a reply, or the whole
// reply if it has none: some fabricators write no fences.
func codeIn(reply string) (string, error) {
	switch blocks := text.Blocks(reply); {
	case len(blocks) == 0 || len(blocks) == 1 && !blocks[0].Closed:
		return reply, nil
	case len(blocks) > 1:
		return "", fmt.Errorf("the reply has %d code blocks", len(blocks))
	default:
		return blocks[0].Text, nil
	}
}
