package sys

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"zino/services/sys/textfile"
)

const (
	maxGitFile = 4 << 10
	maxBranch  = 100
)

// gitState describes the checkout that dir lies in: its branch, and an operation
// that is under way. It reads files and runs no git: a repository can configure
// programs (core.fsmonitor, filters, hooks) that `git status` would run as this
// user, outside of every sandbox.
func gitState(dir string) string {
	gitDir := findGitDir(dir)
	if gitDir == "" {
		return "no repository"
	}
	text, _, err := textfile.Head(filepath.Join(gitDir, "HEAD"), maxGitFile)
	if err != nil {
		return "unknown"
	}
	state := headState(text)
	for _, operation := range []struct{ file, name string }{
		{"rebase-merge", "rebase"},
		{"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"BISECT_LOG", "bisect"},
	} {
		if _, err := os.Lstat(filepath.Join(gitDir, operation.file)); err == nil {
			return state + ", " + operation.name + " in progress"
		}
	}
	return state
}

// findGitDir returns the git directory of the checkout that dir lies in, empty
// outside of one. In a linked worktree and in a submodule .git is a file that
// names it.
func findGitDir(dir string) string {
	for {
		path := filepath.Join(dir, ".git")
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			return path
		default:
			text, _, err := textfile.Head(path, maxGitFile)
			target, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
			if err != nil || !ok {
				return ""
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			return target
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

var (
	// branchName is stricter than git, whose names may hold anything but blanks
	// and a few signs: the name becomes part of a prompt.
	branchName = regexp.MustCompile(`^[\pL\pN][\pL\pN._/+#@=-]*$`)
	commitHash = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
)

// headState describes the content of HEAD.
func headState(head string) string {
	head = strings.TrimRight(head, "\r\n")
	if name, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok && len(name) <= maxBranch && branchName.MatchString(name) {
		return "branch " + name
	}
	if commitHash.MatchString(head) {
		return "no branch, detached at " + head[:12]
	}
	return "unknown"
}
