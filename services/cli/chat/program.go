package chat

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// program is a running zino-chat.
type program struct {
	cmd     *exec.Cmd
	line    *net.UnixConn            // to it and from it
	states  chan syscall.WaitStatus  // it has stopped, and in the end: it has ended
	signals chan os.Signal           // to forward
	stops   chan os.Signal           // SIGTSTP
	reports chan []proto.ChatSession // the sessions that it has opened, when the line ends
}

// startProgram starts the zino-chat beside this program on a terminal. The caller closes
// it when it has ended.
func startProgram(in, out *os.File) (*program, error) {
	path := sibling("zino-chat")
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "zino-chat"), os.NewFile(uintptr(pair[1]), "zino-chat")
	defer theirs.Close()
	conn, err := net.FileConn(ours) // a copy
	ours.Close()
	if err != nil {
		return nil, err
	}
	p := &program{
		cmd: exec.Command(path), line: conn.(*net.UnixConn), states: make(chan syscall.WaitStatus),
		signals: make(chan os.Signal, 4), stops: make(chan os.Signal, 1), reports: make(chan []proto.ChatSession, 1),
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, os.Stderr
	p.cmd.ExtraFiles = []*os.File{theirs}
	signal.Notify(p.signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	signal.Notify(p.stops, syscall.SIGTSTP)
	if err := p.cmd.Start(); err != nil {
		p.close()
		return nil, err
	}
	go p.wait()
	go p.read()
	return p, nil
}

// close frees what belongs to a program that has ended.
func (p *program) close() {
	signal.Stop(p.signals)
	signal.Stop(p.stops)
	p.line.Close()
}

// wait sends the changes of the program's state, until it has ended. Unlike os/exec it
// sees that the program was stopped.
func (p *program) wait() {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // another wait has taken its status
			p.states <- syscall.WaitStatus(1 << 8)
			return
		default:
			p.states <- status
			if !status.Stopped() {
				return
			}
		}
	}
}

// read collects the sessions that the program opens.
func (p *program) read() {
	var list []proto.ChatSession
	for lines := bufio.NewScanner(p.line); lines.Scan(); {
		var s proto.ChatSession
		if wire.DecodeReply(lines.Bytes(), &s) == nil && s.Type == proto.TypeChatSession {
			list = append(list, s)
		}
	}
	p.reports <- list
}

// opened returns the last session of the program, after it has ended, and those that it has
// made.
func (p *program) opened() (made []string, last string) {
	p.line.CloseRead() // what it has written is read nevertheless
	for _, s := range <-p.reports {
		if last = s.SessionID; s.New && !slices.Contains(made, last) {
			made = append(made, last)
		}
	}
	return made, last
}

// signal forwards a signal, except SIGQUIT.
func (p *program) signal(s os.Signal) {
	if s != syscall.SIGQUIT {
		p.cmd.Process.Signal(s) // fails if it has ended
	}
}

// stop stops this process and the rest of its process group after the program has stopped:
// the shell has the terminal then. It returns when this process goes on. SIGTSTP cannot stop
// it: os/signal does not restore its default action.
func (p *program) stop() {
	// The SIGTSTP that has stopped the program may have reached this process as well, also
	// if os/signal has not delivered it yet: it must not stop the process a second time.
	signal.Stop(p.stops)
	select {
	case <-p.stops:
	default:
	}
	signal.Ignore(syscall.SIGTSTP)
	defer signal.Notify(p.stops, syscall.SIGTSTP)
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	syscall.Kill(0, syscall.SIGTSTP)
	syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	<-continued
	p.signal(syscall.SIGCONT) // the shell may have continued this process alone
}

// programVersion returns the version of zino-chat.
func programVersion() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, sibling("zino-chat"), "--version").Output() // an older one does not know the flag
	var version string
	fmt.Sscanf(string(out), "zino-chat %s", &version)
	return cmp.Or(version, "unknown")
}

// sibling returns the path of a program beside this one.
func sibling(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name // missing
	}
	return filepath.Join(filepath.Dir(self), name)
}
