package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"zino/pkg/config"
	"zino/pkg/environ"
	"zino/pkg/wire"
	"zino/proto"
)

// A Source makes the Maskers of a service. The last one is kept, since most requests
// have the same values.
type Source struct {
	cfg  config.Mask
	salt []byte // for requests without one
	log  *slog.Logger

	mu     sync.Mutex
	key    string
	masker *Masker
	failed string // the last problem with the configured values
}

// NewSource returns a Source for the configured values and shapes.
func NewSource(cfg config.Mask, log *slog.Logger) *Source {
	return &Source{cfg: cfg, salt: randomBytes(32), log: log}
}

// Masker returns a Masker for the hints of a request, nil if it has none, for the
// configured values, of which env has the variables, and for more values.
func (s *Source) Masker(with *proto.Masking, env []string, more ...string) (*Masker, error) {
	c := Config{Salt: s.salt, Allow: s.cfg.Allow, NoShapes: !s.cfg.Shapes}
	if with != nil {
		salt, err := base64.StdEncoding.DecodeString(with.Salt)
		if err != nil || len(salt) == 0 {
			return nil, proto.Errorf(proto.CodeInvalid, "invalid mask: the salt is not Base64")
		}
		c.Salt, c.Hints = salt, with.Hints
	}
	values, problem := Values(s.cfg.Files, env, s.cfg.ValuesFromEnv)
	c.Values = append(values, more...)
	slices.Sort(c.Values)
	c.Values = slices.Compact(c.Values)
	key := strings.Join(append([]string{string(c.Salt), c.Hints.Base, c.Hints.Salt}, c.Values...), "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := ""
	if problem != nil {
		failed = problem.Error()
	}
	if failed != "" && failed != s.failed {
		s.log.Warn("some configured secrets are not masked", "error", problem)
	}
	s.failed = failed
	if s.masker == nil || s.key != key {
		m, err := New(c)
		if err != nil {
			return nil, proto.Errorf(proto.CodeInvalid, "invalid mask: %v", err)
		}
		s.masker, s.key = m, key
	}
	return s.masker, nil
}

// Problem says which configured values the last Masker does not know; empty: it knows all.
func (s *Source) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// JSON masks the strings of a JSON value, each as a text of its own, and those of
// members with names of secrets.
func (m *Masker) JSON(value []byte) (masked []byte, count int) {
	done := 0
	var name []byte // of the member whose value begins at member
	member := -1
	for i := 0; i < len(value); i++ {
		if value[i] != '"' {
			continue
		}
		from := i
		for i++; i < len(value) && value[i] != '"'; i++ {
			if value[i] == '\\' {
				i++
			}
		}
		if i >= len(value) {
			break
		}
		text, n := m.quoted(value[from : i+1])
		if n == 0 && from == member {
			text, n = m.named(name, value[from:i+1])
		}
		if next := bytes.TrimLeft(value[i+1:], " \t\r\n"); len(next) > 0 && next[0] == ':' {
			name = value[from : i+1]
			member = len(value) - len(bytes.TrimLeft(next[1:], " \t\r\n"))
		}
		if n > 0 {
			masked = append(append(masked, value[done:from]...), text...)
			count, done = count+n, i+1
		}
	}
	if count == 0 {
		return value, 0
	}
	return append(masked, value[done:]...), count
}

// named masks the value of a member, a JSON string, if its name is that of a secret and
// it looks like one.
func (m *Masker) named(name, literal []byte) (masked []byte, count int) {
	if !m.shapes || len(literal)-2 < minValue || len(name) > maxName {
		return nil, 0
	}
	var key, s string
	if json.Unmarshal(name, &key) != nil || !environ.Secret(key, "") || json.Unmarshal(literal, &s) != nil {
		return nil, 0
	}
	spans, _ := m.find(slices.Concat(name, []byte{':'}, literal))
	if !slices.ContainsFunc(spans, func(s span) bool { return s.to > len(name)+1 }) {
		return nil, 0
	}
	return wire.AppendString(nil, m.appendPlaceholder(nil, kindValue, []byte(s))), 1
}

// quoted masks a JSON string.
func (m *Masker) quoted(literal []byte) (masked []byte, count int) {
	if len(literal)-2 < minValue {
		return nil, 0
	}
	text := literal[1 : len(literal)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var s string
		if json.Unmarshal(literal, &s) != nil {
			return nil, 0
		}
		text = []byte(s)
	}
	if text, count = m.Text(text); count == 0 {
		return nil, 0
	}
	return wire.AppendString(nil, text), count
}
