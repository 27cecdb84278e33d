package catalog

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

const (
	oldText = `{"meta":{"executor":"old"}}`
	newText = `{"meta":{"executor":"new"}}`
)

var must, write = zinotest.Must, zinotest.Write

// dirs creates a directory of tools and one of skills.
func dirs(t *testing.T) (tools, skills string) {
	t.Helper()
	return t.TempDir(), t.TempDir()
}

func open(t *testing.T, tools, skills string, log *slog.Logger) *Catalog {
	t.Helper()
	c, err := Open(tools, skills, log)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// unwatched returns a catalog that reads the files only in Reload.
func unwatched(tools, skills string, log *slog.Logger) *Catalog {
	c := &Catalog{log: log, tools: source{dir: tools}, skills: source{dir: skills}}
	c.current.Store(&Snapshot{})
	c.Reload()
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// waitFor waits until the snapshot satisfies ok.
func waitFor(t *testing.T, c *Catalog, what string, ok func(*Snapshot) bool) {
	t.Helper()
	zinotest.Eventually(t, what, func() bool { return ok(c.Snapshot()) })
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
	must(t, os.Mkdir(filepath.Join(tools, "dir.json"), 0o700))
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

func TestOpenRefusesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tools")
	write(t, file, "")
	_, err := Open(file, "", quiet())
	zinotest.Error(t, err, nil, "[tools] dir "+file)
}

func TestBrokenFilesAreSkipped(t *testing.T) {
	tools, skills := dirs(t)
	write(t, filepath.Join(tools, "bash.json"), `{}`)
	write(t, filepath.Join(tools, "large.json"), `{}`+strings.Repeat(" ", maxFile))
	write(t, filepath.Join(skills, "agent.json"), `{}`)
	write(t, filepath.Join(skills, "broken.json"), "{\n  \"meta\": {,}\n}")
	write(t, filepath.Join(skills, "good.json"), `{}`)
	must(t, os.Symlink("nowhere", filepath.Join(skills, "link.json")))
	must(t, syscall.Mkfifo(filepath.Join(skills, "pipe.json"), 0o600))
	s := open(t, tools, skills, quiet()).Snapshot()
	if got, want := names(s), "bash +good"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []string{
		tools + "/large.json: is larger than 1048576 bytes (skipped; repair or remove it)",
		skills + `/agent.json:1:1: the name "agent" is taken by sub-agents (skipped; repair or remove it)`,
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
	var out zinotest.Buffer
	c := unwatched(tools, "", out.Logger())
	c.Reload()
	c.Reload()
	if n := out.Count("definition skipped"); n != 1 || !out.Contains("line=2") {
		t.Errorf("logged %d times:\n%s", n, &out)
	}
	write(t, path, `{}`)
	c.Reload()
	write(t, path, "\n[]")
	c.Reload()
	if n := out.Count("definition skipped"); n != 2 {
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
	c.OnChange(func(*Snapshot) { t.Error("called without a change") })
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
	if s := zinotest.Receive(t, "a change", seen); names(s) != "x" || c.Snapshot() != s {
		t.Errorf("called with %q, the current one is %q", names(s), names(c.Snapshot()))
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
	waitFor(t, c, "the last write", isNames("x99"))
}

func TestCloseTwice(t *testing.T) {
	c, err := Open("", "", quiet())
	must(t, err)
	for range 2 {
		must(t, c.Close())
	}
}

// TestSaveStyles saves a file like different editors.
func TestSaveStyles(t *testing.T) {
	for name, save := range map[string]func(t *testing.T, path string){
		"truncate and write": func(t *testing.T, path string) { write(t, path, newText) },
		"in pieces": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			must(t, err)
			for i := range newText {
				_, err := f.WriteString(newText[i : i+1])
				must(t, err)
			}
			must(t, f.Close())
		},
		"rename over": func(t *testing.T, path string) {
			write(t, path+".tmp", newText)
			must(t, os.Rename(path+".tmp", path))
		},
		"backup and write": func(t *testing.T, path string) {
			must(t, os.Rename(path, path+"~"))
			write(t, path, newText)
		},
		"remove and write": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			write(t, path, newText)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, _ := dirs(t)
			path := filepath.Join(tools, "x.json")
			write(t, path, oldText)
			c := open(t, tools, "", quiet())
			if got := names(c.Snapshot()); got != "old" {
				t.Fatalf("before: %q", got)
			}
			save(t, path)
			waitFor(t, c, "new text", func(s *Snapshot) bool { return names(s) == "new" && len(s.Problems) == 0 })
		})
	}
}

// TestHalfWritten: a half-written file is read again when it is complete, even if its
// time stamp is the same.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	tools, _ := dirs(t)
	path := filepath.Join(tools, "x.json")
	c := open(t, tools, "", quiet())
	write(t, path, newText[:10])
	waitFor(t, c, "broken file", func(s *Snapshot) bool { return len(s.Problems) == 1 })
	info, err := os.Stat(path)
	must(t, err)
	write(t, path, newText)
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	waitFor(t, c, "complete file", func(s *Snapshot) bool { return names(s) == "new" && len(s.Problems) == 0 })
}

// TestYoungStampIsNotTrusted: a change that keeps size and time stamp of a young file is
// detected by reading again.
func TestYoungStampIsNotTrusted(t *testing.T) {
	t.Parallel()
	tools, _ := dirs(t)
	path := filepath.Join(tools, "x.json")
	write(t, path, oldText)
	info, err := os.Stat(path)
	must(t, err)
	c := open(t, tools, "", quiet())
	write(t, path, newText)
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	waitFor(t, c, "same size, same time", isNames("new"))
}

func TestRemovedFile(t *testing.T) {
	t.Parallel()
	tools, skills := dirs(t)
	write(t, filepath.Join(skills, "disk.json"), `{}`)
	c := open(t, tools, skills, quiet())
	must(t, os.Remove(filepath.Join(skills, "disk.json")))
	waitFor(t, c, "removal", isNames(""))
}

// TestLinkTarget: the target of a link is outside the watched directory, so polling
// detects its change.
func TestLinkTarget(t *testing.T) {
	t.Parallel()
	tools, _ := dirs(t)
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, oldText)
	must(t, os.Symlink(target, filepath.Join(tools, "x.json")))
	c := open(t, tools, "", quiet())
	if got := names(c.Snapshot()); got != "old" {
		t.Fatalf("before: %q", got)
	}
	write(t, target, newText)
	waitFor(t, c, "change behind a link", isNames("new"))
}

