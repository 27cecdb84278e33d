package measure

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Percentile returns the smallest value that at least p percent of the values do not
// exceed; 0 without values. Percentile(list, 50) is a median.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(float64(len(sorted))*p/100 + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Disturbed is the spread of a floor above which its run gives no ratios.
const Disturbed = 0.2

// Spread returns how far the middle half of the values is apart, as a part of their
// median.
func Spread(values []float64) float64 {
	middle := Percentile(values, 50)
	if middle == 0 {
		return 0
	}
	return (Percentile(values, 75) - Percentile(values, 25)) / middle
}

// Status returns a number of /proc/PID/status, such as Threads, or RssAnon in KiB.
func Status(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(status, []byte("\n"+field+":")) // see proc_pid_status(5)
	line, _, _ := bytes.Cut(after, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) == 0 {
		return 0, fmt.Errorf("no %s of process %d", field, pid)
	}
	return strconv.ParseFloat(string(words[0]), 64)
}

// Anonymous returns a process's anonymous memory in megabytes of 10^6 bytes.
func Anonymous(pid int) (float64, error) {
	kib, err := Status(pid, "RssAnon")
	return kib * 1024 / 1e6, err
}

// Files returns the number of a process's descriptors.
func Files(pid int) (float64, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return float64(len(list)), err
}
