package run

// Text makes valid UTF-8 of a stream that comes in parts.
type Text struct{ partial []byte } // the beginning of a character

// Add calls emit with the text of p, and of what an earlier part has left, in pieces of at
// most limit bytes. A character that is not complete waits for the next part.
func (t *Text) Add(p []byte, limit int, emit func(string)) {
	all := append(t.partial, p...)
	whole := trimPartialEnd(all)
	t.partial = append([]byte(nil), all[len(whole):]...)
	for len(whole) > 0 {
		piece := whole
		if most := limit / 3; len(whole) > most { // a bad byte takes three
			piece = trimPartialEnd(whole[:most])
		}
		emit(decode(piece))
		whole = whole[len(piece):]
	}
}

// End calls emit with what is left, if anything: a character without its end.
func (t *Text) End(emit func(string)) {
	if len(t.partial) > 0 {
		emit(decode(t.partial))
		t.partial = nil
	}
}