func TestDirectoryComesAndGoes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "skills")
	c := open(t, "", dir, quiet())
	for range 2 {
		must(t, os.Mkdir(dir, 0o700))
		write(t, filepath.Join(dir, "a.json"), `{}`)
		waitFor(t, c, "new directory", isNames("+a"))
		write(t, filepath.Join(dir, "b.json"), `{}`)
		waitFor(t, c, "file in it", isNames("+a +b"))
		must(t, os.RemoveAll(dir))
		waitFor(t, c, "removed directory", isNames(""))
	}
	write(t, dir, "")
	waitFor(t, c, "file in its place", func(s *Snapshot) bool { return len(s.Problems) == 1 })
}

func TestLinkedDirectory(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for dir, text := range map[string]string{"1": oldText, "2": newText} {
		must(t, os.Mkdir(filepath.Join(base, dir), 0o700))
		write(t, filepath.Join(base, dir, "x.json"), text)
	}
	link := filepath.Join(base, "tools")
	must(t, os.Symlink("1", link))
	c := open(t, link, "", quiet())
	if got := names(c.Snapshot()); got != "old" {
		t.Fatalf("before: %q", got)
	}
	must(t, os.Symlink("2", link+".new"))
	must(t, os.Rename(link+".new", link))
	waitFor(t, c, "changed link", isNames("new"))
	write(t, filepath.Join(base, "2", "y.json"), `{}`)
	waitFor(t, c, "file behind the changed link", isNames("new y"))
}

