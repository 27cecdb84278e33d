// Package markdown shows Markdown on a terminal while it arrives: what is final is
// rendered once, what may still change is kept and shown in the live block. The syntax is
// CommonMark with GitHub's tables, task lists and strikethrough. Rendering depends on the
// text alone, not on the pieces in which it arrives.
package markdown

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	pendingMax = 64 << 10 // more pending text is printed as far as its last newline
	parseAll   = 512      // up to this size, pending text is parsed at each newline
	lineMax    = 64 << 10 // longer lines are printed as they are
	tableMax   = 200      // rows of a table; longer ones are printed as they are
)

// Stream is a text that arrives in pieces.
type Stream struct {
	Options
	// CodeRows is how many complete lines of a block of code may wait.
	CodeRows func() int

	pending strings.Builder
	line    strings.Builder // the last line, without a newline yet
	broken  bool            // the start of the last line is printed
	parsed  int             // bytes of pending when it was parsed last
	any     bool            // something was printed

	refs []*ast.LinkReferenceDefinition // of what was printed
	item bool                           // pending begins with a further item of a printed list
	next int                            // the number of that item

	fence    *fence // pending code of this fence
	rawTable bool   // the lines of a long table are printed as they are
}

// fence is an open block of code.
type fence struct {
	mark     byte
	length   int
	indent   int
	language string
	before   strings.Builder // the code that was printed
}

var fenceOpen = regexp.MustCompile("^( {0,3})(`{3,}|~{3,})[ \t]*([^ \t\n]*)([^\n]*)\n$")

// Write adds a piece of text and returns what has become final: whole lines.
func (s *Stream) Write(piece string) string {
	var out strings.Builder
	for {
		line, rest, found := strings.Cut(piece, "\n")
		s.line.WriteString(line)
		for s.line.Len() > lineMax {
			s.printPart(&out, lineMax)
		}
		if !found {
			return out.String()
		}
		s.endLine(&out)
		piece = rest
	}
}

// endLine adds the last line.
func (s *Stream) endLine(out *strings.Builder) {
	if s.broken {
		s.printPart(out, s.line.Len())
		s.broken = false
		return
	}
	line := strings.TrimSuffix(s.line.String(), "\r") + "\n"
	s.line.Reset()
	s.add(out, line)
}

// printPart prints about n bytes of a line that is too long to be parsed, as they are.
func (s *Stream) printPart(out *strings.Builder, n int) {
	line := s.line.String()
	if blank := strings.LastIndexByte(line[:n], ' ') + 1; n < len(line) && blank > 0 {
		n = blank
	}
	for n < len(line) && n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	s.line.Reset()
	s.line.WriteString(line[n:])
	if s.fence != nil {
		s.pending.WriteString(line[:n] + "\n")
		s.printCode(out)
	} else {
		s.printPending(out, s.pending.Len())
		if !s.broken {
			s.gap(out)
		}
		for _, row := range s.Widths.Wrap((&renderer{Options: &s.Options}).plain(line[:n]), s.Width()) {
			s.write(out, row)
		}
	}
	s.broken = true
}

// End returns what is pending. The stream is empty then.
func (s *Stream) End() string {
	var out strings.Builder
	if s.line.Len() > 0 {
		s.endLine(&out)
	}
	if s.fence != nil {
		s.printCode(&out)
		s.fence = nil
	}
	s.printPending(&out, s.pending.Len())
	*s = Stream{Options: s.Options, CodeRows: s.CodeRows}
	return out.String()
}

