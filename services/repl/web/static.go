package web

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// static serves a directory of files to every user of the host: nothing outside of
// it, no dotfiles, no logs of the REPL, no configuration, no keys.
type static struct {
	root *os.Root
	dir  string // without symbolic links
	logs string // debug/ of the REPL, without symbolic links; debug.md is beside it
}

func openStatic(dir, repl string) (*static, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	realPath := func(name string) (string, error) {
		name, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(name)
	}
	s := &static{root: root}
	if s.dir, err = realPath(dir); err == nil {
		s.logs, err = realPath(repl)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s.logs = filepath.Join(s.logs, "debug")
	return s, nil
}

var (
	// errSlash: the address of a directory lacks its slash. The relative links of its
	// page would be resolved beside it.
	errSlash  = errors.New("a directory")
	errSecret = errors.New("configuration files and keys are not served")
	// errLinked: the file may be one from outside of the directory, since nothing
	// tells which of its names was first.
	errLinked = errors.New("a file with several names (hard links) is not served: copy it")
)

// find opens the file at an address, or the index.html of a directory.
func (s *static) find(address string) (*os.File, fs.FileInfo, error) {
	if strings.Contains(address, "//") { // a redirect to it would lead to another host
		return nil, nil, fs.ErrNotExist
	}
	name, isDir := strings.CutSuffix(address, "/")
	name = strings.TrimPrefix(name, "/")
	if isDir {
		name = path.Join(name, "index.html")
	}
	if isSecret(name) {
		return nil, nil, errSecret
	}
	if !isPublic(name) || !s.isInside(name) {
		return nil, nil, fs.ErrNotExist
	}
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would block
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.IsDir() && !isDir:
		err = errSlash
	case !info.Mode().IsRegular():
		err = fs.ErrNotExist
	case !ok || stat.Nlink > 1:
		err = errLinked
	default:
		return f, info, nil
	}
	return nil, nil, errors.Join(err, f.Close())
}

// isInside reports whether the target of a name may be sent. Symbolic links are
// followed as long as they stay inside, so the name alone does not tell.
func (s *static) isInside(name string) bool {
	target, err := filepath.EvalSymlinks(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		return false
	}
	if target == s.logs || target == s.logs+".md" || strings.HasPrefix(target, s.logs+string(filepath.Separator)) {
		return false // the REPL's own
	}
	rel, err := filepath.Rel(s.dir, target)
	return err == nil && (rel == "." || isPublic(filepath.ToSlash(rel)) && !isSecret(rel))
}

// isPublic reports whether a path can be served: a valid one, without dotfiles, and
// not a log of a REPL.
func isPublic(name string) bool {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment[0] == '.' {
			return false
		}
	}
	first, _, _ := strings.Cut(strings.ToLower(name), "/")
	return first != "debug" && first != "debug.md"
}

// isSecret reports whether a path is a configuration of Zino, or one that commonly
// holds a key.
func isSecret(name string) bool {
	switch base := strings.ToLower(path.Base(name)); path.Ext(base) {
	case ".key", ".pem", ".p12", ".pfx", ".env":
		return true
	default:
		return base == "zino.toml" || base == "config.toml"
	}
}

// htmlMax is the largest page that the script is put into, in bytes.
const htmlMax = 4 << 20

// file answers with a file of the directory that is served, with the script in it if
// it is a page.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	if s.static == nil {
		s.missing(w, r)
		return
	}
	f, info, err := s.static.find(r.URL.Path)
	switch {
	case errors.Is(err, errSlash):
		http.Redirect(w, r, (&url.URL{Path: r.URL.Path + "/"}).String(), http.StatusFound)
		return
	case errors.Is(err, errSecret), errors.Is(err, errLinked):
		http.Error(w, "Refused: "+err.Error()+".", http.StatusForbidden)
		return
	case err != nil:
		s.log.Debug("cannot serve a file", "path", shorten(r.URL.Path), "error", err)
		s.missing(w, r)
		return
	}
	defer f.Close()
	kind, isHTML := contentType(info.Name())
	var content io.ReadSeeker = f
	if isHTML && info.Size() <= htmlMax {
		page, err := io.ReadAll(io.LimitReader(f, htmlMax))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if utf8.Valid(page) { // otherwise the page itself declares its encoding
			kind += "; charset=utf-8"
		}
		content = bytes.NewReader(inject(page))
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, info.Name(), info.ModTime(), content)
}

// missing answers a request for a file that is not there. The root leads to the
// status page.
func (s *Server) missing(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		http.Redirect(w, r, statusPath, http.StatusFound)
		return
	}
	http.Error(w, "There is no such file. Dotfiles, debug/, and links that leave the directory are not served.", http.StatusNotFound)
}

// fail answers a request on which the service itself failed.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.log.Error("request failed", "path", r.URL.Path, "error", err)
	http.Error(w, "The service failed; its log says how.", http.StatusInternalServerError)
}

// send answers with a text.
func send(w http.ResponseWriter, r *http.Request, kind, text string) {
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

// texts are the extensions that are shown as text.
var texts = map[string]bool{".txt": true, ".md": true, ".csv": true, ".log": true, ".toml": true, ".yaml": true, ".yml": true, ".ts": true}

// contentType returns the type of a file by its name; for HTML without a charset. A
// type that the system's list lacks is neither a script nor a page, and nosniff
// holds browsers to that.
func contentType(name string) (kind string, isHTML bool) {
	extension := strings.ToLower(path.Ext(name))
	switch {
	case extension == ".html" || extension == ".htm":
		return "text/html", true
	case extension == ".map":
		return "application/json", false
	case texts[extension]:
		return "text/plain; charset=utf-8", false
	}
	if kind = mime.TypeByExtension(extension); kind == "" {
		kind = "application/octet-stream"
	}
	return kind, false
}
