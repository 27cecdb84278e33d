package auth

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

// callback is the loopback HTTP server to which the browser is redirected with the code.
type callback struct {
	port    string
	path    string
	results chan result // capacity 1: only the first result is used
	server  *http.Server
}

// result is a code or an error.
type result struct {
	code string
	err  error
}

func listen(path string) (*callback, error) {
	listeners, port, err := listenLoopback()
	if err != nil {
		return nil, fmt.Errorf("no port on this host for the browser to come back to: %w", err)
	}
	c := &callback{port: port, path: path, results: make(chan result, 1)}
	c.server = &http.Server{
		Handler: c, MaxHeaderBytes: 32 << 10,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // of a browser's broken connections
	}
	for _, l := range listeners {
		go c.server.Serve(l) // until close
	}
	return c, nil
}

func (c *callback) close() { c.server.Close() }

// listenLoopback listens on one port of both loopback addresses, because browsers use
// either for localhost. If another process has the port on IPv6 the code could go
// there, so another port is tried. A host without IPv6 has one listener.
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
		four.Close()
	}
	return nil, "", errors.New("those that are free for IPv4 are taken for IPv6")
}

// ServeHTTP receives the code from the browser.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !c.expects(r) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "Nothing is here.\n")
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
	// The program may end as soon as it has the code, so the page is sent first. Its
	// length makes it complete before the handler returns.
	const page = "You can close this window.\n"
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	io.WriteString(w, page)
	http.NewResponseController(w).Flush()
	select {
	case c.results <- res:
	default:
	}
}

// expects reports whether a request belongs to this login. Any web page can make the
// browser send requests here, also with a host name that resolves to the loopback
// address (DNS rebinding), but it does not know the path.
func (c *callback) expects(r *http.Request) bool {
	hosts := []string{"localhost:" + c.port, "127.0.0.1:" + c.port, "[::1]:" + c.port}
	return r.Method == http.MethodGet && slices.Contains(hosts, r.Host) &&
		subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(c.path)) == 1
}
