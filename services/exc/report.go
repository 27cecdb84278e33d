package exc

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// verdict says how a supervised command came to its end.
type verdict string

const (
	exited     verdict = "exit"    // with an exit status
	signaled   verdict = "signal"  // by a signal
	unstarted  verdict = "start"   // it could not be started: an errno
	unconfined verdict = "confine" // it was not started because it could not be confined
	lost       verdict = ""        // nobody knows: the supervisor was killed
)

// reportMax is the size in bytes of the longest report.
const reportMax = 4 << 10

// report is what a supervisor tells exc when all is over, in one line.
type report struct {
	verdict verdict
	number  int
	why     string   // of an unconfined one
	unit    *unitEnd // of a command in a unit
	err     error    // that processes may be left
}

// endLine is a report as a line.
func endLine(v verdict, number int) string { return fmt.Sprintf("%s %d\n", v, number) }

// refusalLine is a report of what could not be confined as a line.
func refusalLine(err error) string {
	why := strings.ReplaceAll(err.Error(), "\n", "; ")
	return string(unconfined) + " " + why[:min(len(why), reportMax/2)] + "\n"
}

// endOf is the report for a command's wait status.
func endOf(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return endLine(signaled, int(ws.Signal()))
	}
	return endLine(exited, ws.ExitStatus())
}

// parseReport reads a supervisor's lines. Those that make no sense are passed
// over: without a good one the verdict is lost. What was not even started has
// said why before it came to its end, which says nothing then.
func parseReport(text string) report {
	var r report
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !strings.HasSuffix(line, "\n") || r.verdict == unstarted || r.verdict == unconfined {
			continue
		}
		if verdict(word) == unconfined {
			r = report{verdict: unconfined, why: rest}
			continue
		}
		n, err := strconv.ParseUint(rest, 10, 31)
		if err != nil {
			continue
		}
		switch v := verdict(word); v {
		case exited, signaled, unstarted:
			r = report{verdict: v, number: int(n)}
		}
	}
	return r
}

// exitCode is the number that callers see: the status, or -N for signal N.
func (r report) exitCode() int {
	switch r.verdict {
	case exited:
		return r.number
	case signaled:
		return -r.number
	}
	return -1
}
