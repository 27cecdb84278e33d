package mask

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"zino/proto"
)

// Lengths in bytes. Of known values, those between minValue and maxValue are masked.
// Hints leave the process that has the values, so they are made of longer ones only.
const (
	minValue = 8
	minHint  = 16
	maxValue = 8 << 10
)

// NewHints returns hints for secrets with a new base and salt. Secrets under 16 bytes
// give none: their hashes could be inverted.
func NewHints(secrets []string) proto.MaskHints {
	k := newScanner(randomBytes(24), minHint)
	hints := proto.MaskHints{Base: fmt.Sprintf("%016x", k.base), Salt: base64.StdEncoding.EncodeToString(k.salt), Values: []proto.MaskHint{}}
	for _, secret := range secrets {
		if len(secret) < minHint {
			continue
		}
		for _, encoded := range encodings(secret) {
			if len(encoded) >= minHint && len(encoded) <= maxValue {
				h := k.hint(encoded)
				hints.Values = append(hints.Values, proto.MaskHint{Length: h.length, Tail: fmt.Sprintf("%016x", h.tail), SHA256: hex.EncodeToString(h.sum[:])})
			}
		}
	}
	return hints
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// encodings returns the forms in which a secret occurs in texts, line by line.
func encodings(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret))}
	all = append(all, strings.ToUpper(all[3]))
	for before := range 3 {
		// Of the characters at both ends some bits belong to the text around.
		shifted := append(make([]byte, before), secret...)
		first, last := (8*before+5)/6, 8*len(shifted)/6
		text := base64.StdEncoding.EncodeToString(shifted)[first:last]
		all = append(all, text, base64.URLEncoding.EncodeToString(shifted)[first:last])
		if before == 0 {
			for _, width := range []int{64, 76} { // the lines of openssl and of base64
				for line := range slices.Chunk([]byte(text), width) {
					all = append(all, string(line))
				}
			}
		}
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
			// The first line of a private key is not a secret.
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// learn adds the hints and the values to m.
func (m *Masker) learn(h proto.MaskHints, values []string) error {
	seed := randomBytes(24)
	if h.Base != "" {
		base, err := hex.DecodeString(h.Base)
		salt, saltErr := base64.StdEncoding.DecodeString(h.Salt)
		if err != nil || saltErr != nil || len(base) != 8 || base[7]&1 == 0 {
			return fmt.Errorf("invalid mask hints: base %.20q, salt of %d bytes", h.Base, len(h.Salt))
		}
		seed = append(base, salt...)
	}
	long, short := newScanner(seed, minHint), newScanner(seed, minValue)
	for i, v := range h.Values {
		tail, err := strconv.ParseUint(v.Tail, 16, 64)
		known := hint{length: v.Length, tail: tail}
		if n, sumErr := hex.Decode(known.sum[:], []byte(v.SHA256[:min(len(v.SHA256), 2*sha256.Size)])); err != nil || sumErr != nil ||
			n != sha256.Size || len(v.SHA256) != 2*n || v.Length < minHint || v.Length > maxValue {
			return fmt.Errorf("invalid mask hint %d: length %d, tail %.20q, SHA-256 of %d digits", i, v.Length, v.Tail, len(v.SHA256))
		}
		long.add(known)
	}
	for _, value := range values {
		if len(value) < minValue {
			continue
		}
		for _, encoded := range encodings(value) {
			switch n := len(encoded); {
			case n < minValue || n > maxValue:
			case n < minHint:
				short.add(short.hint(encoded))
			default:
				long.add(long.hint(encoded))
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
	maybe       [1 << 10]uint64 // bits of hints, by the 16 high bits of their tails
	hints       map[uint64][]hint
	longest     int
}

// A hint recognizes one encoding of one value: tail is the hash of its last bytes, and
// sum that of salt and value.
type hint struct {
	length int
	tail   uint64
	sum    [sha256.Size]byte
}

// newScanner takes the base, which it makes odd, and the salt from seed.
func newScanner(seed []byte, width int) *scanner {
	k := &scanner{width: width, base: binary.BigEndian.Uint64(seed) | 1, power: 1, salt: seed[8:], hints: map[uint64][]hint{}}
	for range width {
		k.power *= k.base
	}
	return k
}

// hint returns the hint of an encoded value.
func (k *scanner) hint(encoded string) hint {
	h := hint{length: len(encoded), sum: k.sum([]byte(encoded))}
	for _, b := range []byte(encoded[len(encoded)-k.width:]) {
		h.tail = h.tail*k.base + uint64(b)
	}
	return h
}

func (k *scanner) sum(text []byte) [sha256.Size]byte {
	return sha256.Sum256(slices.Concat(k.salt, text))
}

func (k *scanner) add(h hint) {
	if slices.Contains(k.hints[h.tail], h) {
		return
	}
	k.maybe[h.tail>>54] |= 1 << (h.tail >> 48 & 63)
	k.hints[h.tail] = append(k.hints[h.tail], h)
	k.longest = max(k.longest, h.length)
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
func (k *scanner) confirm(spans []span, text []byte, tail uint64) []span {
	for _, h := range k.hints[tail] {
		from := len(text) - h.length
		if from >= 0 && k.sum(text[from:]) == h.sum {
			spans = append(spans, span{at: from, from: from, to: len(text), kind: kindKnown})
		}
	}
	return spans
}
