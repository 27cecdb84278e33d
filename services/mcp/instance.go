package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
)

const (
	instancesMax  = 64
	callsMax      = 16 // of an instance at a time
	backoffMax    = time.Minute
	failuresMax   = 5
	failureWindow = 5 * time.Minute
	legacyVersion = "2025-11-25"
	// silentMax is how long a server may stay silent after a call was cancelled, while
	// others wait.
	silentMax = 30 * time.Second
)

// pool has the instances of servers, by the key of their definition.
type pool struct {
	mu        sync.Mutex
	instances map[string]*instance
	history   map[string]*history
	closed    bool
}

// history is what happened to the instances of a key.
type history struct {
	failures []time.Time // of the last failureWindow
	next     time.Time   // no start before
	delay    time.Duration
	failed   bool
	last     error // the last failure
	login    bool  // it needs a login
	calls    atomic.Int64
}

// instance is a server that runs.
type instance struct {
	s       *Service
	d       *definition
	program *program     // nil with a URL
	hide    *mask.Masker // of its secrets
	ready   chan struct{}
	err     error // of the start; valid when ready is closed
	gone    chan struct{}
	session *mcp.ClientSession
	cancel  context.CancelFunc // of the start

	slots  chan struct{} // one per call that runs
	single chan struct{} // the same if serial is set
	token  string        // of a host's constellation

	refreshing sync.Mutex // of refreshSoon

	mu       sync.Mutex
	users    int // callers that use it or wait for it
	ending   bool
	last     time.Time // of the last use
	idle     *time.Timer
	progress map[string]*call
	serial   bool // one call at a time: questions of older revisions name no call
	// abandoned are the sessions of calls that were given up before the server has answered.
	abandoned map[string]bool
	stale     bool // refreshSoon is going to ask for tools and prompts
	renew     bool // it ends when it is unused, as it could not ask a question for them
	nextID    int64
}

// historyOf returns the history of a key. mu is locked.
func (p *pool) historyOf(key string) *history {
	h := p.history[key]
	if h == nil {
		if len(p.history) >= 4*instancesMax {
			for old, h := range p.history {
				if p.instances[old] == nil && !h.failed {
					delete(p.history, old)
				}
			}
		}
		h = &history{}
		p.history[key] = h
	}
	return h
}

// fail records that an instance failed. mu is locked.
func (h *history) fail(err error, now time.Time) {
	h.last = err
	recent := h.failures[:0]
	for _, at := range h.failures {
		if now.Sub(at) < failureWindow {
			recent = append(recent, at)
		}
	}
	h.failures = append(recent, now)
	h.failed = len(h.failures) >= failuresMax
	h.delay = min(max(2*h.delay, time.Second), backoffMax)
	if len(h.failures) == 1 {
		h.delay = time.Second
	}
	h.next = now.Add(h.delay)
}

