package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The errors for text that is not JSON.
var (
	errSyntax = errors.New("malformed JSON")
	errUTF8   = errors.New("not valid UTF-8")
)

// malformed returns the error for b, which is not valid.
func malformed(b []byte) error {
	if !utf8.Valid(b) {
		return errUTF8
	}
	return errSyntax
}

// fields walks the members of a JSON object without decoding them. It checks
// the structure of the object itself; values are only delimited, by brackets and
// quotes, and checked when they are decoded.
type fields struct {
	b    []byte
	i    int
	open bool // a member has been read: a comma comes next
	err  error
}

// object starts a walk over b, which must be one object and nothing else.
func object(b []byte) fields {
	f := fields{b: b, i: space(b, 0)}
	if f.i >= len(b) {
		f.err = errors.New("empty packet: expected a JSON object")
	} else if b[f.i] != '{' {
		f.err = errors.New("expected a JSON object")
	}
	f.i++
	return f
}

// next returns the next member: its key without quotes and its value's text.
// ok is false at the end or at an error.
func (f *fields) next() (key, value []byte, ok bool) {
	if f.err != nil {
		return nil, nil, false
	}
	f.i = space(f.b, f.i)
	if f.at('}') {
		f.finish()
		return nil, nil, false
	}
	if f.open && !f.take(',') {
		return f.fail()
	}
	f.open = true
	f.i = space(f.b, f.i)
	key, ok = f.key()
	if !ok || !f.take(':') {
		return f.fail()
	}
	start := space(f.b, f.i)
	end, ok := skip(f.b, start)
	if !ok {
		return f.fail()
	}
	f.i = space(f.b, end)
	return key, f.b[start:end], true
}

func (f *fields) key() ([]byte, bool) {
	if !f.at('"') {
		return nil, false
	}
	end, ok := skipString(f.b, f.i)
	if !ok {
		return nil, false
	}
	raw := f.b[f.i:end]
	f.i = space(f.b, end)
	if text := raw[1 : len(raw)-1]; verbatim(text) {
		return text, true
	}
	return Unquote(nil, raw)
}

// finish checks that nothing but space follows the closing brace.
func (f *fields) finish() {
	if space(f.b, f.i+1) != len(f.b) {
		f.err = fmt.Errorf("%w: text after the object", errSyntax)
	}
}

func (f *fields) fail() (key, value []byte, ok bool) {
	f.err = malformed(f.b)
	return nil, nil, false
}

func (f *fields) at(c byte) bool { return f.i < len(f.b) && f.b[f.i] == c }

func (f *fields) take(c byte) bool {
	ok := f.at(c)
	f.i++
	return ok
}

// space returns the first index from i on that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns the index after the value that starts at i.
func skip(b []byte, i int) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && !delimiter[b[i]] {
		i++
	}
	return i, i > start
}

// skipNested jumps from string to string and counts brackets between them.
func skipNested(b []byte, i int) (int, bool) {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end, ok := skipString(b, i)
			if !ok {
				return end, false
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return i, false
}

// skipString returns the index after the closing quote of the string at i.
func skipString(b []byte, i int) (int, bool) {
	for i++; ; {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b), false
		}
		i += j + 1
		if !escaped(b, i-1) {
			return i, true
		}
	}
}

// escaped reports whether the quote at i follows an odd number of backslashes.
func escaped(b []byte, i int) bool {
	n := 0
	for i > 0 && b[i-1] == '\\' {
		n, i = n+1, i-1
	}
	return n%2 == 1
}

var delimiter = [256]bool{
	',': true, ':': true, '}': true, ']': true, '{': true, '[': true,
	'"': true, ' ': true, '\n': true, '\t': true, '\r': true,
}

// ReplaceSurrogates replaces escaped lone surrogates in a JSON text by \ufffd, in place:
// other decoders fail on them.
func ReplaceSurrogates(text []byte) {
	if !escapesUnicode(text) { // most texts; they may have thousands of other escapes
		return
	}
	// half returns 'h' for the escape of a high surrogate, 'l' for a low one, 0 for
	// anything else.
	half := func(b []byte) byte {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
			return 0
		}
		switch b[3] {
		case '8', '9', 'a', 'b', 'A', 'B':
			return 'h'
		case 'c', 'd', 'e', 'f', 'C', 'D', 'E', 'F':
			return 'l'
		}
		return 0
	}
	for i := 0; i < len(text); {
		n := bytes.IndexByte(text[i:], '\\')
		if n < 0 {
			return
		}
		i += n
		switch h := half(text[i:]); {
		case h == 0:
			i += 2 // the second character may be a backslash
		case h == 'h' && half(text[i+6:]) == 'l':
			i += 12
		default:
			copy(text[i:], `\ufffd`)
			i += 6
		}
	}
}

