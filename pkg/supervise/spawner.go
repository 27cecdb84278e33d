package supervise

import "runtime"

// spawner starts processes on one thread that lives as long as the set does:
// the kernel sends the death signal when the thread that started a process
// ends, not when the process does.
func (s *Set) spawner() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for request := range s.spawns {
		request.done <- request.cmd.Start()
	}
}
