package sandbox

import (
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
)

// Scopes reports whether the host can keep signals to a run (Linux 6.12).
func Scopes() bool { return landlockVersion() >= landlockAlone }

// Scope keeps this thread and what it becomes from stopping and disarming the
// processes of the same user that watch it: no signal leaves the run, as far as
// the host Scopes, and no limit but its own can be changed. It is for code that
// is confined by other means, and takes nothing else from it. The caller's
// goroutine must be locked to its thread and go on to exec.
func Scope() error {
	if Scopes() {
		config, err := landlock.NewConfig(landlockConfigs[landlockAlone-1].Scoped)
		if err == nil {
			err = config.RestrictScoped()
		}
		if err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if arch == 0 { // no filter of system calls for this kind of processor
		return nil
	}
	return OnlyOwnLimits()
}
