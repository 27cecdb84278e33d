package web

import (
	"bytes"
	"slices"
)

// tag loads the script before anything else of a page runs, so that nothing
// of what the page says is missed.
const tag = `<script src="/zino.js"></script>`

// inject puts the tag into an HTML document: into its head, before the first
// other element.
func inject(doc []byte) []byte {
	if isUTF16(doc) {
		return doc
	}
	return slices.Insert(slices.Clip(doc), headStart(doc), []byte(tag)...)
}

func isUTF16(doc []byte) bool {
	return bytes.HasPrefix(doc, []byte("\xfe\xff")) || bytes.HasPrefix(doc, []byte("\xff\xfe"))
}

// headStart is where the head's first element stands or would stand. Before the
// doctype it must not be: the page would be shown in another mode.
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
			n = end(rest, 4, "-->")
		case begins(rest, "<!doctype"), begins(rest, "<?xml"), begins(rest, "<html"):
			n = tagEnd(rest)
		case begins(rest, "<head"):
			return at + tagEnd(rest)
		}
		if n == 0 {
			return i
		}
		i = at + n
	}
}

// end is how many bytes there are to the end of mark, searched from a place on;
// 0 if it is missing.
func end(text []byte, from int, mark string) int {
	if i := bytes.Index(text[from:], []byte(mark)); i >= 0 {
		return from + i + len(mark)
	}
	return 0
}

// begins reports whether text begins with a tag of that name, in any case.
func begins(text []byte, name string) bool {
	if len(text) <= len(name) || !bytes.EqualFold(text[:len(name)], []byte(name)) {
		return false
	}
	return bytes.IndexByte([]byte(" \t\r\n\f/>"), text[len(name)]) >= 0
}

// tagEnd is how many bytes a tag has, 0 if it does not end. A ">" in quotes is
// not its end.
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
