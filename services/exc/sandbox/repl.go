package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"zino/pkg/replfile"
)

// A REPL directory holds a debug.md that zino repl has written. Code appended to a
// file of the debug/ beside it is evaluated in a page at once, outside of the sandbox.

// replMessage explains a refused write to a REPL directory.
const replMessage = "debug/ belongs to zino repl: use the tool page_eval, or append to the file outside the sandbox"

// isREPL reports whether an open directory is a REPL directory. Its debug.md may be a
// symbolic link.
func isREPL(dir int) bool {
	// O_PATH opens neither a device nor a pipe.
	fd, err := unix.Openat(dir, replfile.Name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	path := os.NewFile(uintptr(fd), replfile.Name)
	defer path.Close()
	if info, err := path.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(throughFD(path))
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, replfile.HeadMax)
	n, err := io.ReadFull(file, head)
	return (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) && replfile.IsRegistry(head[:n])
}

// REPLRefusal is the reason why nothing may be written at path, a path without
// symbolic links, if top or a directory below it is a REPL directory that path belongs
// to; empty: it belongs to none.
func REPLRefusal(path, top string) string {
	for at := path; at != top && at != "/" && Within(at, top); at = filepath.Dir(at) {
		name := filepath.Base(at)
		if name != replfile.Logs && (name != replfile.Name || at != path) {
			continue
		}
		dir, err := openAt(unix.AT_FDCWD, filepath.Dir(at), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		found := isREPL(int(dir.Fd()))
		closeAll(dir)
		if found {
			return replMessage
		}
	}
	return ""
}

// makeLogs makes the debug/ of a REPL directory that lacks it: only what exists can be
// mounted read-only.
func (p *Protected) makeLogs(dir string) error {
	if exists(filepath.Join(dir, replfile.Logs)) {
		return nil
	}
	rel, err := filepath.Rel(p.o.Root, dir)
	if err != nil {
		return err
	}
	err = within(p.root, rel, func(dir *os.File) error {
		return unix.Mkdirat(int(dir.Fd()), replfile.Logs, 0o755)
	})
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil // zino repl was faster, or code cannot make it either
	}
	if err != nil {
		return fmt.Errorf("cannot protect %s of zino repl in %s: %w", replfile.Logs, dir, err)
	}
	return nil
}

// linkedLogs returns further names below the root of the registries and logs in REPL
// directories, which are hard links. They are looked for only if there are any.
func (p *Protected) linkedLogs() []string {
	wanted := map[File]bool{}
	for _, dir := range p.before.repls {
		logs, _ := filepath.Glob(filepath.Join(quoteGlob(dir), replfile.Logs, "*.md")) // the pattern is well-formed
		for _, path := range append(logs, filepath.Join(dir, replfile.Name)) {
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && links(info) > 1 {
				wanted[*FileOf(info)] = true
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	found := scanFor(p.root, scanMax, wanted)
	p.before.cut = p.before.cut || found.cut
	return found.linked
}

// quoteGlob returns a pattern that matches path only.
func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// ExplainREPL returns why writes of a run at a level that can write nothing in root
// were refused, if they were to a REPL directory, in a line.
func ExplainREPL(root, stdout, stderr string, failed bool) []string {
	var repls []string
	for word := range deniedWords(stdout, stderr, failed, append(deniedTexts, "permission denied", "eacces", "errno 13")) {
		if repls == nil {
			dir, err := openAt(unix.AT_FDCWD, root, unix.O_PATH|unix.O_DIRECTORY)
			if err != nil {
				return nil
			}
			repls = scan(dir, scanMax).repls
			closeAll(dir)
		}
		if len(repls) == 0 {
			return nil
		}
		if slices.ContainsFunc(repls, func(dir string) bool {
			logs := filepath.Join(dir, replfile.Logs)
			return names(word, logs) || isEntry(word, logs) || names(word, filepath.Join(dir, replfile.Name))
		}) {
			return []string{replMessage}
		}
	}
	return nil
}

// names reports whether a word of a program's output names path or something in it.
// The directory that a relative path starts from is not known.
func names(word, path string) bool {
	if filepath.IsAbs(word) {
		return Within(filepath.Clean(word), path)
	}
	return strings.Contains("/"+word+"/", "/"+filepath.Base(path)+"/")
}

// isEntry reports whether a word names something in dir if the program ran there.
func isEntry(word, dir string) bool {
	return filepath.IsLocal(word) && filepath.Clean(word) != "." && exists(filepath.Join(dir, word))
}

// deniedWords yields the words of the lines that contain one of the kernel's errors in
// texts, which are in lower case. Lines of standard output count only if the run failed.
func deniedWords(stdout, stderr string, failed bool, texts []string) iter.Seq[string] {
	if failed {
		stderr += "\n" + stdout
	}
	return func(yield func(string) bool) {
		for line := range strings.Lines(stderr) {
			lower := strings.ToLower(line)
			if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(lower, text) }) {
				continue
			}
			for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`:,()[]‘’«»", r) }) {
				if !yield(word) {
					return
				}
			}
		}
	}
}
