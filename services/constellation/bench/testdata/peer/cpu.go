package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// cpuOf is the CPU time of a process since it began, in nanoseconds and with
// all its threads: the kernel's clock for it, which getcpuclockid(3) makes of
// the process's number.
func cpuOf(pid int) (float64, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|2), &ts)
	return float64(ts.Nano()), err
}

// ownCPU is cpuOf for this process.
func ownCPU() (float64, error) { return cpuOf(os.Getpid()) }

// now is a time that all processes of the machine share, in nanoseconds.
func now() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail: every kernel has it
	return ts.Nano()
}
