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
	exited    verdict = "exit"   // with an exit status
	signaled  verdict = "signal" // by a signal
	unstarted verdict = "start"  // it could not be started: an errno
	lost      verdict = ""       // nobody knows: the supervisor was killed
)

// report is what a supervisor tells exc when all is over, in one line.
type report struct {
	verdict verdict
	number  int
}

// endLine is a report as a line.
func endLine(v verdict, number int) string { return fmt.Sprintf("%s %d\n", v, number) }

// endOf is the report for a command's wait status.
func endOf(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return endLine(signaled, int(ws.Signal()))
	}
	return endLine(exited, ws.ExitStatus())
}

// parseReport reads a supervisor's line. Lines that make no sense are passed
// over: without a good one the verdict is lost.
func parseReport(text string) report {
	var r report
	for line := range strings.Lines(text) {
		word, digits, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || !strings.HasSuffix(line, "\n") {
			continue
		}
		switch v := verdict(word); v {
		case exited, signaled, unstarted:
			r = report{v, int(n)}
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
