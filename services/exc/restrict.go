package exc

import (
	"encoding/json"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"zino/services/exc/confine"
)

// hooked is set once Supervise was called: without it, runs would start
// ordinary copies of this program.
var hooked atomic.Bool

// Supervise must be the first call of main in every program that runs code,
// TestMain included. It returns at once, except in the copies of the program
// that exc starts as supervisors and for what comes before and beside a command:
// there it does their work and never returns.
func Supervise() {
	hooked.Store(true)
	if len(os.Args) < 2 {
		return
	}
	args := os.Args[2:]
	switch {
	case os.Args[1] == superviseArg && len(args) > superviseArgs:
		supervise(args)
	case os.Args[1] == restrictArg && len(args) > restrictArgs:
		restrict(args)
	default:
		return
	}
	syscall.Exit(0) // at once: there is nothing to flush
}

// ownProgram is this very program, even if its file was replaced or cannot be
// seen.
const ownProgram = "/proc/self/exe"

// scopeOnly stands in the place of a plan for a command that others confine, and
// that must only be kept from ending those who watch it.
const scopeOnly = "scope"

// planText is a job's plan as an argument of a process.
func planText(j job) (string, error) {
	switch {
	case j.scoped:
		return scopeOnly, nil
	case j.plan == nil:
		return "", nil
	}
	b, err := json.Marshal(j.plan)
	return string(b), err
}

// planOf reads what planText wrote.
func planOf(text string) (*confine.Plan, error) {
	p := new(confine.Plan)
	return p, json.Unmarshal([]byte(text), p)
}

// enter has the supervisor of a confined command build what that will see.
func (s *supervisor) enter() error {
	switch s.plan {
	case "":
		return nil
	case scopeOnly:
		return beOpaque()
	}
	p, err := planOf(s.plan)
	if err != nil {
		return err
	}
	return p.Enter()
}

// beOpaque keeps processes of the same user from looking into this one.
func beOpaque() error {
	return os.NewSyscallError("prctl(PR_SET_DUMPABLE)", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// restrictArgs is how many arguments stand before the command's: the plan and
// the command's path.
const restrictArgs = 2

// restrict is the life of the process that becomes a confined command. It comes
// back only if that cannot be.
func restrict(args []string) {
	runtime.LockOSThread() // rights are those of a thread until exec makes it the only one
	closeOnExec()
	if err := layDown(args[0]); err != nil {
		tell(restrictFD, refusalLine(err))
		return
	}
	err := syscall.Exec(args[1], args[restrictArgs:], commandEnv(os.Environ()))
	tell(restrictFD, endLine(unstarted, errno(err)))
}

// layDown lays down the rights that a plan's text gives.
func layDown(text string) error {
	if text == scopeOnly {
		return confine.Scope()
	}
	p, err := planOf(text)
	if err != nil {
		return err
	}
	return p.Restrict()
}