// acquire returns a running instance of a definition. It waits for its start, and before
// that for the end of the back-off. release must be called.
func (s *Service) acquire(ctx context.Context, d *definition, token string) (*instance, error) {
	for {
		in, wait, err := s.join(d, token)
		if err != nil {
			return nil, err
		}
		if in != nil {
			select {
			case <-in.ready:
			case <-ctx.Done():
				in.release()
				return nil, context.Cause(ctx)
			}
			if in.err != nil {
				in.release()
				return nil, in.err
			}
			return in, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// join returns the instance of a definition, also one that is starting, or what to wait for.
func (s *Service) join(d *definition, token string) (in *instance, wait <-chan time.Time, err error) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.pool.closed {
		return nil, nil, proto.Errorf(proto.CodeUnavailable, "zino-mcp is stopping")
	}
	if in := s.pool.instances[d.key()]; in != nil && in.use() {
		return in, nil, nil
	} else if in != nil {
		return nil, after(in.gone), nil
	}
	h := s.pool.historyOf(d.key())
	if h.failed {
		return nil, nil, unavailable(d, fmt.Errorf("it failed %d times in %d minutes: %w; try: zino mcp test %s", failuresMax, int(failureWindow.Minutes()), h.last, d.name))
	}
	if pause := time.Until(h.next); pause > 0 {
		return nil, time.After(pause), nil
	}
	if len(s.pool.instances) >= instancesMax {
		if oldest := s.pool.oldest(); oldest != nil {
			return nil, after(oldest.gone), nil
		}
		return nil, nil, unavailable(d, fmt.Errorf("%d servers run already", instancesMax))
	}
	in = s.newInstance(d, token)
	s.pool.instances[d.key()] = in
	return in, nil, nil
}

// after returns a channel that receives when c is closed.
func after(c <-chan struct{}) <-chan time.Time {
	out := make(chan time.Time, 1)
	go func() {
		<-c
		out <- time.Now()
	}()
	return out
}

// oldest ends the instance that was not used for the longest time and returns it; nil if
// all are in use. mu is locked.
func (p *pool) oldest() (oldest *instance) {
	var at time.Time
	for _, in := range p.instances {
		in.mu.Lock()
		if in.users == 0 && (oldest == nil || in.last.Before(at)) {
			oldest, at = in, in.last
		}
		in.mu.Unlock()
	}
	if oldest != nil {
		go oldest.end()
	}
	return oldest
}

// use counts a user. It reports false if the instance is ending.
func (in *instance) use() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ending {
		return false
	}
	in.users++
	if in.idle != nil {
		in.idle.Stop()
	}
	return true
}

// release ends a use.
func (in *instance) release() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.users--
	in.last = time.Now()
	limit := in.s.config().IdleSecs
	if in.users == 0 && in.renew && !in.ending {
		in.ending = true
		go in.end()
	}
	if in.users > 0 || limit == 0 || in.ending {
		return
	}
	in.idle = time.AfterFunc(time.Duration(limit*float64(time.Second)), func() {
		in.mu.Lock()
		unused := in.users == 0
		in.ending = in.ending || unused
		in.mu.Unlock()
		if unused {
			in.end()
		}
	})
}

// newInstance starts an instance. The caller counts as a user.
func (s *Service) newInstance(d *definition, token string) *instance {
	ctx, cancel := context.WithTimeout(context.Background(), d.start())
	in := &instance{
		s: s, d: d, token: token, cancel: cancel, users: 1, last: time.Now(),
		ready: make(chan struct{}), gone: make(chan struct{}), slots: make(chan struct{}, callsMax), single: make(chan struct{}, 1), progress: map[string]*call{},
		abandoned: map[string]bool{},
	}
	s.wg.Go(func() {
		defer cancel()
		began := time.Now()
		in.err = in.start(ctx)
		if in.err != nil {
			in.failed(in.err)
			in.remove()
			close(in.ready)
			return
		}
		s.log.Info("started an MCP server", "server", d.name, "source", d.source, "protocol", in.protocol(), "duration", time.Since(began).Round(time.Millisecond))
		close(in.ready)
		if err := in.watch(); err != nil {
			in.failed(err)
			s.log.Warn("an MCP server ended", "server", d.name, "reason", err)
		}
		in.remove()
	})
	return in
}

// failed records a failure.
func (in *instance) failed(err error) {
	in.s.pool.mu.Lock()
	defer in.s.pool.mu.Unlock()
	h := in.s.pool.historyOf(in.d.key())
	h.login = errors.Is(err, errNeedsLogin)
	if h.login || errors.Is(err, proto.ErrApproval) || in.isEnding() || in.program != nil && in.program.stoppedByExc() {
		return
	}
	h.fail(err, time.Now())
}

func (in *instance) isEnding() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ending
}

// remove takes the instance out of the pool.
func (in *instance) remove() {
	in.mu.Lock()
	in.ending = true
	in.mu.Unlock()
	in.s.pool.mu.Lock()
	if in.s.pool.instances[in.d.key()] == in {
		delete(in.s.pool.instances, in.d.key())
	}
	in.s.pool.mu.Unlock()
	close(in.gone)
}

// end ends the instance and waits until it is gone.
func (in *instance) end() {
	in.mu.Lock()
	in.ending = true
	in.mu.Unlock()
	in.cancel()
	<-in.ready
	if in.program != nil { // first: closing the session waits for the calls that it has no answer to
		in.program.end()
	}
	if in.session != nil {
		in.session.Close()
	}
	<-in.gone
}

