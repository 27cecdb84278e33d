// Package web is the HTTP server of the file REPL: the script that connects a page,
// the WebSocket for code and results, static files with the script injected into
// HTML, and a status page that lists the connected pages. Every request is first
// checked by the gate.
//
// The gate refuses requests of other web pages. It cannot refuse other programs of
// this host, which may send any Origin: they can pose as a page or request served
// files, but cannot run code in a page.
package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/text"
	"zino/services/repl"
)

const (
	headerTime  = 10 * time.Second // for the header of a request
	idleTime    = time.Minute      // for a connection without a request
	writeTime   = 2 * time.Minute  // for a whole answer
	headerBytes = 64 << 10         // cookies are shared by all ports of a host
	closeTime   = time.Second      // for responses in progress at Close
	loggedMax   = 50               // distinct refusals to log, each once
)

// The paths of the service's own pages. They take precedence over served files.
const (
	scriptPath = "/zino.js"
	statusPath = "/zino/"
	socketPath = "/zino/ws"
	livePath   = "/zino/live"
)

// Server is the HTTP server of a REPL.
type Server struct {
	cfg     config.Repl
	service *repl.Service
	log     *slog.Logger
	token   string
	gate    *gate
	static  *static // nil: no directory is served
	http    *http.Server

	pingEvery, silentAfter time.Duration

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	proxy   *proxy // nil: none
	open    int    // number of open sockets
	sockets sync.WaitGroup
	pages   map[string]*page  // by id
	loads   map[string]*loads // by origin
	logged  map[string]bool   // refusals and warnings that were logged
}

// New opens the directory of [repl] serve, if it is set, and creates a random token.
func New(cfg config.Repl, service *repl.Service, log *slog.Logger) (*Server, error) {
	s := &Server{cfg: cfg, service: service, log: log, token: rand.Text(), pages: map[string]*page{}, logged: map[string]bool{}, pingEvery: pingEvery, silentAfter: silentAfter, loads: map[string]*loads{}}
	if cfg.Serve != "" {
		var err error
		if s.static, err = openStatic(cfg.Serve, cfg.Dir); err != nil {
			return nil, fmt.Errorf("the directory of static files, [repl] serve: %w", err)
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.answer), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:                  func(net.Listener) context.Context { return s.ctx },
		DisableGeneralOptionsHandler: true, // it would bypass the gate
		ReadHeaderTimeout:            headerTime, ReadTimeout: headerTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
	return s, nil
}

// Serve serves requests on l until Close, and closes l. It refuses a listener that is
// not on a loopback address. Serve may be called once.
func (s *Server) Serve(l net.Listener) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("[repl] http: %s is not a loopback address, and others must not reach the pages", l.Addr()), l.Close())
	}
	s.gate = newGate(addr, s.cfg.Origins, s.token)
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Connected reports whether a page or a status page is connected.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0
}

// Close stops accepting requests, waits up to a second for responses in progress,
// closes all connections, and waits for their goroutines.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	p := s.proxy
	s.mu.Unlock()
	var proxyErr error
	if p != nil {
		proxyErr = p.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	err = errors.Join(err, proxyErr)
	s.cancel()
	s.sockets.Wait()
	if s.static != nil {
		err = errors.Join(err, s.static.root.Close())
	}
	return err
}

// answer routes a request that passes the gate.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if !s.pass(s.gate, w, r) {
		return
	}
	switch r.URL.Path {
	case scriptPath:
		s.script(s.gate, w, r, scriptPath, socketPath)
	case "/zino":
		http.Redirect(w, r, statusPath, http.StatusFound)
	case socketPath:
		s.upgrade(w, r, s.page)
	case livePath:
		s.upgrade(w, r, s.live)
	case statusPath, statusPath + "status.js", statusPath + "status.css":
		s.status(w, r)
	default:
		s.file(w, r)
	}
}

// pass sets the common response headers and reports whether a request passes the
// gate. Otherwise it sends the refusal.
func (s *Server) pass(g *gate, w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store")
	no := g.check(r)
	if no != nil {
		s.refuse(w, r, no)
	}
	return no == nil
}

// refuse sends a refusal. It logs the same refusal only once, because an open page
// repeats its requests.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	for name, value := range no.header {
		w.Header().Set(name, value)
	}
	http.Error(w, no.reason, no.status)
	origin := shorten(r.Header.Get("Origin"))
	if s.first(no.reason + origin) {
		s.log.Warn("a request was refused", "reason", no.reason, "host", shorten(r.Host), "origin", origin, "path", shorten(r.URL.Path))
	}
}

// first reports whether a message has to be logged: it was not logged before, and
// there are not too many.
func (s *Server) first(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.logged[key] && len(s.logged) < loggedMax
	if first {
		s.logged[key] = true
	}
	return first
}

// shorten truncates and escapes a text of a request for the log.
func shorten(s string) string { return text.VisibleLine(s[:min(len(s), 200)]) }
