package agr

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"zino/proto"
)

const (
	maxItems = 50  // of a todo list
	maxItem  = 200 // characters of one
)

// todoTool replaces the turn's list, which the caller stores and shows.
var todoTool = tool{
	function: function{
		"todo", "Replaces the to-do list, which the user sees. For work of several steps.",
		proto.Raw(`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{` +
			`"text":{"type":"string"},"status":{"type":"string","enum":["open","active","done"]}},"required":["text","status"]}}},"required":["items"]}`),
	},
	required: []string{"items"}, recover: repeat, gate: "todo", call: (*turn).replaceTodo,
}

func (t *turn) replaceTodo(_ *call, f fields) result {
	items, err := todoItems(f["items"])
	if err != nil {
		return refused("%v", err)
	}
	if err := t.report(t.out.Event, proto.TypeTodo, proto.Todo{Items: items}); err != nil {
		return failed(err)
	}
	done := 0
	for _, item := range items {
		if item.Status == proto.TodoDone {
			done++
		}
	}
	return result{text: fmt.Sprintf("%d of %d done.", done, len(items))}
}

// todoItems parses the argument items, which some models write as a string.
func todoItems(raw []byte) ([]proto.TodoItem, error) {
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		raw = []byte(quoted)
	}
	var list []struct{ Text, Status string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf(`items must be a list of {"text", "status"}: %w`, err)
	}
	if len(list) > maxItems {
		return nil, fmt.Errorf("%d items: a list has at most %d", len(list), maxItems)
	}
	items := []proto.TodoItem{}
	for i, item := range list {
		text := strings.Join(strings.Fields(item.Text), " ")
		switch {
		case text == "":
			return nil, fmt.Errorf("item %d has no text", i+1)
		case utf8.RuneCountInString(text) > maxItem:
			return nil, fmt.Errorf("item %d has %d characters: at most %d", i+1, utf8.RuneCountInString(text), maxItem)
		}
		switch item.Status {
		case proto.TodoOpen, proto.TodoActive, proto.TodoDone:
		default:
			return nil, fmt.Errorf("item %d: status must be %s, %s or %s", i+1, proto.TodoOpen, proto.TodoActive, proto.TodoDone)
		}
		items = append(items, proto.TodoItem{Text: text, Status: item.Status})
	}
	return items, nil
}
