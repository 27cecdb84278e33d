package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fenceOptions are the options that stand behind the label of a block.
type fenceOptions struct {
	timeout     time.Duration // of the job; 0: the page's
	bodyMax     int           // bytes of the reply that the file shows; 0: Options.BodyMax
	afterReload bool          // the job is the first of the page's next load
	test        bool          // the block is a list of tests
	faults      []string      // what is wrong with the others; the block runs without them
}

const (
	timeoutMax    = 24 * time.Hour
	inlineMax     = 1 << 10 // KiB of a reply that max= can show
	faultsMax     = 5
	optionWordMax = 60 // bytes of a word that a fault shows
)

// parseFenceOptions parses the words behind the label of a block.
func parseFenceOptions(words string) (o fenceOptions) {
	for word := range strings.FieldsSeq(words) {
		fault := o.parse(word)
		if fault == "" || len(o.faults) > faultsMax {
			continue
		}
		if len(o.faults) == faultsMax {
			fault = "... and more"
		}
		o.faults = append(o.faults, fault)
	}
	return o
}

// parse parses one option and returns what is wrong with it.
func (o *fenceOptions) parse(word string) (fault string) {
	name, value, valued := strings.Cut(word, "=")
	shown, left := escapeUpTo(oneLine(word), optionWordMax)
	if left > 0 {
		shown += "..."
	}
	switch {
	case name == "test" && !valued:
		o.test = true
	case name == "timeout":
		s, err := strconv.ParseFloat(value, 64)
		if err != nil || !(s > 0 && s <= timeoutMax.Seconds()) {
			return fmt.Sprintf("ignored: %s; it is seconds, up to %d, as in timeout=10", shown, int(timeoutMax.Seconds()))
		}
		o.timeout = max(time.Millisecond, time.Duration(s*float64(time.Second)))
	case name == "max":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > inlineMax {
			return fmt.Sprintf("ignored: %s; it is KiB, 1 to %d, as in max=64", shown, inlineMax)
		}
		o.bodyMax = n << 10
	case name == "after":
		if value != "reload" {
			return fmt.Sprintf("ignored: %s; it is after=reload", shown)
		}
		o.afterReload = true
	default:
		return fmt.Sprintf("unknown option %s; there are timeout=SECONDS, max=KIB, after=reload and test", shown)
	}
	return ""
}
