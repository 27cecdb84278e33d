// Package agents collects the AGENTS.md files that apply to a directory: instructions
// for agents that work in it.
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

	"zino/pkg/text"
	"zino/proto"
	"zino/services/sys/textfile"
)

const (
	name = "AGENTS.md"
	// MaxFile is the maximum number of bytes used of a file.
	MaxFile = 64 << 10

	title = "# Project Context"
)

// Places are the directories in which the files are searched.
type Places struct {
	// Base is the user's base directory, with rules for all projects; empty: none.
	Base string
	// Home is searched, with all directories down to Root, if it contains Root;
	// empty: none.
	Home string
	// Root is the working directory, an absolute path.
	Root string
}

// Context is the result of Gather.
type Context struct {
	// Text is the Markdown for the model, without a newline at its end; empty if
	// no file has content.
	Text string
	// Files are the files in Text, in their order. The sum of their bytes is the
	// length of Text.
	Files []proto.PromptFile
	// Warnings name files that were left out or cut, one line each.
	Warnings []string
}

// Gather reads the files: that of the base first, that of the root last, each file
// once. Outside of the base, which the user controls, a symbolic link is followed
// only within the directory of the file: otherwise a project, or code confined to it,
// could send other files of the user to a model. A file that cannot be read is a
// warning. A root that is not a directory is an error.
func Gather(p Places) (Context, error) {
	dirs, err := p.directories()
	if err != nil {
		return Context{}, err
	}
	g := gatherer{}
	for _, dir := range dirs {
		g.add(dir, dir == p.Base)
	}
	g.Text = g.text.String()
	return g.Context, nil
}

type gatherer struct {
	Context
	text bytes.Buffer
	seen []fs.FileInfo
}

// add adds the file in dir, if it exists and is not empty. In a trusted directory
// its links are followed anywhere.
func (g *gatherer) add(dir string, trusted bool) {
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
	content, size, err := head()
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
	if size > int64(len(content)) {
		g.warn(path, "only the first %d of its %d bytes are used: shorten it", len(content), size)
	}
	content = trimmed(content)
	if content == "" {
		return
	}
	before := g.text.Len()
	if before == 0 {
		g.text.WriteString(title)
	}
	fmt.Fprintf(&g.text, "\n\n## %s\n\n%s", text.VisibleLine(path), content)
	g.Files = append(g.Files, proto.PromptFile{Path: text.VisibleLine(path), Bytes: int64(g.text.Len() - before)})
}

var errEscapes = errors.New("is a link that leads out of its directory")

// escapes reports whether err means that a path leaves its os.Root. os exports no
// value for it; all other errors of os.Root are errnos of the kernel.
func escapes(err error) bool {
	if err == nil || textfile.NotText(err) {
		return false
	}
	_, kernel := errors.AsType[syscall.Errno](err)
	return !kernel
}

func (g *gatherer) leaveOut(path string, err error) {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // without the path
	}
	g.warn(path, "left out, %v: fix or remove it", err)
}

func (g *gatherer) warn(path, format string, args ...any) {
	g.Warnings = append(g.Warnings, text.VisibleLine(path)+": "+fmt.Sprintf(format, args...))
}

// trimmed drops blank lines at both ends; the first line keeps its indentation.
func trimmed(s string) string {
	s = strings.TrimRight(strings.TrimPrefix(s, textfile.Mark), " \t\r\n")
	for line := range strings.Lines(s) {
		if strings.TrimSpace(line) != "" {
			break
		}
		s = s[len(line):]
	}
	return s
}

// seen reports whether info is a file of the list.
func seen(list []fs.FileInfo, info fs.FileInfo) bool {
	for _, other := range list {
		if os.SameFile(other, info) {
			return true
		}
	}
	return false
}

// directories returns the directories to search, in order, each once.
func (p Places) directories() ([]string, error) {
	real, err := p.realRoot()
	if err != nil {
		return nil, err
	}
	candidates := append([]string{p.Base}, between(p.Home, real)...)
	var dirs []string
	var known []fs.FileInfo
	for _, dir := range append(candidates, filepath.Clean(p.Root)) {
		if dir == "" {
			continue
		}
		if info, err := os.Stat(dir); err == nil { // add reports errors
			if seen(known, info) {
				continue
			}
			known = append(known, info)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// realRoot returns the root without symbolic links. It checks that the root is a
// directory, since otherwise every tool call would fail.
func (p Places) realRoot() (string, error) {
	if !filepath.IsAbs(p.Root) {
		return "", badRoot(p.Root, "not an absolute path")
	}
	real, err := filepath.EvalSymlinks(p.Root)
	if err != nil {
		return "", badRoot(p.Root, cause(err))
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", badRoot(p.Root, cause(err))
	case !info.IsDir():
		return "", badRoot(p.Root, "not a directory")
	}
	return real, nil
}

func badRoot(root, why string) error {
	return proto.Errorf(proto.CodeInvalid, "invalid root %s: %s: name an existing directory", text.VisibleLine(root), why)
}

// cause returns the text of a file system error without its path.
func cause(err error) string {
	if p, ok := err.(*fs.PathError); ok {
		err = p.Err
	}
	return err.Error()
}

// between returns home and the directories below it down to the parent of the root,
// or nil if home does not contain the root. Both are compared without symbolic links;
// the returned paths begin with home as given.
func between(home, realRoot string) (dirs []string) {
	if !filepath.IsAbs(home) {
		return nil
	}
	realHome, err := filepath.EvalSymlinks(home)
	if err != nil {
		return nil // a missing home contains nothing
	}
	below, err := filepath.Rel(realHome, realRoot)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") {
		return nil
	}
	dir := filepath.Clean(home)
	for part := range strings.SplitSeq(below, "/") {
		dirs = append(dirs, dir)
		dir = filepath.Join(dir, part)
	}
	return dirs
}