// watch waits until the server ends. The error is nil if it was ended.
func (in *instance) watch() error {
	err := in.session.Wait()
	if in.program != nil {
		if !in.isEnding() {
			select { // the session ends at the end of the program's output
			case <-in.program.done:
			case <-time.After(closeGrace):
			}
		}
		in.program.end()
	}
	switch {
	case in.isEnding():
		return nil
	case in.program != nil:
		return in.program.reason()
	case err == nil:
		return errors.New("it closed the connection")
	}
	return errors.New(in.hidden(message(err)))
}

// protocol returns the revision that was agreed on.
func (in *instance) protocol() string {
	if result := in.session.InitializeResult(); result != nil {
		return result.ProtocolVersion
	}
	return ""
}

// start connects to the server and asks for its tools. A program that does not answer
// discover, or dies of it, is started again with initialize.
func (in *instance) start(ctx context.Context) error {
	version := in.d.Protocol
	known := in.s.catalog.get(in.d.hash)
	if version == "" && time.Since(known.Legacy) < legacyLife {
		version = legacyVersion
	}
	err := in.connect(ctx, version)
	if err != nil && version == "" && errors.Is(err, errNoDiscover) && ctx.Err() == nil {
		in.s.log.Info("an MCP server does not answer server/discover: starting it again with initialize", "server", in.d.name)
		if err = in.connect(ctx, legacyVersion); err == nil {
			in.s.catalog.update(in.d.hash, func(e *entry) { e.Legacy = time.Now().UTC() })
		}
	}
	if err == nil {
		if err = in.refresh(ctx); err != nil { // tools/list may ask for a login although initialize does not
			in.session.Close()
			if in.program != nil {
				in.program.end()
			}
			if errors.Is(err, io.EOF) {
				err = cmp.Or(in.ended(), err)
			}
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNeedsLogin), errors.Is(err, proto.ErrApproval):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not start within %v", in.d.start())
	}
	failed := &startError{error: unavailable(in.d, errors.New(in.hidden(message(err))))}
	if in.program != nil {
		failed.stderr = in.program.Stderr()
	}
	return failed
}

// errNoDiscover: a server did not answer server/discover.
var errNoDiscover = errors.New("no answer to server/discover")

// connect starts the program and agrees on a revision, as proposed or the newest.
func (in *instance) connect(ctx context.Context, version string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transport, err := in.transport()
	if err != nil {
		return err
	}
	options := &mcp.ClientOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			in.progressed(req.Params)
		},
		ElicitationHandler: in.elicit,
	}
	if in.program != nil { // over HTTP it would need a permanent connection
		options.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { go in.refreshSoon() }
		options.PromptListChangedHandler = func(context.Context, *mcp.PromptListChangedRequest) { go in.refreshSoon() }
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "zino", Version: rpc.Build}, options)
	client.AddReceivingMiddleware(refuse)
	asked := false
	client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "server/discover" {
				return next(ctx, method, req)
			}
			if in.program == nil {
				result, err := next(ctx, method, req)
				if needed := errors.Is(err, errNeedsLogin); needed { // initialize would only be refused, too
					cancel(errNeedsLogin)
				}
				return result, err
			}
			asked = true
			timer := time.AfterFunc(handshakeTimeout, func() { cancel(errNoDiscover) })
			result, err := next(ctx, method, req)
			if !timer.Stop() || err != nil && !answered(err) {
				cancel(errNoDiscover)
			} else {
				asked = false
			}
			return result, err
		}
	})
	in.session, err = client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) == errNeedsLogin:
		return errNeedsLogin
	case in.program != nil:
		in.program.end()
		if errors.Is(context.Cause(ctx), errNoDiscover) || ctx.Err() == nil && !answered(err) {
			err = cmp.Or(in.ended(), err)
		}
	}
	if asked && context.Cause(ctx) == errNoDiscover && !in.hopeless() {
		return errNoDiscover
	}
	return err
}

// hopeless reports whether the program could not be started at all.
func (in *instance) hopeless() bool {
	if in.program == nil {
		return false
	}
	select {
	case <-in.program.started:
		return in.program.exit.ExitCode == 127
	default:
		return true
	}
}

// ended returns why the program ended before it was connected; nil if it did not by itself.
func (in *instance) ended() error {
	if in.program.err != nil && errors.Is(in.program.err, context.Canceled) {
		return nil
	}
	return in.program.reason()
}

