package protect

import "strings"

// setting is one entry of a git configuration.
type setting struct {
	section string // lower case, without its subsection
	key     string // lower case
	value   string
}

// parseConfig reads a git configuration (git-config(1), "Syntax"). A line that
// git would refuse is skipped.
func parseConfig(text string) (list []setting) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	section := ""
	for text != "" {
		switch c := text[0]; {
		case c == ' ' || c == '\t' || c == '\n':
			text = text[1:]
		case c == '[':
			section, text = parseSection(text[1:])
		case letter(c):
			n := 1
			for n < len(text) && (letter(text[n]) || text[n] >= '0' && text[n] <= '9' || text[n] == '-') {
				n++
			}
			s := setting{section: section, key: strings.ToLower(text[:n])}
			text = strings.TrimLeft(text[n:], " \t")
			if strings.HasPrefix(text, "=") {
				s.value, text = parseValue(text[1:])
				list = append(list, s)
			}
		default: // a comment, or nonsense
			_, text, _ = strings.Cut(text, "\n")
		}
	}
	return list
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// parseSection reads the header of a section behind its opening bracket.
func parseSection(text string) (name, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return "", text[i:]
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			name, _, _ = strings.Cut(text[:i], " ")
			name, _, _ = strings.Cut(name, "\t")
			name, _, _ = strings.Cut(name, `"`)
			name, _, _ = strings.Cut(name, ".") // the older [section.subsection]
			return strings.ToLower(name), text[i+1:]
		}
	}
	return "", ""
}

// parseValue reads a value behind the equals sign, to the end of its line.
func parseValue(text string) (value, rest string) {
	var b strings.Builder
	quoted, kept := false, 0 // kept: the length without blanks at the end
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			return b.String()[:kept], text[i:]
		case !quoted && (c == '#' || c == ';'):
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case c == '"':
			quoted = !quoted
			continue
		case c == '\\':
			if i++; i == len(text) {
				return b.String()[:kept], ""
			}
			if c = text[i]; c == '\n' {
				continue
			}
			if at := strings.IndexByte("nbt", c); at >= 0 {
				c = "\n\b\t"[at]
			}
		case !quoted && (c == ' ' || c == '\t'):
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		}
		b.WriteByte(c)
		kept = b.Len()
	}
	return b.String()[:kept], ""
}
