package rtr

import (
	"fmt"
	"syscall"
)

// ProtectMemory makes the process not dumpable, so that other processes of its
// uid cannot read its environment and memory in /proc or trace it: providers'
// keys are in both. It also writes no core dumps.
//
// What remains: root and CAP_SYS_PTRACE read everything; so can a process of the
// same uid between exec and this call; and the processes that handed the keys
// over, such as the user's shell and zino itself, have them in environments of
// their own. Keys in the store (zino auth set) are in none of them.
func ProtectMemory() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("cannot protect the keys in memory: prctl(PR_SET_DUMPABLE): %w", errno)
	}
	return nil
}
