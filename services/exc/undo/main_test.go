package undo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"killed": killed, "full": fullDisk, "old kernel": oldKernel})
	os.Exit(m.Run())
}

// env is a root with files of a user, and a store.
type env struct {
	t    testing.TB
	s    *Store
	root string
	log  *zinotest.Buffer
}

const session = "5b0c2a3e-1111-4222-8333-444455556666"

func newEnv(t testing.TB, change ...func(*config.Undo)) *env {
	t.Helper()
	dir, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	e := &env{t: t, root: filepath.Join(dir, "root"), log: new(zinotest.Buffer)}
	zinotest.Must(t, os.Mkdir(e.root, 0o755))
	cfg := config.Default().Undo
	for _, c := range change {
		c(&cfg)
	}
	e.s, err = Open(filepath.Join(dir, "undo"), cfg, slog.New(slog.NewTextHandler(e.log, nil)))
	zinotest.Must(t, err)
	return e
}

func (e *env) at(turn string) At { return At{Root: e.root, Session: session, Turn: turn} }

func (e *env) path(name string) string { return filepath.Join(e.root, name) }

// write writes files of the user, with the mode 0644.
func (e *env) write(files map[string]string) {
	e.t.Helper()
	for name, text := range files {
		zinotest.Must(e.t, os.MkdirAll(filepath.Dir(e.path(name)), 0o755))
		zinotest.Must(e.t, os.WriteFile(e.path(name), []byte(text), 0o644))
	}
}

// sh runs a command in the root that no turn makes.
func (e *env) sh(command string) {
	e.t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = e.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_ALLOW_PROTOCOL=file")
	if out, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// command runs a command of a turn, and returns why it was not recorded.
func (e *env) command(turn, command string) string {
	e.t.Helper()
	snap := e.s.Before(context.Background(), e.at(turn))
	e.sh(command)
	return e.s.After(context.Background(), e.at(turn), snap, By{Tool: "bash", Call: "c1"})
}

// covered is command for one that is recorded.
func (e *env) covered(turn, command string) {
	e.t.Helper()
	zinotest.Equal(e.t, "why "+command+" is not recorded", e.command(turn, command), "")
}

// edit changes a file of the root, or elsewhere, as write and edit do.
func (e *env) edit(turn, path, text string) string {
	e.t.Helper()
	if !filepath.IsAbs(path) {
		path = e.path(path)
	}
	before := ""
	if old, err := os.ReadFile(path); err == nil {
		before = hashOf(string(old))
	}
	f := e.s.BeforeFile(e.at(turn), path, before)
	zinotest.Must(e.t, os.MkdirAll(filepath.Dir(path), 0o755))
	zinotest.Must(e.t, os.WriteFile(path, []byte(text), 0o644))
	return f.After(By{Tool: "edit", Call: "c2"}, hashOf(text))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// undo takes back changes and expects nothing to be refused.
func (e *env) undo(req proto.Undo) proto.Undone { e.t.Helper(); return e.all(req, false) }
func (e *env) redo(req proto.Undo) proto.Undone { e.t.Helper(); return e.all(req, true) }

func (e *env) all(req proto.Undo, redo bool) proto.Undone {
	e.t.Helper()
	reply := e.try(req, redo)
	if len(reply.Refused) > 0 {
		e.t.Fatalf("refused: %v", reply.Refused)
	}
	return reply
}

func (e *env) try(req proto.Undo, redo bool) proto.Undone {
	e.t.Helper()
	req.SessionID = session
	reply, err := e.s.Undo(context.Background(), req, redo)
	zinotest.Must(e.t, err)
	return reply
}

// tree describes all that is below a directory: kind, mode and content.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	zinotest.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.Name() == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := rel + " " + info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + to
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + hashOf(string(data))[:12]
		}
		lines = append(lines, line)
		return nil
	}))
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sameTree compares what is below the root with an earlier tree.
func (e *env) sameTree(what, want string) {
	e.t.Helper()
	zinotest.Equal(e.t, what, tree(e.t, e.root), want)
}

func names(refused []proto.UndoRefused) string {
	var list []string
	for _, r := range refused {
		list = append(list, r.Path+": "+r.Reason)
	}
	return strings.Join(list, ", ")
}

// records returns the changes of a turn, by path.
func (e *env) records(turn string) map[string]Change {
	e.t.Helper()
	turns, _, err := e.s.records(session)
	zinotest.Must(e.t, err)
	list := map[string]Change{}
	for _, r := range turns {
		if r.turn == turn {
			for _, c := range r.changes {
				list[c.Path] = c
			}
		}
	}
	return list
}
