package page

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// accept makes a job of a chunk's first block: the footer goes, the header is put
// in if there is none, and the block is announced.
func (s *step) accept(l *layout, c chunk) {
	out := closeLine(l.strip(bytes.Clone(s.text[:l.from]), l.from, c.from), s.eol)
	j := job{agent: agentName, asked: s.clock(), timeout: s.o.Timeout, k: 1, n: len(c.blocks)}
	if c.head == nil {
		out = closeParagraph(out, s.eol)
	}
	s.setAnchor(out, len(out))
	from := len(out)
	b := c.blocks[0]
	s.learn(&j, &b, s.text, out)
	out = s.head(out, l, c, &j)
	out = closeLine(l.strip(out, c.from, b.next), s.eol)
	j.req = string(out[from:])
	j.done = j.req
	s.announce(out, j, l.strip(nil, b.next, c.to), l.strip(nil, c.to, len(s.text)))
}

// head appends a header to a chunk that has none, or learns from the one it has.
func (s *step) head(out []byte, l *layout, c chunk, j *job) []byte {
	if h := c.head; h != nil {
		j.line, j.agent = strings.TrimPrefix(strings.TrimRight(string(h.of(s.text)), " \t"), bom), h.name
		if h.time != "" {
			j.asked = h.time
		}
		return out
	}
	if j.line = s.headline(j); j.before != nil {
		if j.line = j.before.line; j.line == s.put {
			return out // it goes on
		}
	}
	out = append(append(out, j.line...), s.eol...)
	if !l.fenced(c.from) {
		out = append(out, s.eol...)
	}
	return out
}

// headline is the header of a job's request.
func (s *step) headline(j *job) string {
	return fmt.Sprintf("> **%s** to %s at %s", j.agent, s.o.full(), j.asked)
}

// learn makes a block's code the job's, and finds out if that was answered before.
func (s *step) learn(j *job, b *block, text, above []byte) {
	j.code = string(b.text(text))
	j.before = nil
	if e, ok := s.answered(sumOf(j.code), above); ok {
		j.before = &e
	}
	_, j.info = label(b.info)
}

// announce begins a job below its request and writes what is shown of it, with a
// blank line before what follows.
func (s *step) announce(out []byte, j job, rest, follow []byte) {
	shown := s.begin(j)
	if j.before == nil {
		out = append(append(out, shown.pieces()...), s.eol...)
	}
	n := len(out)
	out = join(out, append(rest, follow...), s.eol)
	shown.gap = len(out) - n
	shown.rest = string(out[n:]) + string(rest)
	s.text = append(append(out, rest...), follow...)
}

// join ends a paragraph, if what follows does not begin with a blank line anyway.
func join(out, follow []byte, eol string) []byte {
	if l := lineAt(follow, 0); isBlank(follow[:l.end]) {
		return closeLine(out, eol)
	}
	return closeParagraph(out, eol)
}

// insert writes the request of a local program above the footer, and begins it.
func (s *step) insert(l *layout) {
	e := s.queue[0]
	s.queue = s.queue[1:]
	at := l.above()
	if len(l.footers) == 0 && l.open >= 0 {
		at = l.from // the only place that is not in the draft
	}
	out := closeParagraph(bytes.Clone(s.text[:at]), s.eol)
	s.setAnchor(out, len(out))
	from := len(out)
	j := job{key: e.Key, agent: e.Agent, asked: s.now.Format(time.TimeOnly), code: e.Code, timeout: e.Timeout, k: 1, n: 1}
	j.line = s.headline(&j)
	out = append(append(out, j.line...), s.eol...)
	out = s.codeBlock(out, e.Code)
	j.req = string(out[from:])
	j.done = j.req
	s.announce(out, j, nil, l.strip(nil, at, len(s.text)))
}

// codeBlock appends a block of code, byte for byte.
func (s *step) codeBlock(out []byte, code string) []byte {
	fence := strings.Repeat("`", max(3, longestRun(code, '`')+1))
	out = append(append(append(out, fence...), s.o.Lang...), s.eol...)
	out = closeLine(append(out, code...), s.eol)
	return append(append(out, fence...), s.eol...)
}
