package repl

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// TestRegistry: debug.md follows the states of the pages.
func TestRegistry(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.has(registryFile, "# Connected pages:\n> ")
	f := b.silentPage(proto.Attach{Name: "a", ID: "1a2b", URL: "http://localhost/?secret"})
	b.has(registryFile, "\n* a-1a2b (http://localhost/) last ", " state: idle\n")
	b.add(f.Attached().File, js("1"))
	job := f.job(0)
	b.has(registryFile, " state: executing\n")
	must(t, f.answer(job.Job, "1"))
	b.has(registryFile, " state: completed (")
	f.leave()
	b.has(registryFile, " state: gone\n")
}

// TestRegistryLong: it stays short, whatever connects.
func TestRegistryLong(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	for i := range 150 {
		r, err := b.Connect(proto.Attach{Name: fmt.Sprint("page ", i)})
		must(t, err)
		if i >= 50 {
			r.Close()
		}
	}
	text := b.has(registryFile, "... and 50 more")
	if n := strings.Count(text, "\n"); n > 110 {
		t.Errorf("it has %d lines", n)
	}
	if live, gone := strings.LastIndex(text, "state: idle"), strings.Index(text, "state: gone"); live > gone {
		t.Errorf("pages that are gone stand first: %s", text)
	}
}

// TestRegistryIsOutput: what others write into it is not read, and a link in its
// place is not followed.
func TestRegistryIsOutput(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "", func(c *config.Repl) { c.Cadence = 0.1 })
	b.write(registryFile, "* "+js("1"))
	f := b.page(proto.Attach{Name: "a"})
	b.has(registryFile, "# Connected pages:\n", "* a-")
	must(t, os.Remove(b.path(registryFile)))
	must(t, os.Symlink("elsewhere", b.path(registryFile)))
	a := f.Attached()
	_, err := b.Events(t.Context(), proto.RealmEvents{ID: a.ID, Nonce: a.Nonce, Events: []proto.RealmEvent{{Type: "console", Message: "m"}}})
	must(t, err)
	eventually(func() bool { return len(b.problems()) == 1 })
	if _, err := os.Stat(b.path("elsewhere")); err == nil {
		t.Error("the link was followed")
	}
	must(t, os.Remove(b.path(registryFile)))
	f.leave()
	b.has(registryFile, "state: gone")
	eventually(func() bool { return len(b.problems()) == 0 })
}
