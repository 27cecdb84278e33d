// Package web is the side of the file REPL that browsers see: the script that
// makes a page a realm, the WebSocket that code travels over, static files with
// the script in them, and a page that lists what is connected. Who may ask for
// any of it is decided in one place, before every route.
//
// It keeps web pages of others out. It does not keep out other programs of this
// host, which may say whatever Origin they like: they can pose as a page, or ask
// for the files that are served; what runs in a page is out of their reach.
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
	"zino/pkg/visible"
	"zino/services/repl"
)

const (
	headerTime  = 10 * time.Second // for a request's header
	idleTime    = time.Minute      // for a connection without a request
	writeTime   = 2 * time.Minute  // for a whole answer
	headerBytes = 64 << 10         // cookies of all of a host's ports come along
	closeTime   = time.Second      // for answers that are under way at the end
)

// Server is the HTTP side of a REPL.
type Server struct {
	cfg     config.Repl
	service *repl.Service
	log     *slog.Logger
	token   string
	gate    *gate
	static  *static // nil: no directory is served
	http    *http.Server

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	open    int // sockets
	sockets sync.WaitGroup
	pages   map[string]*page // by id
	told    map[string]bool  // refusals that were logged
}

// New opens the directory that is served, if there is one, and makes the token
// of this start.
func New(cfg config.Repl, service *repl.Service, log *slog.Logger) (*Server, error) {
	s := &Server{cfg: cfg, service: service, log: log, token: rand.Text(), pages: map[string]*page{}, told: map[string]bool{}}
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
		DisableGeneralOptionsHandler: true, // it would answer before the check
		ReadHeaderTimeout:            headerTime, ReadTimeout: headerTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
	return s, nil
}

// Serve answers on l until Close, and closes l. A listener that others than
// this host can reach is refused. Serve is called once.
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

// Connected reports whether a page, or somebody's list of pages, is connected.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0
}

// Close accepts no more, lets answers that are under way have a second, ends all
// connections, and waits until nothing of them is left.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, enough := context.WithTimeout(context.Background(), closeTime)
	defer enough()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.cancel()
	s.sockets.Wait()
	if s.static != nil {
		err = errors.Join(err, s.static.close())
	}
	return err
}

// answer answers a request if it may be made. The one check stands before every
// route and every upgrade.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store")
	if no := s.gate.check(r); no != nil {
		s.refuse(w, r, no)
		return
	}
	switch r.URL.Path {
	case "/zino.js":
		s.script(w, r)
	case "/zino":
		http.Redirect(w, r, statusPath, http.StatusFound)
	case socketPath:
		s.upgrade(w, r, s.realm)
	case livePath:
		s.upgrade(w, r, s.live)
	case statusPath, statusPath + "status.js", statusPath + "status.css":
		s.status(w, r)
	default:
		s.file(w, r)
	}
}

// The addresses of what is ours. A directory that is served cannot hide them.
const (
	statusPath = "/zino/"
	socketPath = "/zino/ws"
	livePath   = "/zino/live"
)

// toldMax is how many different refusals are logged, each once: a page that is
// left open would fill the log.
const toldMax = 50

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	for name, value := range no.header {
		w.Header().Set(name, value)
	}
	http.Error(w, no.reason, no.status)
	origin := shorten(r.Header.Get("Origin"))
	key := no.reason + origin
	s.mu.Lock()
	fresh := !s.told[key] && len(s.told) < toldMax
	if fresh {
		s.told[key] = true
	}
	s.mu.Unlock()
	if fresh {
		s.log.Warn("a request was refused", "reason", no.reason, "host", shorten(r.Host), "origin", origin, "path", shorten(r.URL.Path))
	}
}

// shorten makes what somebody sent fit for the log.
func shorten(s string) string { return visible.Line(s[:min(len(s), 200)]) }
