package mask

import (
	"bytes"
	"encoding/base64"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"zino/pkg/environ"
)

// Lengths in bytes: up to maxSecret a shape is masked as one secret, and its first
// maxSample bytes decide whether it looks like one.
const (
	maxSecret = 8 << 10
	maxSample = 256
)

// A class is a set of bytes.
type class [256]bool

// chars returns the class of the letters, digits and the characters of more.
func chars(more string) (c class) {
	for b := range c {
		ch := byte(b)
		c[b] = ch >= '0' && ch <= '9' || ch >= 'A' && ch <= 'Z' || ch >= 'a' && ch <= 'z' || strings.IndexByte(more, ch) >= 0
	}
	return c
}

func only(set string) (c class) {
	for _, b := range []byte(set) {
		c[b] = true
	}
	return c
}

var (
	upperDigits = only("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	alnum       = chars("")
	wordChar    = chars("_")
	dashed      = chars("_-")
	dotted      = chars("_-.")
	base64Char  = chars("+/=")
	nameChar    = chars("_-.")
	escapedPEM  = chars("+/=\\ :,-")
	bearerChar  = chars("._~+/=-")
)

// run returns the number of bytes of class c at the start of text, up to maxSecret.
func (c *class) run(text []byte) int {
	for i, b := range text[:min(len(text), maxSecret)] {
		if !c[b] {
			return i
		}
	}
	return min(len(text), maxSecret)
}

// A token is a secret with a prefix of its own and at least min characters behind it.
type token struct {
	kind   kind
	prefix string
	chars  *class
	min    int
}

var tokens = []token{
	{kindGitHub, "ghp_", &alnum, 30},
	{kindGitHub, "gho_", &alnum, 30},
	{kindGitHub, "ghu_", &alnum, 30},
	{kindGitHub, "ghs_", &dotted, 30},
	{kindGitHub, "ghr_", &alnum, 30},
	{kindGitHub, "github_pat_", &wordChar, 22},
	{kindGitLab, "glpat-", &dotted, 20},
	{kindGitLab, "gldt-", &dotted, 20},
	{kindGitLab, "glrt-", &dotted, 20},
	{kindGitLab, "glptt-", &dotted, 20},
	{kindGitLab, "glcbt-", &dotted, 20},
	{kindGitLab, "glft-", &dotted, 20},
	{kindGitLab, "glsoat-", &dotted, 20},
	{kindGitLab, "glimt-", &dotted, 20},
	{kindGitLab, "glagent-", &dotted, 20},
	{kindSlack, "xoxa-", &dashed, 10},
	{kindSlack, "xoxb-", &dashed, 10},
	{kindSlack, "xoxe-", &dashed, 10},
	{kindSlack, "xoxe.xox", &dashed, 10},
	{kindSlack, "xoxo-", &dashed, 10},
	{kindSlack, "xoxp-", &dashed, 10},
	{kindSlack, "xoxr-", &dashed, 10},
	{kindSlack, "xoxs-", &dashed, 10},
	{kindSlack, "xapp-", &dashed, 10},
	{kindSlack, "hooks.slack.com/services/", &base64Char, 20},
	{kindStripe, "sk_live_", &alnum, 16},
	{kindStripe, "sk_test_", &alnum, 16},
	{kindStripe, "rk_live_", &alnum, 16},
	{kindStripe, "rk_test_", &alnum, 16},
	{kindStripe, "whsec_", &base64Char, 16},
	{kindGoogle, "AIza", &dashed, 35},
	{kindGoogle, "ya29.", &dotted, 20},
	{kindGoogle, "GOCSPX-", &dashed, 20},
	{kindGoogle, "1//0", &dashed, 30},
	{kindNPM, "npm_", &alnum, 30},
	{kindPyPI, "pypi-", &dashed, 50},
	{kindDocker, "dckr_pat_", &dashed, 20},
	{kindDocker, "dckr_oat_", &dashed, 20},
	{kindHF, "hf_", &alnum, 30},
	{kindHF, "api_org_", &alnum, 30},
	{kindOpenAI, "sk-proj-", &dashed, 20},
	{kindOpenAI, "sk-svcacct-", &dashed, 20},
	{kindOpenAI, "sk-admin-", &dashed, 20},
	{kindClaude, "sk-ant-", &dashed, 20},
	{kindRouter, "sk-or-", &dashed, 20},
	{kindAPIKey, "sk-", &dashed, 20},
	{kindAPIKey, "gsk_", &alnum, 30},
	{kindAPIKey, "xai-", &alnum, 30},
	{kindAge, "AGE-SECRET-KEY-1", &upperDigits, 40},
	{kindAge, "AGE-PLUGIN-", &dashed, 30},
}

func (t token) find(text []byte, pos int) (span, bool) {
	rest := text[pos+len(t.prefix):]
	n := t.chars.run(rest)
	for n > 0 && rest[n-1] == '.' {
		n--
	}
	if n < t.min || t.prefix == "sk-" && inWord(text, pos) {
		return span{}, false
	}
	if sample := rest[:min(n, maxSample)]; entropy(sample) < 2.5 || t.chars['-'] && plain(sample) {
		return span{}, false
	}
	return secretAt(t.kind, pos, pos, pos+len(t.prefix)+n), true
}

func secretAt(k kind, at, from, to int) span { return span{at: at, from: from, to: to, kind: k} }

// plain reports whether s has neither digits nor capitals, as words with dashes.
func plain(s []byte) bool {
	return !bytes.ContainsFunc(s, func(r rune) bool { return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' })
}

// inWord reports whether text[pos] continues a word. The letter of an escaped
// character, as in "\n", does not continue one.
func inWord(text []byte, pos int) bool {
	return pos > 0 && dashed[text[pos-1]] && (pos < 2 || text[pos-2] != '\\')
}

// entropy returns the Shannon entropy of the first bytes of s in bits per byte.
func entropy(s []byte) float64 {
	s = s[:min(len(s), maxSample)]
	if len(s) == 0 {
		return 0
	}
	var counts [256]uint16
	for _, b := range s {
		counts[b]++
	}
	sum := 0.0
	for _, b := range s {
		sum += products[counts[b]]
		counts[b] = 0
	}
	return math.Log2(float64(len(s))) - sum/float64(len(s))
}

// products are n*log2(n).
var products = func() (p [maxSample + 1]float64) {
	for n := 2; n <= maxSample; n++ {
		p[n] = float64(n) * math.Log2(float64(n))
	}
	return p
}()

// A literal is what a line has if it has a shape. find looks at the shape of the
// literal at text[pos:], within its line.
type literal struct {
	id   int
	text string // in lower case with fold
	fold bool
	ends bool                                    // no letter follows
	find func(text []byte, pos int) (span, bool) // nil: the first line of a private key
}

// grams index the literals by their first three bytes with bit 0x20 set, which makes
// lower case of letters.
type grams struct {
	bucket [1 << 13]uint8 // by hash, index of lists
	lists  [][]gram
	count  int // of literals
}

type gram struct {
	bytes   uint32
	literal *literal
}

func hashGram(g uint32) uint32 { return g * 0x9E3779B1 >> 19 }

// literals are indexed on first use: not every program that can mask does.
var literals = sync.OnceValue(compile)

func compile() *grams {
	g := &grams{lists: [][]gram{nil}}
	for _, t := range tokens {
		g.add(literal{text: t.prefix, find: t.find})
	}
	for _, prefix := range []string{"AKIA", "ASIA", "ABIA", "ACCA"} {
		g.add(literal{text: prefix, find: findAWS})
		g.add(literal{text: prefix, find: findAWSSecret})
	}
	g.add(literal{text: begin[5:]})
	g.add(literal{text: "eyJ", find: findJWT})
	g.add(literal{text: "LS0tLS1CRUdJTiB", find: findEncodedPEM})
	g.add(literal{text: "b3BlbnNzaC1rZXktdjE", find: findOpenSSH})
	g.add(literal{text: "://", find: findURL})
	g.add(literal{text: "authorization", fold: true, find: findAuthorization})
	g.add(literal{text: "bearer ", fold: true, find: findBearer})
	g.add(literal{text: "cookie", fold: true, find: findCookie})
	g.add(literal{text: "password ", fold: true, find: findNetrc})
	g.add(literal{text: "password\t", fold: true, find: findNetrc})
	parts, ends := environ.Marks()
	for _, part := range parts {
		g.add(literal{text: strings.ToLower(part), fold: true, find: findNamed})
	}
	for _, end := range ends {
		end = strings.ToLower(end)
		if len(end) > 2 {
			g.add(literal{text: end, fold: true, ends: true, find: findNamed})
			continue
		}
		for _, next := range []byte("=:\"'`\\ \t_-.0123456789") {
			g.add(literal{text: end + string(next), fold: true, find: findNamed})
		}
	}
	return g
}

func (g *grams) add(l literal) {
	l.id = g.count
	g.count++
	var w uint32
	for _, b := range []byte(l.text[:3]) {
		w = w<<8 | uint32(b|0x20)
	}
	h := hashGram(w)
	if g.bucket[h] == 0 {
		g.bucket[h] = uint8(len(g.lists))
		g.lists = append(g.lists, nil)
	}
	list := &g.lists[g.bucket[h]]
	*list = append(*list, gram{w, &l})
}

// at reports whether the literal is at text[pos:].
func (l *literal) at(text []byte, pos int) bool {
	if len(text)-pos < len(l.text) {
		return false
	}
	for i, b := range []byte(l.text) {
		c := text[pos+i]
		if l.fold && c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != b {
			return false
		}
	}
	next := pos + len(l.text)
	return !l.ends || next == len(text) || !alnum[text[next]] || text[next] <= '9'
}

// findShapes returns the shapes of a text up to the first line of a PEM private key,
// whose place is pem; -1 without one.
func (m *Masker) findShapes(text []byte) (spans []span, pem int) {
	pem = -1
	var w uint32
	index := literals()
	done := make([]int, index.count) // by literal, the end of its last span
scan:
	for i, b := range text {
		w = (w<<8 | uint32(b|0x20)) & 0xffffff
		bucket := index.bucket[hashGram(w)]
		if bucket == 0 {
			continue
		}
		for _, g := range index.lists[bucket] {
			pos := i - 2
			if g.bytes != w || pos < done[g.literal.id] || !g.literal.at(text, pos) {
				continue
			}
			if g.literal.find != nil {
				if s, ok := g.literal.find(text, pos); ok {
					spans = append(spans, s)
					done[g.literal.id] = s.to
				}
			} else if pos -= 5; pos >= 0 && markerLength(text[pos:]) > 0 {
				pem = pos
				break scan
			}
		}
	}
	allowed := func(s span) bool {
		return slices.ContainsFunc(m.allow, func(re *regexp.Regexp) bool { return re.Match(text[s.from:s.to]) })
	}
	return slices.DeleteFunc(spans, allowed), pem
}

// findAWS finds an access key of AWS.
func findAWS(text []byte, pos int) (span, bool) {
	if n := upperDigits.run(text[pos:min(len(text), pos+21)]); n != 20 || pos > 0 && alnum[text[pos-1]] && !escaped(text, pos) {
		return span{}, false
	}
	return secretAt(kindAWSKey, pos, pos, pos+20), true
}

// findAWSSecret finds the secret key on the line of an access key: 40 characters that
// have no form of their own.
func findAWSSecret(text []byte, pos int) (span, bool) {
	if _, ok := findAWS(text, pos); !ok {
		return span{}, false
	}
	for from := pos + 20; from < min(len(text), pos+512) && text[from] != '\n'; from++ {
		n := base64Char.run(text[from:])
		if n == 40 && !plain(text[from:from+n]) && entropy(text[from:from+n]) > 4 {
			return secretAt(kindAWS, pos, from, from+n), true
		}
		from += n
	}
	return span{}, false
}

// escaped reports whether the byte before text[pos] is the letter of an escape, as
// in "\n".
func escaped(text []byte, pos int) bool { return pos >= 2 && text[pos-2] == '\\' }

// findJWT finds a JSON Web Token: parts of Base64 with dots, the first a JSON object.
func findJWT(text []byte, pos int) (span, bool) {
	n := dashed.run(text[pos:])
	if n < 12 {
		return span{}, false
	}
	parts := 1
	for ; parts < 5 && pos+n < len(text) && text[pos+n] == '.'; parts++ {
		part := dashed.run(text[pos+n+1:])
		if parts == 1 && part < 8 {
			break
		}
		n += 1 + part
	}
	return secretAt(kindJWT, pos, pos, pos+n), parts > 1
}

// findEncodedPEM finds a private key whose PEM form was encoded in Base64 once more,
// as in secrets of Kubernetes.
func findEncodedPEM(text []byte, pos int) (span, bool) {
	n := base64Char.run(text[pos:])
	head := make([]byte, 48)
	_, _ = base64.StdEncoding.Decode(head, text[pos:pos+min(n, 64)&^3])
	return secretAt(kindPEM, pos, pos, pos+n), bytes.Contains(head, []byte(private))
}

// findOpenSSH finds the body of an OpenSSH key without its first line.
func findOpenSSH(text []byte, pos int) (span, bool) {
	n := base64Char.run(text[pos:])
	return secretAt(kindPEM, pos, pos, pos+n), n >= 40
}

// findURL finds the password of a URL, or a token in the place of its user.
func findURL(text []byte, pos int) (span, bool) {
	from := pos + len("://")
	rest := text[from:min(len(text), from+1024)]
	if end := bytes.IndexAny(rest, "/?# \t\r\n\"'`<>\\"); end >= 0 {
		rest = rest[:end]
	}
	n := bytes.LastIndexByte(rest, '@')
	if n < 0 {
		return span{}, false
	}
	user, password, found := bytes.Cut(rest[:n], []byte(":"))
	if !found {
		return secretAt(kindPassword, pos, from, from+n), n >= 16 && !plain(user) && !template(user) && entropy(user) >= 3
	}
	return secretAt(kindPassword, pos, from+len(user)+1, from+n), len(password) >= 3 && !template(password)
}

// schemes of the Authorization header with the credentials in one word.
var schemes = []string{"bearer", "basic", "token", "negotiate", "ntlm", "apikey", "api-key", "key", "dpop", "bot"}

// findAuthorization finds the credentials of an Authorization header, in a message,
// a command or a member of JSON.
func findAuthorization(text []byte, pos int) (span, bool) {
	value, end, ok := afterName(text, pos+len("authorization"), ":=")
	if !ok {
		return span{}, false
	}
	from := value
	n := dashed.run(text[value:end])
	if scheme := strings.ToLower(string(text[value : value+n])); value+n < end && text[value+n] == ' ' {
		from += n + 1
		word := bytes.IndexAny(text[from:end], " ,;)")
		switch {
		case slices.Contains(schemes, scheme):
			if word >= 0 {
				end = from + word
			}
		case scheme == "digest" || strings.HasPrefix(scheme, "aws4-"):
		default:
			return span{}, false
		}
	} else {
		if word := bytes.IndexAny(text[from:end], " ,;)"); word >= 0 {
			end = from + word
		}
		if secret := text[from:end]; digits(secret) == 0 || bearerChar.run(secret) < len(secret) {
			return span{}, false
		}
	}
	secret := text[from:end]
	return secretAt(kindAuth, pos, from, end), len(secret) >= 8 && !template(secret) && entropy(secret) >= 2.5
}

// findBearer finds a bearer token without its header.
func findBearer(text []byte, pos int) (span, bool) {
	from := pos + len("bearer ")
	n := bearerChar.run(text[from:])
	secret := text[from : from+n]
	return secretAt(kindAuth, pos, from, from+n), n >= 16 && digits(secret) > 0 && !template(secret) && entropy(secret) >= 3
}

// findCookie finds the values of a Cookie header, or the one of Set-Cookie.
func findCookie(text []byte, pos int) (span, bool) {
	value, end, ok := afterName(text, pos+len("cookie"), ":")
	if !ok {
		return span{}, false
	}
	if pos >= 4 && bytes.EqualFold(text[pos-4:pos], []byte("set-")) {
		if i := bytes.IndexByte(text[value:end], ';'); i >= 0 {
			end = value + i
		}
	}
	i := bytes.IndexByte(text[value:end], '=')
	if i < 1 || wordChar.run(text[value:]) == 0 || bytes.IndexByte(text[value:value+i], ' ') >= 0 {
		return span{}, false
	}
	secret := text[value+i+1 : end]
	return secretAt(kindCookie, pos, value+i+1, end), len(secret) >= 8 && !template(secret)
}

// afterName returns the value of a header whose name ends at pos: up to the end of
// the line, or to a quote.
func afterName(text []byte, pos int, separators string) (from, end int, ok bool) {
	text = text[:min(len(text), pos+maxNamed)]
	from = pos
	skip := func(set string) {
		for from < len(text) && strings.IndexByte(set, text[from]) >= 0 {
			from++
		}
	}
	skip("\\\"'")
	skip(" ")
	if from == len(text) || strings.IndexByte(separators, text[from]) < 0 {
		return 0, 0, false
	}
	from++
	skip(" \t[")
	skip("\\\"'`")
	end = len(text)
	if i := bytes.IndexAny(text[from:], "\r\n\"'`\\"); i >= 0 {
		end = from + i
	}
	return from, end, from < end
}

// findNetrc finds a password of a .netrc file.
func findNetrc(text []byte, pos int) (span, bool) {
	lo := max(0, pos-512)
	before := text[lo:pos]
	before = before[bytes.LastIndexByte(before, '\n')+1:]
	from := pos + len("password ")
	for from < len(text) && (text[from] == ' ' || text[from] == '\t') {
		from++
	}
	end := min(len(text), from+maxSecret)
	if i := bytes.IndexAny(text[from:end], " \t\r\n\"\\"); i >= 0 {
		end = from + i
	}
	secret := text[from:end]
	if len(secret) < 4 || template(secret) {
		return span{}, false
	}
	if !bytes.Contains(before, []byte("machine ")) && !bytes.Contains(before, []byte("login ")) {
		// A line of its own has these two words only, behind the sign of a diff.
		before = bytes.TrimLeft(before, "+-")
		rest, _, _ := bytes.Cut(text[end:], []byte("\n"))
		if len(bytes.TrimSpace(before)) > 0 || len(bytes.TrimSpace(rest)) > 0 || plain(secret) {
			return span{}, false
		}
	}
	return secretAt(kindPassword, pos, from, end), true
}

func digits(s []byte) (n int) {
	for _, b := range s {
		if b >= '0' && b <= '9' {
			n++
		}
	}
	return n
}
