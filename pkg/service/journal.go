package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// journalSocket accepts datagrams of fields: systemd's native journal protocol,
// https://systemd.io/JOURNAL_NATIVE_PROTOCOL.
var journalSocket = "/run/systemd/journal/socket"

const (
	fieldMax  = 32 << 10 // bytes of a field's value; longer ones are cut
	fieldName = 64       // bytes of a field's name, a limit of the journal
)

// journal is a slog.Handler that writes fields to the journal: MESSAGE with the
// whole line, PRIORITY, SYSLOG_IDENTIFIER, and a ZINO_ field for each attribute,
// durations in milliseconds (ZINO_DURATION_MS).
type journal struct {
	conn   *journalConn
	text   slog.Handler // used when the journal does not accept a line
	head   []byte       // fields of every line
	words  []byte       // attributes of every line as text
	fields []byte       // the same as fields
	prefix string       // of further attributes: the open groups
}

func newJournal(path, identifier string, text slog.Handler) *journal {
	return &journal{
		conn: &journalConn{path: path}, text: text,
		head: appendField(nil, "SYSLOG_IDENTIFIER", identifier),
	}
}

// Enabled reports whether lines of level are written.
func (j *journal) Enabled(ctx context.Context, level slog.Level) bool {
	return j.text.Enabled(ctx, level)
}

// WithAttrs returns a handler that adds attributes to each line.
func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *j
	with.text = j.text.WithAttrs(attrs)
	with.words, with.fields = bytes.Clone(j.words), bytes.Clone(j.fields)
	for _, a := range attrs {
		with.words, with.fields = appendAttr(with.words, with.fields, j.prefix, a)
	}
	return &with
}

// WithGroup returns a handler that puts name in front of further attributes.
func (j *journal) WithGroup(name string) slog.Handler {
	with := *j
	with.text = j.text.WithGroup(name)
	if name != "" {
		with.prefix = j.prefix + name + "."
	}
	return &with
}

// Handle writes a line to the journal, or as text if that fails.
func (j *journal) Handle(ctx context.Context, r slog.Record) error {
	words, fields := bytes.Clone(j.words), bytes.Clone(j.fields)
	r.Attrs(func(a slog.Attr) bool {
		words, fields = appendAttr(words, fields, j.prefix, a)
		return true
	})
	b := append(bytes.Clone(j.head), fields...)
	b = appendField(b, "PRIORITY", priority(r.Level))
	b = appendField(b, "MESSAGE", r.Message+string(words))
	if err := j.conn.send(b); err != nil {
		return j.text.Handle(ctx, r)
	}
	return nil
}

// priority returns syslog's number of a level.
func priority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "3"
	case level >= slog.LevelWarn:
		return "4"
	case level >= slog.LevelInfo:
		return "6"
	}
	return "7"
}

// appendAttr appends an attribute to the message, except the service's name, which
// SYSLOG_IDENTIFIER has, and to the fields.
func appendAttr(words, fields []byte, prefix string, a slog.Attr) (_, _ []byte) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			words, fields = appendAttr(words, fields, prefix, member)
		}
		return words, fields
	}
	if a.Key == "" {
		return words, fields
	}
	name, text := fieldOf(prefix+a.Key), value.String()
	if name != "ZINO_SERVICE" {
		words = append(words, ' ')
		words = append(words, prefix+a.Key+"="+quoted(text)...)
	}
	if value.Kind() == slog.KindDuration {
		name, text = name[:min(len(name), fieldName-3)]+"_MS", milliseconds(value.Duration())
	}
	return words, appendField(fields, name, text)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}

// fieldOf returns the name of an attribute's field: capitals, digits, underscores.
func fieldOf(key string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
	name = "ZINO_" + name
	return name[:min(len(name), fieldName)]
}

// quoted quotes a value that is not a single word.
func quoted(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r)
	}) {
		return strconv.Quote(text)
	}
	return text
}

// appendField appends a field in the binary form, which can carry any bytes: name,
// newline, length as a little-endian 64-bit number, value, newline.
func appendField(b []byte, name, value string) []byte {
	if len(value) > fieldMax {
		value = value[:fieldMax] + " [cut, it had " + strconv.Itoa(len(value)) + " bytes]"
	}
	b = append(append(b, name...), '\n')
	b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	return append(append(b, value...), '\n')
}

// journalConn is a connection to the journal. It is opened on first use and again
// after an error.
type journalConn struct {
	path string
	mu   sync.Mutex
	nc   net.Conn
}

func (c *journalConn) send(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nc == nil {
		nc, err := net.Dial("unixgram", c.path)
		if err != nil {
			return err
		}
		c.nc = nc
	}
	_, err := c.nc.Write(b)
	if err != nil {
		c.nc.Close()
		c.nc = nil
	}
	return err
}
