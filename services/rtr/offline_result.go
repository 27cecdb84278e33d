package rtr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// envelope is a tool's result in a session.
type envelope struct {
	OK    *bool           `json:"ok"`
	Data  json.RawMessage `json:"data"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// resultText words a tool's result for people. What is no envelope stands for
// itself.
func resultText(result string) string {
	var e envelope
	if json.Unmarshal([]byte(result), &e) != nil || e.OK == nil {
		return result
	}
	if !*e.OK {
		return cmp.Or(e.Error.Message, e.Error.Code, "The tool failed and did not say why.")
	}
	var d resultData
	if json.Unmarshal(e.Data, &d) != nil {
		d = resultData{} // of a kind that nobody here knows
	}
	return cmp.Or(d.words(), string(e.Data), noOutput)
}

// resultData is what the tools answer with, each with some of the fields.
type resultData struct {
	Stdout    *string `json:"stdout"` // code and commands
	Stderr    string  `json:"stderr"`
	ExitCode  int     `json:"exit_code"`
	Text      *string `json:"text"`    // tools that say something
	Content   *string `json:"content"` // read
	Truncated bool    `json:"truncated"`
	Bytes     int64   `json:"bytes"`
	Path      string  `json:"path"`
	Created   *bool   `json:"created"` // write
}

// words is the data for people; empty for data of another kind.
func (d resultData) words() string {
	switch {
	case d.Stdout != nil:
		return d.output()
	case d.Text != nil:
		return cmp.Or(*d.Text, noOutput)
	case d.Content != nil:
		return d.file()
	case d.Created != nil && *d.Created:
		return fmt.Sprintf("made %s, %d bytes", d.Path, d.Bytes)
	case d.Created != nil:
		return fmt.Sprintf("replaced %s, %d bytes", d.Path, d.Bytes)
	}
	return ""
}

const noOutput = "(no output)"

// output is what a program printed and how it ended, as the text of a plain
// request has it.
func (d resultData) output() string {
	var parts []string
	if *d.Stdout != "" {
		parts = append(parts, strings.TrimRight(*d.Stdout, "\n"))
	}
	if d.Stderr != "" {
		parts = append(parts, "[stderr]\n"+strings.TrimRight(d.Stderr, "\n"))
	}
	if d.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("[exit code: %d]", d.ExitCode))
	}
	return cmp.Or(strings.Join(parts, "\n"), noOutput)
}

func (d resultData) file() string {
	text := cmp.Or(strings.TrimRight(*d.Content, "\n"), "(nothing in it)")
	if d.Truncated {
		text += fmt.Sprintf("\n[cut: the file has %d bytes]", d.Bytes)
	}
	return text
}
