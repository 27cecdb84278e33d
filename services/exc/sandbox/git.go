package sandbox

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// includesMax is how deep git follows includes.
const includesMax = 10

// hookNames are the hooks that git runs. They are protected one by one where the
// directory of hooks is the root itself, which must stay writable.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "post-rewrite", "pre-auto-gc", "post-index-change", "sendemail-validate",
	"fsmonitor-watchman", "reference-transaction", "push-to-checkout", "pre-receive", "update", "proc-receive", "post-receive", "post-update",
}

// layoutNames are what git reads in a directory that is itself a repository.
var layoutNames = []string{
	"HEAD", "config", "config.worktree", "commondir", "hooks", "info", "objects", "refs", "packed-refs", "index", "modules", "worktrees",
}

// historyDirs are directories of a repository that choose no program. They may be
// large, and a repository's history does not change with them.
var historyDirs = map[string]bool{"objects": true, "logs": true, "lfs": true}

// repositories collects the paths below a root that git obeys.
type repositories struct {
	root, home string
	paths      []string
	seen       map[string]bool      // directories of repositories
	parsed     map[string][]setting // configurations
}

// gitPaths lists what git obeys in the root: the root's repository, which may lie
// above it, and those below it.
func (p *Protected) gitPaths() []string {
	root := p.o.Root
	r := &repositories{root: root, home: p.o.Home, seen: map[string]bool{}, parsed: map[string][]setting{}}
	r.workTree(filepath.Join(root, ".git"))
	for _, git := range p.before.git {
		if filepath.Dir(git) != root {
			r.workTree(git)
		}
	}
	for _, dir := range p.before.layouts { // a repository itself; it stays writable
		for _, name := range layoutNames {
			r.add(filepath.Join(dir, name))
		}
		r.directory(dir, dir)
	}
	for dir := root; dir != "/" && !exists(filepath.Join(dir, ".git")); {
		dir = filepath.Dir(dir)
		if git := filepath.Join(dir, ".git"); exists(git) {
			r.workTree(git)
		}
	}
	r.configs(root)
	return r.paths
}

func (r *repositories) add(path string) { r.paths = append(r.paths, path) }

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

// directory adds the directory of a repository with a work tree, its common directory
// (commondir), and the paths that their configuration names.
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

// configs adds what configurations name, including the user's and the host's:
// they name hooks by a path relative to the work tree.
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

// config adds what one configuration names: includes under any condition, the
// directory of hooks, and programs in the work tree.
func (r *repositories) config(file, top string, depth int) {
	if depth > includesMax {
		return
	}
	settings, ok := r.parsed[file]
	if !ok {
		text, _ := readRegular(file) // an unreadable file names nothing
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

// programs adds the files that the words of a value name: filters, drivers,
// monitors and aliases are programs.
func (r *repositories) programs(value, top string) {
	for word := range strings.FieldsSeq(value) {
		word = strings.Trim(word, `'"!;&|()`)
		if !strings.Contains(word, "/") {
			continue
		}
		path := r.expand(word, top)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && Within(path, r.root) {
			r.add(path)
		}
	}
}

// expand returns the path that a value names.
func (r *repositories) expand(value, base string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok && r.home != "" {
		return filepath.Join(r.home, rest)
	}
	if filepath.IsAbs(value) {
		return filepath.Clean(value)
	}
	return filepath.Join(base, value)
}

// links adds the symbolic links in the directory of a repository: their targets
// may lie in the work tree.
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
		case e.IsDir() && depth > 1 && !historyDirs[e.Name()]:
			r.links(path, depth-1)
		}
	}
}

// pointed returns the path that a file names behind a prefix; empty: it names no path.
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

// setting is one entry of a git configuration.
type setting struct {
	section string // lower case, without its subsection
	key     string // lower case
	value   string
}

// parseConfig reads a git configuration (git-config(1), "Syntax"). A line that
// git would refuse is skipped.
func parseConfig(text string) (list []setting) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	section := ""
	for text != "" {
		switch c := text[0]; {
		case c == ' ' || c == '\t' || c == '\n':
			text = text[1:]
		case c == '[':
			section, text = parseSection(text[1:])
		case letter(c):
			n := 1
			for n < len(text) && (letter(text[n]) || text[n] >= '0' && text[n] <= '9' || text[n] == '-') {
				n++
			}
			s := setting{section: section, key: strings.ToLower(text[:n])}
			text = strings.TrimLeft(text[n:], " \t")
			if strings.HasPrefix(text, "=") {
				s.value, text = parseValue(text[1:])
				list = append(list, s)
			}
		default: // a comment, or a line that git refuses
			_, text, _ = strings.Cut(text, "\n")
		}
	}
	return list
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// parseSection reads the header of a section behind its opening bracket.
func parseSection(text string) (name, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return "", text[i:]
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			name, _, _ = strings.Cut(text[:i], " ")
			name, _, _ = strings.Cut(name, "\t")
			name, _, _ = strings.Cut(name, `"`)
			name, _, _ = strings.Cut(name, ".") // the older [section.subsection]
			return strings.ToLower(name), text[i+1:]
		}
	}
	return "", ""
}

// parseValue reads a value behind the equals sign, to the end of its line.
func parseValue(text string) (value, rest string) {
	var b strings.Builder
	quoted, kept := false, 0 // kept: the length without blanks at the end
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			return b.String()[:kept], text[i:]
		case !quoted && (c == '#' || c == ';'):
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case c == '"':
			quoted = !quoted
			continue
		case c == '\\':
			if i++; i == len(text) {
				return b.String()[:kept], ""
			}
			if c = text[i]; c == '\n' {
				continue
			}
			if at := strings.IndexByte("nbt", c); at >= 0 {
				c = "\n\b\t"[at]
			}
		case !quoted && (c == ' ' || c == '\t'):
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		}
		b.WriteByte(c)
		kept = b.Len()
	}
	return b.String()[:kept], ""
}