// refresh asks for tools and prompts. After an error what was known stays; problems with
// single tools are part of what is known.
func (in *instance) refresh(ctx context.Context) error {
	var tools []*mcp.Tool
	e := entry{Protocol: in.protocol(), Listed: true}
	if result := in.session.InitializeResult(); result != nil {
		e.Instructions = clean(result.Instructions, instructionsMax)
		if result.Capabilities != nil && result.Capabilities.Tools != nil {
			params := &mcp.ListToolsParams{}
			for len(tools) <= toolsMax {
				page, err := in.session.ListTools(ctx, params)
				if errors.Is(err, errNeedsLogin) {
					return errNeedsLogin
				}
				if err != nil {
					return fmt.Errorf("tools/list: %w", err)
				}
				tools = append(tools, page.Tools...)
				if ttl := page.GetTTLMs(); ttl > 0 {
					e.Expires = time.Now().Add(time.Duration(ttl) * time.Millisecond).UTC()
				}
				if params.Cursor = page.NextCursor; params.Cursor == "" {
					break
				}
			}
		}
		if result.Capabilities != nil && result.Capabilities.Prompts != nil {
			e.Prompts = in.prompts(ctx)
		}
	}
	e.Tools, e.Problems = learn(tools)
	if data, err := json.Marshal(e); err == nil {
		if data, n := in.hide.JSON(data); n > 0 {
			e = entry{}
			_ = json.Unmarshal(data, &e) // it was made of one
		}
	}
	in.s.catalog.update(in.d.hash, func(known *entry) {
		e.Legacy = known.Legacy
		*known = e
	})
	return nil
}

// prompts asks for the prompts.
func (in *instance) prompts(ctx context.Context) (list []prompt) {
	for p, err := range in.session.Prompts(ctx, nil) {
		if err != nil || len(list) == promptsMax {
			break
		}
		if p == nil || !isName(p.Name) {
			continue
		}
		one := prompt{Name: p.Name, Description: clean(p.Description, descriptionMax)}
		for _, a := range p.Arguments {
			if a != nil && len(one.Arguments) < argumentsMax {
				one.Arguments = append(one.Arguments, proto.PromptArgument{Name: clean(a.Name, nameMax), Description: clean(a.Description, descriptionMax), Required: a.Required})
			}
		}
		list = append(list, one)
	}
	return list
}

// refreshSoon asks again for tools and prompts, after the start. Changes that the server
// reports before it is asked join.
func (in *instance) refreshSoon() {
	in.mu.Lock()
	joins := in.stale
	in.stale = true
	in.mu.Unlock()
	if joins {
		return
	}
	<-in.ready
	in.refreshing.Lock()
	defer in.refreshing.Unlock()
	in.mu.Lock()
	in.stale = false
	in.mu.Unlock()
	if in.err != nil || !in.use() {
		return
	}
	defer in.release()
	ctx, cancel := context.WithTimeout(context.Background(), in.d.start())
	defer cancel()
	_ = in.refresh(ctx) // the next call reports it
}

// progressed handles a progress notification.
func (in *instance) progressed(p *mcp.ProgressNotificationParams) {
	key := fmt.Sprint(p.ProgressToken)
	in.mu.Lock()
	c := in.progress[key]
	in.mu.Unlock()
	if c == nil {
		return
	}
	line := strconv.FormatFloat(p.Progress, 'g', 6, 64)
	if p.Total > 0 {
		line += "/" + strconv.FormatFloat(p.Total, 'g', 6, 64)
	}
	if p.Message != "" {
		line += " " + clean(text.OneLine(p.Message), 500)
	}
	shown, _ := in.hide.Text([]byte(line))
	c.progressed(string(shown))
}

// unavailable is the error of a server that cannot be used.
func unavailable(d *definition, err error) error {
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeApproval {
		return err
	}
	return proto.Errorf(proto.CodeUnavailable, "%s: %v", d.name, err)
}

// answered reports whether an error is an answer of the server.
func answered(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code != codeRejected && !errors.Is(err, mcp.ErrConnectionClosed)
}

// codeRejected is the SDK's own: a request was not sent.
const codeRejected = -32005
