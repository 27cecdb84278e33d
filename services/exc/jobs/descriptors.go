package jobs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// descriptors are the open files that a supervisor is passed: it needs no path of
// exc, whose files it may not even see.
type descriptors struct {
	control        *os.File // the listening control socket
	state          *os.File // state.json, locked
	stdout, stderr *os.File
	group          *os.File // the command's control group; nil: none
	lifeline       *os.File // at its end of file the job stops; nil: none
}

const (
	hasGroup    = 1 << iota // in the byte that comes with the descriptors
	hasLifeline             //
	required    = 4         // descriptors that always come
)

// pass sends the descriptors over a connection, with SCM_RIGHTS.
func (d *descriptors) pass(conn *net.UnixConn) error {
	flags := byte(0)
	files := []*os.File{d.control, d.state, d.stdout, d.stderr}
	if d.group != nil {
		flags, files = flags|hasGroup, append(files, d.group)
	}
	if d.lifeline != nil {
		flags, files = flags|hasLifeline, append(files, d.lifeline)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	_, _, err := conn.WriteMsgUnix([]byte{flags}, unix.UnixRights(fds...), nil)
	return err
}

// receive receives what pass has sent.
func receive(conn *net.UnixConn) (*descriptors, error) {
	if err := conn.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return nil, err
	}
	flags, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4*(required+2)))
	n, size, _, _, err := conn.ReadMsgUnix(flags, rights)
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("receive descriptors: %w", err)
	}
	files, err := filesOf(rights[:size])
	if err != nil {
		return nil, err
	}
	want := required
	for flag := byte(hasGroup); flag <= hasLifeline; flag <<= 1 {
		if flags[0]&flag != 0 {
			want++
		}
	}
	if n != 1 || len(files) != want {
		closeAll(files...)
		return nil, fmt.Errorf("received %d descriptors, expected %d", len(files), want)
	}
	d := &descriptors{control: files[0], state: files[1], stdout: files[2], stderr: files[3]}
	rest := files[required:]
	if flags[0]&hasGroup != 0 {
		d.group, rest = rest[0], rest[1:]
	}
	if flags[0]&hasLifeline != 0 {
		d.lifeline = rest[0]
	}
	return d, nil
}

// filesOf are the descriptors in a control message. Commands do not inherit them.
func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, os.NewSyscallError("parse control message", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, os.NewSyscallError("parse rights", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

// connect starts a supervisor, whose standard input is the other end of conn: a
// unit of the host behind socket, or else a child of this process. Closing conn
// before the job was started ends it.
func connect(socket string) (*net.UnixConn, error) {
	if socket != "" {
		return net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "job"), os.NewFile(uintptr(pair[1]), "job")
	defer closeAll(ours, theirs)
	// Its own session, and no signal when this process dies: the job outlives exc.
	supervisor := &exec.Cmd{
		Path: ownProgram, Args: []string{"zino-exc", Flag}, Env: []string{"GOMAXPROCS=1", "GOGC=50"},
		Stdin: theirs, Dir: "/", // no stderr: that of exc may be a pipe that ends with it
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := supervisor.Start(); err != nil {
		return nil, err
	}
	go func() { _ = supervisor.Wait() }() // its end is seen on the control socket
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a Unix socket"), conn.Close())
	}
	return unixConn, nil
}

// ownProgram is this very program, even if its file was replaced.
const ownProgram = "/proc/self/exe"

// closeAll closes files that need no flush; nil ones do no harm.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
