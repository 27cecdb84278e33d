package page

import (
	"bytes"
	"fmt"
	"slices"
)

// blank makes a file that is missing or has nothing in it what a new one is. It
// reports whether the text may be looked at now.
func (s *step) blank() bool {
	_, start := s.event.(Start)
	first := !s.seen || start
	if s.view.Missing && !first && !s.live && s.run == nil {
		return false // somebody tidied up
	}
	s.watch(s.text)
	if !first && !s.quiet() {
		return false
	}
	if s.seen, s.suspect, s.fresh = true, false, false; s.view.Missing {
		s.eol = "\n"
	}
	s.text = append(closeLine(bytes.Clone(s.text), s.eol), s.title()...)
	if s.run == nil {
		s.setAnchor(s.text, len(s.text))
		s.text = s.foot(s.text, nil)
		return true
	}
	s.anew()
	return true
}

// title is a new file's title and guide.
func (s *step) title() string {
	return fmt.Sprintf("# %s%s> This file is a REPL, a chat between you and a live page: add a fenced %s block at the bottom, and the page runs it and the result is printed below. Please do not edit the replies or the last line.%s%s",
		s.o.full(), s.eol, s.o.speech(), s.eol, s.eol)
}

// anew writes the exchange at work into a file that has lost it.
func (s *step) anew() {
	if !s.view.Missing {
		s.text = closeParagraph(s.note(s.text, "The file was emptied while a request was at work. What stood in it before is not known here."), s.eol)
	}
	j := s.change()
	if j.done == "" {
		j.done = string(s.codeBlock(append([]byte(j.line), s.eol...), j.code))
	}
	s.setAnchor(s.text, len(s.text))
	j.req, j.rest, j.gap = j.done, "", 0
	s.text = slices.Concat(s.text, []byte(j.done), []byte(j.pieces()), []byte(s.eol))
}
