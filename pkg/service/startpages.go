package service

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"
)

// startTime is the time after which a service has done what it does only once.
const startTime = time.Second

// unmapStartPages unmaps the program's code and constants. Starting maps nearly all of
// them, since the kernel maps 64 KiB at each page fault; a service at rest needs a fifth.
// What is needed again is mapped again from the page cache.
func unmapStartPages(log *slog.Logger) {
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		log.Debug("cannot unmap the pages of the start", "error", err)
		return
	}
	defer smaps.Close()
	for _, m := range unmodified(smaps) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno != 0 {
			log.Debug("cannot unmap the pages of the start", "error", errno)
		}
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unmodified returns the mappings of files that can be dropped without loss: private,
// not writable, and without a page that differs from the file. The relocated constants
// of a position-independent program are such pages. The format of smaps is that of
// proc_pid_smaps(5).
func unmodified(smaps io.Reader) []mapping {
	var list []mapping
	var m mapping
	file := false
	for s := bufio.NewScanner(smaps); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), ":")
		if !strings.Contains(name, " ") { // a figure of the mapping above
			if file && name == "Anonymous" && strings.HasSuffix(value, " 0 kB") {
				list = append(list, m)
			}
			continue
		}
		var permissions, device string
		var offset, inode uint64
		_, err := fmt.Sscanf(s.Text(), "%x-%x %s %x %s %d", &m.start, &m.end, &permissions, &offset, &device, &inode)
		file = err == nil && inode != 0 && (permissions == "r-xp" || permissions == "r--p")
	}
	return list
}
