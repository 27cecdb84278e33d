// Package hook runs the commands that a host, a user or a project has configured for the
// events of a turn: it parses settings files, selects the hooks of an event, runs them by
// exc, and composes their results. What a hook prints is untrusted text.
package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"zino/pkg/text"
	"zino/proto"
)

// Limits of the time of a hook, in milliseconds.
const (
	TimeoutDefault = 60_000
	TimeoutMin     = 100
	TimeoutMax     = 600_000
)

const (
	timeoutsMax = 3    // after which a hook is off for the session
	hooksMax    = 1000 // of a Set
	nameMax     = 30   // characters of a command that stand for it
)

// Set is the hooks of a turn. Its methods may be called concurrently.
type Set struct {
	hooks []*compiled

	mu       sync.Mutex
	timeouts map[string]int // by command
}

// compiled is a hook with its matcher.
type compiled struct {
	proto.Hook
	name  string
	whole *regexp.Regexp // nil: it matches every name
}

// Compile returns the hooks of a turn. problems names those that are not used.
func Compile(list []proto.Hook) (s *Set, problems []string) {
	s = &Set{timeouts: map[string]int{}}
	for i, h := range list {
		if i == hooksMax {
			problems = append(problems, "only the first 1000 hooks are used")
			break
		}
		c := &compiled{Hook: h, name: Name(h.Command)}
		if h.Matcher != "" && h.Matcher != "*" {
			var err error
			if c.whole, err = Matcher(h.Matcher); err != nil {
				problems = append(problems, text.VisibleLine(h.File+": hook "+c.name+" is not used: "+err.Error()))
				continue
			}
		}
		s.timeouts[h.Command] = max(s.timeouts[h.Command], h.Timeouts)
		s.hooks = append(s.hooks, c)
	}
	return s, problems
}

// Matcher compiles a matcher for whole names.
func Matcher(expr string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expr); err != nil { // else its parentheses could close those below
		return nil, err
	}
	return regexp.Compile(`^(?:` + expr + `)$`)
}

// Any reports whether the set has hooks of an event.
func (s *Set) Any(event string) bool {
	return s != nil && slices.ContainsFunc(s.hooks, func(c *compiled) bool { return canonical(c.Event) == event })
}

// matching returns the hooks of an event for any of the names, each command once.
func (s *Set) matching(event string, names []string) (list []*compiled) {
	if s == nil {
		return nil
	}
	for _, c := range s.hooks {
		if canonical(c.Event) == event && c.matches(names) && !s.isOff(c) &&
			!slices.ContainsFunc(list, func(earlier *compiled) bool { return earlier.Command == c.Command }) {
			list = append(list, c)
		}
	}
	return list
}

func (c *compiled) matches(names []string) bool {
	return c.whole == nil || len(names) == 0 || slices.ContainsFunc(names, c.whole.MatchString)
}

// isOff reports whether a hook was stopped for its time too often.
func (s *Set) isOff(c *compiled) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.OnFailure != proto.HookBlock && s.timeouts[c.Command] >= timeoutsMax
}

// timedOut counts a timeout of a command, and returns the sum.
func (s *Set) timedOut(command string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeouts[command]++
	return s.timeouts[command]
}

// canonical returns the name under which an event is known here.
func canonical(event string) string {
	if event == proto.HookPreCompact {
		return proto.HookPreHandoff
	}
	return event
}

// Sum returns the hash by which the timeouts of a command are counted.
func Sum(command string) string {
	sum := sha256.Sum256([]byte(command))
	return hex.EncodeToString(sum[:])
}

// Name returns the short name of a command: the last component of its first word that is
// a path, else its first characters.
func Name(command string) string {
	for word := range strings.FieldsSeq(command) {
		if strings.Contains(word, "/") {
			if base := path.Base(strings.Trim(word, `"'`)); base != "/" && base != "." {
				return text.VisibleLine(text.Clip(base, nameMax))
			}
		}
	}
	return text.VisibleLine(text.Clip(text.OneLine(command), nameMax))
}
