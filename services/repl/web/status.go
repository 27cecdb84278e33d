package web

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/coder/websocket"

	"zino/proto"
)

//go:embed status
var statusFiles embed.FS

var statusPage = template.Must(template.ParseFS(statusFiles, "status/status.html"))

const (
	// policy restricts the status page to its own script and style, and forbids
	// framing.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws:; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

	// bookmarklet loads the script into the open page.
	bookmarklet = `javascript:void(document.head.append(Object.assign(document.createElement("script"),{crossOrigin:"",src:"SCRIPT"})))`

	listEvery = 5 * time.Second        // longest interval between two lists
	listPause = 100 * time.Millisecond // shortest interval
)

// status sends the status page, its script or its style sheet.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	if r.URL.Path != statusPath && r.URL.Path != "/" {
		text, err := statusFiles.ReadFile("status/" + path.Base(r.URL.Path))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		kind, _ := contentType(r.URL.Path)
		send(w, r, kind, string(text))
		return
	}
	script := "http://" + r.Host + scriptPath
	var text strings.Builder
	err := statusPage.Execute(&text, struct {
		Token       string
		Serve       string
		Dir         string
		Silent      []silent
		Origins     []string
		Tag         string
		Bookmarklet template.URL
	}{
		Token: s.token, Serve: s.cfg.Serve, Dir: s.cfg.Dir, Silent: s.silent(r.Host), Origins: s.cfg.Origins,
		Tag:         `<script crossorigin src="` + script + `"></script>`,
		Bookmarklet: template.URL(strings.Replace(bookmarklet, "SCRIPT", script, 1)),
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	send(w, r, "text/html; charset=utf-8", text.String())
}

// live sends the list of pages whenever it has changed, until ctx ends or the
// browser disconnects.
func (s *Server) live(ctx context.Context, c *websocket.Conn) error {
	ctx = c.CloseRead(ctx)
	watching, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	watched := make(chan error, 1)
	go func() {
		defer cancel()
		watched <- s.service.Watch(watching, proto.WatchPages{}, func(string, any) error {
			select {
			case changed <- struct{}{}:
			default: // a change is pending already
			}
			return nil
		})
	}()
	// Send with ctx, not watching: a list in progress is sent completely when
	// watching ends.
	err := s.sendLists(ctx, watching, c, changed)
	cancel()
	return errors.Join(err, <-watched)
}

func (s *Server) sendLists(ctx, watching context.Context, c *websocket.Conn, changed <-chan struct{}) error {
	wait := func(at <-chan time.Time, changed <-chan struct{}) bool {
		select {
		case <-at:
		case <-changed:
		case <-watching.Done():
			return false
		}
		return true
	}
	for {
		pages, err := s.service.Pages(ctx, proto.PagesRequest{})
		if err != nil {
			return err
		}
		if err := write(ctx, c, "pages", pages); err != nil {
			return err
		}
		if !wait(time.After(listPause), nil) || !wait(time.After(listEvery), changed) {
			return nil
		}
	}
}