// add adds a complete line.
func (s *Stream) add(out *strings.Builder, line string) {
	switch {
	case s.fence != nil:
		s.addCode(out, line)
		return
	case s.rawTable:
		if strings.Contains(line, "|") {
			s.write(out, (&renderer{Options: &s.Options}).plain(strings.TrimSuffix(line, "\n")))
			return
		}
		s.rawTable = false
	}
	s.pending.WriteString(line)
	fence := openFence(line) != nil
	if fence && s.startsWithFence() {
		return
	}
	// Parsing only when the text has grown by a part of itself keeps the whole linear.
	grown := s.pending.Len() - s.parsed
	if border := fence || strings.TrimSpace(line) == ""; s.pending.Len() <= parseAll || grown > s.parsed/8 || border && grown > s.parsed/64 || s.pending.Len() > pendingMax {
		s.settle(out)
	}
	if s.pending.Len() > pendingMax {
		s.printPending(out, s.pending.Len())
	}
}

// startsWithFence begins a block of code if that is all that is pending.
func (s *Stream) startsWithFence() bool {
	f := openFence(s.pending.String())
	if f == nil {
		return false
	}
	s.fence = f
	s.reset("")
	return true
}

// openFence returns the fence that a line opens; nil: it opens none.
func openFence(line string) *fence {
	m := fenceOpen.FindStringSubmatch(line)
	if m == nil || m[2][0] == '`' && strings.Contains(m[3]+m[4], "`") {
		return nil
	}
	return &fence{mark: m[2][0], length: len(m[2]), indent: len(m[1]), language: m[3]}
}

// closes reports whether a line ends the block.
func (f *fence) closes(line string) bool {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 {
		return false
	}
	marks := len(rest) - len(strings.TrimLeft(rest, string(f.mark)))
	return marks >= f.length && strings.TrimSpace(rest[marks:]) == ""
}

// addCode adds a line to the open block of code. It prints its lines when too many wait.
func (s *Stream) addCode(out *strings.Builder, line string) {
	if s.fence.closes(line) {
		s.printCode(out)
		s.fence = nil
		return
	}
	for i := 0; i < s.fence.indent && strings.HasPrefix(line, " "); i++ {
		line = line[1:]
	}
	s.pending.WriteString(line)
	if strings.Count(s.pending.String(), "\n") > s.CodeRows() || s.pending.Len() > pendingMax {
		s.printCode(out)
	}
}

// printCode prints the pending lines of the open block.
func (s *Stream) printCode(out *strings.Builder) {
	source := s.pending.String()
	if source == "" {
		return
	}
	f := s.fence
	if f.before.Len() == 0 {
		s.gap(out)
	}
	language := f.language
	if f.before.Len() > codeMax {
		language = ""
	}
	r := renderer{Options: &s.Options}
	for _, line := range r.colored(f.before.String(), strings.TrimSuffix(source, "\n"), language) {
		out.WriteString(line + "\n")
	}
	s.any = true
	f.before.WriteString(source)
	s.reset("")
}

// gap separates a block from what was printed.
func (s *Stream) gap(out *strings.Builder) {
	if s.any {
		out.WriteString("\n")
	}
	s.any = true
}

func (s *Stream) write(out *strings.Builder, line string) { out.WriteString(line + "\n") }

func (s *Stream) reset(pending string) {
	s.pending.Reset()
	s.pending.WriteString(pending)
	s.parsed = len(pending)
}

const (
	linksMax = 500 // text with more brackets is shown without links: goldmark takes quadratic time for them
	refsMax  = 100 // definitions of links that are kept
)

var (
	extensions = goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)
	gfm        = goldmark.New(extensions).Parser()
	linkless   = goldmark.New(goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewRawHTMLParser(), 400),
			util.Prioritized(parser.NewEmphasisParser(), 500),
		),
	)), extensions).Parser()
)

// parse returns the blocks of a text, with the definitions of links that were printed.
func (s *Stream) parse(source []byte) ast.Node {
	if bytes.Count(source, []byte("[")) > linksMax {
		return linkless.Parse(text.NewReader(source))
	}
	context := parser.NewContext()
	for _, ref := range s.refs {
		context.AddReference(parser.NewReference(ref.Label, ref.Destination, ref.Title))
	}
	return gfm.Parse(text.NewReader(source), parser.WithContext(context))
}

