package agr

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	recalled    = 5  // memories that a recall shows if it does not say how many
	maxRecalled = 20 // the most that it can ask for
)

// remember carries out a call of the built-in tool of that name: it stores a
// text as a hard memory.
func (t *turn) remember(fields map[string]json.RawMessage) outcome {
	content, err := text(fields, "text")
	tag, tagErr := text(fields, "tag")
	if err := errors.Join(err, tagErr); err != nil {
		return malformedCall(err)
	}
	if content = strings.TrimSpace(content); content == "" {
		return refused("Empty text.")
	}
	id, known, err := t.store(content, strings.TrimSpace(tag))
	switch {
	case err != nil:
		return failed(err)
	case known:
		return outcome{text: fmt.Sprintf("Known already as memory %d.", id)}
	}
	return outcome{text: fmt.Sprintf("Remembered as memory %d.", id)}
}

// store has mem store a text, and reports whether it had it before: ids only
// grow, so what is known has one that is not above the newest. The text becomes
// a message of the user's. As such it is told to the model in later prompts,
// where memories stand as they are between others' answers and questions; an
// answer of the model's own would read as the end of what stands before it.
func (t *turn) store(content, tag string) (id int, known bool, err error) {
	newest, err := t.newestMemory()
	if err != nil {
		return 0, false, err
	}
	message := append(appendContent(proto.Raw{'['}, "user", content), "}]"...)
	stored, err := rpc.Call(t.ctx, t.s.mem, proto.MemStoreHard, proto.StoreHard{Messages: message, Tag: tag, SessionID: t.req.SessionID})
	return stored.ID, stored.ID <= newest, err
}

// newestMemory is the id of the newest memory, -1 if there is none. A mem that
// cannot list them is taken for one that has none.
func (t *turn) newestMemory() (int, error) {
	list, err := rpc.Call(t.ctx, t.s.mem, proto.MemListHard, proto.ListHard{Limit: 1})
	if err != nil && !errors.Is(err, proto.ErrUnknown) {
		return 0, err
	}
	if len(list.Items) == 0 {
		return -1, nil
	}
	return list.Items[0].ID, nil
}

// recall carries out a call of the built-in tool of that name: it shows the
// hard memories nearest to a query, one a line.
func (t *turn) recall(fields map[string]json.RawMessage) outcome {
	query, err := text(fields, "query")
	tag, tagErr := text(fields, "tag")
	k, countErr := count(fields, "top_k", recalled, maxRecalled)
	if err := errors.Join(err, tagErr, countErr); err != nil {
		return malformedCall(err)
	}
	if strings.TrimSpace(query) == "" {
		return refused("Empty query.")
	}
	found, err := rpc.Call(t.ctx, t.s.mem, proto.MemSearchHard, proto.SearchHard{Query: query, TopK: &k, Tag: strings.TrimSpace(tag)})
	if err != nil {
		return failed(err)
	}
	if len(found.Results) == 0 {
		return outcome{text: "No memories found."}
	}
	lines := make([]string, len(found.Results))
	for i, m := range found.Results {
		lines[i] = memoryLine(m)
	}
	return outcome{text: strings.Join(lines, "\n")}
}

// memoryLine is what a model sees of a memory.
func memoryLine(m proto.HardMemory) string {
	var line strings.Builder
	if m.ID != nil {
		fmt.Fprintf(&line, "[%d] ", *m.ID)
	}
	fmt.Fprintf(&line, "(score %.2f", m.Score)
	if m.Tag != "" {
		line.WriteString(", tag " + m.Tag)
	}
	line.WriteString(") " + contents(m.Messages))
	return strings.Join(strings.FieldsFunc(line.String(), func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// contents joins the contents of messages by a space, as mem does to search
// them. Messages that are none are shown as they are.
func contents(messages proto.Raw) string {
	if !isList(messages) || !wire.Valid(messages) {
		return strings.ToValidUTF8(string(messages), "\ufffd")
	}
	var all []string
	for raw := range wire.Items(messages) {
		var m struct {
			Content string `json:"content"`
		}
		if wire.DecodeReply(raw, &m) != nil {
			return string(messages)
		}
		all = append(all, m.Content)
	}
	return strings.Join(all, " ")
}

// count returns a field that must be a whole number from 1 to most if it is
// there. A string that holds one will do: models write both.
func count(fields map[string]json.RawMessage, name string, absent, most int) (int, error) {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return absent, nil
	}
	var number json.Number
	err := json.Unmarshal(raw, &number)
	n, rangeErr := strconv.ParseFloat(string(number), 64)
	if k := int(n); err == nil && rangeErr == nil && float64(k) == n && 1 <= k && k <= most {
		return k, nil
	}
	return 0, fmt.Errorf("%s must be a whole number from 1 to %d", name, most)
}
