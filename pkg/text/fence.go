package text

import (
	"bytes"
	"strings"
)

// A Fence scans Markdown line by line for fenced code blocks, by the rules of
// CommonMark 0.31.2, section 4.5. The zero value is outside of a block.
type Fence struct {
	Char   byte   // '`' or '~', 0 outside of a block
	Len    int    // length of the opening fence
	Indent int    // blanks before the opening fence, at most 3
	Info   string // text after the opening fence, trimmed
}

// Part is the role of a line in fenced code blocks.
type Part int

// The parts of a text.
const (
	Outside Part = iota // text between blocks
	Opens               // an opening fence
	Inside              // content of a block
	Closes              // a closing fence
)

// Next scans the next line, without its line end.
func (f *Fence) Next(line []byte) Part {
	char, length, indent, rest := fenceRun(line)
	if f.Char != 0 {
		if char != f.Char || length < f.Len || len(bytes.Trim(rest, " \t")) > 0 {
			return Inside
		}
		*f = Fence{}
		return Closes
	}
	if length < 3 || char == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return Outside
	}
	*f = Fence{char, length, indent, strings.Trim(string(rest), " \t")}
	return Opens
}

// fenceRun splits a line that may be a fence: at most three blanks, a run of one
// fence character, and the rest.
func fenceRun(line []byte) (char byte, length, indent int, rest []byte) {
	for indent < len(line) && line[indent] == ' ' {
		indent++
	}
	if indent > 3 || indent == len(line) {
		return 0, 0, 0, nil
	}
	if char = line[indent]; char != '`' && char != '~' {
		return 0, 0, 0, nil
	}
	rest = bytes.TrimLeft(line[indent:], string(char))
	return char, len(line) - indent - len(rest), indent, rest
}

// A Block is a fenced code block.
type Block struct {
	Info   string // text after the opening fence
	Text   string // content, without the indent of the fence
	Closed bool   // false for a last block without closing fence
}

// Blocks returns the fenced code blocks of a Markdown text.
func Blocks(s string) []Block {
	var blocks []Block
	var fence Fence
	var content strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		switch fence.Next([]byte(strings.TrimRight(line, "\r\n"))) {
		case Opens:
			blocks = append(blocks, Block{Info: fence.Info})
			content.Reset()
		case Inside:
			blank := len(line) - len(strings.TrimLeft(line, " "))
			content.WriteString(line[min(fence.Indent, blank):])
		case Closes:
			blocks[len(blocks)-1].Text = content.String()
			blocks[len(blocks)-1].Closed = true
		}
	}
	if fence.Char != 0 {
		blocks[len(blocks)-1].Text = content.String()
	}
	return blocks
}

// FenceFor returns a fence of backticks that no line of s can close.
func FenceFor(s string) string { return strings.Repeat("`", max(3, longestRun(s)+1)) }

// Fenced returns s as a fenced code block that no line of s can close, without a newline
// at the end.
func Fenced(info, s string) string {
	fence := FenceFor(s)
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return fence + info + "\n" + s + fence
}

// CodeSpan returns a text of one line as inline code.
func CodeSpan(s string) string {
	mark := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return mark + s + mark
}

// longestRun returns the length of the longest run of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if run++; s[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
