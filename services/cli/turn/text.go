package turn

import (
	"bytes"
	"strings"
)

// answerText is the text of the inference in progress as far as it was rendered. After
// a connection was lost the daemon sends that text again from its beginning, or, if
// the inference was repeated, another text.
type answerText struct {
	shown  []byte
	again  []byte // what was received again
	behind bool   // again is not yet as long as shown
}

// reconnect prepares for a text that begins again.
func (a *answerText) reconnect() { a.again, a.behind = nil, len(a.shown) > 0 }

// reset begins the next inference.
func (a *answerText) reset() { *a = answerText{shown: a.shown[:0]} }

// delta returns what is new in a piece of the text. retracted is true if the text
// that was shown is void.
func (a *answerText) delta(piece string) (fresh string, retracted bool) {
	if !a.behind {
		a.shown = append(a.shown, piece...)
		return piece, false
	}
	a.again = append(a.again, piece...)
	switch rest, continues := bytes.CutPrefix(a.again, a.shown); {
	case continues:
		fresh = string(rest)
	case bytes.HasPrefix(a.shown, a.again):
		return "", false
	default:
		fresh, retracted = string(a.again), true
	}
	a.shown, a.behind = a.again, false
	return fresh, retracted
}

// final is delta for the whole text of the inference. White space at the ends may
// differ from that of the pieces.
func (a *answerText) final(text string) (fresh string, retracted bool) {
	defer a.reset()
	if !a.behind {
		return "", false
	}
	rest, continues := strings.CutPrefix(strings.TrimSpace(text), strings.TrimSpace(string(a.shown)))
	if !continues {
		return text, true
	}
	return rest, false
}
