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
	"strings"
	"time"
	"unicode/utf8"
)

// htmlMax is the largest page that the script is put into, in bytes.
const htmlMax = 4 << 20

// file answers with a file of the directory that is served.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	if s.static == nil {
		s.missing(w, r)
		return
	}
	f, info, err := s.static.find(r.URL.Path)
	switch {
	case errors.Is(err, errSlash):
		http.Redirect(w, r, (&url.URL{Path: r.URL.Path + "/"}).String(), http.StatusFound)
	case errors.Is(err, errSecret), errors.Is(err, errLinked):
		http.Error(w, "Refused: "+err.Error()+".", http.StatusForbidden)
	case err != nil:
		s.log.Debug("no file", "path", shorten(r.URL.Path), "error", err)
		s.missing(w, r)
	default:
		defer f.Close()
		s.sendFile(w, r, f, info)
	}
}

// missing answers for what is not there. Whoever comes without knowing more is
// shown what is connected.
func (s *Server) missing(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		http.Redirect(w, r, statusPath, http.StatusFound)
		return
	}
	http.Error(w, "There is no such file. Dotfiles, debug/, and links that leave the directory are not served.", http.StatusNotFound)
}

// fail answers where the service itself failed.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.log.Error("a request failed", "path", r.URL.Path, "error", err)
	http.Error(w, "The service failed; its log says how.", http.StatusInternalServerError)
}

// sendFile sends a file, with the script in it if it is a page.
func (s *Server) sendFile(w http.ResponseWriter, r *http.Request, f *os.File, info fs.FileInfo) {
	kind, isHTML := contentType(info.Name())
	if !isHTML || info.Size() > htmlMax {
		w.Header().Set("Content-Type", kind)
		http.ServeContent(w, r, info.Name(), info.ModTime(), f)
		return
	}
	page, err := io.ReadAll(io.LimitReader(f, htmlMax))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if utf8.Valid(page) { // else the page itself says what it is written in
		kind += "; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, info.Name(), info.ModTime(), bytes.NewReader(inject(page)))
}

// texts are the endings of files that are shown as text. What the system's list
// of types lacks is no script and no page: nosniff holds browsers to that.
var texts = map[string]bool{".txt": true, ".md": true, ".csv": true, ".log": true, ".toml": true, ".yaml": true, ".yml": true, ".ts": true}

// contentType is the type of a file by its name; for HTML without a charset.
func contentType(name string) (kind string, isHTML bool) {
	ending := strings.ToLower(path.Ext(name))
	switch {
	case ending == ".html" || ending == ".htm":
		return "text/html", true
	case ending == ".map":
		return "application/json", false
	case texts[ending]:
		return "text/plain; charset=utf-8", false
	}
	if kind = mime.TypeByExtension(ending); kind == "" {
		kind = "application/octet-stream"
	}
	return kind, false
}

// send answers with a text that is made now.
func send(w http.ResponseWriter, r *http.Request, kind, text string) {
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}
