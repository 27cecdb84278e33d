// Package folders finds the folders of skills below a directory, and hashes folders. It
// parses nothing, for programs that only give access to them.
package folders

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// File is the name of the file that makes a folder a skill.
	File = "SKILL.md"

	maxDepth   = 2     // folders of skills below a place
	maxEntries = 10000 // directory entries that are looked at
)

// In returns the directories with a SKILL.md, at most two levels below dir, in order.
// They may be symbolic links.
func In(dir string) (list []string) {
	left := maxEntries
	var look func(dir string, depth int)
	look = func(dir string, depth int) {
		for _, name := range names(dir, &left) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err != nil || !info.IsDir() {
				continue
			}
			if _, err := os.Lstat(filepath.Join(path, File)); err == nil {
				list = append(list, path)
			} else if depth < maxDepth {
				look(path, depth+1)
			}
		}
	}
	look(dir, 1)
	return list
}

// names returns the visible entries of a directory in order, and counts them.
func names(dir string, left *int) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	if *left <= 0 {
		return nil
	}
	all, _ := f.Readdirnames(*left)
	*left -= len(all)
	all = slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, ".") })
	slices.Sort(all)
	return all
}
