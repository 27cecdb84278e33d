package web

import (
	"net/http"
	"slices"
	"strings"
)

// policyHeaders are relaxed: the second one only reports, but the script would fill
// the application's reports.
var policyHeaders = []string{"Content-Security-Policy", "Content-Security-Policy-Report-Only"}

// relax changes the policies of a response so that the script, with the nonce, may be
// loaded, evaluate code and connect. It reports whether there is a policy. What the
// application itself may do changes in one point: its eval works.
func relax(h http.Header, nonce, host string, upstream []string) bool {
	found := false
	for _, name := range policyHeaders {
		if len(h.Values(name)) == 0 {
			continue
		}
		found = true
		var relaxed []string
		for policy := range strings.SplitSeq(strings.Join(h.Values(name), ","), ",") {
			p := parsePolicy(policy)
			p.relax(nonce, host, upstream)
			relaxed = append(relaxed, p.String())
		}
		h.Set(name, strings.Join(relaxed, ", "))
	}
	return found
}

// isSandboxed reports whether a policy gives a document an origin of its own or
// forbids scripts, so that the script could not connect. That stays: the document may
// be what a user of the application has uploaded.
func isSandboxed(h http.Header) bool {
	for policy := range strings.SplitSeq(strings.Join(h.Values(policyHeaders[0]), ","), ",") {
		if d := parsePolicy(policy).find("sandbox"); d != nil && (!d.has("allow-scripts") || !d.has("allow-same-origin")) {
			return true
		}
	}
	return false
}

// A policy is a list of directives.
type policyList []*directive

type directive struct {
	name   string
	values []string
}

func (d *directive) has(value string) bool {
	return slices.ContainsFunc(d.values, func(v string) bool { return strings.EqualFold(v, value) })
}

func parsePolicy(text string) (list policyList) {
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		name := strings.ToLower(words[0])
		if list.find(name) == nil { // browsers ignore a second one
			list = append(list, &directive{name, words[1:]})
		}
	}
	return list
}

func (list policyList) find(name string) *directive {
	for _, d := range list {
		if d.name == name {
			return d
		}
	}
	return nil
}

func (list policyList) String() string {
	parts := make([]string, len(list))
	for i, d := range list {
		parts[i] = strings.Join(append([]string{d.name}, d.values...), " ")
	}
	return strings.Join(parts, "; ")
}

func (list *policyList) relax(nonce, host string, upstream []string) {
	if strings.HasPrefix(upstream[0], "https:") { // the proxy is http
		*list = slices.DeleteFunc(*list, func(d *directive) bool { return d.name == "upgrade-insecure-requests" })
	}
	// What the application says of its own origin applies to that of the proxy, too.
	for _, d := range *list {
		for _, value := range d.values {
			for _, origin := range upstream {
				_, name, _ := strings.Cut(origin, "://")
				scheme, rest, ok := strings.Cut(value, name)
				if ok && (scheme == "" || strings.HasSuffix(scheme, "://")) && (rest == "" || rest[0] == '/') {
					scheme = strings.NewReplacer("https:", "http:", "wss:", "ws:").Replace(scheme)
					d.values = append(d.values, scheme+host+rest)
					break
				}
			}
		}
	}
	for _, name := range []string{"script-src", "connect-src"} { // else default-src would change for images, too
		if usual := list.find("default-src"); usual != nil && list.find(name) == nil {
			*list = append(*list, &directive{name, slices.Clone(usual.values)})
		}
	}
	for _, name := range []string{"script-src", "script-src-elem"} {
		d := list.find(name)
		switch {
		case d == nil:
		case d.inline(): // a nonce would end that
			d.allow("http://" + host + proxyScript)
		default:
			d.allow("'nonce-" + nonce + "'")
		}
	}
	if d := list.find("script-src"); d != nil {
		d.allow("'unsafe-eval'")
	}
	if d := list.find("connect-src"); d != nil {
		d.allow("http://"+host+proxyScript, "ws://"+host+proxySocket)
	}
	if d := list.find("trusted-types"); d != nil {
		d.allow("zino")
	}
}

// inline reports whether a list of script sources allows scripts without a nonce.
func (d *directive) inline() bool {
	return d.has("'unsafe-inline'") && !slices.ContainsFunc(d.values, func(v string) bool {
		v = strings.ToLower(v)
		return strings.HasPrefix(v, "'nonce-") || strings.HasPrefix(v, "'sha") || v == "'strict-dynamic'"
	})
}

// allow adds sources. 'none' may only stand alone.
func (d *directive) allow(sources ...string) {
	d.values = slices.DeleteFunc(d.values, func(v string) bool { return strings.EqualFold(v, "'none'") })
	for _, source := range sources {
		if !d.has(source) {
			d.values = append(d.values, source)
		}
	}
}
