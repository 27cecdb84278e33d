package web

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"zino/pkg/text"
)

// The paths of the service on the origin of a proxy. All others are the application's.
const (
	proxyScript = "/.zino/zino.js"
	proxySocket = "/.zino/ws"
)

const (
	dialTime      = 10 * time.Second
	upstreamIdle  = 3 * time.Second // for a connection; Node.js closes it after 5 s
	upstreamIdles = 32              // idle connections; a development server sends hundreds of modules
)

// proxy serves an application under an origin of its own, with the page script in
// every document.
type proxy struct {
	server    *Server
	upstream  *url.URL // scheme and host
	origins   []string // under which the upstream knows itself
	gate      *gate
	http      *http.Server
	transport *http.Transport
	nonce     string // of the script in documents with a Content-Security-Policy

	ctx      context.Context // ends with close
	cancel   context.CancelFunc
	requests sync.WaitGroup
	down     atomic.Bool // the upstream refused the last connection
}

// ServeProxy serves the application at upstream on l until Close, and closes l.
// The upstream has to be on a loopback address, which is checked at each connection,
// unless remote is set. ServeProxy may be called once.
func (s *Server) ServeProxy(l net.Listener, upstream *url.URL, remote bool) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("the proxy: %s is not a loopback address, and others must not reach the pages", l.Addr()), l.Close())
	}
	p := &proxy{server: s, upstream: upstream, origins: originsOf(upstream), gate: newGate(addr, nil, s.token), nonce: rand.Text()}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	dialer := &net.Dialer{Timeout: dialTime}
	if !remote {
		dialer.Control = onlyLoopback
	}
	p.transport = &http.Transport{
		DialContext: dialer.DialContext, DisableCompression: true, ForceAttemptHTTP2: true,
		IdleConnTimeout: upstreamIdle, MaxIdleConnsPerHost: upstreamIdles, MaxResponseHeaderBytes: 1 << 20,
		// Development servers have certificates that no authority has signed. On
		// loopback no other host can answer.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: !remote || isLoopback(upstream.Hostname())},
	}
	errorLog := slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)
	p.http = &http.Server{
		Handler: http.HandlerFunc(p.answer), ErrorLog: errorLog, BaseContext: func(net.Listener) context.Context { return p.ctx },
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		DisableGeneralOptionsHandler: true, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
	}
	s.mu.Lock()
	s.proxy = p
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return l.Close()
	}
	if err := p.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// close ends all requests and connections and waits for their goroutines. No request
// may begin any more.
func (p *proxy) close() error {
	p.cancel()
	err := p.http.Close()
	p.requests.Wait()
	p.transport.CloseIdleConnections()
	return err
}

// errRemote is the error of a connection to another host.
var errRemote = errors.New("it is not on this host: start zino repl with --allow-remote to allow it")

// onlyLoopback refuses connections to other hosts after a name has been resolved.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if addr, err := netip.ParseAddrPort(address); err != nil || !addr.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s: %w", address, errRemote)
	}
	return nil
}

// isLoopback reports whether a host name is one of loopback by itself.
func isLoopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// originsOf returns the origins that mean the upstream, its own first. An application
// on localhost may call itself 127.0.0.1.
func originsOf(upstream *url.URL) []string {
	hosts := []string{upstream.Host}
	if isLoopback(upstream.Hostname()) {
		for _, name := range []string{"localhost", "127.0.0.1", "[::1]"} {
			if port := upstream.Port(); port != "" {
				name += ":" + port
			}
			hosts = append(hosts, name)
		}
	}
	var origins []string
	for _, host := range hosts {
		origins = append(origins, upstream.Scheme+"://"+host)
		if upstream.Port() == "" {
			origins = append(origins, upstream.Scheme+"://"+host+map[string]string{"http": ":80", "https": ":443"}[upstream.Scheme])
		}
	}
	return origins
}

// answer serves the script and the socket to pages of this origin, and passes all
// other requests on.
func (p *proxy) answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case proxyScript:
		if p.server.pass(p.gate, w, r) {
			p.server.script(p.gate, w, r, proxyScript, proxySocket)
		}
	case proxySocket:
		if p.server.pass(p.gate, w, r) {
			p.server.upgrade(w, r, p.server.page)
		}
	default:
		if no := p.gate.checkHost(r); no != nil {
			p.server.refuse(w, r, no)
			return
		}
		p.forward(w, r)
	}
}

