package protect

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"zino/services/exc/confine"
)

// includesMax is how deep git follows includes.
const includesMax = 10

// hookNames are the hooks that git runs. They are protected one by one where the
// directory of hooks is the root itself, which has to stay writable.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "post-rewrite", "pre-auto-gc", "post-index-change", "sendemail-validate",
	"fsmonitor-watchman", "reference-transaction", "push-to-checkout", "pre-receive", "update", "proc-receive", "post-receive", "post-update",
}

// layoutNames are what git reads of a directory that is a repository itself.
var layoutNames = []string{
	"HEAD", "config", "config.worktree", "commondir", "hooks", "info", "objects", "refs", "packed-refs", "index", "modules", "worktrees",
}

// repositories collects what git obeys below a root.
type repositories struct {
	root, home string
	wants      []want
	seen       map[string]bool      // directories of repositories
	parsed     map[string][]setting // configurations
}

// add protects a path, because git obeys it.
func (r *repositories) add(path string) { r.wants = append(r.wants, want{path: path, git: true}) }

// workTree adds the repository whose .git is at path, and what it obeys in its
// work tree.
func (r *repositories) workTree(git string) {
	top := filepath.Dir(git)
	r.add(git)
	r.add(filepath.Join(top, ".gitmodules"))
	dir := git
	if info, err := os.Stat(git); err != nil {
		dir = ""
	} else if !info.IsDir() {
		dir = pointed(git, "gitdir:")
	}
	r.directory(dir, top)
}

// bare adds a directory that is a repository itself. It stays writable.
func (r *repositories) bare(dir string) {
	for _, name := range layoutNames {
		r.add(filepath.Join(dir, name))
	}
	r.directory(dir, dir)
}

// directory adds the directory of a repository with a work tree, the one that it
// shares with others, and what their configuration names.
func (r *repositories) directory(dir, top string) {
	if dir == "" || r.seen[dir+"\x00"+top] {
		return
	}
	r.seen[dir+"\x00"+top] = true
	common := pointed(filepath.Join(dir, "commondir"), "")
	if common == "" {
		common = dir
	}
	for _, d := range []string{dir, common} {
		if d != top {
			r.add(d)
		}
		r.links(d, 3)
	}
	r.configs(top, filepath.Join(common, "config"), filepath.Join(dir, "config.worktree"))
}

// configs adds what configurations name, those of the user and of the host
// included: they name hooks by a path relative to the work tree.
func (r *repositories) configs(top string, files ...string) {
	files = append(files, "/etc/gitconfig")
	if r.home != "" {
		files = append(files, filepath.Join(r.home, ".gitconfig"), filepath.Join(r.home, ".config/git/config"))
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		files = append(files, filepath.Join(dir, "git/config"))
	}
	for _, file := range files {
		r.config(file, top, 0)
	}
}

// config adds what one configuration names: includes, whatever their condition,
// the directory of hooks, and programs in the work tree.
func (r *repositories) config(file, top string, depth int) {
	if depth > includesMax {
		return
	}
	settings, ok := r.parsed[file]
	if !ok {
		text, _ := readRegular(file) // what cannot be read names nothing
		settings = parseConfig(string(text))
		r.parsed[file] = settings
	}
	for _, s := range settings {
		switch {
		case s.value == "":
		case (s.section == "include" || s.section == "includeif") && s.key == "path":
			path := r.expand(s.value, filepath.Dir(file))
			r.add(path)
			r.config(path, top, depth+1)
		case s.section == "core" && s.key == "hookspath":
			r.hooks(r.expand(s.value, top))
		default:
			r.programs(s.value, top)
		}
	}
}

// hooks adds a directory of hooks. That of husky, named _, leads to the files
// beside it.
func (r *repositories) hooks(dir string) {
	if filepath.Base(dir) == "_" && dir != r.root {
		dir = filepath.Dir(dir)
	}
	r.links(dir, 1)
	if dir != r.root {
		r.add(dir)
		return
	}
	for _, name := range hookNames {
		r.add(filepath.Join(dir, name))
	}
}

// programs adds the files that the words of a value lead to: filters, drivers,
// monitors and aliases are programs.
func (r *repositories) programs(value, top string) {
	for word := range strings.FieldsSeq(value) {
		word = strings.Trim(word, `'"!;&|()`)
		if !strings.Contains(word, "/") {
			continue
		}
		path := r.expand(word, top)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && confine.Within(path, r.root) {
			r.add(path)
		}
	}
}

// expand is the path that a value means.
func (r *repositories) expand(value, base string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok && r.home != "" {
		return filepath.Join(r.home, rest)
	}
	if filepath.IsAbs(value) {
		return filepath.Clean(value)
	}
	return filepath.Join(base, value)
}

// links adds the symbolic links in the directory of a repository: what they lead
// to may lie in the work tree.
func (r *repositories) links(dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Type() == fs.ModeSymlink:
			r.add(path)
		case e.IsDir() && depth > 1 && !unwatched[e.Name()]:
			r.links(path, depth-1)
		}
	}
}

// pointed is the path that a file names behind a prefix, empty if it names none.
func pointed(file, prefix string) string {
	text, err := readRegular(file)
	if err != nil {
		return ""
	}
	name, ok := bytes.CutPrefix(text, []byte(prefix))
	to := string(bytes.TrimSpace(name))
	if !ok || to == "" || strings.ContainsRune(to, 0) {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(file), to)
	}
	return filepath.Clean(to)
}
