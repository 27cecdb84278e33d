package agr

import "bytes"

// Kind is the kind of an Event.
type Kind int

// The kinds of events.
const (
	Text     Kind = iota // text outside of blocks
	ToolCall             // a whole <tool_call> block
	Task                 // a whole <task> block
)

// Event is a piece of text or a whole block. Body is the text, or the content
// between a block's tags; it is valid until the next call of the parser.
type Event struct {
	Kind Kind
	Body []byte
}

// tags are the tags of blocks, in the order of their kinds, and the name of the
// element that follows a block with its result.
var tags = [...]struct {
	kind        Kind
	open, close string
	response    string
}{
	{ToolCall, "<tool_call>", "</tool_call>", "tool_response"},
	{Task, "<task>", "</task>", "task_response"},
}

type state int

const (
	forwarding state = iota // text passes through
	holdback                // the last characters may begin a tag
	capturing               // inside a block, up to its closing tag
)

// Parser finds the blocks in a model's text as it arrives. The result does not
// depend on how the text is cut into pieces. Tags are exact and case-sensitive, a
// block inside a block belongs to the outer one, and a block that is never closed
// is text.
type Parser struct {
	state   state
	matched int    // holdback: how many characters of a tag have been seen
	block   int    // holdback and capturing: index into tags
	body    []byte // capturing: the block's text so far
	kept    []byte // held back text that events refer to
	events  []Event
	plain   [1]Event // returned for a piece without a '<'
}

// Feed parses the next piece of text and returns the events that it completes.
func (p *Parser) Feed(text []byte) []Event {
	if p.state == forwarding && bytes.IndexByte(text, '<') < 0 && len(text) > 0 {
		p.plain[0].Body = text // fast path for nearly all pieces
		return p.plain[:]
	}
	p.events, p.kept = p.events[:0], p.kept[:0]
	for len(text) > 0 {
		switch p.state {
		case forwarding:
			text = p.forward(text)
		case holdback:
			text = p.hold(text)
		case capturing:
			text = p.capture(text)
		}
	}
	return p.events
}

// End ends the text. It returns held back characters and an unclosed block as text.
func (p *Parser) End() []Event {
	p.events, p.kept = p.events[:0], p.kept[:0]
	switch p.state {
	case holdback:
		p.flushMatched()
	case capturing:
		p.kept = append(append(p.kept, tags[p.block].open...), p.body...)
		p.emit(Text, p.kept)
	}
	p.state = forwarding
	return p.events
}

func (p *Parser) emit(kind Kind, body []byte) {
	if len(body) > 0 || kind != Text {
		p.events = append(p.events, Event{kind, body})
	}
}

// forward emits text up to the next '<'.
func (p *Parser) forward(text []byte) []byte {
	before, after, ok := bytes.Cut(text, []byte{'<'})
	if !ok {
		p.emit(Text, text)
		return nil
	}
	p.emit(Text, before)
	p.state, p.matched = holdback, 1
	return after
}

// hold consumes one more character of a possible tag. The tags share no more
// than "<t", so the character after that decides between them.
func (p *Parser) hold(text []byte) []byte {
	block := p.candidate(text[0])
	if block < 0 {
		p.flushMatched()
		p.state = forwarding
		return text // the character may itself begin a tag
	}
	p.block = block
	if p.matched++; p.matched == len(tags[block].open) {
		p.state, p.body = capturing, p.body[:0]
	}
	return text[1:]
}

// candidate returns the tag that begins with the matched characters and c, or -1.
func (p *Parser) candidate(c byte) int {
	for i, tag := range tags {
		if (p.matched <= 2 || i == p.block) && tag.open[p.matched] == c {
			return i
		}
	}
	return -1
}

// flushMatched emits the matched characters as text.
func (p *Parser) flushMatched() {
	start := len(p.kept)
	p.kept = append(p.kept, tags[p.block].open[:p.matched]...)
	p.emit(Text, p.kept[start:])
}

// capture consumes a block up to its closing tag, which may arrive in pieces.
func (p *Parser) capture(text []byte) []byte {
	tag := tags[p.block]
	from := max(0, len(p.body)-len(tag.close)+1)
	before := len(p.body)
	p.body = append(p.body, text...)
	i := bytes.Index(p.body[from:], []byte(tag.close))
	if i < 0 {
		return nil
	}
	end := from + i
	p.emit(tag.kind, p.body[:end])
	p.state = forwarding
	rest := text[end+len(tag.close)-before:]
	p.body = nil // the event refers to it
	return rest
}
