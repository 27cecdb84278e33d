package catalog

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deadline is how long a test waits for what should take two seconds at most.
const deadline = 30 * time.Second

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dirs makes a directory of tools and one of skills.
func dirs(t *testing.T) (tools, skills string) {
	t.Helper()
	tools, skills = filepath.Join(t.TempDir(), "tools"), filepath.Join(t.TempDir(), "skills")
	for _, d := range []string{tools, skills} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return tools, skills
}

func open(t *testing.T, tools, skills string, log *slog.Logger) *Catalog {
	t.Helper()
	c, err := Open(tools, skills, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// unwatched makes a catalog that reads only when it is told to.
func unwatched(tools, skills string, log *slog.Logger) *Catalog {
	c := &Catalog{log: log, tools: source{dir: tools}, skills: source{dir: skills}}
	c.current.Store(&Snapshot{})
	c.Reload()
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// await polls until the snapshot satisfies ok.
func await(t *testing.T, c *Catalog, what string, ok func(*Snapshot) bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !ok(c.Snapshot()); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not seen; the snapshot is %+v", what, c.Snapshot())
		}
	}
}

func names(s *Snapshot) string {
	var all []string
	for _, t := range s.Tools {
		all = append(all, t.Executor)
	}
	for _, k := range s.Skills {
		all = append(all, "+"+k.Name)
	}
	return strings.Join(all, " ")
}

func isNames(want string) func(*Snapshot) bool {
	return func(s *Snapshot) bool { return names(s) == want }
}

func TestOpenReadsInByteOrder(t *testing.T) {
	tools, skills := dirs(t)
	for _, f := range []string{"b.json", "a.json", "Z.json", "a-b.json", ".hidden.json", "a.json~", "a.txt", "é.json"} {
		write(t, filepath.Join(tools, f), `{}`)
	}
	if err := os.Mkdir(filepath.Join(tools, "dir.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(skills, "disk.json"), `{}`)
	c := open(t, tools, skills, quiet())
	if got, want := names(c.Snapshot()), "Z a-b a b é +disk"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(c.Snapshot().Problems) != 0 {
		t.Errorf("problems: %q", c.Snapshot().Problems)
	}
}

func TestNoDirectories(t *testing.T) {
	c := open(t, "", "", quiet())
	if s := c.Reload(); names(s) != "" || len(s.Problems) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestOpenRefusesWhatIsNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tools")
	write(t, file, "")
	_, err := Open(file, "", quiet())
	if err == nil || !strings.Contains(err.Error(), "[tools] dir "+file) {
		t.Errorf("got %v", err)
	}
}

func TestBrokenFilesAreSkipped(t *testing.T) {
	tools, skills := dirs(t)
	write(t, filepath.Join(tools, "bash.json"), `{}`)
	write(t, filepath.Join(tools, "large.json"), `{}`+strings.Repeat(" ", maxFile))
	write(t, filepath.Join(skills, "broken.json"), "{\n  \"meta\": {,}\n}")
	write(t, filepath.Join(skills, "good.json"), `{}`)
	if err := os.Symlink("nowhere", filepath.Join(skills, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(skills, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, tools, skills, quiet()).Snapshot()
	if got, want := names(s), "bash +good"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []string{
		tools + "/large.json: is larger than 1048576 bytes (skipped; repair or remove it)",
		skills + "/broken.json:2:12: invalid character ',' looking for beginning of object key string (skipped; repair or remove it)",
		skills + "/link.json: no such file or directory (skipped; repair or remove it)",
		skills + "/pipe.json: is not a regular file (skipped; repair or remove it)",
	}
	if !reflect.DeepEqual(s.Problems, want) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(s.Problems, "\n"), strings.Join(want, "\n"))
	}
}

func TestProblemsAreLoggedOnce(t *testing.T) {
	tools, _ := dirs(t)
	path := filepath.Join(tools, "bash.json")
	write(t, path, "\n[]")
	var out bytes.Buffer
	c := unwatched(tools, "", slog.New(slog.NewTextHandler(&out, nil)))
	c.Reload()
	c.Reload()
	if n := strings.Count(out.String(), "definition skipped"); n != 1 || !strings.Contains(out.String(), "line=2") {
		t.Errorf("logged %d times:\n%s", n, &out)
	}
	write(t, path, `{}`)
	c.Reload()
	write(t, path, "\n[]")
	c.Reload()
	if n := strings.Count(out.String(), "definition skipped"); n != 2 {
		t.Errorf("a problem that came back was logged %d times in all, want 2", n)
	}
}

func TestReloadReadsNow(t *testing.T) {
	tools, skills := dirs(t)
	c := open(t, tools, skills, quiet())
	for i := range 50 {
		write(t, filepath.Join(tools, "x.json"), fmt.Sprintf(`{"meta":{"executor":"x%02d"}}`, i))
		if got, want := names(c.Reload()), fmt.Sprintf("x%02d", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestUnchangedKeepsSnapshot(t *testing.T) {
	tools, _ := dirs(t)
	write(t, filepath.Join(tools, "x.json"), `{}`)
	c := unwatched(tools, "", quiet())
	before := c.Snapshot()
	c.OnChange(func(*Snapshot) { t.Error("told of a change that was none") })
	write(t, filepath.Join(tools, "x.json"), ` {} `)
	if c.Reload() != before || c.Snapshot() != before {
		t.Error("the same content made a new snapshot")
	}
}

func TestOnChange(t *testing.T) {
	tools, skills := dirs(t)
	c := open(t, tools, skills, quiet())
	seen := make(chan *Snapshot, 100)
	c.OnChange(func(s *Snapshot) { seen <- s })
	write(t, filepath.Join(tools, "x.json"), `{}`)
	select {
	case s := <-seen:
		if names(s) != "x" || c.Snapshot() != s {
			t.Errorf("told of %q, the current one is %q", names(s), names(c.Snapshot()))
		}
	case <-time.After(deadline):
		t.Fatal("no change seen")
	}
}

func TestReadersAndWriters(t *testing.T) {
	tools, skills := dirs(t)
	c := open(t, tools, skills, quiet())
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					c.Snapshot().Executor("x")
					c.Reload()
				}
			}
		})
	}
	for i := range 100 {
		write(t, filepath.Join(tools, "x.json"), fmt.Sprintf(`{"meta":{"executor":"x%d"}}`, i))
	}
	close(stop)
	readers.Wait()
	await(t, c, "the last write", isNames("x99"))
}

func TestCloseTwice(t *testing.T) {
	c, err := Open("", "", quiet())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
