package assemble

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestBuildProperty: whatever the budgets and what there is, a context is a
// list of whole skills, whole memories and an end of the history, in that order
// and each within its budget, and says nothing twice.
func TestBuildProperty(t *testing.T) {
	b := newBench(t)
	eachPair("s", 4, func(name, pair string) { b.skill(name, pair) })
	b.startMem()
	b.start()
	for range 300 {
		s := b.service
		s.exampleBudget, s.memoryBudget, s.historyBudget = budget(rand.IntN(300)), budget(rand.IntN(300)), budget(rand.IntN(300))
		s.examples.Store(nil)
		var found, past []string
		eachPair("m", rand.IntN(5), func(_, pair string) { found = append(found, memorized(pair)) })
		eachPair("h", rand.IntN(8), func(_, pair string) { past = append(past, pair) })
		if len(past) > 0 {
			found = append(found, memorized(past[rand.IntN(len(past))]), memorized(past[len(past)-1]))
		}
		b.mem.memories, b.mem.history = memories(found...), history(list(past...))
		b.checkParts(b.build("c", "hi"), list(past...))
	}
}

// eachPair makes n questions with answers, each of a size.
func eachPair(letter string, n int, use func(name, pair string)) {
	for i := range n {
		name := fmt.Sprint(letter, i)
		use(name, pair(name, 50+rand.IntN(400)))
	}
}

// memorized gives each message of a list a key that tells it from others which
// say the same.
func memorized(list string) string {
	return strings.ReplaceAll(list, `{"role"`, `{"memory":1,"role"`)
}

// whole is what a context looks like: pairs of skills, of memories, of a history.
var whole = regexp.MustCompile(`^(s\d\? s\d! )*(M\w\d\? M\w\d! )*(h\d\? h\d! )*$`)

// checkParts checks the order of a context and the sizes of its parts.
func (b *bench) checkParts(got, past string) {
	b.t.Helper()
	var messages []json.RawMessage
	must(b.t, json.Unmarshal([]byte(got), &messages))
	parts := map[string][]string{}
	var all strings.Builder
	for _, m := range messages {
		name, part := names(b.t, "["+string(m)+"]"), ""
		if part = name[:1]; strings.HasPrefix(string(m), `{"memory"`) {
			part, name = "M", "M"+name
		}
		parts[part] = append(parts[part], string(m))
		all.WriteString(name + " ")
	}
	if !whole.MatchString(all.String()) {
		b.t.Errorf("out of order: %s", &all)
	}
	b.checkEnd(parts["h"], past)
	b.checkRepeats(all.String())
	s := b.service
	for part, budget := range map[string]budget{"s": s.exampleBudget, "M": s.memoryBudget, "h": s.historyBudget} {
		size := len(strings.Join(parts[part], ","))
		if !budget.holds(size) && (part != "h" || len(parts["h"]) != 2) {
			b.t.Errorf("%s has %d bytes, %d tokens are allowed: %s", part, size, budget, &all)
		}
	}
}

// checkEnd: of a history that is not empty at least the last exchange is sent.
func (b *bench) checkEnd(sent []string, past string) {
	b.t.Helper()
	if !strings.HasSuffix(past, strings.Join(sent, ",")+"]") || past != "[]" && len(sent) < 2 {
		b.t.Errorf("sent is %s of %s", sent, past)
	}
}

// checkRepeats: no message stands twice.
func (b *bench) checkRepeats(all string) {
	b.t.Helper()
	seen := map[string]bool{}
	for name := range strings.FieldsSeq(strings.ReplaceAll(all, "M", "")) {
		if seen[name] {
			b.t.Errorf("%s stands twice: %s", name, all)
		}
		seen[name] = true
	}
}
