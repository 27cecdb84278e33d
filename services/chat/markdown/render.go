package markdown

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"zino/pkg/text"
	"zino/services/chat/screen"
)

// Options say how text is shown.
type Options struct {
	Widths  screen.Widths
	Palette screen.Palette
	Width   func() int // of prose, in cells
	Links   bool       // the terminal knows OSC 8
	Bullet  string     // of lists; "": •
	Spoken  bool       // for screen readers: lists are numbered, nothing is drawn
}

// renderer makes lines of the blocks of a text.
type renderer struct {
	*Options
	source []byte
	links  bool // OSC 8 is allowed here
}

// blocks returns the lines of the children of a node, with blank lines between them.
func (r *renderer) blocks(parent ast.Node, width int) (lines []string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if n.PreviousSibling() != nil && !(parent.Kind() == ast.KindListItem && (n.Kind() == ast.KindList || n.PreviousSibling().Kind() == ast.KindList)) {
			lines = append(lines, "")
		}
		lines = append(lines, r.block(n, width)...)
	}
	return lines
}

// block returns the lines of a block. Only prose is wrapped.
func (r *renderer) block(node ast.Node, width int) []string {
	switch n := node.(type) {
	case *ast.Heading:
		return r.prose(n, screen.Style{Bold: true, Color: screen.Cyan}, width)
	case *ast.Blockquote:
		if r.Spoken {
			return prefixed(r.blocks(n, width-7), "Quote: ", "       ")
		}
		return prefixed(r.blocks(n, width-2), "│ ", "│ ")
	case *ast.List:
		return r.list(n, n.Start, width)
	case *ast.FencedCodeBlock:
		return r.code(raw(n, r.source), string(n.Language(r.source)))
	case *ast.CodeBlock:
		return r.code(raw(n, r.source), "")
	case *ast.ThematicBreak:
		if r.Spoken {
			return []string{"---"}
		}
		return []string{strings.Repeat("─", min(40, width))}
	case *ast.HTMLBlock:
		html := raw(n, r.source)
		if n.HasClosure() {
			html += string(n.ClosureLine.Value(r.source))
		}
		return r.Widths.Wrap(r.plain(strings.TrimRight(html, "\n")), width)
	case *extension.Table:
		return r.table(n, width)
	case *ast.LinkReferenceDefinition:
		return r.Widths.Wrap(fmt.Sprintf("[%s]: %s", r.plain(string(n.Label)), r.plain(destination(n.Destination, n.Title))), width)
	}
	return r.prose(node, screen.Style{}, width)
}

// list returns the lines of a list whose first item has a number.
func (r *renderer) list(n *ast.List, number, width int) (lines []string) {
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		marker := cmp.Or(r.Bullet, "•") + " "
		switch {
		case n.IsOrdered():
			marker = fmt.Sprintf("%d%c ", number, n.Marker)
		case r.Spoken:
			marker = fmt.Sprintf("%d. ", number+1)
		}
		number++
		if isTask(item) && !n.IsOrdered() {
			marker = ""
		}
		if item.FirstChild() == nil {
			lines = append(lines, strings.TrimRight(marker, " "))
			continue
		}
		indent := max(r.Widths.Of(marker), 2)
		lines = append(lines, prefixed(r.blocks(item, width-indent), marker, strings.Repeat(" ", indent))...)
	}
	return lines
}

// isTask reports whether an item begins with a check box, which stands for its marker.
func isTask(item ast.Node) bool {
	first := item.FirstChild()
	if first == nil {
		return false
	}
	_, ok := first.FirstChild().(*extension.TaskCheckBox)
	return ok
}

// prefixed puts a prefix before each line.
func prefixed(lines []string, first, others string) []string {
	prefix := first
	for i, line := range lines {
		if lines[i] = prefix + line; line == "" {
			lines[i] = strings.TrimRight(prefix, " ")
		}
		prefix = others
	}
	return lines
}

// raw returns the lines of a block as they are.
func raw(n ast.Node, source []byte) string {
	lines := n.Lines()
	return string(lines.Value(source))
}