// forward sends a request to the upstream and its answer back.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	p.server.mu.Lock()
	closed := p.server.closed
	if !closed {
		p.requests.Add(1)
	}
	p.server.mu.Unlock()
	if closed {
		http.Error(w, "The service is stopping.", http.StatusServiceUnavailable)
		return
	}
	defer p.requests.Done()
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		// After an upgrade neither the server nor ReverseProxy closes it.
		defer context.AfterFunc(r.Context(), func() { c.Close() })()
	}
	// An answer may begin before the end of the request. Not every ResponseWriter can.
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header()["Content-Type"] = nil // none is added to an answer without one
	reverse := httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      p.transport,
		FlushInterval:  -1,
		ErrorLog:       p.http.ErrorLog,
		ModifyResponse: func(res *http.Response) error { return p.modify(r, res) },
		ErrorHandler:   p.fail,
	}
	reverse.ServeHTTP(w, r)
}

// rewrite addresses a request to the upstream. An Origin and a Referer of other sites
// stay: the upstream decides about them. Headers that name a proxy are not sent: the
// application must not notice it.
func (p *proxy) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	out.URL.Scheme, out.URL.Host, out.Host = p.upstream.Scheme, p.upstream.Host, p.upstream.Host
	out.URL.RawQuery = pr.In.URL.RawQuery // ReverseProxy removes what it cannot parse
	for _, name := range []string{"Origin", "Referer"} {
		if value := out.Header.Get(name); value != "" {
			out.Header.Set(name, replaceOrigin(value, p.gate.own, p.origins[0]))
		}
	}
	if isNavigation(pr.In) {
		out.Header.Set("Accept-Encoding", "identity") // the script is inserted into the text
	}
}

// isNavigation reports whether the answer may become a document with a script. HTML
// that a page fetches is the application's data.
func isNavigation(r *http.Request) bool {
	// Browsers send it to loopback addresses; other clients do not.
	return slices.Contains([]string{"", "document", "iframe", "frame", "embed", "object"}, r.Header.Get("Sec-Fetch-Dest"))
}

// modify rewrites an answer so that the browser stays at this origin, and inserts the
// script into documents. r is the browser's request.
func (p *proxy) modify(r *http.Request, res *http.Response) error {
	if p.down.Swap(false) {
		p.server.log.Warn("the proxied application answers again", "url", p.origins[0])
	}
	h, own := res.Header, "http://"+r.Host
	for _, name := range []string{"Location", "Content-Location", "Access-Control-Allow-Origin"} {
		if value := h.Get(name); value != "" {
			h.Set(name, replaceOrigin(value, p.origins, own))
		}
	}
	if before, address, ok := strings.Cut(h.Get("Refresh"), "="); ok { // "5; url=http://localhost:5173/"
		address = strings.Trim(address, ` "'`)
		h.Set("Refresh", before+"="+replaceOrigin(address, p.origins, own))
	}
	for i, cookie := range h.Values("Set-Cookie") {
		h["Set-Cookie"][i] = hostOnly(cookie, p.upstream.Hostname())
	}
	if !isNavigation(r) || res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	if res.StatusCode == http.StatusNotModified { // the browser has the relaxed policy of its document
		for _, name := range policyHeaders {
			h.Del(name)
		}
		return nil
	}
	kind, parameters, _ := strings.Cut(strings.ToLower(h.Get("Content-Type")), ";")
	attached := strings.HasPrefix(strings.ToLower(h.Get("Content-Disposition")), "attachment")
	switch res.StatusCode {
	case http.StatusNoContent, http.StatusResetContent, http.StatusPartialContent:
		return nil
	}
	if strings.TrimSpace(kind) != "text/html" || attached {
		return nil
	}
	return p.connect(r, res, strings.Contains(parameters, "utf-16"))
}

