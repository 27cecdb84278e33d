package web

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"

	"zino/pkg/wire"
)

//go:embed script/*.js helpers/*.js
var sources embed.FS

// body is the page script without its last line: the files of script/ in the order
// of their names.
var body = "(zino=>{\"use strict\";\n" + sourceMap + compose("script")

// sourceMap tells developer tools to ignore the script, so that they attribute a
// message of the console to the code of the page that logged it. It is part of the
// script because the gate would refuse a request of developer tools, and stands before
// the code, as the last line holds the parameters.
const sourceMap = "//# sourceMappingURL=data:application/json,{%22version%22:3,%22sources%22:[%22zino-page.js%22],%22sourcesContent%22:[%22%22],%22names%22:[],%22mappings%22:%22AAAA%22,%22ignoreList%22:[0]}\n"

// helpers is the module with the helpers of cells, which the page script loads when a
// job needs it.
var helpers = compose("helpers")

// compose returns the files of a directory, without comments and without spaces and
// line ends that mean nothing.
func compose(dir string) string {
	var out strings.Builder
	err := fs.WalkDir(sources, dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		part, err := sources.ReadFile(path)
		for line := range strings.Lines(string(part)) {
			if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "//") {
				line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " // ")
				line = squeeze(line + "\n")
				if end := len(line) - 1; end > 0 && strings.IndexByte("{;,", line[end-1]) >= 0 {
					line = line[:end] // no statement ends here by its line end alone
				}
				out.WriteString(line)
			}
		}
		return err
	})
	if err != nil {
		panic(err) // an embedded file is always there
	}
	return out.String()
}

// squeeze removes spaces beside punctuation outside of strings. It leaves a line alone
// that has a regular expression, a template or a division.
func squeeze(line string) string {
	const punctuation = "{}()[];,:?=<>&|!*\n"
	out := make([]byte, 0, len(line))
	var quote byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == '\\':
			out = append(out, c)
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '/' || c == '`':
			return line
		case c == ' ' && (strings.IndexByte(punctuation, line[i-1]) >= 0 || strings.IndexByte(punctuation, line[i+1]) >= 0):
			continue
		case c == ' ' && strings.Contains("+-", line[i-1:i]) != strings.Contains("+-", line[i+1:i+2]): // not in "a + +b"
			continue
		}
		out = append(out, line[i])
	}
	return string(out)
}

// script sends the page script with the given paths of the script and the socket.
// Pages of listed origins may load it, but nothing else.
func (s *Server) script(g *gate, w http.ResponseWriter, r *http.Request, script, socket string) {
	type parameters struct {
		Script string `json:"script"`
		Socket string `json:"socket"`
		Token  string `json:"token"`
	}
	last, err := wire.AppendObject(nil, "", parameters{"http://" + r.Host + script, "ws://" + r.Host + socket, g.token})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if g == s.gate { // pages of the proxy connect to their own origin
		s.scriptLoaded(r)
	}
	h := w.Header()
	h.Set("Vary", "Origin")
	if origin := r.Header.Get("Origin"); g.lists(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
	}
	if r.URL.RawQuery == "helpers" {
		send(w, r, "text/javascript; charset=utf-8", helpers)
		return
	}
	send(w, r, "text/javascript; charset=utf-8", body+"})("+string(last)+")\n")
}
