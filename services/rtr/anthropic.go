package rtr

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"zino/pkg/keys"
)

// The variables of Anthropic's own clients beside that of the key. Both hold
// secrets.
const (
	tokenVariable   = "ANTHROPIC_AUTH_TOKEN"
	headersVariable = "ANTHROPIC_CUSTOM_HEADERS"
)

// credential finds the key of a provider, or the token that stands in its place
// where Anthropic has no key.
func (s *Service) credential(account keys.Account, first bool) (key string, token bool, err error) {
	key, _, err = s.secretFor(account, first, true)
	if key != "" || err != nil || account.Name != "anthropic" {
		return key, false, err
	}
	if key, err = keys.Clean(s.set.getenv(tokenVariable)); err != nil {
		return "", false, fmt.Errorf("%s: %w", tokenVariable, err)
	}
	return key, key != "", nil
}

// ownHeaders are those that no user's header takes the place of: what says who
// asks, how the body is written, and what belongs to one connection.
var ownHeaders = []string{
	"X-Api-Key", "Authorization", "Host", "Accept-Encoding", "Connection", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Trailers", "Transfer-Encoding", "Upgrade",
}

// customHeaders reads "Name: value" lines. What is not sent is a problem that
// does not repeat the value.
func customHeaders(text string) (header http.Header, problems []string) {
	header = http.Header{}
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := readHeader(line)
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf(`%s, line %d is not "Name: value" and is not sent: repair it`, headersVariable, n))
		case slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "Content-"):
			problems = append(problems, fmt.Sprintf("%s, line %d: %s is for zino-rtr to set and is not sent: remove it", headersVariable, n, name))
		default:
			header.Add(name, value)
		}
	}
	return header, problems
}

// readHeader reads a line that can be sent as a header.
func readHeader(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || strings.ContainsFunc(name, notInName) || strings.ContainsFunc(value, notInValue) {
		return "", "", false
	}
	return textproto.CanonicalMIMEHeaderKey(name), value, true
}

// notInName and notInValue are what RFC 9110 leaves out of a header.
func notInName(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

func notInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
