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

// isLive reports whether the page is shown as connected.
func (e *Entry) isLive() bool { return e.Live && e.State != "gone" }

const (
	pagesMax = 100 // pages that the registry shows
	urlMax   = 200 // bytes of a URL that it shows
)

// Registry returns the text of debug.md: live pages first, by name, then those that
// are gone, the latest first. At most 100 pages are shown, the others counted.
func Registry(entries []Entry) []byte {
	entries = slices.SortedStableFunc(slices.Values(entries), func(a, b Entry) int {
		switch {
		case a.isLive() && !b.isLive():
			return -1
		case b.isLive() && !a.isLive():
			return 1
		case a.isLive():
			return strings.Compare(a.Name, b.Name)
		}
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Name, b.Name))
	})
	out := []byte(replfile.Head)
	for _, e := range entries[:min(len(entries), pagesMax)] {
		full := oneLine(e.Name)
		name := full[:max(strings.LastIndexByte(full, '-'), 0)]
		out = fmt.Appendf(out, "* [%s](%s) (%s) last %s state: %s\n", name, logPath(full), shownURL(e.URL), e.Last.Format(time.TimeOnly), oneLine(e.State))
	}
	if n := len(entries) - pagesMax; n > 0 {
		out = fmt.Appendf(out, "\n... and %d more\n", n)
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
