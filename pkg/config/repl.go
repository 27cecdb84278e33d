package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Repl configures the file REPL.
type Repl struct {
	Socket      string   `toml:"socket"`
	HTTP        string   `toml:"http"`         // a loopback address with a port
	Dir         string   `toml:"dir"`          // where debug.md and debug/ are
	Serve       string   `toml:"serve"`        // directory of static files; empty: none
	Origins     []string `toml:"origins"`      // whose pages may connect besides our own
	Timeout     float64  `toml:"timeout"`      // seconds of a run
	DebounceMS  int      `toml:"debounce_ms"`  // milliseconds without a change before a file is read
	Cadence     float64  `toml:"cadence"`      // seconds between updates of what is under way
	Quiet       float64  `toml:"quiet"`        // seconds without a change before the footer moves
	BodyMax     int      `toml:"body_max"`     // bytes of a result or an event in the file
	Footer      string   `toml:"footer"`       // the line below which requests are written
	FromSandbox bool     `toml:"from_sandbox"` // whether the tool page_eval works at confined levels
}

func defaultRepl() Repl {
	return Repl{
		Socket: "/run/zino/repl.sock", HTTP: "127.0.0.1:8302", Dir: ".", Origins: []string{},
		Timeout: 60, DebounceMS: 150, Cadence: 5, Quiet: 2, BodyMax: 256 << 10,
		Footer: "> Write code in a fenced JS block below to execute against this page.",
	}
}

func (r Repl) rules() []rule {
	return []rule{
		{"repl.http", IsLoopback(r.HTTP), "a loopback address with a port, such as 127.0.0.1:8302"},
		{"repl.timeout", within(r.Timeout, 0.001, 86400), "a number of seconds, up to 86400"},
		{"repl.debounce_ms", r.DebounceMS >= 1 && r.DebounceMS <= 10000, "from 1 to 10000 milliseconds"},
		{"repl.cadence", within(r.Cadence, 0.1, 3600), "from 0.1 to 3600 seconds"},
		{"repl.quiet", within(r.Quiet, 0.1, 3600), "from 0.1 to 3600 seconds"},
		{"repl.body_max", r.BodyMax >= 1024 && r.BodyMax <= 8<<20, "from 1024 to 8388608 bytes"},
		{"repl.footer", isFooter(r.Footer), `one line that begins with "> "`},
		{"repl.origins", areOrigins(r.Origins), "origins such as http://127.0.0.1:5173: scheme, host and port, nothing behind"},
	}
}

// IsLoopback reports whether an address, with its port, can be reached from this
// host only.
func IsLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func isFooter(line string) bool {
	return strings.HasPrefix(line, "> ") && strings.TrimSpace(line) == line && !strings.ContainsFunc(line, unicode.IsControl) &&
		!strings.HasPrefix(line, "> **") // it would look like a header
}

func areOrigins(list []string) bool {
	return !slices.ContainsFunc(list, func(origin string) bool { return !IsOrigin(origin) })
}

// IsOrigin reports whether a text is an origin as browsers send it: scheme, host
// and port, nothing behind.
func IsOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && origin == u.Scheme+"://"+u.Host
}
