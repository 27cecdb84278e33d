package web

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"

	"zino/pkg/wire"
)

//go:embed script/*.js
var sources embed.FS

// body is the page script without its last line. Its parts follow each other in
// the order of their names.
var body = joinScript()

// joinScript puts the parts together and leaves out comments and indentation,
// which pages have no use for.
func joinScript() string {
	var out strings.Builder
	out.WriteString("(zino=>{\"use strict\";\n")
	err := fs.WalkDir(sources, "script", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		part, err := sources.ReadFile(path)
		for line := range strings.Lines(string(part)) {
			if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "//") {
				out.WriteString(line)
			}
		}
		return err
	})
	if err != nil {
		panic(err) // an embedded file is always there
	}
	return out.String()
}

// place is what the script is told of the service.
type place struct {
	Script string `json:"script"`
	Socket string `json:"socket"`
	Token  string `json:"token"`
}

// script sends the page script. It alone may be loaded by pages of other
// origins, if they are listed; what it holds is worth nothing to others.
func (s *Server) script(w http.ResponseWriter, r *http.Request) {
	last, err := wire.AppendObject(nil, "", place{"http://" + r.Host + "/zino.js", "ws://" + r.Host + socketPath, s.token})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Vary", "Origin")
	if origin := r.Header.Get("Origin"); s.gate.lists(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
	}
	send(w, r, "text/javascript; charset=utf-8", body+"})("+string(last)+")\n")
}
