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

// gate knows who may ask. A web page anywhere can send requests to this host's
// loopback address, and a name that it owns can be made to point there; so the
// Host and the Origin are what a request is judged by.
type gate struct {
	hosts  []string // of the service, with the port
	own    []string // origins of the service
	listed []string // origins of [repl] origins
	token  string
}

// refusal is the answer to a request that may not be made.
type refusal struct {
	status int
	reason string
	header map[string]string
}

func newGate(addr *net.TCPAddr, origins []string, token string) *gate {
	g := &gate{token: token}
	port := strconv.Itoa(addr.Port)
	for _, host := range []string{"127.0.0.1", "localhost", "::1", addr.IP.String()} {
		hosts := []string{net.JoinHostPort(host, port)}
		if addr.Port == 80 { // browsers leave it out
			hosts = append(hosts, strings.TrimSuffix(hosts[0], ":80"))
		}
		g.hosts = append(g.hosts, hosts...)
	}
	for _, host := range g.hosts {
		g.own = append(g.own, "http://"+host)
	}
	for _, origin := range origins {
		g.listed = append(g.listed, plainOrigin(origin))
	}
	return g
}

// plainOrigin is an origin as browsers write it: in lower case, and without the
// port that its scheme has anyway.
func plainOrigin(origin string) string {
	u, err := url.Parse(strings.ToLower(origin))
	if err != nil {
		return origin
	}
	usual := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, usual)
}

// check returns why a request may not be made, or nil.
func (g *gate) check(r *http.Request) *refusal {
	upgrade := isUpgrade(r)
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch origins := r.Header.Values("Origin"); {
	case !slices.Contains(g.hosts, r.Host):
		return denied("This host is not served here. Use http://127.0.0.1 or http://localhost with the port.")
	case len(origins) > 1:
		return denied("There are several origins.")
	case len(origins) == 1 && !g.allowed(origins[0]):
		return denied("Pages of this origin may not connect. To allow them, list it in ZINO.toml under [repl] origins: scheme, host and port.")
	case len(origins) == 0 && (upgrade || !reading):
		return denied("A request of this kind has to name its origin.")
	case len(origins) == 0 && foreign(r):
		return denied("Pages of other sites may not load this. For the script, list the origin in ZINO.toml under [repl] origins, and write <script crossorigin>.")
	case upgrade && !g.knows(r):
		return denied("The token is missing or an old one. Load the script again.")
	case !reading:
		return &refusal{http.StatusMethodNotAllowed, "Only GET and HEAD are answered here.", map[string]string{"Allow": "GET, HEAD"}}
	case r.ContentLength != 0:
		return &refusal{http.StatusRequestEntityTooLarge, "Nothing here takes a body.", map[string]string{"Connection": "close"}}
	}
	return nil
}

func denied(reason string) *refusal { return &refusal{status: http.StatusForbidden, reason: reason} }

// allowed reports whether pages of an origin may connect. "null", the origin of
// files and sandboxes, is nobody's and never allowed.
func (g *gate) allowed(origin string) bool {
	return slices.Contains(g.own, origin) || g.lists(origin)
}

// lists reports whether an origin is one of [repl] origins.
func (g *gate) lists(origin string) bool { return slices.Contains(g.listed, origin) }

// foreign reports whether a browser says that a page of another site asks for
// this, other than by going there. No answer to that can be read by the page,
// but a script would be run and an image be measured.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

func isUpgrade(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" || slices.ContainsFunc(words(r.Header.Values("Connection")), func(word string) bool {
		return strings.EqualFold(word, "upgrade")
	})
}

// protocol is what the token stands behind in Sec-WebSocket-Protocol, the one
// header of a handshake that a page can choose.
const protocol = "zino"

// knows reports whether a handshake has the token.
func (g *gate) knows(r *http.Request) bool {
	offered := words(r.Header.Values("Sec-WebSocket-Protocol"))
	return len(offered) == 2 && offered[0] == protocol && subtle.ConstantTimeCompare([]byte(offered[1]), []byte(g.token)) == 1
}

// words splits the values of a header at the commas.
func words(values []string) []string {
	list := strings.Split(strings.Join(values, ","), ",")
	for i, word := range list {
		list[i] = strings.TrimSpace(word)
	}
	return list
}
