package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"zino/pkg/replfile"
)

// Entry is a page as the registry shows it.
type Entry struct {
	Name  string // with the id
	URL   string // shown without query, fragment and user
	Last  time.Time
	State string // from State.Status
	Live  bool
}

const (
	pagesMax = 100 // pages that the registry shows
	urlMax   = 200 // bytes of a URL that it shows
)

// Registry returns the text of debug.md: live pages first, by name, then those that
// are gone, the latest first. At most 100 pages are shown, the others counted.
func Registry(entries []Entry) []byte {
	entries = slices.SortedStableFunc(slices.Values(entries), func(a, b Entry) int {
		switch {
		case a.Live && !b.Live:
			return -1
		case b.Live && !a.Live:
			return 1
		case a.Live:
			return strings.Compare(a.Name, b.Name)
		}
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Name, b.Name))
	})
	out := []byte(replfile.Head)
	for _, e := range entries[:min(len(entries), pagesMax)] {
		out = fmt.Appendf(out, "* %s (%s) last %s state: %s\n", oneLine(e.Name), shownURL(e.URL), e.Last.Format(time.TimeOnly), oneLine(e.State))
	}
	if n := len(entries) - pagesMax; n > 0 {
		out = fmt.Appendf(out, "* ... and %d more\n", n)
	}
	return out
}

// shownURL returns a URL without what may be secret or long.
func shownURL(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		u.User, u.RawQuery, u.Fragment, u.ForceQuery = nil, "", "", false
		raw = u.String()
	} else if i := strings.IndexAny(raw, "?#"); i >= 0 {
		raw = raw[:i]
	}
	short, left := escapeUpTo(oneLine(raw), urlMax)
	if left > 0 {
		short += "..."
	}
	return short
}
