package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Upstream parses the address of an application that zino repl --proxy serves. The
// path is that of the page to open. An IP address that is not of loopback is refused,
// unless remote is set; other names are resolved at each connection.
func Upstream(address string, remote bool) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not an address such as http://localhost:5173", address)
	}
	u.Host = strings.ToLower(u.Host)
	u.Host = strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme]) // as browsers send it
	ip, err := netip.ParseAddr(u.Hostname())
	if err == nil && !ip.Unmap().IsLoopback() && !remote {
		return nil, fmt.Errorf("%s is not on this host: name it by localhost, or allow it with --allow-remote", u.Hostname())
	}
	return u, nil
}
