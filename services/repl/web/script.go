package web

import (
	"bytes"
	"embed"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"zino/pkg/wire"
)

//go:embed script/*.js
var sources embed.FS

// body is the page script without its last line: the files of script/ in the order
// of their names, without comments and indentation.
var body = func() string {
	var out strings.Builder
	out.WriteString("(zino=>{\"use strict\";\n")
	err := fs.WalkDir(sources, "script", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		part, err := sources.ReadFile(path)
		for line := range strings.Lines(string(part)) {
			if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "//") {
				out.WriteString(line)
			}
		}
		return err
	})
	if err != nil {
		panic(err) // an embedded file is always there
	}
	return out.String()
}()

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
	h := w.Header()
	h.Set("Vary", "Origin")
	if origin := r.Header.Get("Origin"); g.lists(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
	}
	send(w, r, "text/javascript; charset=utf-8", body+"})("+string(last)+")\n")
}

// tag is the element that loads the script.
const tag = `<script src="` + scriptPath + `"></script>`

// inject inserts the tag into an HTML document as the first element of its head, so
// that the script captures everything that the page logs.
func inject(doc []byte) []byte {
	if isUTF16(doc) {
		return doc
	}
	return slices.Insert(slices.Clip(doc), headStart(doc), []byte(tag)...)
}

func isUTF16(doc []byte) bool {
	return bytes.HasPrefix(doc, []byte("\xfe\xff")) || bytes.HasPrefix(doc, []byte("\xff\xfe"))
}

// headStart returns the offset of the first element of the head, which is never
// before the doctype: that would put the page into quirks mode.
func headStart(doc []byte) int {
	i := 0
	if bytes.HasPrefix(doc, []byte("\xef\xbb\xbf")) {
		i = 3
	}
	for {
		at := i + len(doc[i:]) - len(bytes.TrimLeft(doc[i:], " \t\r\n\f"))
		rest := doc[at:]
		n := 0
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			if end := bytes.Index(rest[4:], []byte("-->")); end >= 0 {
				n = 4 + end + 3
			}
		case startsTag(rest, "<!doctype"), startsTag(rest, "<?xml"), startsTag(rest, "<html"):
			n = tagEnd(rest)
		case startsTag(rest, "<head"):
			return at + tagEnd(rest)
		}
		if n == 0 {
			return i
		}
		i = at + n
	}
}

// startsTag reports whether text begins with a tag, ignoring case.
func startsTag(text []byte, name string) bool {
	if len(text) <= len(name) || !bytes.EqualFold(text[:len(name)], []byte(name)) {
		return false
	}
	return bytes.IndexByte([]byte(" \t\r\n\f/>"), text[len(name)]) >= 0
}

// tagEnd returns the length of the tag that text begins with, or 0 if its end is
// missing. A ">" in quotes does not end it.
func tagEnd(text []byte) int {
	var quote byte
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return i + 1
		}
	}
	return 0
}
