package agents

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"zino/pkg/visible"
	"zino/proto"
)

// directories lists where to look, in order, each directory once.
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
		if info, err := os.Stat(dir); err == nil { // else the file's own error tells
			if seen(known, info) {
				continue
			}
			known = append(known, info)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// realRoot is the root without symbolic links. That it is a directory is not
// taken on trust: the tools would fail one by one.
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
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("the root %s cannot be used, %s: name a directory that is there", visible.Line(root), why)}
}

// cause is an error of the file system without its path.
func cause(err error) string {
	if p, ok := err.(*fs.PathError); ok {
		err = p.Err
	}
	return err.Error()
}

// between lists the home and the directories from there down to the parent of
// the root, none if the root is not in the home. Both are compared without
// symbolic links; what is listed begins as the home is called.
func between(home, realRoot string) (dirs []string) {
	if !filepath.IsAbs(home) {
		return nil
	}
	realHome, err := filepath.EvalSymlinks(home)
	if err != nil {
		return nil // nothing can lie in a home that is not there
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
