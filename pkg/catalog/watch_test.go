package catalog

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	oldText = `{"meta":{"executor":"old"}}`
	newText = `{"meta":{"executor":"new"}}`
)

// must fails the test on an error of a file operation.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSaveStyles: however an editor saves, the new text is what stays.
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
		"backup and write anew": func(t *testing.T, path string) {
			must(t, os.Rename(path, path+"~"))
			write(t, path, newText)
		},
		"remove and write anew": func(t *testing.T, path string) {
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
				t.Fatalf("at first %q", got)
			}
			save(t, path)
			await(t, c, "new text", func(s *Snapshot) bool { return names(s) == "new" && len(s.Problems) == 0 })
		})
	}
}

// TestHalfWritten: a file that is caught half-written is read again when it is
// complete, whatever its time stamp says.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	tools, _ := dirs(t)
	path := filepath.Join(tools, "x.json")
	c := open(t, tools, "", quiet())
	write(t, path, newText[:10])
	await(t, c, "broken file", func(s *Snapshot) bool { return len(s.Problems) == 1 })
	info, err := os.Stat(path)
	must(t, err)
	write(t, path, newText)
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	await(t, c, "complete file", func(s *Snapshot) bool { return names(s) == "new" && len(s.Problems) == 0 })
}

// TestYoungStampIsNotTrusted: a change within the resolution of the time stamp
// that leaves the size alone is found by reading again.
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
	await(t, c, "same size, same time", isNames("new"))
}

func TestRemovedFile(t *testing.T) {
	t.Parallel()
	tools, skills := dirs(t)
	write(t, filepath.Join(skills, "disk.json"), `{}`)
	c := open(t, tools, skills, quiet())
	must(t, os.Remove(filepath.Join(skills, "disk.json")))
	await(t, c, "removal", isNames(""))
}

// TestLinkTarget: what a link leads to lies outside the watched directory, so
// only the look from time to time can find its change.
func TestLinkTarget(t *testing.T) {
	t.Parallel()
	tools, _ := dirs(t)
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, oldText)
	must(t, os.Symlink(target, filepath.Join(tools, "x.json")))
	c := open(t, tools, "", quiet())
	if got := names(c.Snapshot()); got != "old" {
		t.Fatalf("at first %q", got)
	}
	write(t, target, newText)
	await(t, c, "change behind a link", isNames("new"))
}

// TestDirectoryComesAndGoes: the path counts, not the directory that was there
// at first.
func TestDirectoryComesAndGoes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "skills")
	c := open(t, "", dir, quiet())
	for range 2 {
		must(t, os.Mkdir(dir, 0o700))
		write(t, filepath.Join(dir, "a.json"), `{}`)
		await(t, c, "directory that appears", isNames("+a"))
		write(t, filepath.Join(dir, "b.json"), `{}`)
		await(t, c, "file in it", isNames("+a +b"))
		must(t, os.RemoveAll(dir))
		await(t, c, "directory that goes", isNames(""))
	}
	write(t, dir, "")
	await(t, c, "file in its place", func(s *Snapshot) bool { return len(s.Problems) == 1 })
}

// TestLinkedDirectory: releases are switched by turning a link.
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
		t.Fatalf("at first %q", got)
	}
	must(t, os.Symlink("2", link+".new"))
	must(t, os.Rename(link+".new", link))
	await(t, c, "turned link", isNames("new"))
	write(t, filepath.Join(base, "2", "y.json"), `{}`)
	await(t, c, "file behind the turned link", isNames("new y"))
}

// TestWithoutNotification: polling alone finds a change.
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
