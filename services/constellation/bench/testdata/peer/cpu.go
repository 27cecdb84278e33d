package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// cpuOf returns a process's CPU time in nanoseconds, including all threads, from the
// clock that getcpuclockid(3) returns.
func cpuOf(pid int) (float64, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|2), &ts)
	return float64(ts.Nano()), err
}

// ownCPU is cpuOf for this process.
func ownCPU() (float64, error) { return cpuOf(os.Getpid()) }

// now returns CLOCK_MONOTONIC in nanoseconds, which all processes share.
func now() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail: every kernel has it
	return ts.Nano()
}
