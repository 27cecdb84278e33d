package page

import "time"

// View is what the file's end looks like.
type View struct {
	// Tail is the file from Offset to its end. It may begin inside a line.
	Tail   []byte
	Offset int64

	// ModTime is when the file was last written.
	ModTime time.Time

	// Missing: there is no file. Tail is empty.
	Missing bool

	// Held: the file cannot be read or written now. The event changes memory
	// only; there is no edit.
	Held bool

	// Scan is what Page.Scan found in the file, if it was asked for.
	Scan *Scan
}

// Need is what Apply misses.
type Need int

// What Apply may miss.
const (
	// Nothing: the step is complete.
	Nothing Need = iota
	// More: Apply must see the file from Edit.From on.
	More
	// Head: the file must go through Page.Scan, and Apply must see it from
	// Scan.From on, with the Scan.
	Head
)

// Edit is a change of the file.
type Edit struct {
	// Changed: the bytes from From to the file's end are to be replaced by Text.
	// A file that is missing is made.
	Changed bool
	From    int64
	Text    []byte

	// Need is what was missing. Unless it is Nothing, the step has no other
	// outcome: the next page is the same, and there are no effects.
	Need Need
}
