package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// outputMax is how many bytes are kept of the beginning of a command's output
// while it runs, and of its end.
const outputMax = 32 << 10

// printed is what a call has printed so far, which is its result if it does not
// come to its end.
type printed struct {
	id         string
	begun      time.Time
	head, tail []byte
	left       int64 // bytes left out between them
}

// add takes a piece of the output, in front of which left bytes are missing.
func (o *printed) add(text string, left int64) {
	if left > 0 {
		text = missing(left) + text
	}
	n := min(outputMax-len(o.head), len(text))
	o.head = append(o.head, text[:n]...)
	o.tail = append(o.tail, text[n:]...)
	if cut := len(o.tail) - outputMax; cut > outputMax {
		o.left += int64(cut)
		o.tail = append(o.tail[:0], o.tail[cut:]...)
	}
}

func (o *printed) text() string {
	gap := ""
	if o.left > 0 {
		gap = missing(o.left)
	}
	return strings.ToValidUTF8(string(o.head)+gap+string(o.tail), "")
}

func missing(n int64) string { return fmt.Sprintf("\n[%d bytes left out]\n", n) }

// interruptedRun is the result of a command that was ended before its time, in
// the form of bash's results. The daemon sees both outputs as one.
type (
	interruptedRun struct {
		OK   bool            `json:"ok"`
		Data interruptedData `json:"data"`
	}
	interruptedData struct {
		Stdout      string `json:"stdout"`
		Stderr      string `json:"stderr"`
		ExitCode    int    `json:"exit_code"`
		TimedOut    bool   `json:"timed_out"`
		Interrupted bool   `json:"interrupted"`
	}
)

// result adds the output to an unfinished list of events as the result of its
// call.
func (o *printed) result(list proto.Raw) (proto.Raw, error) {
	run, err := wire.AppendObject(nil, "", interruptedRun{true, interruptedData{Stdout: o.text(), ExitCode: -1, Interrupted: true}})
	if err != nil {
		return list, err
	}
	return appendEvent(list, "tool_result", toolResult{o.id, run, true, time.Since(o.begun).Milliseconds()})
}

// follow keeps the output of the calls that run.
func (r *record) follow(typ string, payload []byte) error {
	var call struct {
		ID      string `json:"id"`
		Text    string `json:"text"`
		LeftOut int64  `json:"left_out"`
	}
	switch typ {
	case proto.TypeToolStarted, proto.TypeToolOutput, proto.TypeToolFinished:
		if err := unpack(payload, &call); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(r.running, func(o *printed) bool { return o.id == call.ID })
	switch {
	case typ == proto.TypeToolStarted:
		r.running = append(r.running, &printed{id: call.ID, begun: time.Now()})
	case i < 0:
	case typ == proto.TypeToolOutput:
		r.running[i].add(call.Text, call.LeftOut)
	case typ == proto.TypeToolFinished:
		r.running = slices.Delete(r.running, i, i+1)
	}
	return nil
}

// results adds those of the calls that were ended before their time and had
// printed something. What the others came to is not known: mem says so when the
// session is used again.
func (r *record) results(list proto.Raw) (_ proto.Raw, err error) {
	for _, o := range r.running {
		if err == nil && len(o.head) > 0 {
			list, err = o.result(list)
		}
	}
	return list, err
}
