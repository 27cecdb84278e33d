package rtr

import (
	"fmt"
	"strings"
	"time"

	jsontext "zino/pkg/wire"
	"zino/proto"
)

// withSystem puts a system prompt in front of a list of messages.
func withSystem(prompt string, messages proto.Raw) (proto.Raw, error) {
	list, err := jsontext.Elements(messages)
	if err != nil {
		return nil, err
	}
	b := make(proto.Raw, 0, len(messages)+len(prompt)+len(prompt)/8+64)
	b = jsontext.AppendString(append(b, `[{"role":"system","content":`...), prompt)
	b = append(b, '}')
	for _, m := range list {
		b = append(append(b, ','), m...)
	}
	return append(b, ']'), nil
}

// firstLine is an error's text for a notice.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// seconds words a wait.
func seconds(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.3gs", d.Seconds())
}

// about words an estimate of a wait; nothing if there is none.
func about(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return ", in about " + seconds(wait)
}
