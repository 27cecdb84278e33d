package durable

import "fmt"

// Kind says what happened to a file.
type Kind string

// The kinds of event.
const (
	// Mended: the end of an interrupted write was completed; no element is lost.
	Mended Kind = "mended"
	// Converted: a valid array in another layout was rewritten, one element a line.
	Converted Kind = "converted"
	// Damaged: the file is no valid array in UTF-8. What could be read of it was
	// written anew, and the damaged file is kept aside.
	Damaged Kind = "damaged"
	// Cut: the last line was no whole one and was taken off; it is kept aside.
	Cut Kind = "cut"
)

// Event tells the owner of a file what was done to it, for the log.
type Event struct {
	Kind     Kind
	Name     string // the file
	Kept     string // the name under which the damaged file, or the piece of it, is kept
	Elements int    // the elements that are served; not told of Lines
	Err      error  // what was read could not be written back; the file is as it was
}

// String is the event as one line.
func (e Event) String() string {
	var s string
	switch e.Kind {
	case Cut:
		return fmt.Sprintf("%s: its last line was cut off in the middle of a write and is taken off; the piece is kept as %s: look at it, then delete it", e.Name, e.Kept)
	case Damaged:
		s = fmt.Sprintf("%s is damaged: %d of its entries could be read and are served", e.Name, e.Elements)
	case Converted:
		s = fmt.Sprintf("%s was rewritten with one entry a line, %d entries", e.Name, e.Elements)
	default:
		s = fmt.Sprintf("%s: the end of an interrupted write was mended, %d entries", e.Name, e.Elements)
	}
	if e.Err != nil {
		return fmt.Sprintf("%s; the file could not be rewritten: %v", s, e.Err)
	}
	if e.Kept != "" {
		s += fmt.Sprintf("; the damaged file is kept as %s: look at it, then delete it", e.Kept)
	}
	return s
}
