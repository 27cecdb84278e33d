package cli

import (
	"fmt"
	"strconv"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// How much is shown of a tool's result.
const (
	resultLines = 12
	resultCells = 2000
	valueCells  = 200 // of each argument
)

// inputOf are the arguments of a call, each with a blank in front of it.
func inputOf(input proto.Raw) string {
	var b strings.Builder
	for key, value := range wire.Members(input) {
		b.WriteString(" " + string(key) + "=" + argumentOf(value))
	}
	return b.String()
}

// argumentOf is a value in one line: a text in quotes, anything else as it is.
func argumentOf(value []byte) string {
	if text, ok := wire.Unquote(nil, value); ok {
		return strconv.Quote(cut(string(text), valueCells))
	}
	return cut(inLine(string(value)), valueCells)
}

// result prints how a call ended, and the beginning of what it gave.
func (t *transcript) result(e storedEvent) error {
	name, known := t.calls[e.UseID]
	if !known {
		name = "(a call that is not here)"
	}
	delete(t.calls, e.UseID)
	line := "Tool finished: " + name
	var r storedResult
	if err := wire.DecodeReply(e.Output, &r); err != nil || r.OK == nil {
		return t.print(line+took(e.DurationMS), shortened(plainText(e.Output))...)
	}
	if !*r.OK {
		return t.print(line+" failed"+took(e.DurationMS), shortened(r.Error.Code+": "+r.Error.Message)...)
	}
	state, texts := r.Data.text(r.raw(e.Output))
	return t.print(line+state+took(e.DurationMS), texts...)
}

// storedResult is a result in the envelope of the terminal agent's tools.
type storedResult struct {
	OK    *bool      `json:"ok"`
	Data  resultData `json:"data,omitzero"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error,omitzero"`
}

// resultData are the fields that are shown in a way of their own.
type resultData struct {
	ExitCode    *int    `json:"exit_code,omitzero"`
	TimedOut    bool    `json:"timed_out,omitzero"`
	Interrupted bool    `json:"interrupted,omitzero"`
	Stdout      *string `json:"stdout,omitzero"`
	Stderr      string  `json:"stderr,omitzero"`
	Content     *string `json:"content,omitzero"`
}

// raw is the data as they stand in a result.
func (r storedResult) raw(output proto.Raw) string {
	for key, value := range wire.Members(output) {
		if string(key) == "data" {
			return string(value)
		}
	}
	return ""
}

// text is what a result says: its state, and what is shown below it.
func (d resultData) text(raw string) (state string, texts []string) {
	switch {
	case d.Interrupted:
		state = " interrupted=true"
	case d.TimedOut:
		state = " timed_out=true"
	case d.ExitCode != nil:
		state = fmt.Sprintf(" exit=%d", *d.ExitCode)
	}
	switch {
	case d.Stdout != nil:
		texts = shortened(*d.Stdout)
		if stderr := shortened(d.Stderr); len(stderr) > 0 {
			texts = append(append(texts, "[stderr]"), stderr...)
		}
	case d.Content != nil:
		texts = shortened(*d.Content)
	default:
		texts = shortened(raw)
	}
	return state, texts
}

// took is a call's time, if it is known.
func took(ms *int64) string {
	if ms == nil {
		return ""
	}
	return fmt.Sprintf(" (%.2fs)", float64(*ms)/1000)
}

// plainText is a JSON string's value, and anything else as it stands.
func plainText(raw proto.Raw) string {
	if text, ok := wire.Unquote(nil, raw); ok {
		return string(text)
	}
	return string(raw)
}

// shortened is the beginning of a text, and how much of it was left out;
// nothing if there is no text.
func shortened(text string) []string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	first := lines[:min(len(lines), resultLines)]
	shown := cut(strings.Join(first, "\n"), resultCells)
	if left := len(lines) - len(first); left > 0 || len(shown) < len(strings.Join(first, "\n")) {
		return []string{shown, fmt.Sprintf("[%d bytes in %d lines in all: zino sessions export shows them]", len(text), len(lines))}
	}
	return []string{shown}
}
