package web

import (
	"embed"
	"html/template"
	"net/http"
	"path"
	"strings"
)

//go:embed status
var statusFiles embed.FS

var statusPage = template.Must(template.ParseFS(statusFiles, "status/status.html"))

// about is what the page is made of.
type about struct {
	Token       string
	Serve       string
	Origins     []string
	Tag         string
	Bookmarklet template.URL
}

// policy holds the page to its own script and style. Nothing may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws:; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// bookmarklet loads the script into the page that is open.
const bookmarklet = `javascript:void(document.head.append(Object.assign(document.createElement("script"),{crossOrigin:"",src:"SCRIPT"})))`

// status sends the page that lists the realms, and what belongs to it.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	if r.URL.Path != statusPath {
		text, err := statusFiles.ReadFile("status/" + path.Base(r.URL.Path))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		kind, _ := contentType(r.URL.Path)
		send(w, r, kind, string(text))
		return
	}
	script := "http://" + r.Host + "/zino.js"
	var text strings.Builder
	err := statusPage.Execute(&text, about{
		Token: s.token, Serve: s.cfg.Serve, Origins: s.cfg.Origins,
		Tag:         `<script crossorigin src="` + script + `"></script>`,
		Bookmarklet: template.URL(strings.Replace(bookmarklet, "SCRIPT", script, 1)),
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	send(w, r, "text/html; charset=utf-8", text.String())
}