// TestWithoutNotification: polling detects a change without notifications.
func TestWithoutNotification(t *testing.T) {
	t.Parallel()
	tools, _ := dirs(t)
	c := unwatched(tools, "", quiet())
	c.done = make(chan struct{})
	polls := make(chan string)
	go c.follow(polls)
	write(t, filepath.Join(tools, "x.json"), newText)
	polls <- ""
	close(polls)
	<-c.done
	if got := names(c.Snapshot()); got != "new" {
		t.Errorf("after a poll: %q", got)
	}
}

func TestLookups(t *testing.T) {
	s := &Snapshot{
		Tools: []Tool{
			{File: "a.json", Name: "a", Executor: "bash", FileExtension: ".a"},
			{File: "b.json", Name: "b", Executor: "python3"},
			{File: "c.json", Name: "c", Executor: "bash", FileExtension: ".c"},
		},
		Skills: []Skill{{Name: "disk", Executor: "bash"}},
	}
	if got := len(s.Executors()); got != 2 {
		t.Errorf("%d executors, want 2", got)
	}
	if first := s.Executors()[0]; first.FileExtension != ".a" {
		t.Errorf("bash is %+v, want the first in file order", first)
	}
	for _, c := range []struct {
		function string
		file     string
	}{
		{"execute_bash", "a.json"},
		{"execute_python3", "b.json"},
		{"execute_b", ""},
		{"bash", ""},
		{"execute_", ""},
		{"Execute_bash", ""},
		{"", ""},
	} {
		tool, ok := s.Function(c.function)
		if tool.File != c.file || ok != (c.file != "") {
			t.Errorf("Function(%q) = %q, %v, want %q", c.function, tool.File, ok, c.file)
		}
		if ok && tool.FunctionName() != c.function {
			t.Errorf("FunctionName of %q is %q", c.function, tool.FunctionName())
		}
	}
	if _, ok := s.Skill("disk"); !ok {
		t.Error("skill disk not found")
	}
	if _, ok := s.Skill("bash"); ok {
		t.Error("an executor's name found a skill")
	}
}

func TestEmptySnapshot(t *testing.T) {
	s := &Snapshot{}
	if _, ok := s.Executor("bash"); ok || len(s.Executors()) != 0 {
		t.Error("an empty snapshot has an executor")
	}
}

func TestBuiltinsBesideExecutors(t *testing.T) {
	tools, _ := dirs(t)
	for name, text := range map[string]string{
		"bash.json":     `{}`,
		"forget.json":   "{\n\"builtin\":\"forget\"}",
		"recall.json":   `{"builtin":"recall"}`,
		"search.json":   `{"builtin":"recall","name":"recall","description":"second"}`,
		"remember.json": `{"builtin":"remember","name":"note"}`,
	} {
		write(t, filepath.Join(tools, name), text)
	}
	s := open(t, tools, "", quiet()).Snapshot()
	var got []string
	for _, tool := range append(s.Executors(), s.Builtins()...) {
		got = append(got, tool.FunctionName()+"="+tool.File)
	}
	if want := "execute_bash=bash.json recall=recall.json note=remember.json"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, file := range map[string]string{"recall": "recall.json", "note": "remember.json", "execute_bash": "bash.json", "remember": "", "execute_recall": "", "execute_": "", "forget": ""} {
		if tool, ok := s.Function(name); tool.File != file || ok != (file != "") {
			t.Errorf("Function(%q) = %q, %v, want %q", name, tool.File, ok, file)
		}
	}
	for _, name := range []string{"", "recall", "note"} {
		if tool, ok := s.Executor(name); ok {
			t.Errorf("Executor(%q) = %+v", name, tool)
		}
	}
	want := tools + `/forget.json:2:11: builtin: unknown tool "forget" (want recall, recall_sessions, remember) (skipped; repair or remove it)`
	if len(s.Problems) != 1 || s.Problems[0] != want {
		t.Errorf("problems %q, want %q", s.Problems, want)
	}
}
