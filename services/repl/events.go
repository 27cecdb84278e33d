package repl

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"zino/pkg/text"
	"zino/proto"
)

// Bounds of the events of a page that are kept in memory, and of an answer of log.
const (
	keptEvents = 1000
	keptBytes  = 192 << 10
	keptText   = 8 << 10 // bytes of a message or a stack
	keptLabel  = 200     // bytes of any other text
	usualLimit = 100
)

// eventLog keeps the last events of a page, also after the page reloads or closes.
// Events are numbered from 1. A position is written as the log's epoch, a hyphen and the
// number of the event before it, so that positions of an earlier start are recognised.
type eventLog struct {
	epoch string

	mu    sync.Mutex
	kept  []proto.PageEvent
	bytes int
	last  int64 // number of the last event
}

// add appends an event that arrived now.
func (l *eventLog) add(e proto.PageEvent) {
	e.Source = captured(e).Type
	if e.TS == "" {
		e.TS = time.Now().Format("15:04:05.000")
	}
	for _, label := range []*string{&e.Type, &e.Level, &e.Source, &e.TS, &e.Place} {
		*label = text.Clip(*label, keptLabel)
	}
	for _, s := range []*string{&e.Message, &e.Stack} {
		*s = text.Middle(*s, keptText*3/4, keptText/4, "\n... (%d bytes left out) ...\n")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, e)
	l.bytes += eventBytes(e)
	l.last++
	for len(l.kept) > keptEvents || l.bytes > keptBytes {
		l.bytes -= eventBytes(l.kept[0])
		l.kept[0] = proto.PageEvent{}
		l.kept = l.kept[1:]
	}
}

// eventBytes returns about the memory that an event needs.
func eventBytes(e proto.PageEvent) int {
	return 100 + len(e.Type) + len(e.Level) + len(e.Source) + len(e.TS) + len(e.Place) + len(e.Message) + len(e.Stack)
}

// since returns the first events after a position, or the last ones if it is "".
func (l *eventLog) since(after string, limit int) (proto.PageLog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen, err := l.parse(after)
	if err != nil {
		return proto.PageLog{}, err
	}
	oldest := l.last - int64(len(l.kept)) // number of the event before the first one that is kept
	from := max(seen, oldest)
	if after == "" {
		from = max(from, l.last-int64(limit))
	}
	to := min(l.last, from+int64(limit))
	events := append([]proto.PageEvent{}, l.kept[from-oldest:to-oldest]...)
	return proto.PageLog{Events: events, Next: l.epoch + "-" + strconv.FormatInt(to, 10), LeftOut: from - seen}, nil
}

// parse returns the number of the event before a position.
func (l *eventLog) parse(after string) (int64, error) {
	if after == "" || after == "0" {
		return 0, nil
	}
	epoch, number, ok := strings.Cut(after, "-")
	n, err := strconv.ParseUint(number, 10, 63)
	if !ok || err != nil {
		return 0, invalidField("after", "it is the next of an earlier answer")
	}
	if epoch != l.epoch {
		return 0, nil
	}
	return min(int64(n), l.last), nil
}

// invalidField is the error of a request with an invalid field.
func invalidField(field, why string) *proto.Error {
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("Invalid request: field %q: %s", field, why)}
}

// Log returns what a page has logged. It does not wait for the page or for its file.
func (s *Service) Log(_ context.Context, req proto.ReadPageLog) (proto.PageLog, error) {
	if req.Limit < 0 || req.Limit > keptEvents {
		return proto.PageLog{}, invalidField("limit", fmt.Sprintf("it is 0 to %d", keptEvents))
	}
	if req.Limit == 0 {
		req.Limit = usualLimit
	}
	l, err := s.knownLog(req.Page)
	if err != nil {
		return proto.PageLog{}, err
	}
	return l.events.since(req.After, req.Limit)
}
