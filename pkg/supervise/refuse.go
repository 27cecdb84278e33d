package supervise

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"sync"
)

// gaveUp reports whether a program could not be started or ended itself with
// status 1, as it does when it finds that it cannot work: whoever waits for it
// waits in vain. One that was killed or crashed may do better the next time.
func gaveUp(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return err != nil && (!ok || exit.ExitCode() == 1)
}

// refuse has those who connect answered until end is called. The program's own
// socket stays open.
func (p Program) refuse(why string) (end func()) {
	if p.Refuse == nil {
		return func() {}
	}
	socket, err := p.file()
	if err != nil {
		return func() {}
	}
	defer socket.Close()
	l, err := net.FileListener(socket)
	if err != nil {
		return func() {} // they wait, as without it
	}
	var refusing sync.WaitGroup
	refusing.Go(func() { p.Refuse(l, why) })
	return func() { l.Close(); refusing.Wait() }
}

// tailMax is how long a last line may be.
const tailMax = 4 << 10

// tail is the end of a program's output.
type tail struct {
	mu  sync.Mutex
	end []byte
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	t.end = append(t.end[:0], t.end[max(0, len(t.end)-tailMax):]...)
}

// line is the last line that holds something.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := bytes.TrimSpace(t.end)
	return string(bytes.TrimSpace(end[bytes.LastIndexByte(end, '\n')+1:]))
}
