package sys

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/sys/textfile"
)

// gitTimeout is how long a prompt waits for the git state: the directory may be on
// a file system that does not answer.
const gitTimeout = 300 * time.Millisecond

// surroundings returns the values of the session template that depend on the turn.
// They change rarely within a session, so that the prompt caches of providers
// stay valid: the date has no time of day, the git state no list of changes.
func (s *Service) surroundings(ctx context.Context, req proto.GetPrompt) map[string]string {
	sandbox := cmp.Or(req.Sandbox, s.exc.Sandbox)
	network := s.exc.Network
	if req.Network != nil {
		network = *req.Network
	}
	values := map[string]string{
		"DIRECTORY": "none: commands run in the service's own directory", "GIT": "no repository",
		"SYSTEM": systemName(), "DATE": time.Now().Format("Monday, 2006-01-02 (MST)"),
		"SANDBOX": string(sandbox), "NETWORK": "no",
	}
	switch sandbox {
	case proto.LevelOff:
		values["SANDBOX"] = "off, commands have all rights of this user"
	case proto.LevelReadOnly:
		values["SANDBOX"] = "read-only, commands can write nothing"
	case proto.LevelWorkspaceWrite:
		values["SANDBOX"] = "workspace-write, commands can write below the directory only"
	case proto.LevelUnit:
		values["SANDBOX"] = "unit, commands run as a user of their own"
	}
	if network || sandbox == proto.LevelOff {
		values["NETWORK"] = "yes"
	}
	if req.Root != "" {
		values["DIRECTORY"] = text.VisibleLine(req.Root)
		values["GIT"] = gitStateInTime(ctx, req.Root)
	}
	return values
}

// gitStateInTime returns gitState, or "unknown" after gitTimeout. The goroutine of a
// read that hangs is abandoned.
func gitStateInTime(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	state := make(chan string, 1)
	go func() { state <- gitState(dir) }()
	select {
	case s := <-state:
		return s
	case <-ctx.Done():
		return "unknown"
	}
}

// systemName returns the distribution, the kernel and the architecture.
var systemName = sync.OnceValue(func() string {
	name := "Linux"
	if release, _, err := textfile.Head("/etc/os-release", 64<<10); err == nil {
		for line := range strings.Lines(release) {
			if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				name = text.VisibleLine(strings.Trim(value, "\"'\n"))
			}
		}
	}
	var u syscall.Utsname
	if err := syscall.Uname(&u); err == nil {
		name += ", Linux " + utsField(u.Release[:]) + " " + utsField(u.Machine[:])
	}
	return name
})

// utsField returns a field of uname, whose type depends on the architecture.
func utsField[T int8 | uint8](field []T) string {
	var b strings.Builder
	for _, c := range field {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return text.VisibleLine(b.String())
}

const (
	maxGitFile = 4 << 10
	maxBranch  = 100
)

// gitState describes the checkout that contains dir: its branch, and an operation
// in progress. It reads files and does not run git: a repository can configure
// programs (core.fsmonitor, filters, hooks) that `git status` would run as this
// user, outside of every sandbox.
func gitState(dir string) string {
	gitDir := findGitDir(dir)
	if gitDir == "" {
		return "no repository"
	}
	head, _, err := textfile.Head(filepath.Join(gitDir, "HEAD"), maxGitFile)
	if err != nil {
		return "unknown"
	}
	state := headState(head)
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

// findGitDir returns the git directory of the checkout that contains dir, "" outside
// of a checkout. In a linked worktree and in a submodule .git is a file that
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
			file, _, err := textfile.Head(path, maxGitFile)
			target, ok := strings.CutPrefix(strings.TrimRight(file, "\r\n"), "gitdir: ")
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

// isBranch is stricter than git, which excludes only blanks and a few other characters:
// the name becomes part of a prompt.
func isBranch(name string) bool {
	for i, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && (i == 0 || !strings.ContainsRune("._/+#@=-", r)) {
			return false
		}
	}
	return name != "" && len(name) <= maxBranch
}

// isCommit reports whether name is the hash of a commit.
func isCommit(name string) bool {
	return (len(name) == 40 || len(name) == 64) && strings.Trim(name, "0123456789abcdef") == ""
}

// headState describes the content of HEAD.
func headState(head string) string {
	head = strings.TrimRight(head, "\r\n")
	if name, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok && isBranch(name) {
		return "branch " + name
	}
	if isCommit(head) {
		return "no branch, detached at " + head[:12]
	}
	return "unknown"
}
