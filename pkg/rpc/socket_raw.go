//go:build !race

package rpc

import (
	"syscall"
	"unsafe"
)

// readNow is read(2) on a descriptor that does not block.
func readNow(fd int, b []byte) (int, error) { return raw(syscall.SYS_READ, fd, b) }

// writeNow is write(2) on a descriptor that does not block.
func writeNow(fd int, b []byte) (int, error) { return raw(syscall.SYS_WRITE, fd, b) }

func raw(trap uintptr, fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
