package wire

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const hidden = "[hidden]"

// mask takes secrets out of text that somebody else wrote: providers and
// proxies repeat keys and whole headers in their errors.
type mask struct{ secrets *strings.Replacer }

// shortSecret is the length below which a key is not searched for: such a key
// is a placeholder for a server that wants none, and hiding each "x" would
// garble the text.
const shortSecret = 4

// authorization finds credentials by the words before them.
var authorization = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9+/_.~=-]{16,}|\b((?:authorization|x-api-key|api-key)["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?)[A-Za-z0-9+/_.~=-]{4,}`)

func newMask(key string, user *url.Userinfo, more ...string) mask {
	secrets := append([]string{key}, more...)
	if password, ok := user.Password(); ok {
		secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)), password)
	}
	var pairs []string
	for _, s := range secrets {
		if len(s) < shortSecret {
			continue
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			quoted = []byte(`""`) // cannot be: a string always encodes
		}
		for _, form := range []string{
			s, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s),
			strings.ToUpper(s), base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
		} {
			if form != "" {
				pairs = append(pairs, form, hidden)
			}
		}
	}
	return mask{strings.NewReplacer(pairs...)}
}

// text makes foreign text fit for an error: no secret, one line, no control
// characters, at most limit bytes.
func (m mask) text(s string, limit int) string {
	s = m.secrets.Replace(s)
	s = authorization.ReplaceAllString(s, "$1$2"+hidden)
	return oneLine(s, limit)
}

// oneLine makes white space and control characters single blanks, drops what
// changes the direction of text, and cuts at limit bytes.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
