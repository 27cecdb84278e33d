package web

import (
	"bytes"
	"io"
	"slices"
)

// tag is the element that loads the script.
const tag = `<script src="` + scriptPath + `"></script>`

// inject inserts the tag into an HTML document as the first element of its head, so
// that the script captures everything that the page logs.
func inject(doc []byte) []byte {
	at, ok := headStart(doc, true)
	if !ok {
		return doc
	}
	return slices.Insert(slices.Clip(doc), at, []byte(tag)...)
}

// headMax is the number of bytes in which an injector looks for the head: the script
// follows the last complete element before it.
const headMax = 16 << 10

// injector inserts a tag into an HTML document while the document is read. It holds
// back only what precedes the first element of the head.
type injector struct {
	io.Closer
	doc   io.Reader
	tag   string
	begin []byte // read and not yet returned
	found bool   // begin contains the tag, or the document gets none
	err   error  // of doc, to return after begin
}

func (in *injector) Read(p []byte) (int, error) {
	for !in.found {
		var buf [4 << 10]byte
		n, err := in.doc.Read(buf[:])
		in.begin = append(in.begin, buf[:n]...)
		in.err = err
		last := err != nil || len(in.begin) >= headMax
		at, ok := headStart(in.begin, last)
		if ok {
			in.begin = slices.Insert(in.begin, at, []byte(in.tag)...)
		}
		in.found = ok || last || isUTF16(in.begin)
	}
	if len(in.begin) > 0 {
		n := copy(p, in.begin)
		in.begin = in.begin[n:]
		return n, nil
	}
	if in.err != nil {
		return 0, in.err
	}
	return in.doc.Read(p)
}

func isUTF16(doc []byte) bool {
	return bytes.HasPrefix(doc, []byte("\xfe\xff")) || bytes.HasPrefix(doc, []byte("\xff\xfe"))
}

// headStart returns the offset of the first element of the head, which is never
// before the doctype: that would put the page into quirks mode. It returns false for
// UTF-16, and if doc is not the whole document and too short to decide.
func headStart(doc []byte, whole bool) (int, bool) {
	const mark = "\xef\xbb\xbf"
	i := 0
	switch {
	case isUTF16(doc):
		return 0, false
	case bytes.HasPrefix(doc, []byte(mark)):
		i = len(mark)
	case !whole && len(doc) < len(mark): // perhaps a byte order mark
		return 0, false
	}
	for {
		at := i + len(doc[i:]) - len(bytes.TrimLeft(doc[i:], " \t\r\n\f"))
		rest := doc[at:]
		n := 0
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			if end := bytes.Index(rest[2:], []byte("-->")); end >= 0 { // "<!-->" is a comment
				n = 2 + end + 3
			}
		case startsTag(rest, "<!doctype"), startsTag(rest, "<?xml"), startsTag(rest, "<html"):
			n = tagEnd(rest)
		case startsTag(rest, "<head"):
			n = tagEnd(rest)
			return at + n, n > 0 || whole
		default:
			return i, whole || !isTagBegin(rest)
		}
		if n == 0 {
			return i, whole
		}
		i = at + n
	}
}

// isTagBegin reports whether text is the first part of what may stand before the head.
func isTagBegin(text []byte) bool {
	return slices.ContainsFunc([]string{"<!--", "<!doctype", "<?xml", "<html", "<head"}, func(name string) bool {
		return len(text) <= len(name) && bytes.EqualFold(text, []byte(name[:len(text)]))
	})
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
