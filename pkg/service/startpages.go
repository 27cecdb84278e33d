package service

import (
	"bufio"
	"cmp"
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
	list, err := startPages()
	for _, m := range list {
		err = cmp.Or(err, m.advise(syscall.MADV_DONTNEED))
	}
	if err != nil {
		log.Debug("cannot unmap the pages of the start", "error", err)
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// advise calls madvise(2) for all pages of m.
func (m mapping) advise(advice uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, advice); errno != 0 {
		return os.NewSyscallError("madvise", errno)
	}
	return nil
}

// startPages returns the mappings of this process that can be dropped without loss.
func startPages() ([]mapping, error) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	defer smaps.Close()
	return unmodified(smaps, program)
}

// unmodified returns the mappings of the program that can be dropped without loss:
// private, not writable, and without a page that differs from the file. The relocated
// constants of a position-independent program are such pages. Mappings of other files may
// be replaced at any moment. The format of smaps is that of proc_pid_smaps(5).
func unmodified(smaps io.Reader, program string) ([]mapping, error) {
	var list []mapping
	candidate := false // the last of list
	s := bufio.NewScanner(smaps)
	for s.Scan() {
		name, value, _ := strings.Cut(s.Text(), ":")
		if strings.Contains(name, " ") { // the first line of a mapping
			var m mapping
			var permissions string
			_, err := fmt.Sscanf(name, "%x-%x %s", &m.start, &m.end, &permissions)
			candidate = err == nil && (permissions == "r-xp" || permissions == "r--p") && strings.HasSuffix(value, " "+program)
			if candidate {
				list = append(list, m)
			}
		} else if candidate && (name == "Anonymous" || name == "Swap") && !strings.HasSuffix(value, " 0 kB") {
			list = list[:len(list)-1]
			candidate = false
		}
	}
	if err := s.Err(); err != nil { // the last of list may be modified
		return nil, err
	}
	return list, nil
}