// plain makes foreign text harmless, with tabs as blanks.
func (r *renderer) plain(s string) string {
	return text.Visible(strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\t", " "))
}

// plainLines is plain for lines of code, whose tabs are expanded later.
func (r *renderer) plainLines(s string) string {
	return text.Visible(strings.ToValidUTF8(s, "\ufffd"))
}

// prose returns the wrapped lines of the inline content of a block.
func (r *renderer) prose(n ast.Node, st screen.Style, width int) []string {
	var b strings.Builder
	r.inline(&b, n, st)
	return r.Widths.Wrap(strings.TrimSpace(b.String()), width)
}

// inline writes the inline content of a node.
func (r *renderer) inline(b *strings.Builder, parent ast.Node, st screen.Style) {
	paint := func(st screen.Style, s string) { b.WriteString(r.Palette.Paint(st, r.plain(s))) }
	for node := parent.FirstChild(); node != nil; node = node.NextSibling() {
		switch n := node.(type) {
		case *ast.Text:
			paint(st, unescape(n.Value(r.source)))
			switch {
			case n.HardLineBreak():
				b.WriteByte('\n')
			case n.SoftLineBreak():
				b.WriteByte(' ')
			}
		case *ast.String:
			paint(st, string(n.Value))
		case *ast.CodeSpan:
			code := st
			code.Color = screen.Cyan
			var s strings.Builder
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					s.Write(t.Value(r.source))
				}
			}
			paint(code, strings.ReplaceAll(s.String(), "\n", " "))
		case *ast.Emphasis:
			inner := st
			if n.Level > 1 {
				inner.Bold = true
			} else {
				inner.Italic = true
			}
			r.inline(b, n, inner)
		case *extension.Strikethrough:
			marks := "~~"
			if at := n.Pos(); at >= 0 && at+1 < len(r.source) && r.source[at+1] != '~' {
				marks = "~"
			}
			paint(st, marks)
			r.inline(b, n, st)
			paint(st, marks)
		case *extension.TaskCheckBox:
			if n.IsChecked {
				paint(st, "[x] ")
			} else {
				paint(st, "[ ] ")
			}
		case *ast.AutoLink:
			url := string(n.URL(r.source))
			if n.AutoLinkType == ast.AutoLinkEmail {
				url = "mailto:" + url
			}
			r.link(b, st, url, func() { paint(st, string(n.Label(r.source))) })
		case *ast.Link:
			url := unescape(n.Destination)
			start := b.Len()
			r.link(b, st, url, func() { r.inline(b, n, st) })
			if shown := screen.Strip(b.String()[start:]); shown == "" {
				paint(st, destination(n.Destination, n.Title))
			} else if r.plain(url) != shown && r.plain(url) != "mailto:"+shown || n.Title != nil {
				paint(st, " ("+destination(n.Destination, n.Title)+")")
			}
		case *ast.Image:
			paint(st, "[image: ")
			r.inline(b, n, st)
			paint(st, "] ("+destination(n.Destination, n.Title)+")")
		case *ast.RawHTML:
			for i := range n.Segments.Len() {
				segment := n.Segments.At(i)
				paint(st, strings.ReplaceAll(string(segment.Value(r.source)), "\n", " "))
			}
		default:
			r.inline(b, n, st)
		}
	}
}

// link writes a text as a link that the terminal opens, if it can.
func (r *renderer) link(b *strings.Builder, st screen.Style, url string, label func()) {
	url, ok := opens(url)
	if !ok || !r.links {
		label()
		return
	}
	b.WriteString("\x1b]8;;" + url + "\x1b\\")
	label()
	b.WriteString("\x1b]8;;\x1b\\")
}

// opens reports whether a URL may be opened by the terminal, and escapes it for OSC 8.
func opens(url string) (string, bool) {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok {
		return "", false
	}
	switch strings.ToLower(scheme) {
	case "http", "https", "mailto", "file":
	default:
		return "", false
	}
	var b strings.Builder
	for _, c := range []byte(url) {
		if c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// destination returns the address of a link and its title.
func destination(url, title []byte) string {
	s := unescape(url)
	if len(title) > 0 {
		s += fmt.Sprintf(" %q", unescape(title))
	}
	return s
}

// unescape resolves the backslash escapes and entities of Markdown in one pass.
func unescape(s []byte) string {
	if !bytes.ContainsAny(s, `\&`) {
		return string(s)
	}
	var b strings.Builder
	for len(s) > 0 {
		switch {
		case s[0] == '\\' && len(s) > 1 && util.IsPunct(s[1]):
			b.WriteByte(s[1])
			s = s[2:]
			continue
		case s[0] == '&':
			if end := bytes.IndexByte(s[:min(len(s), 34)], ';'); end > 0 {
				entity := s[:end+1]
				if resolved := util.ResolveEntityNames(util.ResolveNumericReferences(entity)); !bytes.Equal(resolved, entity) {
					b.Write(resolved)
					s = s[end+1:]
					continue
				}
			}
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}
