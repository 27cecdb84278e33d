package chat

import (
	"path/filepath"
	"strings"

	"zino/pkg/history"
	"zino/services/chat/input"
)

// past is the place in the input history.
type past struct {
	*history.History
	at    int         // of the message that is shown, from the newest, counted from 1; 0: none
	draft input.Draft // what was typed before
}

// loadHistory reads the messages of earlier chats, while the first frames are drawn.
func (c *chat) loadHistory() {
	go func() {
		h, err := history.Open(filepath.Join(c.start.Base, "chat_history"))
		c.after(func() {
			if err != nil {
				c.warn("what was typed in earlier chats is not available: " + err.Error())
			}
			typed := c.past.History
			c.past.History = h
			for i := typed.Len() - 1; i >= 0; i-- {
				c.keep(typed.At(i))
			}
		})
	}()
}

// keep adds a message to the history.
func (c *chat) keep(message string) {
	c.past.at = 0
	if err := c.past.Add(message); err != nil {
		c.warn("what you type is not kept for the next chat: " + err.Error())
	}
}

// older shows the message before the one that is shown.
func (c *chat) older() { c.recall(1) }

// newer shows the message behind it, in the end what was typed before.
func (c *chat) newer() { c.recall(-1) }

func (c *chat) recall(by int) {
	h := &c.past
	to := h.at + by
	if to < 0 || to > h.Len() {
		return
	}
	if h.at == 0 {
		h.draft = c.editor.Draft()
	}
	if h.at = to; to == 0 {
		c.editor.SetDraft(h.draft)
		return
	}
	c.editor.Set(h.At(to - 1))
}

// search is an incremental search in the history. Its row has the cursor; the match is in
// the editor.
type search struct {
	words  string
	at     int // of the match, from the newest; 0: none
	failed bool
	draft  input.Draft // what was typed before
}

func (c *chat) newSearch() *search { return &search{draft: c.editor.Draft()} }

// row returns the row of the search, as much of its end as the width has room for.
func (s *search) row(c *chat, width int) string {
	label := "history: "
	if s.failed {
		label = "history, no match: "
	}
	words := []rune(visible(s.words))
	for len(words) > 0 && c.widths.Of(label+string(words)) >= width {
		words = words[1:]
	}
	return label + string(words)
}

// searchKey handles a key of the search. Keys that it does not know end it.
func (c *chat) searchKey(key input.Key) bool {
	s := c.search
	switch {
	case key.Name == "ctrl+r":
		s.find(c, s.at+1)
	case key.Name == "backspace":
		if r := []rune(s.words); len(r) > 0 {
			s.words = string(r[:len(r)-1])
			s.find(c, 1)
		}
	case key.Name == "esc", key.Name == "ctrl+g", key.Name == "ctrl+c":
		c.editor.SetDraft(s.draft)
		c.search = nil
	case key.Text != "":
		s.words += key.Text
		s.find(c, max(1, s.at))
	default: // Enter keeps the match in the editor, other keys edit it
		c.search = nil
		c.past.at = s.at
		c.past.draft = s.draft
		return key.Name == "enter"
	}
	return true
}

// find shows the first match from a place on.
func (s *search) find(c *chat, from int) {
	if s.failed = s.words != ""; !s.failed {
		return
	}
	for at := from; at <= c.past.Len(); at++ {
		if m := c.past.At(at - 1); strings.Contains(strings.ToLower(m), strings.ToLower(s.words)) {
			s.at, s.failed = at, false
			c.editor.Set(m)
			return
		}
	}
}
