package agr

import "bytes"

// Kind says what an Event is.
type Kind int

// The kinds of event.
const (
	Text     Kind = iota // text for the reader
	ToolCall             // a whole <tool_call> block
	Task                 // a whole <task> block
)

// Event is something that the parser found. Body is the text, or what stands
// between a block's tags; it is valid until the next call of the parser.
type Event struct {
	Kind Kind
	Body []byte
}

// tags are the blocks that interrupt the text.
var tags = [...]struct {
	kind        Kind
	open, close string
}{
	{ToolCall, "<tool_call>", "</tool_call>"},
	{Task, "<task>", "</task>"},
}

type state int

const (
	forwarding state = iota // text passes through
	holdback                // the last characters may begin a tag
	capturing               // inside a block, up to its closing tag
)

// Parser finds the blocks in a model's text as it arrives. How the text is cut
// into pieces makes no difference to what is found. Tags are exact and
// case-sensitive, a block inside a block belongs to the outer one, and a block
// that is never closed is text.
type Parser struct {
	state  state
	held   int    // holdback: how many characters of a tag have been seen
	block  int    // capturing: index into tags
	body   []byte // capturing: the block's text so far
	spill  []byte // keeps held-back text alive that an event refers to
	events []Event
	plain  [1]Event // for a piece without a '<'
}

// Feed takes the next piece of text and returns what it completes.
func (p *Parser) Feed(text []byte) []Event {
	if p.state == forwarding && bytes.IndexByte(text, '<') < 0 && len(text) > 0 {
		p.plain[0].Body = text // nearly all pieces
		return p.plain[:]
	}
	p.events, p.spill = p.events[:0], p.spill[:0]
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

// End returns what is left when no more text comes: all of it is text.
func (p *Parser) End() []Event {
	p.events, p.spill = p.events[:0], p.spill[:0]
	switch p.state {
	case holdback:
		p.flushHeld()
	case capturing:
		p.spill = append(append(p.spill, tags[p.block].open...), p.body...)
		p.emit(Text, p.spill)
	}
	p.state = forwarding
	return p.events
}

func (p *Parser) emit(kind Kind, body []byte) []Event {
	if len(body) > 0 || kind != Text {
		p.events = append(p.events, Event{kind, body})
	}
	return p.events
}

// forward passes text on up to the next '<'.
func (p *Parser) forward(text []byte) []byte {
	before, after, ok := bytes.Cut(text, []byte{'<'})
	if !ok {
		p.emit(Text, text)
		return nil
	}
	p.emit(Text, before)
	p.state, p.held = holdback, 1
	return after
}

// hold takes one more character of what may become a tag. The tags share no
// more than "<t", so the character after that decides between them.
func (p *Parser) hold(text []byte) []byte {
	block := p.candidate(text[0])
	if block < 0 {
		p.flushHeld()
		p.state = forwarding
		return text // the character may itself begin a tag
	}
	p.block = block
	if p.held++; p.held == len(tags[block].open) {
		p.state, p.body = capturing, p.body[:0]
	}
	return text[1:]
}

// candidate returns the tag that the held characters and c begin, -1 if none.
func (p *Parser) candidate(c byte) int {
	for i, tag := range tags {
		if (p.held <= 2 || i == p.block) && tag.open[p.held] == c {
			return i
		}
	}
	return -1
}

// flushHeld gives up on a tag: what was held back is text.
func (p *Parser) flushHeld() {
	start := len(p.spill)
	p.spill = append(p.spill, tags[p.block].open[:p.held]...)
	p.emit(Text, p.spill[start:])
}

// capture gathers a block up to its closing tag, which may arrive in pieces.
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
