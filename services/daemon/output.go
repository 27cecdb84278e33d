package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// outputMax is how many bytes are kept of the end of a running command's output, at
// least; up to twice as many are.
const outputMax = 4 << 10

// callOutput is a running call with the end of its output. It becomes the result of the
// call if the turn ends first.
type callOutput struct {
	id      string
	name    string
	subject string    // the start of its input, for people
	begun   proto.Raw // its tool_started, for followers
	started time.Time
	tail    []byte
	omitted int64 // bytes dropped before tail
}

func newCallOutput(call openCall, begun []byte) *callOutput {
	return &callOutput{id: call.id, name: call.name, subject: call.subject, begun: bytes.Clone(begun), started: time.Now()}
}

// add appends text to the output; leftOut bytes are missing before it.
func (c *callOutput) add(text string, leftOut int64) {
	if leftOut > 0 {
		text = omittedLine(leftOut) + text
	}
	c.tail = append(c.tail, text...)
	if drop := len(c.tail) - outputMax; drop > outputMax {
		c.omitted += int64(drop)
		c.tail = append(c.tail[:0], c.tail[drop:]...)
	}
}

func (c *callOutput) text() string {
	gap := ""
	if c.omitted > 0 {
		gap = omittedLine(c.omitted)
	}
	return strings.ToValidUTF8(gap+string(c.tail), "")
}

func omittedLine(n int64) string { return fmt.Sprintf("\n[%d bytes left out]\n", n) }

// duration is the time since the start of the call in milliseconds.
func (c *callOutput) duration() int64 { return time.Since(c.started).Milliseconds() }

// envelope returns the result of an interrupted command. agr sends standard
// output and standard error as one stream.
func (c *callOutput) envelope() proto.Raw {
	b := wire.AppendString([]byte(`{"ok":true,"data":{"stdout":`), c.text())
	return append(b, `,"stderr":"","exit_code":-1,"timed_out":false,"interrupted":true}}`...)
}
