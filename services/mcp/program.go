package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	stderrMax  = 64 << 10
	writeMax   = 1 << 20 // bytes of a request pipe_write
	closeGrace = 2 * time.Second
)

// program is the program of a server. exc runs it, for as long as the connection of the
// request is open: it does not outlive this process.
type program struct {
	exc    *rpc.Client
	name   string
	log    *slog.Logger
	cancel context.CancelFunc
	in     *lines
	hide   *mask.Masker
	logged *mask.Stream // of standard error

	messages chan jsonrpc.Message
	started  chan struct{} // closed when pipe is set
	done     chan struct{} // closed at the end
	ending   sync.Once

	pipe        string
	confinement *proto.Confinement
	exit        proto.PipeResult // valid when done is closed
	err         error            // of the request

	heard atomic.Int64 // when it wrote to standard output, in nanoseconds

	mu     sync.Mutex
	stderr []byte // its end
}

// startProgram has exc run a server.
func (s *Service) startProgram(d *definition, env map[string]string, hide *mask.Masker, token string) (p *program, err error) {
	req := proto.Pipe{
		Argv: d.Command, Env: env, Root: d.Cwd, Sandbox: d.Sandbox, Network: d.Network, Name: "mcp " + d.name, Home: d.hash, Token: token,
	}
	if d.Network == nil {
		req.Network = new(true)
	}
	if d.Cwd == "" && !d.level(s.config()).Confined() {
		req.Cwd = s.workDir(d)
		if err := makeDir(req.Cwd); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p = &program{
		exc: s.exc, name: d.name, log: s.log, cancel: cancel, hide: hide, logged: hide.Stream(),
		messages: make(chan jsonrpc.Message), started: make(chan struct{}), done: make(chan struct{}),
	}
	p.in = &lines{max: d.resultBytes(), emit: func(m jsonrpc.Message) {
		select {
		case p.messages <- m:
		case <-ctx.Done():
		}
	}}
	go func() {
		defer close(p.done)
		p.exit, p.err = rpc.CallEvents(ctx, s.exc, proto.ExcPipe, req, p.packet)
	}()
	return p, nil
}

// packet handles a packet of exc. A reader that stops blocks the program.
func (p *program) packet(typ string, payload []byte) error {
	switch typ {
	case proto.TypePipeStarted:
		var started proto.PipeStarted
		if err := wire.DecodeReply(payload, &started); err != nil {
			return err
		}
		p.pipe, p.confinement = started.Pipe, &started.Confinement
		close(p.started)
	case proto.TypePipeOutput:
		var output proto.PipeOutput
		if err := wire.DecodeReply(payload, &output); err != nil {
			return err
		}
		if output.Stream == "stdout" {
			p.heard.Store(time.Now().UnixNano())
			p.in.feed([]byte(output.Text))
			return nil
		}
		if shown := p.logged.Add([]byte(output.Text)); len(shown) > 0 {
			p.log.Debug("a server wrote to standard error", "server", p.name, "text", text.Clip(string(shown), 4096))
		}
		p.mu.Lock()
		p.stderr = append(p.stderr, output.Text...)
		p.stderr = p.stderr[max(0, len(p.stderr)-stderrMax):]
		p.mu.Unlock()
	}
	return nil
}

// Stderr returns the end of what the program wrote to standard error.
func (p *program) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown, _ := p.hide.Text(p.stderr)
	return strings.ToValidUTF8(string(shown), "\ufffd")
}

// heardAt returns when the program last wrote to standard output.
func (p *program) heardAt() time.Time { return time.Unix(0, p.heard.Load()) }

// dropped returns how many lines were not messages.
func (p *program) dropped() int64 { return atomic.LoadInt64(&p.in.dropped) }

// reason returns why the program ended, in a few words. done is closed.
func (p *program) reason() error {
	var last string
	for line := range strings.Lines(p.Stderr()) {
		if line = text.OneLine(line); line != "" {
			last = text.Clip(text.VisibleLine(line), 300)
		}
	}
	var e *proto.Error
	switch {
	case errors.As(p.err, &e) && e.Code == proto.CodeApproval:
		return p.err
	case p.err != nil && !errors.Is(p.err, context.Canceled):
		return fmt.Errorf("exc cannot run it: %w", p.err)
	case last != "":
		return errors.New(last)
	case p.exit.ExitCode < 0:
		return fmt.Errorf("it ended by signal %d", -p.exit.ExitCode)
	}
	return fmt.Errorf("it ended with exit status %d", p.exit.ExitCode)
}

// stoppedByExc reports whether the program ended because exc did, or was never started
// because exc does not run or refuses to.
func (p *program) stoppedByExc() bool {
	select {
	case <-p.done:
		return errors.Is(p.err, rpc.ErrHungUp) || errors.Is(p.err, rpc.ErrConnect) || errors.Is(p.err, proto.ErrDenied)
	default:
		return false
	}
}

// end closes the program's input, waits a moment, and hangs up: exc ends what is left. It
// returns when the program is gone.
func (p *program) end() {
	p.ending.Do(func() {
		select {
		case <-p.started:
			ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
			defer cancel()
			if _, err := rpc.Call(ctx, p.exc, proto.ExcPipeWrite, proto.PipeWrite{Pipe: p.pipe, Close: true}); err == nil {
				go p.drain(ctx)
				select {
				case <-p.done:
				case <-ctx.Done():
				}
			}
		default:
		}
		p.cancel()
	})
	<-p.done
}

// drain discards what the program still prints.
func (p *program) drain(ctx context.Context) {
	for {
		select {
		case <-p.messages:
		case <-p.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Connect makes the program a transport.
func (p *program) Connect(ctx context.Context) (mcp.Connection, error) {
	select {
	case <-p.started:
	case <-p.done:
		return nil, p.reason()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := &stdioConn{program: p, closed: make(chan struct{}), queue: make(chan writing)}
	go c.writeAll()
	return c, nil
}

// stdioConn is the connection to a program. Closing it does not end the program.
type stdioConn struct {
	*program
	closed chan struct{}
	once   sync.Once
	queue  chan writing
}

// writing is a message to write. A caller that gives up does not cut it short.
type writing struct {
	data []byte
	err  chan error
}

func (c *stdioConn) SessionID() string { return "" }

func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	default:
	}
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.done:
		return nil, io.EOF
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	w := writing{append(data, '\n'), make(chan error, 1)}
	select {
	case c.queue <- w:
	case <-c.done:
		return io.ErrClosedPipe
	case <-c.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.err:
		return err
	case <-c.done:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeAll writes one message after the other.
func (c *stdioConn) writeAll() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.done:
		case <-c.closed:
		}
		cancel()
	}()
	for {
		select {
		case w := <-c.queue:
			var err error
			for data := string(w.data); data != "" && err == nil; {
				part := text.Head(data, writeMax)
				data = data[len(part):]
				_, err = rpc.Call(ctx, c.exc, proto.ExcPipeWrite, proto.PipeWrite{Pipe: c.pipe, Text: part})
			}
			w.err <- err
		case <-ctx.Done():
			return
		}
	}
}

func (c *stdioConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// workDir returns the private directory of a server that has none configured and is not
// confined.
func (s *Service) workDir(d *definition) string {
	return filepath.Join(s.config().DataDir, "work", d.hash)
}
