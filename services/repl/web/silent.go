package web

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	silentAfter = 10 * time.Second // after it has loaded the script, a page is connected
	silentMax   = 20               // origins that are counted
)

// silent is an origin whose pages load the script and do not connect: the directive
// connect-src of a Content-Security-Policy may forbid the WebSocket, and the page gets
// no chance to say so.
type silent struct {
	Origin    string
	Directive string // to be added to the policy
}

// loads counts the pages of an origin that have loaded the script and did not connect.
type loads struct {
	waiting int
	silent  bool // one did not connect in time
	logged  bool
}

// scriptLoaded counts a page that loads the script with a script element.
func (s *Server) scriptLoaded(r *http.Request) {
	if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Dest") != "script" {
		return // not a browser, or a page that connects again
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		origin = originOf(r.Referer())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loads[origin]
	if origin == "" || l == nil && len(s.loads) >= silentMax {
		return
	}
	if l == nil {
		l = &loads{}
		s.loads[origin] = l
	}
	l.waiting++
	time.AfterFunc(s.silentAfter, func() { s.checkSilent(origin, r.Host) })
}

// pageConnected notes that a page with an address has connected.
func (s *Server) pageConnected(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loads[originOf(address)]; l != nil {
		l.waiting, l.silent = max(0, l.waiting-1), false
	}
}

// checkSilent reports an origin if a page of it has not connected.
func (s *Server) checkSilent(origin, host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loads[origin]
	if s.closed || l.waiting == 0 {
		return
	}
	l.waiting--
	l.silent = true
	if !l.logged {
		l.logged = true
		s.log.Warn("a page has loaded the script and does not connect; if it has a Content-Security-Policy, add the directive",
			"origin", shorten(origin), "directive", socketDirective(host))
	}
}

// silent lists the origins whose pages do not connect.
func (s *Server) silent(host string) (list []silent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, origin := range slices.Sorted(maps.Keys(s.loads)) {
		if s.loads[origin].silent {
			list = append(list, silent{origin, socketDirective(host)})
		}
	}
	return list
}

// socketDirective allows the script's connections to this service.
func socketDirective(host string) string { return "connect-src ws://" + host + " http://" + host }

// originOf returns the origin of an address, "" if it has none.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
