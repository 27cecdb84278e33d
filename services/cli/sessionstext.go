package cli

import (
	"fmt"
	"io"
	"strings"

	"zino/pkg/visible"
	"zino/pkg/wire"
	"zino/proto"
)

// storedEvent is an event of a session, with the keys of all types.
type storedEvent struct {
	Type       string    `json:"type"`
	Time       string    `json:"ts,omitzero"`
	Role       string    `json:"role,omitzero"`
	Text       *string   `json:"text,omitzero"`
	Partial    bool      `json:"partial,omitzero"`
	ID         string    `json:"id,omitzero"`
	Name       string    `json:"name,omitzero"`
	Input      proto.Raw `json:"input,omitzero"`
	UseID      string    `json:"tool_use_id,omitzero"`
	Output     proto.Raw `json:"output,omitzero"`
	DurationMS *int64    `json:"duration_ms,omitzero"`
	Message    string    `json:"message,omitzero"`
	Kind       string    `json:"kind,omitzero"`
	Root       string    `json:"root,omitzero"`
	ForkedFrom struct {
		SessionID string `json:"session_id"`
	} `json:"forked_from,omitzero"`
}

// transcript prints the events of a session for people. Texts are indented, so
// that none looks like a heading.
type transcript struct {
	w     io.Writer
	begun bool              // the first line is there
	calls map[string]string // the names of calls without a result yet, by id

	broken  int            // events that lack something
	strange int            // messages of neither user nor assistant
	unknown map[string]int // events of other types, by type
}

// head prints the first line, once.
func (t *transcript) head(id string) error {
	if t.begun {
		return nil
	}
	t.begun = true
	return t.print("Session " + id)
}

// block prints a line behind an empty one, and texts below it.
func (t *transcript) block(line string, texts ...string) error {
	if _, err := io.WriteString(t.w, "\n"); err != nil {
		return err
	}
	return t.print(line, texts...)
}

// print prints a line, and texts below it.
func (t *transcript) print(line string, texts ...string) error {
	line = inLine(line)
	for _, text := range texts {
		text = visible.Text(strings.Trim(text, "\n"))
		line += "\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	_, err := io.WriteString(t.w, line+"\n")
	return err
}

func (t *transcript) event(raw []byte) error {
	var e storedEvent
	if err := wire.Decode(raw, &e); err != nil {
		t.broken++
		return nil
	}
	switch {
	case e.Type == "meta":
		return t.meta(e)
	case e.Type == "message" && e.Text != nil && e.Role != "":
		return t.message(e)
	case e.Type == "tool_use" && e.Name != "":
		t.calls[e.ID] = e.Name
		return t.block("Tool requested: " + e.Name + inputOf(e.Input))
	case e.Type == "tool_result" && len(e.Output) > 0:
		return t.result(e)
	case e.Type == "interrupted":
		return t.block("Interrupted.")
	case e.Type == "error" && e.Message != "":
		return t.failure(e)
	case e.Type == "usage":
		return t.usage(raw)
	}
	t.other(e.Type)
	return nil
}

// storedTypes are the types of events that are shown.
var storedTypes = map[string]bool{"message": true, "tool_use": true, "tool_result": true, "error": true, "usage": true}

// other counts an event that is not shown.
func (t *transcript) other(typ string) {
	const namesMax = 16
	switch {
	case storedTypes[typ]:
		t.broken++
	case t.unknown[typ] > 0 || len(t.unknown) < namesMax:
		t.unknown[typ]++
	default:
		t.unknown["others"]++
	}
}

func (t *transcript) meta(e storedEvent) error {
	if e.Time != "" {
		if err := t.print("Begun " + localTime(e.Time)); err != nil {
			return err
		}
	}
	if e.Root != "" {
		if err := t.print("In " + e.Root); err != nil {
			return err
		}
	}
	if from := e.ForkedFrom.SessionID; from != "" {
		return t.print("A copy of " + from)
	}
	return nil
}

func (t *transcript) message(e storedEvent) error {
	who := map[string]string{"user": "User", "assistant": "Assistant"}[e.Role]
	if who == "" {
		t.strange++
		who = e.Role
	}
	if e.Time != "" {
		who += ", " + localTime(e.Time)
	}
	if e.Partial {
		who += " (cut off)"
	}
	return t.block(who+":", *e.Text)
}

func (t *transcript) failure(e storedEvent) error {
	if e.Kind != "" {
		return t.block(fmt.Sprintf("Error [%s]: %s", e.Kind, e.Message))
	}
	return t.block("Error: " + e.Message)
}

// usage prints what an inference took.
func (t *transcript) usage(raw []byte) error {
	var u proto.InferenceUsage
	if err := wire.DecodeReply(raw, &u); err != nil {
		t.broken++
		return nil
	}
	line := fmt.Sprintf("Usage: %d tokens in", u.InputTokens)
	if u.CacheReadTokens > 0 {
		line += fmt.Sprintf(" (%d from the cache)", u.CacheReadTokens)
	}
	line += fmt.Sprintf(", %d out", u.OutputTokens)
	if u.CostUSD != nil {
		line += ", " + dollars(*u.CostUSD)
	}
	if u.Model != "" {
		line += ", " + u.Model
	}
	return t.block(line)
}
