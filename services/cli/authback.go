package cli

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// back waits on this host for the browser that comes back with a code.
type back struct {
	port    string
	path    string
	results chan result // the first one counts
	server  *http.Server
}

// result is what the browser brought: a code, or that there is none.
type result struct {
	code string
	err  error
}

// listenBack listens on a free port of the loopback interface.
func listenBack(path string) (*back, error) {
	listeners, port, err := listenLoopback()
	if err != nil {
		return nil, fmt.Errorf("no port on this host for the browser to come back to: %w", err)
	}
	b := &back{port: port, path: path, results: make(chan result, 1)}
	b.server = &http.Server{
		Handler: b, MaxHeaderBytes: 32 << 10,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // a browser's broken connections are no news
	}
	for _, l := range listeners {
		go b.server.Serve(l) // ends with close
	}
	return b, nil
}

func (b *back) close() { b.server.Close() }

// listenLoopback listens on one port of both loopback addresses, for browsers
// take localhost for either. On a port whose other half is somebody else's the
// code could go astray, so another one is taken; a host without IPv6 has one.
func listenLoopback() (list []net.Listener, port string, err error) {
	for range 8 {
		four, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		_, port, err := net.SplitHostPort(four.Addr().String())
		if err != nil {
			return nil, "", errors.Join(err, four.Close())
		}
		six, err := net.Listen("tcp6", "[::1]:"+port)
		switch {
		case err == nil:
			return []net.Listener{four, six}, port, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return []net.Listener{four}, port, nil
		}
		four.Close() // nobody has connected yet
	}
	return nil, "", errors.New("those that are free for IPv4 are taken for IPv6")
}

// ServeHTTP takes the code from the browser that was sent here.
func (b *back) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !b.expects(r) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "Nothing is here.\n") // whoever asked may be gone
		return
	}
	query := r.URL.Query()
	res := result{}
	if res.code, res.err = codeOf(query); res.err != nil && query.Get("error") == "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "This does not help: %v.\n", res.err)
		return
	}
	if res.err != nil {
		res.err = fmt.Errorf("OpenRouter did not authorize: %s", brief(query.Get("error")))
	}
	// The program may end as soon as it has the code: the page leaves first, and
	// whole, which without its length it would not be before the handler ends.
	const page = "You can close this window.\n"
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	io.WriteString(w, page)
	http.NewResponseController(w).Flush()
	select {
	case b.results <- res:
	default:
	}
}

// expects tells our login's browser from any other page: each can make its
// browser ask here, also under a name that its owner lets point to this host,
// but none knows the path.
func (b *back) expects(r *http.Request) bool {
	hosts := []string{"localhost:" + b.port, "127.0.0.1:" + b.port, "[::1]:" + b.port}
	return r.Method == http.MethodGet && slices.Contains(hosts, r.Host) &&
		subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(b.path)) == 1
}
