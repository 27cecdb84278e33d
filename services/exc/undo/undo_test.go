package undo

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestFiveFiles takes back and makes again a turn with edits and a command: changed,
// created, deleted, moved and made executable.
func TestFiveFiles(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"a.go": "a\n", "src/b.go": "b\n", "gone.go": "gone\n", "moved.go": "moved\n", "run.sh": "echo\n"})
	zinotest.Must(t, os.Symlink("a.go", e.path("link")))
	before := tree(t, e.root)
	zinotest.Equal(t, "why", e.edit("t-1", "a.go", "a changed\n"), "")
	zinotest.Equal(t, "why", e.edit("t-1", "new/deep/n.go", "new\n"), "")
	e.covered("t-1", "echo more >> src/b.go; rm gone.go; mkdir sub; mv moved.go sub/; chmod +x run.sh; ln -sfn src link; ln -s nowhere dangling; echo again >> a.go")
	after := tree(t, e.root)

	dry := e.undo(proto.Undo{DryRun: true})
	e.sameTree("after a dry run", after)
	reply := e.undo(proto.Undo{})
	e.sameTree("after the undo", before)
	zinotest.Equal(t, "turn", reply.Turn, "t-1")
	zinotest.Equal(t, "restored", strings.Join(reply.Restored, " "), "a.go gone.go link moved.go run.sh src/b.go")
	zinotest.Equal(t, "removed", strings.Join(reply.Removed, " "), "dangling new/ new/deep/ new/deep/n.go sub/ sub/moved.go")
	zinotest.Equal(t, "dry run", strings.Join(append(dry.Restored, dry.Removed...), " "), strings.Join(append(reply.Restored, reply.Removed...), " "))

	for range 3 {
		e.redo(proto.Undo{})
		e.sameTree("after a redo", after)
		e.undo(proto.Undo{})
		e.sameTree("after another undo", before)
	}
	_, err := e.s.Undo(t.Context(), proto.Undo{SessionID: session}, false)
	zinotest.Error(t, err, proto.ErrNotFound, "no file changes to take back")
}

// TestTurnsInOrder takes back turns from the last to the first, and makes them again.
func TestTurnsInOrder(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"a": "0"})
	trees := []string{tree(t, e.root)}
	for _, turn := range []string{"t-1", "t-2", "t-3"} {
		e.covered(turn, "echo "+turn+" >> a; echo "+turn+" > "+turn)
		trees = append(trees, tree(t, e.root))
	}
	reply := e.try(proto.Undo{Turn: "t-1"}, false)
	zinotest.Equal(t, "refused", names(reply.Refused), "a: changed")
	for i := 3; i > 0; i-- {
		e.undo(proto.Undo{})
		e.sameTree("after an undo", trees[i-1])
	}
	for i := range 3 {
		e.redo(proto.Undo{})
		e.sameTree("after a redo", trees[i+1])
	}
	_, err := e.s.Undo(t.Context(), proto.Undo{SessionID: session}, true)
	zinotest.Error(t, err, proto.ErrNotFound, "no undo to take back")
}

// TestPaths takes back parts of a turn.
func TestPaths(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"a": "a", "d/b": "b", "d/c": "c"})
	before := tree(t, e.root)
	e.covered("t-1", "echo x > a; echo x > d/b; echo x > d/c")
	_, err := e.s.Undo(t.Context(), proto.Undo{SessionID: session, Paths: []string{"other"}}, false)
	zinotest.Error(t, err, proto.ErrNotFound, `did not change "other"`)
	zinotest.Equal(t, "restored", strings.Join(e.undo(proto.Undo{Paths: []string{"d/c", e.path("d/c")}}).Restored, " "), "d/c")
	zinotest.Equal(t, "restored", strings.Join(e.undo(proto.Undo{Paths: []string{"d/"}}).Restored, " "), "d/b")
	zinotest.Equal(t, "restored", strings.Join(e.undo(proto.Undo{}).Restored, " "), "a")
	e.sameTree("after the undos", before)
	zinotest.Equal(t, "made again", strings.Join(e.redo(proto.Undo{}).Restored, " "), "a")
	zinotest.Equal(t, "made again", strings.Join(e.redo(proto.Undo{}).Restored, " "), "d/b")
}

