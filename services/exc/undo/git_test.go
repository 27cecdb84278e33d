package undo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// newRepo makes a repository with files that are committed, old enough for git to rely
// on their times.
func newRepo(t *testing.T, files map[string]string) *env {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		zinotest.NotTested(t, "repositories: install git (%v)", err)
	}
	e := newEnv(t)
	e.write(files)
	e.sh("git init -q . && git add -A && git commit -qm one")
	e.settle()
	return e
}

// settle makes the index of git younger than all files.
func (e *env) settle() {
	e.t.Helper()
	e.sh("touch -d '2026-01-01' $(git ls-files) && git update-index --refresh && touch -d '2100-01-01' .git/index")
}

func (e *env) images() int {
	e.t.Helper()
	found, err := filepath.Glob(filepath.Join(e.s.objects.dir, "*", "*"))
	zinotest.Must(e.t, err)
	return len(found)
}

// TestGitBlobs takes back changes of files that git has: they get no image. Files that
// git does not have as they are get one: dirty, untracked, converted, assumed
// unchanged.
func TestGitBlobs(t *testing.T) {
	e := newRepo(t, map[string]string{
		"clean": "clean\n", "sub/clean": "sub\n", "dirty": "old\n", "staged": "old\n", "assumed": "old\n", "same": "same\n",
		"text/.gitattributes": "*.txt text eol=crlf\n", "text/a.txt": "a\n", "text/plain": "plain\n",
	})
	e.sh("printf 'a\\r\\n' > text/a.txt; git add text/a.txt; git update-index --assume-unchanged assumed; echo new > assumed; echo new > staged; git add staged; echo newer > staged; echo new > dirty; echo u > untracked")
	before := tree(t, e.root)
	snap := e.s.Before(t.Context(), e.at("t-0"))
	zinotest.Equal(t, "why", snap.why, "")
	for name, blob := range map[string]bool{"clean": true, "sub/clean": true, "dirty": false, "staged": false, "assumed": false, "untracked": false, "text/a.txt": false, "text/plain": true} {
		if got := snap.entries[name]; (got.blob != "") != blob || got.blob == "" && got.sum == "" {
			t.Errorf("%s: blob %q, hash %q", name, got.blob, got.sum)
		}
	}
	images := e.images()
	e.covered("t-1", "for f in clean sub/clean dirty staged assumed untracked text/a.txt text/plain; do echo changed > $f; done; touch same; chmod +x same")
	record := e.records("t-1")["clean"]
	if record.Before.Blob == "" || record.Before.Git != e.path(".git") || record.Before.SHA256 != hashOf("clean\n") {
		t.Errorf("the record is %+v", record.Before)
	}
	zinotest.Equal(t, "images of what was there", images, 4) // two have the same content
	diff, err := e.s.Diff(t.Context(), proto.Undo{SessionID: session})
	zinotest.Must(t, err)
	zinotest.Contains(t, "the diff", diff.Diff, "--- a/clean\n+++ b/clean\n@@ -1 +1 @@\n-clean\n+changed\n", "old mode 100644\nnew mode 100755\n")
	e.undo(proto.Undo{})
	e.sameTree("after the undo", before)
	e.redo(proto.Undo{})
	e.undo(proto.Undo{})
	e.sameTree("after another undo", before)
}

// TestGitCheckout takes back a change of branches, whose new files git has as well.
func TestGitCheckout(t *testing.T) {
	e := newRepo(t, map[string]string{"a": "one\n", "b": "b\n", "d/c": "c\n"})
	e.sh("git checkout -qb two; echo two > a; git rm -q d/c; echo new > n; git add -A; git commit -qm two; git checkout -q -")
	e.settle()
	before := tree(t, e.root)
	e.covered("t-1", "git checkout -q two")
	after := tree(t, e.root)
	e.undo(proto.Undo{})
	e.sameTree("after the undo", before)
	e.redo(proto.Undo{})
	e.sameTree("after the redo", after)
}

// TestGitSubmodule takes back changes in a submodule, and in a work tree whose
// repository is elsewhere.
func TestGitSubmodule(t *testing.T) {
	e := newRepo(t, map[string]string{"a": "a\n"})
	e.sh("mkdir -p ../module && cd ../module && git init -q . && echo m > m && git add m && git commit -qm m")
	e.sh("git -c protocol.file.allow=always submodule -q add ../module module && git commit -qm module")
	e.sh("cd module && touch -d 2026-01-01 m && git update-index --refresh && touch -d 2100-01-01 \"$(git rev-parse --git-dir)/index\"")
	before := tree(t, e.root)
	snap := e.s.Before(t.Context(), e.at("t-0"))
	if m := snap.entries["module/m"]; m == nil || m.blob == "" || m.git != e.path(".git/modules/module") {
		t.Errorf("the file of the submodule is %+v", m)
	}
	e.covered("t-1", "echo x > module/m; echo x > module/n; echo x > a")
	e.undo(proto.Undo{})
	e.sameTree("after the undo", before)

	below := *e
	below.root = e.path("module")
	below.covered("t-2", "echo y > m")
	below.undo(proto.Undo{})
	e.sameTree("after the undo below", before)
}

