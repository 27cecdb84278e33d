package supervise

import (
	"io"
	"os"
	"os/exec"
	"time"
)

// linger is how long the end of a program waits for the last of its output,
// which a grandchild may hold open for ever.
const linger = 200 * time.Millisecond

// listenTo connects the program's standard error to the output. done is called
// when the program has ended or could not be started, and returns the last line,
// if it went through our hands. The pipe is ours and not exec's: exec would wait
// for grandchildren before it reports the end, and break the pipe, which kills
// its writer, when the log cannot be written.
func (s *Set) listenTo(cmd *exec.Cmd) (done func() string, err error) {
	if f, ok := s.output.(*os.File); ok {
		cmd.Stderr = f
		return func() string { return "" }, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	read := make(chan struct{})
	end := &tail{}
	go func() {
		defer close(read)
		defer r.Close()
		pump(s.output, end, r)
	}()
	return func() string {
		w.Close()
		select {
		case <-read:
		case <-time.After(linger):
		}
		return end.line()
	}, nil
}

// pump copies r to w up to its end. What w does not take is lost: a full disk
// is no reason for a service to stop.
func pump(w io.Writer, end *tail, r io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		if n > 0 {
			w.Write(b[:n]) // an error has nowhere to be logged
			end.add(b[:n])
		}
		if err != nil {
			return
		}
	}
}
