package undo

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"zino/pkg/zinotest"
)

// FuzzRecord reads lines of a record: what is accepted names no place outside of its
// root, and is accepted again.
func FuzzRecord(f *testing.F) {
	f.Add(`{"root":"/r","path":"a/b","kind":"file","before":null,"after":{"kind":"file","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","mode":420,"uid":0,"gid":0}}`)
	f.Add(`{"path":"/a","kind":"symlink","before":{"kind":"symlink","text":"b","mode":511,"uid":1,"gid":1},"after":null,"late":true}`)
	f.Add(`{"root":"/r","path":"../a","kind":"file","before":null,"after":{"kind":"dir"}}` + "\n{}\nnull\n[]")
	f.Fuzz(func(t *testing.T, text string) {
		changes, _ := parseRecord([]byte(text))
		for _, c := range changes {
			if root, path := below(c.Root, c.Path); !filepath.IsLocal(path) || path == "." || !filepath.IsAbs(root) {
				t.Fatalf("the place is %q, %q", root, path)
			}
			line, err := json.Marshal(c)
			zinotest.Must(t, err)
			if again, problems := parseRecord(line); len(again) != 1 {
				t.Fatalf("%s is refused: %v", line, problems)
			}
		}
		list, _ := net(changes)
		if len(list) > len(changes) {
			t.Fatalf("%d changes became %d", len(changes), len(list))
		}
	})
}

// FuzzPlan reads plans: no step and no temporary file lies outside of its root.
func FuzzPlan(f *testing.F) {
	f.Add(`{"turn":"t-1","state":"go","ts":"","steps":[{"root":"/r","path":"a","from":null,"to":{"kind":"dir","mode":493,"uid":0,"gid":0},"temp":".zino-undo-x"}]}`)
	f.Add(`{"turn":"t-1","state":"prepare","steps":[{"path":"/a","from":{"kind":"file","mode":420},"to":null,"temp":"../.zino-undo-x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlan([]byte(text))
		if err != nil {
			return
		}
		for _, s := range p.Steps {
			if _, path := below(s.Root, s.Path); !filepath.IsLocal(path) || s.Temp != "" && !filepath.IsLocal(s.Temp) {
				t.Fatalf("a step is %+v", s)
			}
		}
	})
}

// FuzzIndex reads indexes: one that is accepted is written as it is read.
func FuzzIndex(f *testing.F) {
	f.Add(formatIndex("/r", map[string]*entry{
		"a": {kind: kindFile, mode: 0o644, size: 3, mtime: 5, ctime: -6, ino: 1 << 40, sum: hashOf("a")},
		"b": {kind: kindFile, blob: "0123456789012345678901234567890123456789", git: "/r/.git", racy: true},
		"c": {kind: kindSymlink, text: "a"}, "d": {kind: kindDir, uid: 1 << 31},
	}), "/r")
	f.Fuzz(func(t *testing.T, data []byte, root string) {
		entries, err := parseIndex(data, root)
		if err != nil || len(data) == 0 {
			return
		}
		again, err := parseIndex(formatIndex(root, entries), root)
		zinotest.Must(t, err)
		if !maps.EqualFunc(entries, again, func(a, b *entry) bool { return *a == *b }) {
			t.Fatalf("%v became %v", entries, again)
		}
	})
}

// FuzzGitIndex reads indexes of git.
func FuzzGitIndex(f *testing.F) {
	samples, err := filepath.Glob("testdata/git/*")
	if err != nil || len(samples) == 0 {
		f.Fatal("no samples", err)
	}
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, hash := range []int{20, 32} {
			files, _ := parseGitIndex(data, hash, 1<<62)
			for _, file := range files {
				if !isHex(file.blob, 2*hash) {
					t.Fatalf("the blob is %q", file.blob)
				}
			}
		}
	})
}

// TestGitIndexVersions reads the same files from an index of each version.
func TestGitIndexVersions(t *testing.T) {
	for _, name := range []string{"v2", "v3", "v4"} {
		data, err := os.ReadFile("testdata/git/" + name)
		zinotest.Must(t, err)
		files, err := parseGitIndex(data, 20, 1<<62)
		zinotest.Must(t, err)
		zinotest.Equal(t, "files of "+name, len(files), 3)
		zinotest.Equal(t, "blob of "+name, files["dir/b"].blob, "61780798228d17af2d34fce4cfbdf35556832472")
		for cut := range len(data) {
			if files, err := parseGitIndex(data[:cut], 20, 1<<62); err == nil && len(files) == 3 && cut < len(data)-200 {
				t.Fatalf("%s: %d bytes of %d are accepted", name, cut, len(data))
			}
		}
	}
}
