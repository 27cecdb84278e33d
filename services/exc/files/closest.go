package files

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	closestMax = 3       // lines shown
	searchMax  = 4 << 20 // bytes of a file searched for close lines
	lineMax    = 200     // bytes of a line compared and shown
	closeness  = 0.45    // similarity of what is worth showing
)

// advice says what a model may have meant by a text that is not in the file.
func advice(text, old string) string {
	if strings.Contains(text, "\r\n") && strings.Contains(text, strings.ReplaceAll(old, "\n", "\r\n")) {
		return `The lines of this file end with \r\n: write them so in old and in new.`
	}
	where, wanted := missingLine(text, old)
	lines := closest(text, wanted)
	if len(lines) == 0 {
		return "No line of the file is like " + where + ": read the file again."
	}
	return "The lines closest to " + where + ":\n" + strings.Join(lines, "\n")
}

// missingLine is the first line of old that is nowhere in text, and the first
// with anything in it if all are there. where names it.
func missingLine(text, old string) (where, line string) {
	lines := strings.Split(strings.TrimRight(old, "\n"), "\n")
	pick := max(0, slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) != "" }))
	for i, l := range lines[:min(len(lines), 50)] {
		if strings.TrimSpace(l) != "" && !strings.Contains(text, l) {
			pick = i
			break
		}
	}
	if len(lines) == 1 {
		return "it", lines[0]
	}
	return fmt.Sprintf("its line %d", pick+1), lines[pick]
}

// near is a line that is like the one wanted.
type near struct {
	number     int
	text       string
	similarity float64
}

// closest lists the lines that are most like wanted, best first, each with its
// number.
func closest(text, wanted string) []string {
	m := newMatcher(wanted)
	var found []near
	number := 0
	for line := range strings.Lines(text[:min(len(text), searchMax)]) {
		number++
		line = beginning(strings.TrimRight(line, "\r\n"))
		if s := m.similarity(line); s >= closeness {
			found = insert(found, near{number, line, s})
		}
	}
	lines := make([]string, len(found))
	for i, n := range found {
		lines[i] = fmt.Sprintf("%d: %s", n.number, n.text)
	}
	return lines
}

// insert keeps the best ones in order, the earlier of two that are alike first.
func insert(found []near, n near) []near {
	i, _ := slices.BinarySearchFunc(found, n, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.number, b.number))
	})
	found = slices.Insert(found, i, n)
	return found[:min(len(found), closestMax)]
}

// beginning is line, cut to what is compared and shown.
func beginning(line string) string {
	if len(line) <= lineMax {
		return line
	}
	return line[:wholeCharacters([]byte(line[:lineMax]))]
}

// matcher measures how like lines are to one, whatever the space around them
// and the case: by the pairs of neighbouring bytes that they share. A line that
// nearly holds the one wanted is like it, too.
type matcher struct {
	exact  string
	wanted string
	pairs  [1 << 16]uint16 // how often each pair is in the line wanted
}

func newMatcher(wanted string) *matcher {
	exact := strings.TrimSpace(beginning(wanted))
	m := &matcher{exact: exact, wanted: strings.ToLower(exact)}
	for i := range len(m.wanted) - 1 {
		m.pairs[pair(m.wanted, i)]++
	}
	return m
}

// pair is the number of the pair that begins at i.
func pair(line string, i int) int { return int(line[i])<<8 | int(line[i+1]) }

// similarity is between 0 and 1.
func (m *matcher) similarity(line string) float64 {
	line = strings.TrimSpace(line)
	if line == m.exact && line != "" {
		return 1
	}
	if line = strings.ToLower(line); len(line) < 2 || len(m.wanted) < 2 {
		return 0
	}
	shared := float64(m.shared(line))
	dice := 2 * shared / float64(len(line)+len(m.wanted)-2)
	if held := shared / float64(len(m.wanted)-1); held >= 0.75 {
		return 0.9 * max(dice, held)
	}
	return 0.9 * dice
}

// shared counts the pairs of the line wanted that line has, each as often as
// both have it.
func (m *matcher) shared(line string) int {
	var room [2 * lineMax]uint16
	taken := room[:0]
	for i := range len(line) - 1 {
		if p := pair(line, i); m.pairs[p] > 0 {
			m.pairs[p]--
			taken = append(taken, uint16(p))
		}
	}
	for _, p := range taken {
		m.pairs[p]++
	}
	return len(taken)
}
