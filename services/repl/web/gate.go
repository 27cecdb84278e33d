package web

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// gate decides which requests are served, by their Host and Origin headers: any web
// page can send requests to the loopback address of this host, and its domain name
// may resolve to that address (DNS rebinding).
type gate struct {
	hosts  []string // of the listener, with the port
	own    []string // origins of the listener
	listed []string // origins of [repl] origins
	token  string
}

// refusal is the answer to a request that is not served.
type refusal struct {
	status int
	reason string
	header map[string]string
}

func newGate(addr *net.TCPAddr, origins []string, token string) *gate {
	g := &gate{token: token}
	port := strconv.Itoa(addr.Port)
	for _, host := range []string{"127.0.0.1", "localhost", "::1", addr.IP.String()} {
		host = net.JoinHostPort(host, port)
		g.hosts = append(g.hosts, host)
		if addr.Port == 80 { // browsers leave it out
			g.hosts = append(g.hosts, strings.TrimSuffix(host, ":80"))
		}
	}
	for _, host := range g.hosts {
		g.own = append(g.own, "http://"+host)
	}
	for _, origin := range origins {
		// As browsers write it: lower case, without the default port of the scheme.
		if u, err := url.Parse(strings.ToLower(origin)); err == nil {
			usual := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
			origin = u.Scheme + "://" + strings.TrimSuffix(u.Host, usual)
		}
		g.listed = append(g.listed, origin)
	}
	return g
}

func denied(reason string) *refusal { return &refusal{status: http.StatusForbidden, reason: reason} }

// checkHost returns why the host that a request names is refused, or nil.
func (g *gate) checkHost(r *http.Request) *refusal {
	if !slices.Contains(g.hosts, r.Host) {
		return denied("This host is not served here. Use http://127.0.0.1 or http://localhost with the port.")
	}
	return nil
}

// check returns why a request is refused, or nil.
func (g *gate) check(r *http.Request) *refusal {
	upgrade := r.Header.Get("Upgrade") != "" || slices.ContainsFunc(words(r.Header.Values("Connection")), func(word string) bool {
		return strings.EqualFold(word, "upgrade")
	})
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	// A page of another site cannot read the response, but it could run a script or
	// measure an image. Following a link is allowed.
	site := r.Header.Get("Sec-Fetch-Site")
	foreign := (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
	// The token is in Sec-WebSocket-Protocol, the only header of a handshake that a
	// page can set.
	offered := words(r.Header.Values("Sec-WebSocket-Protocol"))
	hasToken := len(offered) == 2 && offered[0] == protocol && subtle.ConstantTimeCompare([]byte(offered[1]), []byte(g.token)) == 1

	if no := g.checkHost(r); no != nil {
		return no
	}
	switch origins := r.Header.Values("Origin"); {
	case len(origins) > 1:
		return denied("There are several origins.")
	case len(origins) == 1 && !slices.Contains(g.own, origins[0]) && !g.lists(origins[0]): // also "null", the origin of files and sandboxes
		return denied("Pages of this origin may not connect. To allow them, list it in ZINO.toml under [repl] origins: scheme, host and port. A frame with the attribute sandbox, whose origin is null, needs allow-same-origin.")
	case len(origins) == 0 && (upgrade || !reading):
		return denied("A request of this kind has to name its origin.")
	case len(origins) == 0 && foreign:
		return denied("Pages of other sites may not load this. For the script, list the origin in ZINO.toml under [repl] origins, and write <script crossorigin>. importScripts of a worker cannot load it from another origin: create the worker as a module, new Worker(url, {type: \"module\"}), and import it there, or open the application through zino repl --proxy.")
	case upgrade && !hasToken:
		return denied("The token is missing or an old one. Load the script again; a service worker of the page may answer with an old copy.")
	case !reading:
		return &refusal{http.StatusMethodNotAllowed, "Only GET and HEAD are answered here.", map[string]string{"Allow": "GET, HEAD"}}
	case r.ContentLength != 0:
		return &refusal{http.StatusRequestEntityTooLarge, "Nothing here takes a body.", map[string]string{"Connection": "close"}}
	}
	return nil
}

// protocol is the subprotocol of the WebSocket; the token follows it.
const protocol = "zino"

// lists reports whether an origin is one of [repl] origins.
func (g *gate) lists(origin string) bool { return slices.Contains(g.listed, origin) }

// words splits the values of a header at the commas.
func words(values []string) []string {
	list := strings.Split(strings.Join(values, ","), ",")
	for i, word := range list {
		list[i] = strings.TrimSpace(word)
	}
	return list
}
