package service

import (
	"fmt"
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
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		log.Debug("cannot unmap the pages of the start", "error", err)
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		log.Debug("cannot unmap the pages of the start", "error", err)
		return
	}
	for _, m := range unmodified(string(smaps), program) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno != 0 {
			log.Debug("cannot unmap the pages of the start", "error", errno)
		}
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unmodified returns the mappings of the program that can be dropped without loss:
// private, not writable, and without a page that differs from the file. The relocated
// constants of a position-independent program are such pages. Mappings of other files may
// be replaced at any moment. The format of smaps is that of proc_pid_smaps(5).
func unmodified(smaps, program string) []mapping {
	var list []mapping
	candidate := false // the last of list
	for line := range strings.Lines(smaps) {
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		if strings.Contains(name, " ") { // the first line of a mapping
			var m mapping
			var permissions string
			_, err := fmt.Sscanf(line, "%x-%x %s", &m.start, &m.end, &permissions)
			candidate = err == nil && (permissions == "r-xp" || permissions == "r--p") && strings.HasSuffix(line, " "+program)
			if candidate {
				list = append(list, m)
			}
		} else if candidate && (name == "Anonymous" || name == "Swap") && !strings.HasSuffix(value, " 0 kB") {
			list = list[:len(list)-1]
			candidate = false
		}
	}
	return list
}
