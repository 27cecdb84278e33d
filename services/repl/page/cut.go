package page

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	cutMin   = 64   // bytes that the shortest form of any value fits into
	cutDepth = 32   // levels that are opened; each is scanned once more
	keyMax   = 128  // bytes of a key
	padMax   = 80   // bytes of white space that are kept before an item
	padFrom  = 1024 // limit from which on white space is kept at all

	tailMax = len(`,"…":"… 1,000,000,000 more items"`)
)

// cutJSON returns a JSON text that fits into a limit of at least cutMin bytes. Strings
// end with the number of characters left out, arrays and objects with the number of
// items. The text must be valid.
func cutJSON(text string, limit int) string {
	text = strings.Trim(text, " \t\r\n")
	if len(text) <= limit {
		return text
	}
	return string(appendCut(make([]byte, 0, limit), text, limit, 0))
}

// appendCut appends a value in at most limit bytes.
func appendCut(out []byte, value string, limit, depth int) []byte {
	switch {
	case len(value) <= limit:
		return append(out, value...)
	case value[0] == '[' || value[0] == '{':
		return appendCutItems(out, value, limit, depth)
	case value[0] == '"':
		return appendCutString(out, value[1:len(value)-1], limit)
	}
	return appendCutString(out, value, limit) // a long number
}

// appendCutItems appends the first items of an array or an object, and the number of
// the others.
func appendCutItems(out []byte, value string, limit, depth int) []byte {
	object := value[0] == '{'
	least := max(cutMin, limit/8) // what a long item gets if there are many
	if object {
		least = max(cutMin, limit/32) // more keys are worth more than one whole value
	}
	room := limit - len("[]") - tailMax
	if limit >= padFrom {
		room -= 2 * padMax // before the tail and the bracket
	}
	var shown []item
	var last item
	var end string // white space before the bracket
	total := 0
	for i := 1; ; total++ {
		it, next := parseItem(value, i, object)
		if limit < padFrom || len(it.pad) > padMax {
			it.pad = ""
		}
		if next < 0 {
			end = it.pad
			break
		}
		i, last = next, it
		if total > len(shown) || depth >= cutDepth {
			continue // only the first items are shown
		}
		it.limit = min(len(it.value), least)
		if n := it.bytes(); n <= room {
			shown, room = append(shown, it), room-n
		}
	}

	// Share the room that is left among the items that do not fit, the shortest first.
	var long []*item
	for i := range shown {
		if it := &shown[i]; it.limit < len(it.value) {
			long = append(long, it)
		}
	}
	slices.SortStableFunc(long, func(a, b *item) int { return len(a.value) - len(b.value) })
	for i, it := range long {
		more := min(room/(len(long)-i), len(it.value)-it.limit)
		it.limit, room = it.limit+more, room-more
	}

	out = append(out, value[0])
	for i, it := range shown {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, it.pad...), it.key...)
		out = appendCut(out, it.value, it.limit, depth+1)
	}
	if left := total - len(shown); left > 0 {
		if len(shown) > 0 {
			out = append(append(out, ','), shown[0].pad...)
		}
		if object {
			out = append(out, `"…":`...)
		}
		out = append(out, `"… `+counted(left+last.stands(), "item")+`"`...)
	}
	return append(append(out, end...), value[len(value)-1])
}

// item is an item of an array or an object.
type item struct {
	pad   string // white space before it
	key   string // with the colon; "" in an array
	value string
	limit int // bytes of the value that are shown
}

// bytes returns how much of the array or object the item takes.
func (it *item) bytes() int { return len(it.pad) + len(it.key) + it.limit + len(",") }

// stands returns how many items more than itself the item stands for: the page may
// have cut the array or object before.
func (it *item) stands() int {
	rest, ok := strings.CutPrefix(it.value, `"… `)
	if !ok || it.key != "" && strings.TrimSpace(it.key) != `"…":` {
		return 0
	}
	number, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(strings.ReplaceAll(number, ",", ""))
	if err != nil || n < 1 || n > 900_000_000 || rest != `more item"` && rest != `more items"` {
		return 0
	}
	return n - 1
}

// parseItem parses the item at a place behind the bracket or a comma, and returns where
// the next one begins. At the closing bracket next is -1.
func parseItem(s string, i int, object bool) (it item, next int) {
	from := i
	i = skipSpace(s, i)
	it.pad = s[from:i]
	if s[i] == ']' || s[i] == '}' {
		return it, -1
	}
	if object {
		end := skipValue(s, i)
		it.key = string(appendCut(nil, s[i:end], keyMax, 0)) + ":"
		if i = skipSpace(s, end) + len(":"); s[i] == ' ' {
			it.key += " "
		}
		i = skipSpace(s, i)
	}
	end := skipValue(s, i)
	it.value = s[i:end]
	if next = skipSpace(s, end); s[next] == ',' {
		return it, next + 1
	}
	return it, end
}

// skipSpace returns where the white space at a place ends.
func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// skipValue returns where the value at a place ends.
func skipValue(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '"':
			for i++; s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return i // the end of a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// appendCutString appends a string of at most limit bytes that begins with the given
// characters, which may be escaped, and ends with the number of the others.
func appendCutString(out []byte, s string, limit int) []byte {
	room := limit - len(`"… 67,108,864 more characters"`)
	end := 0
	for end < len(s) {
		n := character(s[end:])
		if end+n > room {
			break
		}
		end += n
	}
	left := 0
	for i := end; i < len(s); i += character(s[i:]) {
		left++
	}
	return append(append(append(out, '"'), s[:end]...), "… "+counted(left, "character")+`"`...)
}

// character returns the length of the first character of a JSON string: two escaped
// surrogates are one.
func character(s string) int {
	if s[0] != '\\' {
		_, n := utf8.DecodeRuneInString(s)
		return n
	}
	if s[1] != 'u' {
		return 2
	}
	if surrogate(s, 0xd800) && surrogate(s[6:], 0xdc00) {
		return 12
	}
	return 6
}

// surrogate reports whether s begins with an escaped surrogate of the 1024 from first on.
func surrogate(s string, first uint64) bool {
	if len(s) < 6 || s[:2] != `\u` {
		return false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return err == nil && n >= first && n < first+0x400
}

// counted returns "1 more item", "79,980 more items" and the like.
func counted(n int, what string) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n != 1 {
		what += "s"
	}
	return digits + " more " + what
}
