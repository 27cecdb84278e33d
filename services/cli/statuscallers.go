package cli

import (
	"fmt"
	"text/tabwriter"

	"zino/pkg/visible"
)

// printCallers prints who may call whom, as far as the services said: in one
// line where it is the same for all.
func (a *app) printCallers(reports []report) {
	var known []report
	same := true
	for _, r := range reports {
		if r.callers != "" {
			known = append(known, r)
			same = same && r.callers == known[0].callers
		}
	}
	switch {
	case len(known) == 0:
		return
	case same:
		fmt.Fprintf(a.out, "\nAll may be called by: %s\n", visible.Text(known[0].callers))
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSERVICE\tMAY BE CALLED BY")
	for _, r := range known {
		fmt.Fprintf(w, "%s\t%s\n", r.service, visible.Text(r.callers))
	}
	w.Flush()
}
