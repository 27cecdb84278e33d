package mask

import (
	"bytes"
	"strings"

	"zino/pkg/environ"
)

// Limits in bytes of a name with its value.
const (
	maxName  = 64
	maxBlank = 16
	maxNamed = 4 << 10
)

// findNamed finds the value of a variable or member whose name contains the mark at
// text[pos:] and is secret: NAME=value, name: value, "name": "value".
func findNamed(text []byte, pos int) (span, bool) {
	name, at := pos, pos
	for name > 0 && pos-name < maxName && nameChar[text[name-1]] {
		name--
	}
	for at < len(text) && at-pos < maxName && nameChar[text[at]] {
		at++
	}
	if name > 0 && text[name-1] == '\\' && name < pos && strings.IndexByte("nrt", text[name]) >= 0 {
		name++ // an escaped line end
	}
	for name < pos && (text[name] == '-' || text[name] == '.') {
		name++
	}
	end := at
	var before byte
	if name > 0 {
		before = text[name-1]
	}
	quoted := skipQuote(text, &at)
	if quoted && before != text[at-1] {
		return span{}, false // the last word of a quoted text
	}
	blanks := skipBlanks(text, &at)
	sep := separator(text, &at)
	if sep == "" || end-name > maxName {
		return span{}, false
	}
	blanks += skipBlanks(text, &at)
	if !quoted && at < len(text) && text[at] == before && (before == '"' || before == '\'' || before == '`') {
		return span{}, false // the end of a quoted NAME=
	}
	v := value{variable: sep == "=" && blanks == 0 && !quoted && capitals(text[name:end])}
	if !v.read(text, at) || template(v.text) || !environ.Secret(string(text[name:end]), "") {
		return span{}, false
	}
	lower := bytes.ToLower(text[name:end])
	if bytes.HasSuffix(lower, []byte("authorization")) {
		return span{}, false // findAuthorization
	}
	if bytes.HasSuffix(lower, []byte("cookie")) {
		if cookie, ok := findCookie(text, end-len("cookie")); ok {
			return cookie, true
		}
	}
	return secretAt(kindValue, name, v.from, v.to), v.secret(text[name:end])
}

// skipQuote skips a quote, which may be escaped.
func skipQuote(text []byte, at *int) bool {
	i := *at
	for i < len(text) && text[i] == '\\' {
		i++
	}
	if i == len(text) || text[i] != '"' && text[i] != '\'' && text[i] != '`' {
		return false
	}
	*at = i + 1
	return true
}

func skipBlanks(text []byte, at *int) (n int) {
	for *at < len(text) && n < maxBlank && (text[*at] == ' ' || text[*at] == '\t') {
		*at++
		n++
	}
	return n
}

// separator consumes what stands between a name and a value.
func separator(text []byte, at *int) string {
	for _, sep := range []string{":=", "=>", "=", ":"} {
		if !bytes.HasPrefix(text[*at:], []byte(sep)) {
			continue
		}
		next := *at + len(sep)
		if next < len(text) && (text[next] == '=' || text[next] == ':') {
			return "" // a comparison, a path of C++ or Rust
		}
		*at = next
		return sep
	}
	return ""
}

// capitals reports whether a name is one of the environment.
func capitals(name []byte) bool {
	for _, b := range name {
		if !upperDigits[b] && b != '_' {
			return false
		}
	}
	return true
}

// A value is what stands behind a name.
type value struct {
	variable bool // NAME=value without blanks, as in files of variables and commands
	quoted   bool
	call     bool // followed by an opening bracket, as in code
	from, to int
	text     []byte
}