// escapesUnicode reports whether text has a backslash followed by u. It compares eight
// bytes at once.
func escapesUnicode(text []byte) bool {
	i := 0
	for ; i+9 <= len(text); i += 8 {
		differ := (binary.LittleEndian.Uint64(text[i:]) ^ ones*'\\') | (binary.LittleEndian.Uint64(text[i+1:]) ^ ones*'u')
		if (differ-ones)&^differ&tops != 0 { // a byte of differ is 0
			return true
		}
	}
	return bytes.Contains(text[i:], []byte(`\u`))
}

// Elements returns the elements of a JSON array, undecoded. raw is checked
// completely: well-formed JSON, valid UTF-8, a list.
func Elements(raw []byte) ([]json.RawMessage, error) {
	i := space(raw, 0)
	if list, end, ok := elements(raw, i); ok && space(raw, end) == len(raw) && utf8.Valid(raw) {
		return list, nil
	}
	if !Valid(raw) {
		return nil, malformed(raw)
	}
	return nil, fmt.Errorf("expected a list, found %s", describe(raw[i:]))
}

// elements checks the list whose bracket is at i, and returns its elements and the
// index after it.
func elements(b []byte, i int) (list []json.RawMessage, end int, ok bool) {
	list = []json.RawMessage{}
	if i >= len(b) || b[i] != '[' {
		return nil, i, false
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return list, i + 1, true
	}
	for {
		end, ok := value(b, i, 1)
		if !ok {
			return nil, end, false
		}
		list = append(list, json.RawMessage(b[i:end]))
		if i = space(b, end); i >= len(b) || b[i] != ',' {
			return list, i + 1, i < len(b) && b[i] == ']'
		}
		i = space(b, i+1)
	}
}

// Members walks the members of a JSON object that is known to be valid, such as
// one that Elements returned: their keys without quotes and escapes, and their
// values undecoded. For any other text the result is undefined.
func Members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		f := object(raw)
		for key, value, ok := f.next(); ok && yield(key, value); {
			key, value, ok = f.next()
		}
	}
}

