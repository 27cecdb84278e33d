package measure

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Words generates texts whose words have a Zipf distribution, as in natural language.
// Two of them generate the same.
type Words struct{ zipf *rand.Zipf }

// NewWords returns a generator with a vocabulary of 50,000 words.
func NewWords() Words {
	return Words{rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 50_000)}
}

// Next returns the rank of the next word.
func (w Words) Next() uint64 { return w.zipf.Uint64() }

// Text returns n words.
func (w Words) Text(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = word(w.Next())
	}
	return strings.Join(list, " ")
}

// Texts returns count texts of n words.
func (w Words) Texts(count, n int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = w.Text(n)
	}
	return list
}

// word returns a word of letters, several of which are forms of one stem.
func word(n uint64) string {
	ending := [...]string{"n", "ning", "ns"}[n%3]
	text := ""
	for n /= 3; text == "" || n > 0; n /= 80 {
		text += "bcdfghklmnprstvz"[n%16:n%16+1] + "aeiou"[n/16%5:n/16%5+1]
	}
	return text + ending
}

// WriteMemories writes texts as the hard memories of a data directory.
func WriteMemories(dir string, texts []string) error {
	lines := make([]string, len(texts))
	for i, text := range texts {
		lines[i] = `{"messages":[{"role":"user","content":"` + text + `"}],"tag":"","time":"2026-01-01T00:00:00Z"}`
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "hard_memories.json"), []byte("[\n"+strings.Join(lines, ",\n")+"\n]"), 0o600)
}
