package exc

import (
	"encoding/json"
	"os"
	"runtime"
	"syscall"

	"zino/services/exc/confine"
)

// ownProgram is this very program, even if its file was replaced or cannot be
// seen.
const ownProgram = "/proc/self/exe"

// planText is a plan as an argument of a process.
func planText(p *confine.Plan) (string, error) {
	if p == nil {
		return "", nil
	}
	b, err := json.Marshal(p)
	return string(b), err
}

// planOf reads what planText wrote.
func planOf(text string) (*confine.Plan, error) {
	p := new(confine.Plan)
	return p, json.Unmarshal([]byte(text), p)
}

// enter has the supervisor of a confined command build what that will see.
func (s *supervisor) enter() error {
	if s.plan == "" {
		return nil
	}
	p, err := planOf(s.plan)
	if err != nil {
		return err
	}
	return p.Enter()
}

// restrictArgs is how many arguments stand before the command's: the plan and
// the command's path.
const restrictArgs = 2

// restrict is the life of the process that becomes a confined command. It comes
// back only if that cannot be.
func restrict(args []string) {
	runtime.LockOSThread() // rights are those of a thread until exec makes it the only one
	closeOnExec()
	p, err := planOf(args[0])
	if err == nil {
		err = p.Restrict()
	}
	if err != nil {
		tell(restrictFD, refusalLine(err))
		return
	}
	err = syscall.Exec(args[1], args[restrictArgs:], commandEnv(os.Environ()))
	tell(restrictFD, endLine(unstarted, errno(err)))
}