// TestGitBelow uses the repository that the root lies in.
func TestGitBelow(t *testing.T) {
	e := newRepo(t, map[string]string{"d/a": "a\n", "b": "b\n"})
	e.root = e.path("d")
	snap := e.s.Before(t.Context(), e.at("t-0"))
	if a := snap.entries["a"]; a == nil || a.blob == "" {
		t.Errorf("the file is %+v", a)
	}
	zinotest.Equal(t, "images", e.images(), 0)
}

// TestGitObjectLost refuses a file whose blob git does not have any more.
func TestGitObjectLost(t *testing.T) {
	e := newRepo(t, map[string]string{"a": "a\n", "b": "b\n"})
	e.covered("t-1", "echo x > a; echo x > b")
	blob := e.records("t-1")["a"].Before.Blob
	zinotest.Must(t, os.Remove(e.path(".git/objects/"+blob[:2]+"/"+blob[2:])))
	zinotest.Equal(t, "refused", names(e.try(proto.Undo{}, false).Refused), "a: no_image")
	diff, err := e.s.Diff(t.Context(), proto.Undo{SessionID: session, Paths: []string{"a"}})
	zinotest.Must(t, err)
	if !diff.Files[0].NotCovered {
		t.Errorf("the diff is %+v", diff)
	}
}

// TestGitConversions reads the content of all files where the configuration converts
// them.
func TestGitConversions(t *testing.T) {
	e := newRepo(t, map[string]string{"crlf": "a\r\n", "lf": "b\n"})
	e.sh("git config core.autocrlf input && git rm -q --cached crlf && git add crlf && git update-index --refresh")
	snap := e.s.Before(t.Context(), e.at("t-0"))
	zinotest.Equal(t, "blob of crlf", snap.entries["crlf"].blob, "")
	zinotest.Equal(t, "hash of crlf", snap.entries["crlf"].sum, hashOf("a\r\n"))
	if snap.entries["lf"].blob == "" || snap.entries["lf"].sum != hashOf("b\n") {
		t.Errorf("lf is %+v", snap.entries["lf"])
	}
}

// TestGitRunsNothing does not run what the configuration of a repository names.
func TestGitRunsNothing(t *testing.T) {
	e := newRepo(t, map[string]string{"a": "a\n"})
	trap := filepath.Join(filepath.Dir(e.root), "trap")
	e.sh("git config core.fsmonitor 'touch " + trap + "'; git config core.hooksPath /nowhere; git config filter.x.smudge 'touch " + trap + "'; git config core.pager 'touch " + trap + "'")
	e.sh("git config extensions.partialClone origin; git config remote.origin.promisor true; git config remote.origin.url 'ext::touch " + trap + "'; git config protocol.ext.allow always")
	e.covered("t-1", "echo x > a")
	blob := e.records("t-1")["a"].Before.Blob
	zinotest.Must(t, os.Remove(e.path(".git/objects/"+blob[:2]+"/"+blob[2:])))
	zinotest.Equal(t, "refused", names(e.try(proto.Undo{}, false).Refused), "a: no_image")
	if _, err := os.Stat(trap); err == nil {
		t.Error("a program of the configuration was run")
	}
}

// TestDiffApplies has git take back what Diff prints.
func TestDiffApplies(t *testing.T) {
	e := newRepo(t, map[string]string{"a": "one\ntwo\nthree\n", "gone": "gone\n", "no end": "no end", "run": "run\n", `odd"name`: "x\n"})
	zinotest.Must(t, os.Symlink("a", e.path("link")))
	before := tree(t, e.root)
	e.covered("t-1", "sed -i 's/two/2/' a; rm gone; printf 'no end at all' > 'no end'; chmod +x run; ln -sfn b link; echo n > new; echo y > 'odd\"name'; head -c 100 /dev/zero > binary")
	diff, err := e.s.Diff(t.Context(), proto.Undo{SessionID: session})
	zinotest.Must(t, err)
	zinotest.Contains(t, "the diff", diff.Diff, "Binary files /dev/null and b/binary differ\n", `+++ "b/odd\"name"`)
	zinotest.Must(t, os.Remove(e.path("binary")))
	text := diff.Diff
	i := strings.Index(text, "diff --git a/binary")
	text = text[:i] + text[i+strings.Index(text[i:], "differ\n")+len("differ\n"):]
	zinotest.Write(t, filepath.Join(filepath.Dir(e.root), "patch"), text)
	e.sh("git apply --reverse ../patch")
	e.sameTree("after git apply --reverse", before)
}