// TestRefusals changes files of a turn in every way before its undo: nothing is
// changed, and with partial the rest is.
func TestRefusals(t *testing.T) {
	tests := []struct {
		name, turn, then string
		want             string
		root             bool // needs root
	}{
		{name: "content", turn: "echo x > f", then: "echo y > f", want: "f: changed"},
		{name: "mode", turn: "echo x > f", then: "chmod 600 f", want: "f: changed"},
		{name: "kind", turn: "echo x > f", then: "rm f; ln -s g f", want: "f: changed"},
		{name: "a directory", turn: "echo x > f", then: "rm f; mkdir f", want: "f: changed"},
		{name: "a fifo", turn: "echo x > f", then: "rm f; mkfifo f", want: "f: changed"},
		{name: "hard link", turn: "echo x > f", then: "ln f other", want: "f: hard_link"},
		{name: "moved", turn: "echo x > f", then: "mv f elsewhere", want: "f: missing"},
		{name: "deleted", turn: "echo x > f", then: "rm f", want: "f: missing"},
		{name: "owner", turn: "echo x > f", then: "chown 65534 f", want: "f: owner", root: true},
		{name: "made again", turn: "rm f", then: "echo z > f", want: "f: changed"},
		{name: "created and changed", turn: "echo x > new", then: "echo y > new", want: "new: changed"},
		{name: "directory is a link", turn: "echo x > d/f", then: "mv d e; ln -s e d", want: "d/f: parent"},
		{name: "directory is gone", turn: "echo x > d/f", then: "rm -r d", want: "d/f: parent"},
		{name: "directory is a file", turn: "echo x > d/f", then: "rm -r d; echo > d", want: "d/f: parent"},
		{name: "link", turn: "ln -sfn a l", then: "ln -sfn b l", want: "l: changed"},
		{name: "created link", turn: "ln -s a new", then: "ln -sfn b new", want: "new: changed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				zinotest.NotTested(t, "a file of another owner: run the test as root")
			}
			e := newEnv(t)
			e.write(map[string]string{"f": "f", "g": "g", "d/f": "df", "rest": "rest"})
			zinotest.Must(t, os.Symlink("g", e.path("l")))
			e.covered("t-1", test.turn+"; echo x > rest")
			e.sh(test.then)
			after := tree(t, e.root)
			reply := e.try(proto.Undo{}, false)
			zinotest.Equal(t, "refused", names(reply.Refused), test.want)
			zinotest.Equal(t, "changed", len(reply.Restored)+len(reply.Removed), 0)
			e.sameTree("after the refusal", after)
			reply = e.try(proto.Undo{Partial: true}, false)
			zinotest.Equal(t, "refused", names(reply.Refused), test.want)
			zinotest.Equal(t, "restored", strings.Join(reply.Restored, " "), "rest")
			zinotest.Must(t, os.WriteFile(e.path("rest"), []byte("x\n"), 0o644))
			e.sameTree("after the partial undo", after)
		})
	}
}

// TestCreatedDirectory leaves a directory of the turn in which the user put a file.
func TestCreatedDirectory(t *testing.T) {
	e := newEnv(t)
	e.covered("t-1", "mkdir -p d/e; echo a > d/e/a; echo b > d/b")
	after := tree(t, e.root)
	e.write(map[string]string{"d/mine": "mine"})
	reply := e.undo(proto.Undo{})
	zinotest.Equal(t, "left", zinotest.Names(t, e.root)+": "+zinotest.Names(t, e.path("d")), "d: mine")
	zinotest.Equal(t, "removed", strings.Join(reply.Removed, " "), "d/b d/e/ d/e/a")
	zinotest.Must(t, os.Remove(e.path("d/mine")))
	e.redo(proto.Undo{})
	e.sameTree("after the redo", after)
}

