package mask

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Lengths in bytes. Of known values, those between minValue and maxValue are masked.
// Hints leave the process that has the values, so they are made of longer ones only.
const (
	minValue = 8
	minHint  = 16
	maxValue = 8 << 10
)

// Hints recognize values in texts without telling them.
type Hints struct {
	Base   uint64 `json:"base,string"` // of the rolling hash, odd
	Salt   []byte `json:"salt"`        // of the SHA-256
	Values []Hint `json:"values"`
}

// A Hint recognizes one encoding of one value.
type Hint struct {
	Length int    `json:"length"`      // in bytes
	Tail   uint64 `json:"tail,string"` // Rabin-Karp value of its last 16 bytes
	SHA256 []byte `json:"sha256"`      // of salt and encoded value
}

// NewHints returns hints for secrets with a new base and salt. Secrets under 16 bytes
// give none: their hashes could be inverted.
func NewHints(secrets []string) Hints {
	h := newHints()
	for _, secret := range secrets {
		if len(secret) < minHint {
			continue
		}
		for _, encoded := range encodings(secret) {
			if len(encoded) >= minHint && len(encoded) <= maxValue {
				h.Values = append(h.Values, h.hint(encoded, minHint))
			}
		}
	}
	return h
}

func newHints() Hints {
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails
	return Hints{Base: binary.NativeEndian.Uint64(random[:]) | 1, Salt: random[8:]}
}

// hint makes the hint of an encoded value, with a rolling hash over width bytes.
func (h *Hints) hint(encoded string, width int) Hint {
	var tail uint64
	for _, b := range []byte(encoded[len(encoded)-width:]) {
		tail = tail*h.Base + uint64(b)
	}
	sum := sha256.Sum256(append(slices.Clone(h.Salt), encoded...))
	return Hint{Length: len(encoded), Tail: tail, SHA256: sum[:]}
}

// encodings returns the forms in which a secret occurs in texts, line by line.
func encodings(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret))}
	all = append(all, strings.ToUpper(all[3]))
	for before := range 3 {
		// Of the characters at both ends some bits belong to the text around.
		shifted := append(make([]byte, before), secret...)
		first, last := (8*before+5)/6, 8*len(shifted)/6
		all = append(all, base64.StdEncoding.EncodeToString(shifted)[first:last], base64.URLEncoding.EncodeToString(shifted)[first:last])
	}
	for _, html := range []bool{false, true} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		_ = e.Encode(secret)                       // strings encode
		all = append(all, b.String()[1:b.Len()-2]) // without quotes and newline
	}
	var lines []string
	for _, encoded := range all {
		for line := range strings.Lines(encoded) {
			// The first line of a private key is no secret.
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// learn adds the hints and the values to m.
func (m *Masker) learn(h Hints, values []string) error {
	if h.Base == 0 {
		h = newHints()
	}
	if h.Base&1 == 0 {
		return errors.New("invalid mask hints: the base is even")
	}
	long, short := newScanner(h, minHint), newScanner(h, minValue)
	for i, v := range h.Values {
		if v.Length < minHint || v.Length > maxValue || len(v.SHA256) != sha256.Size {
			return fmt.Errorf("invalid mask hint %d: length %d, hash of %d bytes", i, v.Length, len(v.SHA256))
		}
		long.add(v)
	}
	for _, value := range values {
		if len(value) < minValue {
			continue
		}
		for _, encoded := range encodings(value) {
			switch n := len(encoded); {
			case n < minValue || n > maxValue:
			case n < minHint:
				short.add(h.hint(encoded, minValue))
			default:
				long.add(h.hint(encoded, minHint))
			}
		}
	}
	for _, k := range []*scanner{long, short} {
		if len(k.hints) > 0 {
			m.known = append(m.known, k)
			m.keep = max(m.keep, k.longest)
		}
	}
	return nil
}

// A scanner finds values by a rolling hash over width bytes.
type scanner struct {
	width       int
	base, power uint64 // power: base^width
	salt        []byte
	maybe       [1 << 10]uint64 // bits of hints, by the 16 high bits of Tail
	hints       map[uint64][]Hint
	longest     int
}

func newScanner(h Hints, width int) *scanner {
	k := &scanner{width: width, base: h.Base, power: 1, salt: h.Salt, hints: map[uint64][]Hint{}}
	for range width {
		k.power *= h.Base
	}
	return k
}

func (k *scanner) add(h Hint) {
	same := func(o Hint) bool { return o.Length == h.Length && bytes.Equal(o.SHA256, h.SHA256) }
	if slices.ContainsFunc(k.hints[h.Tail], same) {
		return
	}
	k.maybe[h.Tail>>54] |= 1 << (h.Tail >> 48 & 63)
	k.hints[h.Tail] = append(k.hints[h.Tail], h)
	k.longest = max(k.longest, h.Length)
}

// find appends the known values in text to spans.
func (k *scanner) find(spans []span, text []byte) []span {
	if len(text) < k.width {
		return spans
	}
	var sum uint64
	for _, b := range text[:k.width] {
		sum = sum*k.base + uint64(b)
	}
	spans = k.confirm(spans, text[:k.width], sum)
	in, base, power, maybe := text[k.width:], k.base, k.power, &k.maybe
	for i, out := range text[:len(in)] {
		sum = sum*base + (uint64(in[i]) - power*uint64(out))
		if maybe[sum>>54]>>(sum>>48&63)&1 != 0 {
			spans = k.confirm(spans, text[:k.width+i+1], sum)
		}
	}
	return spans
}

// confirm appends the values that text ends in.
func (k *scanner) confirm(spans []span, text []byte, sum uint64) []span {
	for _, h := range k.hints[sum] {
		from := len(text) - h.Length
		if from < 0 {
			continue
		}
		hash := sha256.New()
		hash.Write(k.salt)
		hash.Write(text[from:])
		if bytes.Equal(hash.Sum(nil), h.SHA256) {
			spans = append(spans, span{at: from, from: from, to: len(text), kind: kindKnown})
		}
	}
	return spans
}
