package gate

import (
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"zino/pkg/realpath"
	"zino/proto"
)

// Action is what a rule or a mode says about a call. A higher one is stricter.
type Action int

// The actions. None: no rule matched.
const (
	None Action = iota
	Allow
	Ask
	Deny
)

var actionNames = []string{"", "allow", "ask", "deny"}

func (a Action) String() string { return actionNames[a] }

// MarshalText returns the action's name.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText sets the action of that name.
func (a *Action) UnmarshalText(b []byte) error {
	i := slices.Index(actionNames[Allow:], string(b))
	if i < 0 {
		return fmt.Errorf("action must be allow, ask or deny, not %q", b)
	}
	*a = Allow + Action(i)
	return nil
}

// Grant is how far an answer to a question may reach. A lower one is narrower.
type Grant int

// The grants. The zero value, of a rule without the key, is the widest.
const (
	GrantOnce Grant = iota - 2
	GrantSession
	GrantAlways
)

var grantNames = []string{"once", "session", "always"}

func (g Grant) String() string { return grantNames[g-GrantOnce] }

// MarshalText returns the grant's name.
func (g Grant) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText sets the grant of that name.
func (g *Grant) UnmarshalText(b []byte) error {
	i := slices.Index(grantNames, string(b))
	if i < 0 {
		return fmt.Errorf("grantable must be once, session or always, not %q", b)
	}
	*g = GrantOnce + Grant(i)
	return nil
}

// level is a sandbox level in a rule.
type level struct{ text }

func (l *level) UnmarshalText(b []byte) error {
	l.text = text(b)
	_, err := proto.ParseLevel(string(b))
	return err
}

// requester is a user's name or uid in a rule.
type requester struct{ text }

// text is a pattern as it stands in the file. The types of patterns are structs, because
// the decoder of TOML does not call UnmarshalText for lists of strings.
type text string

func (t text) String() string { return string(t) }

func (t text) MarshalText() ([]byte, error) { return []byte(t), nil }

var errEmpty = errors.New("the pattern is empty: leave the key out to match everything")

func (t *text) UnmarshalText(b []byte) error {
	if *t = text(b); strings.TrimSpace(string(b)) == "" {
		return errEmpty
	}
	return nil
}

// toolPattern matches the name of a tool, such as "bash" or "mcp:files/*".
type toolPattern struct{ text }

func (p *toolPattern) UnmarshalText(b []byte) error {
	if err := p.text.UnmarshalText(b); err != nil {
		return err
	}
	if strings.ContainsAny(string(b), " \t\n") {
		return fmt.Errorf("%q is not the name of a tool: a command belongs into command", b)
	}
	return nil
}

func (p toolPattern) match(tool string) bool { return glob(string(p.text), tool) }

// glob matches a pattern in which * stands for any characters.
func glob(pattern, s string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for {
		first, rest, more = strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, first)
		}
		i := strings.Index(s, first)
		if i < 0 {
			return false
		}
		s = s[i+len(first):]
	}
}

// commandPattern matches the words of a simple command.
type commandPattern struct {
	text
	words []string
	more  bool // the pattern ends in the word *
}

func (p *commandPattern) UnmarshalText(b []byte) error {
	if err := p.text.UnmarshalText(b); err != nil {
		return err
	}
	p.words = strings.Fields(string(b))
	if last := len(p.words) - 1; p.words[last] == "*" {
		p.words, p.more = p.words[:last], true
	}
	return nil
}

// match compares the words of a command; open says that further words of unknown
// number follow.
func (p *commandPattern) match(words []word, open bool) bool {
	if len(words) < len(p.words) || !p.more && (open || len(words) > len(p.words)) {
		return false
	}
	for i, pattern := range p.words {
		if pattern != "*" && (!words[i].known || !glob(pattern, words[i].text)) {
			return false
		}
	}
	return true
}

// pathPattern matches paths: absolute, below the home directory, or relative to the
// root.
type pathPattern struct{ text }