// read reads the value at text[at:].
func (v *value) read(text []byte, at int) bool {
	from := at
	if skipQuote(text, &at) {
		quote := text[at-1]
		escapes := at - 1 - from
		rest := text[at:min(len(text), at+maxNamed)]
		for i := 0; i < len(rest) && rest[i] != '\n'; i++ {
			switch {
			case rest[i] == quote:
				v.quoted, v.from, v.to = true, at, at+max(0, i-escapes)
				v.text = text[v.from:v.to]
				return len(v.text) >= minValue
			case rest[i] == '\\' && escapes == 0:
				i++
			}
		}
	}
	stop := " \t\r\n\"'`,;)}]<>&|\\([{"
	if v.variable {
		stop = " \t\r\n\"'`\\"
	}
	rest := text[at:min(len(text), at+maxNamed)]
	n := bytes.IndexAny(rest, stop)
	if n < 0 {
		n = len(rest)
	} else if c := rest[n]; !v.variable {
		v.call = c == '(' || c == '[' || c == '{'
	}
	for n > 0 && strings.IndexByte(",;.):", rest[n-1]) >= 0 {
		n--
	}
	v.from, v.to, v.text = at, at+n, rest[:n]
	return n >= minValue
}

// template reports whether a text stands for a value: a reference such as ${NAME}, or
// words that a person replaces; or contains a placeholder.
func template(s []byte) bool {
	if s[0] == '$' || s[0] == '%' || s[0] == '<' || s[0] == '{' || s[0] == '*' {
		return true
	}
	lower := bytes.ToLower(s[:min(len(s), maxSample)])
	for _, part := range []string{"${", "$(", "{{", "%s", "%v", "%d", "...", "…", "***", "[masked:", "xxx", "changeme", "change-me", "change_me", "placeholder", "redacted"} {
		if bytes.Contains(lower, []byte(part)) {
			return true
		}
	}
	switch string(lower) {
	case "pass", "password", "passwd", "passphrase", "pwd", "secret", "token", "user", "username", "null", "none", "your_password", "yourpassword":
		return true
	}
	return bytes.HasPrefix(lower, []byte("your-")) || bytes.HasPrefix(lower, []byte("your_"))
}

// secret reports whether the value of a secret name looks like a secret rather than
// like a word, a reference in code, a path or a time.
func (v *value) secret(name []byte) bool {
	s := v.text[:min(len(v.text), maxSample)]
	if v.call || entropy(s) < 3 {
		return false
	}
	changes := changes(s)
	for _, prefix := range []string{"/", "./", "../", "~/", "file:"} {
		if bytes.HasPrefix(s, []byte(prefix)) && changes < 6 {
			return false
		}
	}
	lower := strings.ToLower(string(s))
	if strings.HasPrefix(lower, "sha256:") || strings.HasPrefix(lower, "sha256-") || strings.HasPrefix(lower, "sha512-") || strings.HasPrefix(lower, "ssh-") {
		return false
	}
	upper := bytes.ToUpper(name)
	if strings.Contains(lower, "://") && !bytes.Contains(upper, []byte("WEBHOOK")) || bytes.Contains(upper, []byte("PUBLIC")) {
		return false // findURL masks the password of a URL
	}
	if len(s) >= 10 && digits(s[:4]) == 4 && s[4] == '-' && s[7] == '-' {
		return false // a time
	}
	if bytes.ContainsAny(s, " \t") && changes < 3 {
		return false
	}
	if v.variable {
		return true
	}
	password := bytes.Contains(upper, []byte("PASS")) || bytes.Contains(upper, []byte("SECRET"))
	letters := !bytes.ContainsFunc(s, func(r rune) bool { return r >= '0' && r <= '9' })
	switch {
	case password && v.quoted:
		return !letters || !environ.Secret(lower, "")
	case password:
		return !letters
	case v.quoted:
		return changes >= 3 || 3*mixed(s) >= len(s)
	}
	return changes >= 3 && len(s) >= 16 && !environ.Secret(lower, "")
}

// changes counts the changes between letters and digits.
func changes(s []byte) (n int) {
	const letter, digit = 1, 2
	last := 0
	for _, b := range s {
		this := 0
		switch {
		case b >= '0' && b <= '9':
			this = digit
		case alnum[b]:
			this = letter
		}
		if this != 0 && last != 0 && this != last {
			n++
		}
		if this != 0 {
			last = this
		}
	}
	return n
}

// mixed counts the changes between small letters and capitals, which are many in
// Base64 and few in names.
func mixed(s []byte) (n int) {
	for i, b := range s[1:] {
		if alnum[b] && alnum[s[i]] && b > '9' && s[i] > '9' && b&0x20 != s[i]&0x20 {
			n++
		}
	}
	return n
}
