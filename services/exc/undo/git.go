package undo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// repo is a git repository whose work tree a scan walks through.
type repo struct {
	dir     string // its directory, such as /home/a/p/.git
	prefix  string // path of the root in the work tree, or "" with an end of "/"
	below   string // path of the work tree below the root, likewise
	files   map[string]gitFile
	verify  bool // content in the work tree may differ from the blob: a filter or line ends
	newHash func() hash.Hash
}

// Files that set attributes for all repositories of a user or of the host.
func attributeFiles() []string {
	list := []string{"/etc/gitattributes"}
	config := os.Getenv("XDG_CONFIG_HOME")
	if home := os.Getenv("HOME"); config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	if config != "" {
		list = append(list, filepath.Join(config, "git", "attributes"))
	}
	return list
}

// openRepo reads the repository whose work tree is at top, an absolute path. It
// returns nil if git or this package cannot read one there: then files get
// images.
func openRepo(ctx context.Context, top string) *repo {
	dir := filepath.Join(top, ".git")
	if info, err := os.Lstat(dir); err != nil {
		return nil
	} else if !info.IsDir() {
		text, err := os.ReadFile(dir)
		named, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
		if err != nil || !ok {
			return nil
		}
		if dir = strings.TrimSpace(named); !filepath.IsAbs(dir) {
			dir = filepath.Join(top, dir)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "index"))
	if err != nil {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(dir, "index"))
	if err != nil {
		return nil
	}
	r := &repo{dir: dir, newHash: sha1.New}
	out, err := git(ctx, dir, "config", "--get-regexp", `^(core\.(autocrlf|attributesfile)|extensions\.objectformat)$`).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) { // 1: nothing is set
		return nil
	}
	for line := range strings.Lines(string(out)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "extensions.objectformat":
			if value == "sha256" {
				r.newHash = sha256.New
			}
		case "core.autocrlf":
			r.verify = r.verify || value != "false"
		default:
			r.verify = true
		}
	}
	for _, file := range append(attributeFiles(), filepath.Join(commonDir(dir), "info", "attributes")) {
		r.verify = r.verify || convertsIn(file)
	}
	if r.files, err = parseGitIndex(data, r.newHash().Size(), info.ModTime().UnixNano()); err != nil {
		return nil
	}
	return r
}

// commonDir is the directory that the work trees of a repository share.
func commonDir(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "commondir"))
	if err != nil {
		return dir
	}
	common := strings.TrimSpace(string(text))
	if filepath.IsAbs(common) {
		return common
	}
	return filepath.Join(dir, common)
}

// repoAbove returns the repository that root lies in.
func repoAbove(ctx context.Context, root string) *repo {
	converts := false
	for top := filepath.Dir(root); ; top = filepath.Dir(top) {
		converts = converts || convertsIn(filepath.Join(top, ".gitattributes"))
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			r := openRepo(ctx, top)
			if rel, err := filepath.Rel(top, root); r != nil && err == nil {
				r.prefix, r.verify = rel+"/", r.verify || converts
				return r
			}
			return nil
		}
		if top == "/" {
			return nil
		}
	}
}

// converters are the attributes with which git stores other content than the work
// tree has.
var converters = []string{"text", "crlf", "eol", "filter", "ident", "working-tree-encoding", "[attr]"}

// attributesMax is the size of a file of attributes that is read.
const attributesMax = 1 << 20

// convertsIn reports whether a file of attributes has one of the converters, for any
// path. Files below are then compared with their blobs.
func convertsIn(path string) bool {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil || !info.Mode().IsRegular() {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, attributesMax))
	if err != nil || len(data) == attributesMax {
		return true
	}
	for _, name := range converters {
		if bytes.Contains(data, []byte(name)) {
			return true
		}
	}
	return false
}

// blobOf returns the blob of an unchanged file, or "".
func (r *repo) blobOf(path string, e *entry) string {
	if r == nil {
		return ""
	}
	f, ok := r.files[r.prefix+strings.TrimPrefix(path, r.below)]
	if !ok || f.mtime != e.mtime || f.ctime != e.ctime || f.ino != uint32(e.ino) || f.size != uint32(e.size) {
		return ""
	}
	return f.blob
}

// blobHash is a hash to which a blob's content is written, for its name.
func (r *repo) blobHash(size int64) hash.Hash {
	h := r.newHash()
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

// gitLimit is how long git may take for its configuration or for blobs.
const gitLimit = 10 * time.Second

// git is a command on a repository, which it does not change. It runs no program
// that a configuration names, and fetches nothing.
func git(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-pager", "--git-dir=" + dir}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_REPLACE_OBJECTS=1",
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME="+dir)
	}
	cmd.Dir = dir
	return cmd
}

// blobs calls fn with the content of each blob of a repository, in their order;
// with nil for one that git does not have.
func blobs(ctx context.Context, dir string, names []string, fn func(i int, content io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	cmd := git(ctx, dir, "cat-file", "--batch")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() })
	err = readBlobs(bufio.NewReaderSize(out, 64<<10), names, fn)
	if err != nil {
		kill()
	}
	return errors.Join(err, cmd.Wait())
}

// readBlobs reads the output of git cat-file --batch.
func readBlobs(out *bufio.Reader, names []string, fn func(i int, content io.Reader) error) error {
	for i, name := range names {
		line, err := out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != name || fields[1] != "blob" {
			if err := fn(i, nil); err != nil {
				return err
			}
			if len(fields) == 2 { // NAME missing
				continue
			}
			return fmt.Errorf("git cat-file answers %.200q for %s", line, name)
		}
		size, err := strconv.ParseInt(fields[2], 10, 63)
		if err != nil {
			return fmt.Errorf("git cat-file answers %.200q for %s", line, name)
		}
		content := io.LimitReader(out, size)
		if err := fn(i, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
		if end, err := out.ReadByte(); err != nil || end != '\n' {
			return fmt.Errorf("git cat-file: the content of %s is cut off", name)
		}
	}
	return nil
}

// blobSums returns the SHA-256 of blobs by their names, without those that git does
// not have.
func blobSums(ctx context.Context, dir string, names []string) (map[string]string, error) {
	sums := map[string]string{}
	err := blobs(ctx, dir, names, func(i int, content io.Reader) error {
		if content == nil {
			return nil
		}
		h := sha256.New()
		if _, err := io.Copy(h, content); err != nil {
			return err
		}
		sums[names[i]] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	return sums, err
}