// TestKinds replaces files, links and directories by each other.
func TestKinds(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"file": "f", "dir/a": "a", "dir/b/c": "c", "closed/x": "x", "was": "w"})
	zinotest.Must(t, os.Symlink("file", e.path("link")))
	zinotest.Must(t, os.Chmod(e.path("closed"), 0o555))
	before := tree(t, e.root)
	e.covered("t-1", "rm file; mkdir file; echo x > file/x; chmod 755 closed; rm -r dir closed; echo dir > dir; rm link; echo l > link; rm was; ln -s dir was; chmod 700 file")
	after := tree(t, e.root)
	e.undo(proto.Undo{})
	e.sameTree("after the undo", before)
	e.redo(proto.Undo{})
	e.sameTree("after the redo", after)
}

// TestModes takes back permissions of files and directories, without a temporary
// file beside them.
func TestModes(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"d/f": "f", "d/g": "g"})
	before := tree(t, e.root)
	e.covered("t-1", "chmod 400 d/f; chmod 4755 d/g; chmod 500 d")
	e.undo(proto.Undo{})
	e.sameTree("after the undo", before)
}

// TestOutside takes back an edit of a file that is not below the root.
func TestOutside(t *testing.T) {
	e := newEnv(t)
	other := filepath.Join(filepath.Dir(e.root), "other", "file")
	zinotest.Equal(t, "why", e.edit("t-1", other, "new"), "")
	zinotest.Write(t, e.path("f"), "f")
	zinotest.Equal(t, "why", e.edit("t-1", "f", "changed"), "")
	reply := e.undo(proto.Undo{})
	zinotest.Equal(t, "removed", strings.Join(reply.Removed, " "), filepath.Dir(other)+"/ "+other)
	if _, err := os.Lstat(filepath.Dir(other)); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	e.redo(proto.Undo{Paths: []string{other}})
	zinotest.Equal(t, "content", zinotest.Read(t, other), "new")
}

// TestGap refuses a file that something else changed between two changes of a turn.
func TestGap(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"f": "one\n"})
	e.edit("t-1", "f", "two\n")
	e.sh("echo mine >> f")
	e.edit("t-1", "f", "three\n")
	zinotest.Equal(t, "refused", names(e.try(proto.Undo{}, false).Refused), "f: changed")
}

// TestAttributes keeps what users attach to a file.
func TestAttributes(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"f": "f"})
	if err := syscall.Setxattr(e.path("f"), "user.note", []byte("mine"), 0); err != nil {
		zinotest.NotTested(t, "extended attributes: the file system has none (%v)", err)
	}
	e.covered("t-1", "echo x > f")
	e.undo(proto.Undo{})
	value := make([]byte, 16)
	n, err := syscall.Getxattr(e.path("f"), "user.note", value)
	zinotest.Must(t, err)
	zinotest.Equal(t, "attribute", string(value[:n]), "mine")
}

// TestRecordedAgain records a command again, as a process does that finds the index
// older than the record: undo takes its changes back once.
func TestRecordedAgain(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"f": "f", "g": "g"})
	e.covered("t-0", "true")
	index := filepath.Join(e.s.indexDir(), indexName(e.root))
	before := zinotest.Read(t, index)
	e.covered("t-1", "echo x > f; rm g; mkdir d")
	zinotest.Write(t, index, before)
	zinotest.Equal(t, "why", e.s.After(t.Context(), e.at("t-1"), nil, By{Tool: "bash", Call: "c1"}), "")
	e.undo(proto.Undo{})
	zinotest.Equal(t, "files", zinotest.Names(t, e.root), "f g")
	zinotest.Equal(t, "f", zinotest.Read(t, e.path("f")), "f")
}

// TestLate records what a command changes after its result, also for a process that
// has not seen its start.
func TestLate(t *testing.T) {
	e := newEnv(t)
	e.write(map[string]string{"f": "f"})
	e.covered("t-1", "echo one > f")
	e.sh("echo two > f; echo late > g")
	zinotest.Equal(t, "why", e.s.After(t.Context(), e.at("t-1"), nil, By{Tool: "bash", Late: true}), "")
	for _, name := range []string{"f", "g"} {
		if !e.records("t-1")[name].Late {
			t.Errorf("%s is not late", name)
		}
	}
	e.undo(proto.Undo{})
	zinotest.Equal(t, "files", zinotest.Names(t, e.root), "f")
	zinotest.Equal(t, "f", zinotest.Read(t, e.path("f")), "f")
}
