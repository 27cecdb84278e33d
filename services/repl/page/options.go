package page

import (
	"strings"
	"time"
)

// Options say what page it is. Zero values are the defaults.
type Options struct {
	Name string // the sanitized name, see Sanitize
	ID   string // the short id, see ShortID

	// Epoch makes the ids of this start's jobs unlike those of earlier starts,
	// whose answers may still come. It is random.
	Epoch string

	Lang   string // of the code that runs here; js
	Footer string // one line that begins with "> "

	Timeout  time.Duration // of a job; 60 s
	Cadence  time.Duration // between updates of what is shown; 5 s
	Quiet    time.Duration // before text that does not run is taken as final; 2 s
	Debounce time.Duration // before text that came unannounced is looked at; 150 ms

	BodyMax int // of a result in the file, in bytes; 256 KiB
	Kept    int // the highest N of the bodies kept as N.txt so far
}

// speech is how a language is called in sentences.
var speech = map[string]string{"js": "JS", "py": "Python"}

// defaults fills in what was not said.
func (o Options) defaults() Options {
	if o.Lang == "" {
		o.Lang = "js"
	}
	if o.Footer == "" {
		o.Footer = "> Write code in a fenced " + o.speech() + " block below to execute against this page."
	}
	o.Footer = "> " + strings.TrimPrefix(oneLine(strings.TrimSpace(o.Footer)), "> ")
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&o.Timeout, 60 * time.Second},
		{&o.Cadence, 5 * time.Second},
		{&o.Quiet, 2 * time.Second},
		{&o.Debounce, 150 * time.Millisecond},
	} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	if o.BodyMax <= 0 {
		o.BodyMax = 256 << 10
	}
	return o
}

func (o *Options) speech() string {
	if s := speech[o.Lang]; s != "" {
		return s
	}
	return o.Lang
}

// full is the page's whole name, which no other live page has.
func (o *Options) full() string { return o.Name + "-" + o.ID }
