package files

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// editInput is the input of edit.
type editInput struct {
	Path     string `json:"path"`
	Old      string `json:"old"`
	New      string `json:"new"`
	Expected *int64 `json:"expected_replacements,omitzero"`
}

// check is the error for arguments that cannot be carried out, and sets the
// default of Expected.
func (in *editInput) check() error {
	if in.Expected == nil {
		in.Expected = new(int64(1))
	}
	switch {
	case in.Old == "":
		return fail(InvalidInput, "old is empty: give the text to replace.")
	case *in.Expected < 1:
		return fail(InvalidInput, "expected_replacements is %d: it must be 1 or more.", *in.Expected)
	}
	return nil
}

// edit replaces a text that stands in the file in.Expected times. The rest of the
// file keeps every byte.
func (o *operation) edit(path string, in editInput) (Reply, error) {
	t, err := o.claim(path)
	if err != nil {
		return Reply{}, asError(err, PathError, path)
	}
	defer t.close()
	if t.info == nil {
		return Reply{}, fail(PathError, "File not found: %s", path)
	}
	before, err := t.readAll(EditMax)
	if errors.Is(err, errTooLarge) {
		return Reply{}, fail(ReadError, "%s is larger than the %d MiB that edit takes: change it with bash", t.path, EditMax>>20)
	}
	if err != nil {
		return Reply{}, asError(err, ReadError, t.path)
	}
	after, err := in.apply(before, t.path)
	if err != nil {
		return Reply{}, err
	}
	if err := t.writable(); err != nil {
		return Reply{}, asError(err, WriteError, t.path)
	}
	diff := compareEdit(label(o.root, t.path), before, in)
	if err := o.change(t, sum([]byte(before)), after, diff); err != nil {
		return Reply{}, err
	}
	return Reply{Data: Edited{t.path, *in.Expected}, Diff: diff}, nil
}

// apply returns the text of the file at path with its replacements.
func (in editInput) apply(text, path string) (string, error) {
	if i := badByte(text); i >= 0 {
		return "", fail(ReadError, "%s is not text: byte 0x%02x at offset %d is not UTF-8. Change it with bash", path, text[i], i)
	}
	n := int64(strings.Count(text, in.Old))
	switch {
	case n == 0:
		return "", fail(OldNotFound, "old was not found in %s (0 occurrences). %s", path, advice(text, in.Old))
	case n != *in.Expected:
		return "", fail(CountMismatch, "old was found %d times in %s, expected %d: %s. Give more of the text around it, or set expected_replacements to %d",
			n, path, *in.Expected, places(text, in.Old), n)
	case int64(len(text))+n*int64(len(in.New)-len(in.Old)) > EditMax:
		return "", fail(WriteError, "%s would become larger than the %d MiB that edit takes: change it with bash", path, EditMax>>20)
	}
	return strings.ReplaceAll(text, in.Old, in.New), nil
}

// places lists the lines of text in which the first occurrences of old begin.
func places(text, old string) string {
	const most = 10
	var list []string
	line := 1
	for len(list) <= most {
		before, after, found := strings.Cut(text, old)
		if !found {
			break
		}
		line += strings.Count(before, "\n")
		list = append(list, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		text = after
	}
	if len(list) > most {
		list[most] = "…"
	}
	if len(list) == 1 {
		return "in line " + list[0]
	}
	return "in lines " + strings.Join(list, ", ")
}

const (
	closestMax = 3       // lines shown
	searchMax  = 4 << 20 // bytes of a file searched for close lines
	lineMax    = 200     // bytes of a line compared and shown
	closeness  = 0.45    // least similarity that is shown
)

// advice is a hint about a text that is not in the file.
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

// missingLine returns the first line of old that is not in text, or the first that
// is not blank if all are there. where names it.
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

// near is a line similar to the wanted one.
type near struct {
	number     int
	text       string
	similarity float64
}

// closest lists the lines most similar to wanted, best first, each with its number.
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

// insert keeps the best lines in order, the earlier of equal ones first.
func insert(found []near, n near) []near {
	i, _ := slices.BinarySearchFunc(found, n, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.number, b.number))
	})
	found = slices.Insert(found, i, n)
	return found[:min(len(found), closestMax)]
}

// beginning cuts line to lineMax bytes, at the end of a character.
func beginning(line string) string {
	if len(line) <= lineMax {
		return line
	}
	return line[:wholeCharacters([]byte(line[:lineMax]))]
}

// matcher measures the similarity of lines with the wanted one by their common
// bigrams of bytes, without case and surrounding blanks. A line that nearly
// contains the wanted one counts as similar, too.
type matcher struct {
	exact  string
	wanted string
	pairs  [1 << 16]uint16 // how often each bigram is in the wanted line
}

func newMatcher(wanted string) *matcher {
	exact := strings.TrimSpace(beginning(wanted))
	m := &matcher{exact: exact, wanted: strings.ToLower(exact)}
	for i := range len(m.wanted) - 1 {
		m.pairs[pair(m.wanted, i)]++
	}
	return m
}

// pair is the number of the bigram at i.
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
	if contained := shared / float64(len(m.wanted)-1); contained >= 0.75 {
		return 0.9 * max(dice, contained)
	}
	return 0.9 * dice
}

// shared counts the common bigrams, each as often as both lines have it.
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
