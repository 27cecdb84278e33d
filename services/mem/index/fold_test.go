package index

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"zino/pkg/zinotest"
)

// decompose is a Python program that prints the letters of the tables and their
// lower-case base letters without marks.
const decompose = `
import unicodedata as u
def small(c):
    c = c.upper() if len(c.upper()) == 1 else c
    return c.lower() if len(c.lower()) == 1 else c
for a, b in ((0xc0, 0x530), (0x600, 0x700), (0x1e00, 0x2000)):
    for i in range(a, b):
        c = chr(i)
        d = u.normalize('NFD', small(c))
        if u.category(c)[0] == 'L' and len(d) > 1 and all(u.category(m)[0] == 'M' for m in d[1:]):
            print('%x %x' % (i, ord(d[0])))
`

// TestAccents compares the tables with Python's decompositions.
func TestAccents(t *testing.T) {
	out, err := exec.Command("python3", "-c", decompose).Output()
	zinotest.Must(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 700 {
		t.Fatalf("only %d letters", len(lines))
	}
	for _, line := range lines {
		var r, base rune
		if _, err := fmt.Sscanf(line, "%x %x", &r, &base); err != nil {
			t.Fatal(err)
		}
		if got := string(appendFolded(nil, r)); got != string(appendFolded(nil, base)) {
			t.Errorf("%q (%U) is folded to %q, want %q", r, r, got, base)
		}
	}
}

// TestFoldKeeps checks that every letter folds to one letter.
func TestFoldKeeps(t *testing.T) {
	for r := rune(0x370); r < 0x2E80; r++ {
		if !unicode.IsLetter(r) {
			continue
		}
		got := []rune(string(appendFolded(nil, r)))
		if r != 'ẞ' && len(got) != 1 || !unicode.IsLetter(got[0]) {
			t.Errorf("%q (%U) is folded to %q", r, r, string(got))
		}
	}
	for r := rune(0xC0); r < 0x250; r++ {
		if got := string(appendFolded(nil, r)); unicode.IsLetter(r) && got == "" {
			t.Errorf("%q (%U) is folded to nothing", r, r)
		}
	}
}