// Items walks the elements of a JSON list that is known to be valid, undecoded.
func Items(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := space(raw, 0)
		if i == len(raw) || raw[i] != '[' {
			return
		}
		for i = space(raw, i+1); i < len(raw) && raw[i] != ']'; {
			end, ok := skip(raw, i)
			if !ok || !yield(raw[i:end]) {
				return
			}
			if i = space(raw, end); i < len(raw) && raw[i] == ',' {
				i = space(raw, i+1)
			}
		}
	}
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string: the bytes that encoding/json writes
// with SetEscapeHTML(false), bad UTF-8 as U+FFFD.
func AppendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if t := s[i:]; len(t) >= 8 && plainWord(uint64(t[0])|uint64(t[1])<<8|uint64(t[2])<<16|uint64(t[3])<<24|
			uint64(t[4])<<32|uint64(t[5])<<40|uint64(t[6])<<48|uint64(t[7])<<56) {
			i += 8
			continue
		}
		if c := s[i]; c < utf8.RuneSelf {
			if plain[c] {
				i++
				continue
			}
			b = appendEscape(append(b, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if (r == utf8.RuneError && size == 1) || r == '\u2028' || r == '\u2029' {
			b = appendRune(append(b, s[start:i]...), r)
			start = i + size
		}
		i += size
	}
	return append(append(b, s[start:]...), '"')
}

// plain are the ASCII characters that need no escape.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

// plainWord reports whether eight bytes, loaded as one number, are all plain. Most
// text is a long run of such bytes.
func plainWord(w uint64) bool { return (special(w)|w)&tops == 0 }

const ones, tops = 0x0101010101010101, 0x8080808080808080

// special searches eight bytes at once for a quote, a backslash, or a byte below a
// blank. The lowest bit set is the top bit of the first one found; higher bits are
// undefined.
func special(w uint64) uint64 {
	quote, backslash := w^ones*'"', w^ones*'\\'
	found := (w - ones*' ') &^ w
	found |= (quote - ones) &^ quote // the top bit of a zero byte, or of a later one
	found |= (backslash - ones) &^ backslash
	return found & tops
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

func appendRune(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// Unquote appends the text of a JSON string, quotes included, to b. A lone
// surrogate becomes U+FFFD. It is false for anything but a valid JSON string
// in valid UTF-8.
func Unquote(b, raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' || !utf8.Valid(raw) {
		return b, false
	}
	raw = raw[1 : len(raw)-1]
	b = slices.Grow(b, len(raw)) // no escape is shorter than its character
	for i := 0; i < len(raw); {
		n := run(raw[i:])
		b = append(b, raw[i:i+n]...)
		if i += n; i == len(raw) {
			break
		}
		var size int
		if b, size = unescape(b, raw[i:]); size == 0 {
			return b, false
		}
		i += size
	}
	return b, true
}

// unquoted is Unquote for a string of its own, which a text without escapes becomes
// with a single copy.
func unquoted(raw []byte) (string, bool) {
	if n := len(raw) - 1; n > 0 && raw[0] == '"' && raw[n] == '"' && verbatim(raw[1:n]) {
		return string(raw[1:n]), true
	}
	text, ok := Unquote(nil, raw)
	return string(text), ok
}

// verbatim reports whether s needs no escape in a JSON string and is valid UTF-8.
func verbatim(s []byte) bool { return run(s) == len(s) && utf8.Valid(s) }

// run returns the length of the text at the start of s up to the first quote,
// backslash or control character. It does not check for bad UTF-8.
func run(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if found := special(binary.LittleEndian.Uint64(s[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && (s[i] >= utf8.RuneSelf || plain[s[i]]) {
		i++
	}
	return i
}

// unescape appends the character of the escape at the start of s and returns the
// length of the escape, 0 if it is invalid.
func unescape(b, s []byte) ([]byte, int) {
	if len(s) < 2 || s[0] != '\\' {
		return b, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return append(b, s[1]), 2
	case 'b':
		return append(b, '\b'), 2
	case 'f':
		return append(b, '\f'), 2
	case 'n':
		return append(b, '\n'), 2
	case 'r':
		return append(b, '\r'), 2
	case 't':
		return append(b, '\t'), 2
	case 'u':
		return unescapeUnicode(b, s)
	}
	return b, 0
}

func unescapeUnicode(b, s []byte) ([]byte, int) {
	r, ok := hex4(s)
	if !ok {
		return b, 0
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(b, r), 6
	}
	if low, ok := hex4(s[6:]); ok {
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return utf8.AppendRune(b, both), 12
		}
	}
	return utf8.AppendRune(b, utf8.RuneError), 6
}

// hex4 reads the escape \uHHHH at the start of s.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}

// maxDepth is how deep lists and objects may be nested: the limit of encoding/json,
// which readers of relayed text may use.
const maxDepth = 10000

// Valid reports whether b is well-formed JSON in valid UTF-8, like json.Valid and
// utf8.Valid together, but several times faster: long lists of messages are checked
// at several places of a turn.
func Valid(b []byte) bool {
	end, ok := value(b, space(b, 0), 0)
	return ok && space(b, end) == len(b) && utf8.Valid(b)
}

// value checks the value that starts at i, at a depth, and returns the index
// after it.
func value(b []byte, i, depth int) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		return str(b, i)
	case c == '{' || c == '[':
		return nested(b, i, depth+1)
	case c == '-' || digit(c):
		return num(b, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(b[i:], []byte(word)) {
			return i + len(word), true
		}
	}
	return i, false
}

// nested checks the object or list whose bracket is at i.
func nested(b []byte, i, depth int) (end int, ok bool) {
	inObject, closing := b[i] == '{', b[i]+2 // in ASCII, closing brackets are two after theirs
	if i = space(b, i+1); i < len(b) && b[i] == closing {
		return i + 1, depth <= maxDepth
	}
	for ok = depth <= maxDepth; ok; i = space(b, i+1) {
		if inObject {
			if i, ok = name(b, i); !ok {
				break
			}
		}
		if i, ok = value(b, i, depth); !ok {
			break
		}
		if i = space(b, i); i >= len(b) || b[i] != ',' {
			return i + 1, i < len(b) && b[i] == closing
		}
	}
	return i, false
}

// name checks a key and its colon and returns the index of the value.
func name(b []byte, i int) (int, bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	i, ok := str(b, i)
	if i = space(b, i); !ok || i >= len(b) || b[i] != ':' {
		return i, false
	}
	return space(b, i+1), true
}

// str checks the string whose quote is at i.
func str(b []byte, i int) (int, bool) {
	for i++; ; {
		if i += run(b[i:]); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case '"':
			return i + 1, true
		case '\\':
			n := escapeLen(b[i:])
			if i += n; n == 0 {
				return i, false
			}
		default: // a control character
			return i, false
		}
	}
}

// escapeLen returns the length of the escape at the start of s, 0 if it is invalid.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s); ok {
			return 6
		}
	}
	return 0
}

// num checks the number that starts at i: a minus, digits without a leading
// zero, a fraction, an exponent.
func num(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	start := i
	i, ok := digits(b, i)
	if !ok || b[start] == '0' && i > start+1 {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		if i, ok = digits(b, i+1); !ok {
			return i, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i, ok = digits(b, i)
	}
	return i, ok
}

// digits skips digits. It is false without a digit.
func digits(b []byte, i int) (int, bool) {
	start := i
	for i < len(b) && digit(b[i]) {
		i++
	}
	return i, i > start
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