// connect inserts the script into a document.
func (p *proxy) connect(r *http.Request, res *http.Response, utf16 bool) error {
	h := res.Header
	encoding := strings.ToLower(h.Get("Content-Encoding"))
	switch {
	case utf16:
		p.warnOnce("a document in UTF-16 gets no script", "path", shorten(r.URL.Path))
		return nil
	case encoding != "" && encoding != "identity" && encoding != "gzip" && encoding != "x-gzip":
		p.warnOnce("a document gets no script, since it is compressed, although the proxy asks for identity: "+shorten(encoding), "path", shorten(r.URL.Path))
		return nil
	case isSandboxed(h):
		p.warnOnce("a document gets no script, since its Content-Security-Policy sandboxes it", "path", shorten(r.URL.Path))
		return nil
	}
	in := &injector{Closer: res.Body, doc: res.Body, tag: `<script src="` + proxyScript + `"></script>`}
	if relax(h, p.nonce, r.Host, p.origins) {
		in.tag = `<script src="` + proxyScript + `" nonce="` + p.nonce + `"></script>`
		p.warnOnce("the Content-Security-Policy of the application is relaxed for the script: it may be loaded, evaluate code and connect; a policy in a meta element stays", "path", shorten(r.URL.Path))
	}
	res.ContentLength = -1
	for _, name := range []string{"Content-Length", "Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"} {
		h.Del(name)
	}
	if res.Request.Method == http.MethodHead {
		return nil
	}
	if strings.HasSuffix(encoding, "gzip") {
		unzipped, err := gzip.NewReader(res.Body)
		if err != nil {
			return fmt.Errorf("a document in gzip: %w", err)
		}
		in.doc = unzipped
		h.Del("Content-Encoding")
	}
	res.Body = in
	return nil
}

// warnOnce logs a warning the first time.
func (p *proxy) warnOnce(message string, fields ...any) {
	if p.server.first(message) {
		p.server.log.Warn(message, fields...)
	}
}

// replaceOrigin replaces the origin of an address, if it is one of those given.
func replaceOrigin(address string, origins []string, by string) string {
	for _, origin := range origins {
		for _, begin := range []string{origin, origin[strings.Index(origin, "//"):]} { // also "//host/path"
			n := len(begin)
			if len(address) >= n && strings.EqualFold(address[:n], begin) && (len(address) == n || strings.IndexByte(`/?#"'`, address[n]) >= 0) {
				return by + address[n:]
			}
		}
	}
	return address
}

// hostOnly removes the domain of a cookie of the upstream. A cookie of another domain
// stays as it is, for the browser to refuse.
func hostOnly(cookie, host string) string {
	var kept []string
	for i, part := range strings.Split(cookie, ";") {
		name, domain, _ := strings.Cut(part, "=")
		domain = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(domain), "."))
		if i == 0 || !strings.EqualFold(strings.TrimSpace(name), "domain") || domain != "" && domain != host && !strings.HasSuffix(host, "."+domain) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ";")
}

var failedPage = template.Must(template.New("").Parse(`<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="2">
<title>{{.URL}} does not answer</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em }</style>
<h1>{{.URL}} does not answer</h1>
<p>{{.Reason}}</p>
<p>{{.Advice}} This page loads again every 2 seconds.</p>
`))

// fail answers a request that has no answer of the upstream.
func (p *proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil { // the browser has left, or the service stops
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	switch dial, ok := errors.AsType[*net.OpError](err); {
	case !ok || dial.Op != "dial":
		p.warnOnce("a request to the proxied application failed", "path", shorten(r.URL.Path), "error", text.VisibleLine(err.Error()))
	case !p.down.Swap(true):
		p.server.log.Warn("the proxied application does not answer", "url", p.origins[0], "error", text.VisibleLine(err.Error()))
	}
	page := struct{ URL, Reason, Advice string }{URL: p.origins[0], Reason: text.VisibleLine(err.Error())}
	switch {
	case errors.Is(err, errRemote):
		page.Advice = "zino repl --proxy connects to loopback addresses only, unless --allow-remote is given."
	case errors.Is(err, syscall.ECONNREFUSED):
		page.Advice = "Start the development server, or give zino repl --proxy its address."
	default:
		page.Advice = "See what the development server prints. It has to speak HTTP/1.1; HTTP/2 needs https."
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if !isNavigation(r) {
		http.Error(w, fmt.Sprintf("zino: %s does not answer: %s. %s", page.URL, page.Reason, page.Advice), http.StatusBadGateway)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.WriteHeader(http.StatusBadGateway)
	if err := failedPage.Execute(w, page); err != nil {
		p.server.log.Debug("cannot send an error page", "error", err)
	}
}
