package repl

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// TestRemoveOld: logs of pages that are gone for a week are removed if nothing but the
// guide is in them, so nothing is lost.
func TestRemoveOld(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	old := time.Now().Add(-expireAfter - time.Hour)
	age := func(file string, at time.Time) { must(t, os.Chtimes(b.path(file), at, at)) }
	left := func(a proto.Attach) string {
		f := b.page(a)
		f.leave()
		file := f.Attached().File
		age(file, old)
		return file
	}
	gone := map[string]string{
		"js":      left(proto.Attach{Name: "js"}),
		"program": left(proto.Attach{Name: "program", Kind: "program"}),
		"python":  left(proto.Attach{Name: "python", Lang: "python", Kind: "program"}),
		"before":  "debug/before-1a2b.md",
	}
	b.write(gone["before"], "# before-1a2b\n> This file is a REPL, a chat between you and a live page: add a fenced JS block at the bottom, and the page runs it and the result is printed below. Please do not edit the replies or the last line.\n\n"+b.cfg.Footer+"\n")
	age(gone["before"], old)

	kept := map[string]string{}
	for _, name := range []string{"six days", "a word", "another name", "long results", "hard link", "read only", "open"} {
		kept[name] = left(proto.Attach{Name: name})
	}
	age(kept["six days"], time.Now().Add(-expireAfter+time.Hour))
	for name, text := range map[string]string{"a word": "word\n", "another name": ""} {
		text = b.file(kept[name]) + text
		if text = strings.TrimSuffix(text, "word\n") + strings.Repeat(" ", len("x")); name == "another name" {
			text = strings.Replace(text, "# another-name", "# my-name", 1)
		}
		b.write(kept[name], text)
		age(kept[name], old)
	}
	b.write(strings.TrimSuffix(kept["long results"], ".md")+"/1.txt", "x")
	must(t, os.Link(b.path(kept["hard link"]), b.path("link")))
	must(t, os.Chmod(b.path(kept["read only"]), 0o400))
	open, err := os.Open(b.path(kept["open"]))
	must(t, err)
	defer open.Close()
	live := b.page(proto.Attach{Name: "live"})
	kept["live"] = live.Attached().File
	age(kept["live"], old)
	kept["mine"] = "debug/notes-cafe.md"
	b.write(kept["mine"], "# My notes\n")
	age(kept["mine"], old)
	must(t, os.Symlink(b.path(kept["mine"]), b.path("debug/link-1a2c.md")))
	kept["link"] = "debug/link-1a2c.md"

	b.removeOld(time.Now())
	for name, file := range gone {
		if text := b.file(file); text != "" {
			t.Errorf("%s is still there: %s", name, text)
		}
	}
	for name, file := range kept {
		if text := b.file(file); text == "" && !(name == "read only" && os.Geteuid() == 0) {
			t.Errorf("%s was removed", name)
		}
	}
	if n := len(b.Service.allLogs()); n > len(kept) {
		t.Errorf("%d logs are in memory", n)
	}
	if strings.Contains(b.file("debug.md"), "js-") {
		b.waitFile("debug.md", "the registry without the file", func(text string) bool { return !strings.Contains(text, gone["js"]) })
	}
}

// TestTouch: connecting and leaving sets the time of a log that holds nothing but the
// guide, so that it stays for another week, and of no other.
func TestTouch(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	for i, text := range []string{"", js("1")} {
		id := fmt.Sprintf("1a2%d", i)
		f := b.page(proto.Attach{Name: "a", ID: id})
		file := f.Attached().File
		if text != "" {
			b.add(file, text)
			b.settled(file, 1)
		}
		f.leave()
		old := time.Now().Add(-expireAfter - time.Hour)
		must(t, os.Chtimes(b.path(file), old, old))
		b.page(proto.Attach{Name: "a", ID: id}).leave()
		info, err := os.Stat(b.path(file))
		must(t, err)
		if fresh := time.Since(info.ModTime()) < expireAfter; fresh != (text == "") {
			t.Errorf("%q: the time is %v", text, info.ModTime())
		}
		b.removeOld(time.Now())
		if b.file(file) == "" {
			t.Errorf("%q: it was removed", text)
		}
	}
	zinotest.Equal(t, "the service logs", b.out.String(), "")
}
