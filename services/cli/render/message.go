package render

import (
	"fmt"
	"io"
	"strings"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

// Message has the fields that every stored message has.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ReadMessages decodes and checks a list of stored messages.
func ReadMessages(raw proto.Raw) (list []Message, err error) {
	elements, err := wire.Elements(raw)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	for i, element := range elements {
		var m Message
		if err := wire.Decode(element, &m); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// MessageTexts joins the texts of a list of messages. For an invalid list it returns
// the error in parentheses.
func MessageTexts(raw proto.Raw) string {
	list, err := ReadMessages(raw)
	if err != nil {
		return "(cannot be read: " + err.Error() + ")"
	}
	var texts []string
	for _, m := range list {
		texts = append(texts, m.Content)
	}
	return strings.Join(texts, " ")
}

// Messages prints messages as "role: text". Later lines of a text are indented, so
// that they do not look like the next message.
func Messages(w io.Writer, raw proto.Raw) error {
	list, err := ReadMessages(raw)
	if err != nil {
		return err
	}
	for _, m := range list {
		role := strings.ReplaceAll(m.Role, "\n", " ")
		content := strings.ReplaceAll(strings.TrimRight(m.Content, "\n"), "\n", "\n  ")
		if _, err := fmt.Fprintf(w, "%s: %s\n", text.Visible(role), text.Visible(content)); err != nil {
			return err
		}
	}
	return nil
}
