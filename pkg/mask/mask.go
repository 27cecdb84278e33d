// Package mask replaces secrets in text by placeholders: known values, which it
// recognizes by hashes without having them, and shapes such as tokens with a prefix,
// private keys and passwords behind their names.
package mask

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"zino/proto"
)

// A Config is what a Masker masks.
type Config struct {
	Salt     []byte          // key of the placeholders; one for all services of a constellation
	Hints    proto.MaskHints // known values of other services; with an empty base none
	Values   []string        // known values of at least 8 bytes
	Allow    []string        // regular expressions; a shape whose whole text matches one is not masked
	NoShapes bool            // mask known values only
}

// A Masker masks texts. It is safe for concurrent use.
type Masker struct {
	salt   []byte
	known  []*scanner
	allow  []*regexp.Regexp
	shapes bool
	keep   int // of an unfinished long line, the last bytes that are not yet passed on
}

// New returns a Masker for c.
func New(c Config) (*Masker, error) {
	if len(c.Salt) == 0 {
		return nil, errors.New("masking needs a salt")
	}
	m := &Masker{salt: slices.Clone(c.Salt), shapes: !c.NoShapes, keep: 512}
	for _, expr := range c.Allow {
		re, err := regexp.Compile(`^(?:` + expr + `)$`)
		if err != nil {
			return nil, fmt.Errorf("invalid expression %q in [mask] allow: %w", expr, err)
		}
		m.allow = append(m.allow, re)
	}
	if err := m.learn(c.Hints, c.Values); err != nil {
		return nil, err
	}
	return m, nil
}

// Text returns text with placeholders in place of secrets, and their number. It may
// return text itself.
func (m *Masker) Text(text []byte) (masked []byte, count int) {
	text, ends := m.maskEnds(text)
	s := Stream{m: m, buf: text}
	out := s.process(make([]byte, 0, len(text)), true)
	if s.count == 0 {
		return text, ends
	}
	return out, ends + s.count
}

// Part masks text[from:to]. Secrets that begin before it or end behind it are masked
// too.
func (m *Masker) Part(text []byte, from, to int) (masked []byte, count int) {
	s := Stream{m: m, buf: text, part: true, from: from, to: to}
	return s.process(make([]byte, 0, to-from), true), s.count
}

// A kind names what a placeholder stands for.
type kind string

const (
	kindKnown    kind = "secret"
	kindPEM      kind = "private-key"
	kindAWSKey   kind = "aws-key"
	kindAWS      kind = "aws-secret"
	kindGitHub   kind = "github"
	kindGitLab   kind = "gitlab"
	kindSlack    kind = "slack"
	kindStripe   kind = "stripe"
	kindGoogle   kind = "google"
	kindNPM      kind = "npm"
	kindPyPI     kind = "pypi"
	kindDocker   kind = "docker"
	kindHF       kind = "huggingface"
	kindOpenAI   kind = "openai"
	kindClaude   kind = "anthropic"
	kindRouter   kind = "openrouter"
	kindAPIKey   kind = "api-key"
	kindAge      kind = "age"
	kindJWT      kind = "jwt"
	kindAuth     kind = "authorization"
	kindCookie   kind = "cookie"
	kindPassword kind = "password"
	kindValue    kind = "value"
)

func (k kind) rank() int {
	switch k {
	case kindKnown:
		return 0
	case kindValue:
		return 2
	}
	return 1
}

// placeholder matches what stands in place of a secret. It is compiled on first use.
var placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[masked:(?:secret|private-key|aws-key|aws-secret|github|gitlab|slack|stripe|google|npm|pypi|docker|huggingface|openai|anthropic|openrouter|api-key|age|jwt|authorization|cookie|password|value):[0-9a-f]{4}\]`)
})

// HasPlaceholder reports whether text contains a placeholder. A text with one that is
// written to a file would replace the secret there.
func HasPlaceholder(text string) bool {
	return strings.Contains(text, "[masked:") && placeholder().MatchString(text)
}

// Count returns the number of placeholders in text.
func Count(text []byte) int {
	if !bytes.Contains(text, []byte("[masked:")) {
		return 0
	}
	return len(placeholder().FindAllIndex(text, -1))
}

// appendPlaceholder appends the placeholder of a secret.
func (m *Masker) appendPlaceholder(dst []byte, k kind, secret []byte) []byte {
	mac := hmac.New(sha256.New, m.salt)
	mac.Write(secret)
	dst = append(dst, "[masked:"...)
	dst = append(dst, k...)
	dst = append(dst, ':')
	dst = hex.AppendEncode(dst, mac.Sum(nil)[:2])
	return append(dst, ']')
}

// A span is a secret in a text: text[from:to]. at is where its context begins, such
// as the name in front of a value.
type span struct {
	at, from, to int
	kind         kind
}

// find returns the secrets of a text that consists of whole lines or is a part of
// one, in order and without overlaps. If it contains the first line of a PEM private
// key, find looks at the text before it only, and pem is its place; else -1.
func (m *Masker) find(text []byte) (spans []span, pem int) {
	pem = -1
	if m.shapes {
		spans, pem = m.findShapes(text)
	}
	if pem >= 0 {
		text = text[:pem]
		spans = slices.DeleteFunc(spans, func(s span) bool { return s.from >= pem })
		for i := range spans {
			spans[i].to = min(spans[i].to, pem)
		}
	}
	for _, k := range m.known {
		spans = k.find(spans, text)
	}
	if len(spans) == 0 {
		return nil, pem
	}
	return outside(merge(spans), text), pem
}

// merge sorts spans and joins those that overlap. A join has the kind of the span
// that begins first; of those at one place known values come first, and values behind
// a name last.
func merge(spans []span) []span {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.kind.rank(), b.kind.rank()), cmp.Compare(b.to, a.to))
	})
	merged := spans[:1]
	for _, s := range spans[1:] {
		last := &merged[len(merged)-1]
		if s.from >= last.to {
			merged = append(merged, s)
			continue
		}
		last.at, last.to = min(last.at, s.at), max(last.to, s.to)
	}
	return merged
}

// outside drops spans inside of placeholders and widens those that overlap one, so
// that masked text stays as it is.
func outside(spans []span, text []byte) []span {
	if !bytes.Contains(text, []byte("[masked:")) {
		return spans
	}
	const longest = len("[masked:authorization:0000]")
	kept := spans[:0]
	for _, s := range spans {
		lo, hi := max(0, s.from-longest), min(len(text), s.to+longest)
		wide, inside := s, false
		for _, p := range placeholder().FindAllIndex(text[lo:hi], -1) {
			from, to := lo+p[0], lo+p[1]
			if to <= s.from || from >= s.to {
				continue
			}
			inside = inside || from <= s.from && s.to <= to
			wide.at, wide.from, wide.to = min(wide.at, from), min(wide.from, from), max(wide.to, to)
		}
		if !inside {
			kept = append(kept, wide)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return merge(kept)
}
