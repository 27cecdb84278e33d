//go:build race

package rpc

import "syscall"

// The functions of package syscall report to the race detector which memory they use,
// and that what a process reads from itself comes after it was written.
var readNow, writeNow = syscall.Read, syscall.Write