func (p *pathPattern) UnmarshalText(b []byte) error {
	if err := p.text.UnmarshalText(b); err != nil {
		return err
	}
	name := string(b)
	switch {
	case !doublestar.ValidatePattern(name):
		return fmt.Errorf("%q is not a pattern of paths: see man zino-policy", name)
	case strings.HasPrefix(name, "~") && name != "~" && !strings.HasPrefix(name, "~/"):
		return fmt.Errorf("%q: only ~/ stands for a home directory", name)
	case slices.Contains(strings.Split(name, "/"), ".."):
		return fmt.Errorf("%q: write the path without .. in it", name)
	}
	return nil
}

// match reports whether an allow rule covers a call's path, or with strict whether a
// deny or ask rule does. An allow rule compares the real path with the pattern as it is
// written. The others also compare the path as the call has it, and follow the links at
// the start of the pattern: a link can neither widen the one nor evade the other.
func (p pathPattern) match(at location, strict bool) bool {
	pattern := p.absolute(at)
	if pattern == "" {
		return false
	}
	if at.real != "" && doublestar.MatchUnvalidated(pattern, at.real) {
		return true
	}
	if !strict {
		return false
	}
	if doublestar.MatchUnvalidated(pattern, at.path) {
		return true
	}
	base, rest := doublestar.SplitPattern(pattern)
	if !strings.ContainsAny(rest, `*?[{\`) {
		base, rest = path.Join(base, rest), ""
	}
	real, _, err := realpath.Follow(base)
	if err != nil || real == base {
		return false
	}
	pattern = path.Join(escape(real), rest)
	return doublestar.MatchUnvalidated(pattern, at.path) || at.real != "" && doublestar.MatchUnvalidated(pattern, at.real)
}

// absolute returns the pattern below the call's root or home, "" if that is unknown.
func (p pathPattern) absolute(at location) string {
	base, name := at.root, string(p.text)
	switch rest, home := strings.CutPrefix(name, "~"); {
	case home:
		base, name = at.home, rest
	case strings.HasPrefix(name, "/"):
		return path.Clean(name)
	}
	if base == "" {
		return ""
	}
	return path.Join(escape(base), name)
}

// escape returns a pattern that matches one path.
func escape(name string) string {
	if !strings.ContainsAny(name, `*?[{\`) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if strings.ContainsRune(`*?[]{}\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// location is a path of a call.
type location struct {
	path string // absolute, as the call has it
	real string // without symbolic links, "" if it cannot be resolved
	root string // of the call, without symbolic links
	home string // of the requester, "" if unknown
}

// locate resolves a path of a call.
func (c *Call) locate(name string) location {
	if !filepath.IsAbs(name) {
		name = c.Root + "/" + name // not Join: the kernel follows a link before ".."
	}
	at := location{path: filepath.Clean(name), root: c.Root, home: c.Home}
	at.real, _, _ = realpath.Follow(name) // "" on an error
	return at
}

// belowRoot reports whether the real path is the root or below it.
func (at location) belowRoot() bool {
	return at.real != "" && at.root != "" && (at.real == at.root || strings.HasPrefix(at.real, strings.TrimSuffix(at.root, "/")+"/"))
}

// hostPattern matches a host: one name, or *.NAME for its subdomains, with a port if it
// has one.
type hostPattern struct{ text }

func (p *hostPattern) UnmarshalText(b []byte) error {
	if err := p.text.UnmarshalText([]byte(strings.ToLower(string(b)))); err != nil {
		return err
	}
	name := strings.TrimPrefix(string(p.text), "*.")
	if strings.ContainsAny(name, "*/@ \t") {
		return fmt.Errorf("%q is not a host: write example.com, *.example.com or example.com:8080", b)
	}
	return nil
}

func (p hostPattern) match(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	pattern := string(p.text)
	if _, _, err := net.SplitHostPort(pattern); err != nil { // without a port
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = strings.TrimSuffix(name, ".")
		}
		host, pattern = strings.Trim(host, "[]"), strings.Trim(pattern, "[]")
	}
	if domain, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, domain) && len(host) > len(domain)
	}
	return host == pattern
}
