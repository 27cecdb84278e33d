package daemon

import (
	"slices"
	"strings"

	"zino/pkg/message"
	"zino/pkg/schema"
	"zino/pkg/text"
	"zino/proto"
)

// maxRepairs is how often an answer that does not match output_schema is asked for again.
const maxRepairs = 2

// checkSchema validates output_schema.
func checkSchema(raw proto.Raw) error {
	if len(raw) == 0 {
		return nil
	}
	if _, err := schema.Parse(raw); err != nil {
		return &proto.Error{Code: proto.CodeInvalid, Kind: proto.ErrorKindSchema, Message: "output_schema: " + err.Error()}
	}
	return nil
}

// structure checks the last answer of a turn with output_schema. It returns the value, or
// the message that asks for it again.
func structure(raw proto.Raw, answer, stopReason string, repairs int, last bool) (value proto.Raw, again string, err error) {
	s, err := schema.Parse(raw)
	if err != nil { // of a log that was edited
		return nil, "", schemaError("output_schema: %v", err)
	}
	value, problems := s.Check(answer)
	switch {
	case value != nil:
		return value, "", nil
	case stopReason == "length":
		return nil, "", schemaError("the answer was cut: it reached the limit of tokens for one answer; raise max_tokens")
	case slices.Contains([]string{"refusal", "filter"}, stopReason):
		return nil, "", schemaError("the model broke off (%s): %s", stopReason, problems[0])
	case repairs >= maxRepairs || last:
		return nil, "", schemaError("the answer does not match the schema after %s: %s", text.Count(repairs+1, "attempt"), strings.Join(problems, "; "))
	}
	return nil, "The answer does not match the JSON Schema:\n- " + strings.Join(problems, "\n- ") + "\nAnswer with the JSON value only.", nil
}

func schemaError(format string, args ...any) error {
	e := proto.Errorf(proto.CodeInternal, format, args...)
	e.Kind = proto.ErrorKindSchema
	return e
}

// structure checks the answer of the turn. The message that asks for another one is for
// the next inference; without one the turn is complete.
func (r *relay) structure(at proto.Checkpoint) ([]proto.LogSay, error) {
	t := r.turn
	if len(t.req.OutputSchema) == 0 {
		return nil, nil
	}
	t.mu.Lock()
	repairs := 0
	if lt := t.log.Turn(t.id); lt != nil {
		repairs = lt.Repairs
	}
	t.mu.Unlock()
	value, again, err := structure(t.req.OutputSchema, r.answer, at.StopReason, repairs, at.Step >= t.cfg.Agr.SessionIterations)
	if r.structured = value; again == "" || err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.ending = false
	t.mu.Unlock()
	return []proto.LogSay{{Turn: t.id, Mode: proto.ViaSchema, Text: again}}, nil
}

// structureUnsaved checks the answer of a turn that is not stored. It returns the messages
// of the next attempt, nil if the answer matches.
func structureUnsaved(req proto.Chat, messages proto.Raw, end *proto.Text, repairs int) (proto.Raw, error) {
	if len(req.OutputSchema) == 0 {
		return nil, nil
	}
	value, again, err := structure(req.OutputSchema, end.Content, end.StopReason, repairs, false)
	if end.Structured = value; again == "" || err != nil {
		return nil, err
	}
	return goOnWith(messages, end.Content, again)
}

// goOnWith returns messages with an answer and what is asked then.
func goOnWith(messages proto.Raw, answer, asked string) (proto.Raw, error) {
	list, err := message.Reopen(messages, len(answer)+len(asked))
	if err != nil {
		return nil, err
	}
	return message.Close(message.Append(message.Append(list, proto.RoleAssistant, answer), proto.RoleUser, asked)), nil
}
