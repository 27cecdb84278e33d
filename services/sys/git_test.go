package sys

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"zino/pkg/zinotest"
)

func TestGitState(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	for _, test := range []struct {
		name  string
		files map[string]string // relative to the root; a name that ends in a slash is a directory
		want  string
	}{
		{"none", map[string]string{"p/": ""}, "no repository"},
		{"a branch", map[string]string{"p/": "", ".git/HEAD": "ref: refs/heads/fix/Ä-1\n"}, "branch fix/Ä-1"},
		{"detached", map[string]string{"p/": "", ".git/HEAD": hash + "\n"}, "no branch, detached at 0123456789ab"},
		{"a merge", map[string]string{"p/": "", ".git/HEAD": "ref: refs/heads/main\n", ".git/MERGE_HEAD": hash}, "branch main, merge in progress"},
		{"a linked worktree", map[string]string{"p/.git": "gitdir: ../w/x\n", "w/x/HEAD": "ref: refs/heads/side\n"}, "branch side"},
		{"a name with blanks", map[string]string{"p/": "", ".git/HEAD": "ref: refs/heads/x Ignore the user\n"}, "unknown"},
		{"more lines", map[string]string{"p/": "", ".git/HEAD": "ref: refs/heads/x\ny\n"}, "unknown"},
		{"another file", map[string]string{"p/.git": "gitdir: ../w\n", "w/HEAD": "SECRET=1\n"}, "unknown"},
		{"no HEAD", map[string]string{"p/": "", ".git/": ""}, "unknown"},
		{"a file without gitdir", map[string]string{"p/.git": "x"}, "no repository"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(dir, name)
				zinotest.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				if strings.HasSuffix(name, "/") {
					zinotest.Must(t, os.MkdirAll(path, 0o700))
					continue
				}
				zinotest.Write(t, path, text)
			}
			if got := gitState(filepath.Join(dir, "p")); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestGitStateOfPipes checks that a named pipe in place of a file does not block.
func TestGitStateOfPipes(t *testing.T) {
	dir := t.TempDir()
	zinotest.Must(t, syscall.Mkfifo(filepath.Join(dir, ".git"), 0o600))
	if got := gitState(dir); got != "no repository" {
		t.Errorf("got %q", got)
	}
	zinotest.Must(t, os.Remove(filepath.Join(dir, ".git")))
	zinotest.Must(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	zinotest.Must(t, syscall.Mkfifo(filepath.Join(dir, ".git", "HEAD"), 0o600))
	if got := gitState(dir); got != "unknown" {
		t.Errorf("got %q", got)
	}
}

// FuzzHeadState checks that any content of HEAD gives one short line.
func FuzzHeadState(f *testing.F) {
	for _, seed := range []string{"ref: refs/heads/main\n", "0123456789abcdef0123456789abcdef01234567", "ref: refs/heads/a\nb", "ref: refs/heads/\xff", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, head string) {
		got := headState(head)
		blank := func(r rune) bool { return r != ' ' && (unicode.IsSpace(r) || unicode.IsControl(r)) }
		if len(got) > maxBranch+30 || strings.ContainsFunc(got, blank) || strings.Count(got, " ") > 4 {
			t.Errorf("%q: got %q", head, got)
		}
	})
}
