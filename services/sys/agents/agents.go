// Package agents gathers the AGENTS.md files that belong to a directory: what
// people have written there for whoever works on it.
package agents

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"zino/pkg/visible"
	"zino/proto"
	"zino/services/sys/textfile"
)

const (
	name = "AGENTS.md"
	// MaxFile is how many bytes of a file are used.
	MaxFile = 64 << 10

	title = "# Project Context"
)

// Places are the directories that the files are looked for in.
type Places struct {
	// Base holds the user's own rules for all projects; empty: there is none.
	Base string
	// Home counts, with all that lies between it and Root, if Root is in it;
	// empty: there is none.
	Home string
	// Root is the directory that is worked in, an absolute path.
	Root string
}

// Context is what was found.
type Context struct {
	// Text is the Markdown for the model, without a newline at its end; empty if
	// there is nothing to say.
	Text string
	// Files are the files in Text, in their order; their bytes are all of Text.
	Files []proto.PromptFile
	// Warnings are remarks on files that were left out or cut, a line each.
	Warnings []string
}

// Gather reads the files as they are now: that of the base first, that of the
// root last, each file once. Outside of the base, which is the user's own, a
// symbolic link counts only if it stays in the directory of the file: a project,
// or code confined to it, must not have other files of the user's sent. A file
// that cannot be read is a warning; the error is that of a root which is not a
// directory.
func Gather(p Places) (Context, error) {
	dirs, err := p.directories()
	if err != nil {
		return Context{}, err
	}
	g := gatherer{}
	for _, dir := range dirs {
		g.look(dir, dir == p.Base)
	}
	g.Text = g.text.String()
	return g.Context, nil
}

type gatherer struct {
	Context
	text bytes.Buffer
	seen []fs.FileInfo
}

// look adds the file in dir if it is there and says something. In a trusted
// directory its links are followed anywhere.
func (g *gatherer) look(dir string, trusted bool) {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return
	} else if err != nil {
		g.leaveOut(path, err)
		return
	}
	stat := func() (fs.FileInfo, error) { return os.Stat(path) }
	head := func() (string, int64, error) { return textfile.Head(path, MaxFile) }
	if !trusted {
		root, err := os.OpenRoot(dir)
		if err != nil {
			g.leaveOut(path, err)
			return
		}
		defer root.Close()
		stat = func() (fs.FileInfo, error) { return root.Stat(name) }
		head = func() (string, int64, error) { return textfile.HeadIn(root, name, MaxFile) }
	}
	info, err := stat()
	if escapes(err) {
		// A link to a file that was read under another name needs no warning.
		if info, err := os.Stat(path); err != nil || !seen(g.seen, info) {
			g.leaveOut(path, errEscapes)
		}
		return
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		g.leaveOut(path, errors.New("is a link to nothing"))
		return
	case err == nil && seen(g.seen, info):
		return
	case err == nil:
		g.seen = append(g.seen, info)
	}
	text, size, err := head()
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed since
		return
	case escapes(err): // changed since
		err = errEscapes
	}
	if err != nil {
		g.leaveOut(path, err)
		return
	}
	if size > int64(len(text)) {
		g.warn(path, "only the first %d of its %d bytes are used: shorten it", len(text), size)
	}
	g.add(path, trimmed(text))
}

var errEscapes = errors.New("is a link that leads out of its directory")

// escapes reports whether an error of an os.Root is its refusal to leave the
// directory, for which os has no exported value: it is the only one that the
// kernel did not give.
func escapes(err error) bool {
	if err == nil || textfile.Unfit(err) {
		return false
	}
	_, kernel := errors.AsType[syscall.Errno](err)
	return !kernel
}

// add writes a file's part of the text.
func (g *gatherer) add(path, content string) {
	if content == "" {
		return
	}
	before := g.text.Len()
	if before == 0 {
		g.text.WriteString(title)
	}
	fmt.Fprintf(&g.text, "\n\n## %s\n\n%s", visible.Line(path), content)
	g.Files = append(g.Files, proto.PromptFile{Path: visible.Line(path), Bytes: int64(g.text.Len() - before)})
}

func (g *gatherer) leaveOut(path string, err error) {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // its text repeats the path
	}
	g.warn(path, "left out, %v: fix or remove it", err)
}

func (g *gatherer) warn(path, format string, args ...any) {
	g.Warnings = append(g.Warnings, visible.Line(path)+": "+fmt.Sprintf(format, args...))
}

// trimmed is a text without blank lines around it; the first line keeps its
// indentation.
func trimmed(text string) string {
	text = strings.TrimRight(strings.TrimPrefix(text, textfile.Mark), " \t\r\n")
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			break
		}
		text = text[len(line):]
	}
	return text
}

// seen reports whether a file is among others.
func seen(list []fs.FileInfo, info fs.FileInfo) bool {
	for _, other := range list {
		if os.SameFile(other, info) {
			return true
		}
	}
	return false
}
