package measure

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Run describes this run in one line of Markdown: the machine, the kernel, the commit and
// the date.
func Run() string {
	processor, memory := "unknown processor", "?"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		processor = field(info, "model name")
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		memory = field(info, "MemTotal")
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	return fmt.Sprintf("%s, commit %s: %d cores of %s, memory %s, Linux %s, %s.", time.Now().UTC().Format(time.DateOnly), commit(),
		runtime.NumCPU(), processor, memory, bytes.TrimSpace(kernel), runtime.Version())
}

// commit returns the commit that is checked out, marked if files differ from it. What the
// measuring commands write themselves makes no difference.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown" // not a checkout
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--", ":/", ":(top,exclude)docs/performance*").Output()
	name := string(bytes.TrimSpace(head))
	if err != nil || len(changes) > 0 {
		name += "-dirty"
	}
	return name
}

// field returns a value of a file such as /proc/cpuinfo.
func field(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.TrimSpace(key)) == name {
			return string(bytes.TrimSpace(value))
		}
	}
	return "unknown"
}
