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

// static serves a directory of files to every user of the host, except dotfiles, logs
// of the REPL, configuration files and keys. It serves no file outside of the
// directory.
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
	// errSlash: the path of a directory has no final slash. Without it browsers
	// resolve relative links against the parent directory.
	errSlash  = errors.New("a directory")
	errSecret = errors.New("configuration files and keys are not served")
	// errLinked: a hard link may be a file from outside of the directory.
	errLinked = errors.New("a file with several names (hard links) is not served: copy it")
)

// find opens the file for a URL path, or the index.html of a directory.
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

// isInside reports whether the target of a name may be served, after following
// symbolic links, which may not leave the directory.
func (s *static) isInside(name string) bool {
	target, err := filepath.EvalSymlinks(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		return false
	}
	if target == s.logs || target == s.logs+".md" || strings.HasPrefix(target, s.logs+string(filepath.Separator)) {
		return false // a log of the REPL
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

// isSecret reports whether a path is a configuration file of Zino, or has a name that
// is common for keys.
func isSecret(name string) bool {
	switch base := strings.ToLower(path.Base(name)); path.Ext(base) {
	case ".key", ".pem", ".p12", ".pfx", ".env":
		return true
	default:
		return base == "zino.toml" || base == "config.toml"
	}
}

// htmlMax is the size in bytes of the largest page that gets the script.
const htmlMax = 4 << 20

// file serves a file of the directory. It injects the script into HTML.
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

// missing answers a request for a file that does not exist. For "/" it sends the status
// page.
func (s *Server) missing(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		s.status(w, r)
		return
	}
	http.Error(w, "There is no such file. Dotfiles, debug/, and links that leave the directory are not served.", http.StatusNotFound)
}

// fail logs an internal error and answers with status 500.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.log.Error("request failed", "path", r.URL.Path, "error", err)
	http.Error(w, "The service failed; its log says how.", http.StatusInternalServerError)
}

// send answers with a text.
func send(w http.ResponseWriter, r *http.Request, kind, text string) {
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

// texts are the extensions that are served as text/plain.
var texts = map[string]bool{".txt": true, ".md": true, ".csv": true, ".log": true, ".toml": true, ".yaml": true, ".yml": true, ".ts": true}

// contentType returns the type of a file by its extension, for HTML without a charset.
// Unknown extensions are application/octet-stream, which nosniff prevents browsers
// from treating as a script or a page.
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