// settle prints the blocks before the last one, and the items before the last one of a
// list.
func (s *Stream) settle(out *strings.Builder) {
	s.parsed = s.pending.Len()
	source := []byte(s.pending.String())
	doc := s.parse(source)
	last := doc.LastChild()
	if last == nil {
		s.reset("")
		return
	}
	if isTable(last) && (isLong(last) || s.pending.Len() > pendingMax) {
		s.print(out, doc, source)
		s.reset("")
		s.rawTable = len(bytes.TrimSpace(source[lineStart(source, len(source)-1):])) > 0 // no blank line ends it
		return
	}
	from, next := last, 0
	if list, ok := last.(*ast.List); ok && list.ChildCount() > 1 {
		from = list.LastChild()
		next = list.Start
		if s.item && list == doc.FirstChild() {
			next = s.next
		}
		next += list.ChildCount() - 1
	}
	start := lineStart(source, from.Pos())
	if from.Pos() < 0 || start == 0 {
		return
	}
	s.printPending(out, start)
	s.item, s.next = from != last, next
}

// lineStart returns the start of the line of an offset.
func lineStart(source []byte, at int) int {
	for at > 0 && source[at-1] != '\n' {
		at--
	}
	return at
}

// printPending prints the first n bytes of what is pending, which end with a block or an
// item.
func (s *Stream) printPending(out *strings.Builder, n int) {
	pending := s.pending.String()
	source := []byte(pending[:n])
	doc := s.parse(source)
	if doc.FirstChild() != nil {
		s.print(out, doc, source)
	}
	s.reset(pending[n:])
	s.startsWithFence()
}

// print prints blocks.
func (s *Stream) print(out *strings.Builder, doc ast.Node, source []byte) {
	r := renderer{Options: &s.Options, source: source, links: s.Links}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if ref, ok := n.(*ast.LinkReferenceDefinition); ok && len(s.refs) < refsMax {
			s.refs = append(s.refs, ref)
		}
		for _, line := range s.block(&r, n) {
			s.write(out, line)
		}
	}
}

// block returns the lines of a block, with an empty one before them unless it goes on
// with a list.
func (s *Stream) block(r *renderer, n ast.Node) (lines []string) {
	list, ok := n.(*ast.List)
	goesOn := ok && s.item
	if s.any && !goesOn {
		lines = append(lines, "")
	}
	number := 0
	if ok {
		number = list.Start
	}
	if goesOn {
		number = s.next
	}
	s.any, s.item = true, false
	if ok {
		return append(lines, r.list(list, number, s.Width())...)
	}
	if isLong(n) {
		return append(lines, r.rawTable(n)...)
	}
	return append(lines, r.block(n, s.Width())...)
}

// liveMax is how many bytes of pending text the live block is made of.
const liveMax = 8 << 10

// Live returns the last lines of what is not final, at most n.
func (s *Stream) Live(n int) []string {
	source := s.pending.String() + s.line.String()
	if over := len(source) - liveMax; over > 0 {
		source = source[over+strings.IndexByte(source[over:], '\n')+1:]
	}
	if strings.TrimSpace(source) == "" {
		return nil
	}
	copied := *s // its state is not changed by a look
	r := renderer{Options: &s.Options, source: []byte(source)}
	var lines []string
	switch doc := s.parse(r.source); {
	case s.fence != nil:
		if s.any && s.fence.before.Len() == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, r.indented(r.plainLines(source))...)
	case isTable(doc.LastChild()) || s.rawTable:
		if s.any && !s.rawTable {
			lines = append(lines, "")
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(r.plainLines(source), "\n"), "\n")...)
	default:
		for b := doc.FirstChild(); b != nil; b = b.NextSibling() {
			lines = append(lines, copied.block(&r, b)...)
		}
	}
	return lines[max(0, len(lines)-n):]
}

func isTable(n ast.Node) bool {
	_, ok := n.(*extast.Table)
	return ok
}

// isLong reports whether n is a table with too many rows to be held and aligned.
func isLong(n ast.Node) bool { return isTable(n) && n.ChildCount()-1 > tableMax }
