package chat

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	walkNames = 20_000
	walkDepth = 8
	walkTime  = 200 * time.Millisecond
	// pathTime is how long a list of paths is used, listTime is that of other lists.
	pathTime = 3 * time.Second
	listTime = time.Minute
	// gitTime limits git ls-files: then the directory is walked.
	gitTime = 2 * time.Second
)

// listing is a list of values for completion, made in the background.
type listing struct {
	values []string
	at     time.Time // when it was made; zero: never
	busy   bool      // it is being made
}

// list returns the values of a list. One that is older than fresh is made anew in the
// background; known is false as long as there is no list at all.
func (c *chat) list(name string, fresh time.Duration, fetch func(ctx context.Context) ([]string, error)) (values []string, known bool) {
	if c.client == nil && fresh == listTime { // of services that are not there yet
		return nil, true
	}
	l := c.listings[name]
	if l == nil {
		l = &listing{}
		c.listings[name] = l
	}
	if !l.busy && time.Since(l.at) > fresh {
		l.busy = true
		go func() {
			values, err := fetch(c.ctx)
			c.after(func() {
				l.busy, l.at = false, time.Now()
				if err == nil {
					l.values = values
				}
				c.listed()
			})
		}()
	}
	return l.values, !l.at.IsZero()
}

// paths returns the paths that a name behind @ may become: those below the root, or those
// in the directory of a name that is absolute, in the home directory or above the root.
func (c *chat) paths(name string) (paths []string, known bool) {
	if dir := name[:strings.LastIndexByte(name, '/')+1]; filepath.IsAbs(name) || strings.HasPrefix(name, "~/") || strings.HasPrefix(name, "../") || strings.HasPrefix(name, "./") {
		path := c.resolve(dir)
		return c.list("in "+dir+" "+path, pathTime, func(context.Context) ([]string, error) { return inDirectory(path, dir) })
	}
	root := c.root
	return c.list("below "+root, pathTime, func(ctx context.Context) ([]string, error) { return below(ctx, root), nil })
}

// inDirectory lists a directory. Hidden names come last.
func inDirectory(path, prefix string) ([]string, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(walkNames)
	var names, hidden []string
	for _, e := range entries {
		name := prefix + e.Name()
		if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil && info.IsDir() {
			name += "/"
		}
		if strings.HasPrefix(e.Name(), ".") {
			hidden = append(hidden, name)
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Sort(hidden)
	return append(names, hidden...), err
}

// below lists the files below a directory, and the directories that have any: those that
// git knows, else those of a walk.
func below(ctx context.Context, root string) []string {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z")
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.Output()
	var files []string
	if err == nil {
		files = strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	} else {
		files = walk(root)
	}
	files = slices.DeleteFunc(files, func(path string) bool { return path == "" })
	directories := map[string]bool{}
	for _, path := range files {
		for i := strings.LastIndexByte(path, '/'); i > 0 && !directories[path[:i+1]]; i = strings.LastIndexByte(path[:i], '/') {
			directories[path[:i+1]] = true
		}
	}
	for dir := range directories {
		files = append(files, dir)
	}
	slices.Sort(files)
	return slices.Compact(files) // a file in conflict is listed several times
}

// walk lists the files below a directory, without hidden directories, as far as it gets.
func walk(root string) (list []string) {
	until := time.Now().Add(walkTime)
	filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if len(list) >= walkNames || time.Now().After(until) {
			return fs.SkipAll
		}
		rel, relErr := filepath.Rel(root, path)
		if err != nil || relErr != nil || path == root {
			return nil
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") || strings.Count(rel, "/") >= walkDepth) {
			return fs.SkipDir
		}
		if !e.IsDir() {
			list = append(list, rel)
		}
		return nil
	})
	return list
}
