package agr

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"sync"

	"zino/pkg/wire"
	"zino/proto"
)

// loops counts equal calls among the last ones of a run.
type loops struct {
	mu     sync.Mutex
	recent [][sha256.Size]byte // in the order of their ends
}

const loopWindow = 40 // calls that are compared

// varying matches what differs between equal results.
var varying = regexp.MustCompile(`"(?:duration_ms|cpu_ms|peak_bytes)":\d+|\bj-[a-z0-9]{8}\b`)

// count records a call with its envelope and returns how often it is among the last
// ones.
func (l *loops) count(c *call, envelope proto.Raw) (n int) {
	h := sha256.New()
	h.Write(wire.AppendString(nil, c.name)) // quoted, so that name and input cannot be shifted
	h.Write(c.input)
	h.Write(varying.ReplaceAll(envelope, nil))
	sum := [sha256.Size]byte(h.Sum(nil))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recent = append(l.recent, sum); len(l.recent) > loopWindow {
		l.recent = l.recent[1:]
	}
	for _, earlier := range l.recent {
		if earlier == sum {
			n++
		}
	}
	return n
}

// withMember adds a text for the model to an envelope.
func withMember(envelope proto.Raw, name, text string) proto.Raw {
	envelope = bytes.TrimSpace(envelope)
	noted := append(bytes.Clone(envelope[:len(envelope)-1]), `,"`+name+`":`...)
	return append(wire.AppendString(noted, text), '}')
}

// warnOfLoop sends a notice about a call that was repeated too often, or returns the
// error that ends the turn.
func (t *turn) warnOfLoop(c *call, n int) error {
	if n == t.loopStop && n > 0 {
		return proto.Errorf(proto.CodeLoop, "%s was called %d times with the same input and result; the turn was stopped", c.name, n)
	}
	if n == t.loopWarn && n > 0 {
		return t.report(t.out.Event, proto.TypeNotice, proto.Notice{Kind: proto.NoticeLoop, Text: fmt.Sprintf("%s was called %d times with the same input and result.", c.name, n)})
	}
	return nil
}
