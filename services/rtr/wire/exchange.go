package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/sse"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	connectTime = 10 * time.Second
	graceTime   = 2 * time.Second // for what follows a finish reason: usage, [DONE]
	drainTime   = time.Second     // for the end of a body, so that its connection can be used again
	// bufferSize of a connection, in bytes: a router has many streams open, and
	// larger reads and writes bypass the buffer.
	bufferSize = 512
	// headSize is the size of the buffer in which the beginning of an answer is
	// examined; later reads bypass it in the same way.
	headSize = 256
	// wholeFactor is the factor by which the timeout of an answer in one piece exceeds
	// that of a stream: none of its bytes is sent while the model writes.
	wholeFactor = 10
	// silentFactor is the factor by which the timeout for a stream of comments and pings
	// exceeds that of a stream without any bytes.
	silentFactor = 5
	maxRefusal   = 64 << 10             // bytes that are read of an error's body
	maxSilence   = sse.MaxEvent + 1<<20 // bytes without an event: no event is larger
)

// MaxAnswer is the most bytes that an answer's text and arguments may have; a
// packet could not hold more.
const MaxAnswer = 16 << 20

// maxCalls is how many calls one answer may have. agr runs fewer and reports that
// to the model; more than these are an error of the provider.
const maxCalls = 4096

// endMark is the data of the event that ends a stream.
const endMark = "[DONE]"

var (
	// errStalled cancels an exchange without a byte within the timeout.
	errStalled = &proto.Error{Code: proto.CodeTimeout}
	// errSilent is the error of a stream that has bytes and no events.
	errSilent = errors.New("no event")
)

// Endpoint is the address of a provider, and the credentials for it.
type Endpoint struct {
	// Client makes the requests: see NewClient.
	Client *http.Client
	// Provider is the provider's name.
	Provider string
	// Base is the base URL, with the user and password that it may have; Name is
	// the URL without them, for messages.
	Base, Name string
	// Key is the provider's key, empty without one.
	Key string
	// Token: Anthropic gets the key as a bearer token.
	Token bool
	// KeyHint and BaseHint name the settings of the key and of the base URL.
	KeyHint, BaseHint string
	// Stall is the longest time between two bytes; 0: no limit.
	Stall time.Duration
	// Observe, if not nil, is called with the status and header of every answer,
	// except those of a quota that lasts a day or longer.
	Observe func(status int, header http.Header)

	mask  mask
	extra http.Header // sent with ours
}

// NewEndpoint returns an endpoint. The hints are for the caller to set.
func NewEndpoint(client *http.Client, base *url.URL, key string, stall time.Duration) *Endpoint {
	shown := *base
	shown.User = nil
	return &Endpoint{
		Client: client, Base: base.String(), Name: shown.String(), Key: key, Stall: stall,
		KeyHint: "a key", BaseHint: "the base URL", mask: newMask(key, base.User),
	}
}

// Add has Anthropic's wire send more headers. Their values are secrets.
func (ep *Endpoint) Add(extra http.Header) {
	var values []string
	for _, list := range extra {
		values = append(values, list...)
	}
	base, _ := url.Parse(ep.Base) // it was made from a URL
	ep.extra, ep.mask = extra, newMask(ep.Key, base.User, values...)
}

// at is the same endpoint with another base URL; the name for people stays.
func (ep *Endpoint) at(base string) *Endpoint {
	moved := *ep
	moved.Base = base
	return &moved
}

// bearer adds the key in OpenAI's way.
func (ep *Endpoint) bearer(h http.Header) {
	if ep.Key != "" {
		h.Set("Authorization", "Bearer "+ep.Key)
	}
}

// NewClient returns the HTTP client of all endpoints. Only connecting has a time
// limit: an answer may take any time while bytes arrive. ProxyFromEnvironment leaves
// loopback alone.
func NewClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: connectTime,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 8,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // a compressed stream would come in lumps
		ReadBufferSize:      bufferSize,
		WriteBufferSize:     bufferSize,
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

// checkRedirect follows a redirect only on the same server and with the same
// method, so that no other server gets the key.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[0]
	if len(via) < 5 && req.Method == from.Method && req.URL.Scheme == from.URL.Scheme && req.URL.Host == from.URL.Host {
		return nil
	}
	to := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path}
	for _, ours := range []string{"/chat/completions", "/responses", "/embeddings", "/v1/messages", "/api/chat", "/api/embed", "/v1beta/"} {
		to.Path, _, _ = strings.Cut(to.Path, ours)
	}
	return &proto.Error{
		Code: proto.CodeUnavailable, Kind: kindHTTP, Status: req.Response.StatusCode,
		Message: "the provider redirects to " + oneLine(to.String(), 300) + ", which is not followed: if that is right, set the base URL to it",
	}
}

// IsLocal reports whether a base URL leads to this host or a private network, where
// a model server usually needs no key.
func IsLocal(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}

// identify sets the User-Agent, unless the user's headers contain one.
func identify(req *http.Request) {
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "zino/"+rpc.Version)
	}
}

// call is one request on a wire.
type call struct {
	path   string // appended to the endpoint's base URL
	body   []byte
	header func(http.Header)
	stream bool // a stream is asked for
	answer answer

	// ownEnd: an event of this wire ends an answer; neither [DONE] nor the end of
	// the body after a finish reason does.
	ownEnd bool
	// alwaysStreams: this wire is never asked for an answer in one piece.
	alwaysStreams bool
	// lines: an event is a line of JSON, in place of server-sent events. No byte
	// comes before the model is loaded and has read the prompt.
	lines bool
	// facts about the request, for the table of errors.
	facts []string
}

// answer reads the events of an answer.
type answer interface {
	// event reads one event. name may be empty, data is not.
	event(x *exchange, name string, data []byte) error
	// end is called when reading has ended: with nil after a complete answer, of
	// which it emits the last events, else with the error, which it returns.
	end(x *exchange, err error) error
}

// exchange is one request to an endpoint and its answer.
type exchange struct {
	*Endpoint
	call
	caller context.Context
	ctx    context.Context // ends with caller's, with a stall, and with the exchange
	cancel context.CancelCauseFunc
	detach func() bool // ends the tie to caller
	req    *Request    // nil when the answer has begun
	model  string
	sink   Sink
	resp   *http.Response
	size   int // bytes of the events so far

	// The timer runs only while the exchange waits for the provider.
	stall  time.Duration // without a byte; 0: no limit
	timer  *time.Timer
	asked  time.Time     // when waiting began
	silent time.Duration // waited for since the last event
	unsaid int64         // bytes since then

	// The source of events.
	sse   *sse.Reader
	lined *jsonLines
	whole []byte   // an answer in one piece, until it is read
	one   bool     // the answer came in one piece
	parts [][]byte // events left of those that came as one

	// The progress of the answer.
	any      bool // an event of the wire has come
	marked   bool // the end mark has come, or the answer came in one piece
	finished bool // the answer is complete, and what may follow is not waited for long
	stopped  bool // the answer is complete, and nothing follows
}

// do makes a request and reads the answer.
func (ep *Endpoint) do(ctx context.Context, req *Request, sink Sink, c call) error {
	x := ep.begin(ctx, req, sink, c)
	defer x.close()
	if err := x.post(); err != nil {
		return err
	}
	return x.read()
}

// begin prepares an exchange. Its context is not derived from the caller's, so
// that the rest of a complete answer can be read after the caller has it.
func (ep *Endpoint) begin(caller context.Context, req *Request, sink Sink, c call) *exchange {
	x := &exchange{Endpoint: ep, call: c, caller: caller, req: req, model: req.Model, sink: sink, stall: ep.Stall}
	if !c.stream {
		x.stall *= wholeFactor
	}
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(caller))
	x.detach = context.AfterFunc(caller, func() { x.cancel(context.Cause(caller)) })
	x.timer = time.AfterFunc(time.Hour, func() { x.cancel(errStalled) })
	x.timer.Stop()
	return x
}

// post sends the request and waits for the head of the answer.
func (x *exchange) post() error {
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, x.Base+x.path, nil)
	if err != nil {
		return x.unusable("is not a usable base URL")
	}
	req.ContentLength = int64(len(x.body))
	req.GetBody = func() (io.ReadCloser, error) {
		b := new(sentBody)
		b.r.Reset(x.body)
		return b, nil
	}
	req.Body, _ = req.GetBody()
	req.Header.Set("Content-Type", "application/json")
	x.header(req.Header)
	identify(req)
	x.await()
	resp, err := x.Client.Do(req)
	x.arrived()
	if err != nil {
		return x.explain(err)
	}
	x.resp = resp
	x.body, resp.Request = nil, nil // a long conversation need not stay while the answer comes
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		x.req = nil
		x.observe()
		return nil
	}
	x.await()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	x.arrived()
	if err != nil && x.caller.Err() != nil {
		return x.caller.Err()
	}
	facts := append([]string{"+model"}, x.facts...)
	if x.req.Effort != "" {
		facts = append(facts, "+effort")
	}
	if x.req.Effort != "" && !x.req.NoSummary {
		facts = append(facts, "+summary")
	}
	if len(x.req.Schema) > 0 {
		facts = append(facts, "+schema")
	}
	f := x.refused(resp.StatusCode, resp.Header, text, x.req, facts...) // with as much of the text as came
	if f.Class != WaitLong {
		x.observe() // a daily quota concerns this model or key, and no waiting helps
	}
	return f
}

// sentBody is the body of a request. Close drops its bytes: the transport keeps the
// request until the answer has ended, but closes the body when it is sent.
type sentBody struct {
	mu sync.Mutex // the transport may close a body that another goroutine reads
	r  bytes.Reader
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.r.Read(p)
}

func (b *sentBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r.Reset(nil)
	return nil
}

func (x *exchange) observe() {
	if x.Observe != nil {
		x.Observe(x.resp.StatusCode, x.resp.Header)
	}
}

// await starts the clock for the provider's next byte.
func (x *exchange) await() {
	x.asked = time.Now()
	if x.stall <= 0 {
		return
	}
	left := x.byteTimeout()
	if x.stream {
		left = min(left, max(x.stall*silentFactor-x.silent, time.Millisecond))
	}
	x.timer.Reset(left)
}

// byteTimeout returns the timeout of the next byte.
func (x *exchange) byteTimeout() time.Duration {
	if x.lines && x.resp == nil {
		return x.stall * silentFactor
	}
	return x.stall
}

// arrived stops the clock.
func (x *exchange) arrived() {
	x.timer.Stop()
	x.silent += time.Since(x.asked)
}

// Read reads from the provider. Events are flushed to the caller first, while the
// timer is stopped: a slow caller does not use up the provider's time.
func (x *exchange) Read(p []byte) (int, error) {
	if x.unsaid > maxSilence {
		return 0, errSilent
	}
	if err := x.sink.Flush(); err != nil {
		return 0, err
	}
	x.await()
	n, err := x.resp.Body.Read(p)
	x.arrived()
	x.unsaid += int64(n)
	if err != nil && err != io.EOF {
		err = x.explain(err)
	}
	return n, err
}

// read reads the answer to its end.
func (x *exchange) read() error {
	err := x.open()
	if err == nil {
		err = x.events()
	}
	return x.answer.end(x, err)
}

// open distinguishes a stream, JSON and a web page by the first bytes of the
// answer: the content type is wrong too often. JSON is an answer only if no stream
// was requested.
func (x *exchange) open() error {
	in := bufio.NewReaderSize(x, headSize)
	if x.lines {
		in = bufio.NewReaderSize(x, 16<<10)
	}
	first, err := firstByte(in)
	switch {
	case err != nil && err != io.EOF:
		return x.readError(err)
	case first == '<':
		return x.webPage(in)
	case x.lines:
		x.lined, x.any = &jsonLines{in: in}, first == '{'
		return nil
	case first != '{' && first != '[':
		x.sse = sse.NewReader(in)
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(in, sse.MaxEvent+1))
	switch {
	case err != nil:
		return x.readError(err)
	case len(body) > sse.MaxEvent:
		return x.tooLarge()
	case !json.Valid(body):
		return x.garbled("answered with JSON that is broken or cut off", body)
	case x.stream:
		return x.notStreamed(body)
	}
	x.whole, x.one = body, true
	return nil
}

// firstByte returns the first byte that is neither white space nor part of a byte
// order mark, without consuming it. The bytes before it have no meaning in a
// stream or in JSON.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) && c != 0xEF && c != 0xBB && c != 0xBF {
			return c, in.UnreadByte()
		}
	}
}

// readError returns errors of the sink and of Read unchanged, and turns those of
// the readers above them into a Fault.
func (x *exchange) readError(err error) error {
	if errors.Is(err, sse.ErrTooLong) || errors.Is(err, errSilent) {
		return x.explain(err)
	}
	return err
}

// events passes events to the answer until it is complete. Errors after
// that are ignored, unless the caller has gone.
func (x *exchange) events() error {
	var end error
	for !x.stopped && end == nil {
		var name string
		var data []byte
		if name, data, end = x.next(); end != nil {
			break
		}
		if name == "error" {
			return x.failed(data)
		}
		if err := x.answer.event(x, name, data); err != nil {
			return err
		}
	}
	switch eof := errors.Is(end, io.EOF); {
	case x.caller.Err() != nil:
		return x.caller.Err()
	case x.stopped || x.finished || eof && x.marked && !x.ownEnd:
		x.marked = x.marked || x.stopped
		return nil
	case eof && !x.any:
		return x.unusable("answered with nothing that is a model's answer")
	case eof:
		return x.cut()
	}
	return x.readError(end)
}

// next returns the data of the next event and its name. It returns io.EOF at the
// end mark and at the end of the input.
func (x *exchange) next() (name string, data []byte, err error) {
	for {
		switch {
		case len(x.parts) > 0:
			data, x.parts = x.parts[0], x.parts[1:]
		case x.lined != nil:
			data, err = x.lined.next()
			return "", data, err
		case x.one:
			if data, x.whole, x.marked = x.whole, nil, true; data == nil {
				return "", nil, io.EOF
			}
		default:
			event, err := x.sse.Next()
			if err != nil {
				return "", nil, err
			}
			name, data = event.Name, x.separate(bytes.TrimSpace(event.Data), event.Cut)
		}
		x.any = x.any || len(data) > 0 && !x.ownEnd
		if string(data) == endMark {
			x.marked = !x.ownEnd
			return "", nil, io.EOF
		}
		if len(data) > 0 {
			return name, data, nil
		}
	}
}

// separate splits events that came without a blank line between them: the standard
// joins their lines, which is not JSON. An event that was cut off is returned
// empty; the next call reports the end of the input.
func (x *exchange) separate(data []byte, cut bool) []byte {
	isEvent := func(line []byte) bool { return string(line) == endMark || wire.Valid(line) }
	if bytes.IndexByte(data, '\n') < 0 && !cut || isEvent(data) {
		return data
	}
	lines := bytes.Split(data, []byte("\n"))
	if last := len(lines) - 1; cut && !isEvent(bytes.TrimSpace(lines[last])) {
		lines = lines[:last]
	}
	for i, line := range lines {
		if lines[i] = bytes.TrimSpace(line); len(lines[i]) > 0 && !isEvent(lines[i]) {
			return data
		}
	}
	if len(lines) == 0 {
		return nil
	}
	x.parts = lines[1:]
	return lines[0]
}

// emit passes an event on.
func (x *exchange) emit(e Event) error {
	if e.Kind != State { // it repeats what was counted
		x.size += len(e.Delta)
	}
	if x.size > MaxAnswer {
		return x.tooLarge()
	}
	if e.Kind == ToolStart && e.Index >= maxCalls {
		return x.garbled(fmt.Sprintf("calls more than %d tools at once", maxCalls), []byte(e.Name))
	}
	x.silent, x.unsaid = 0, 0
	return x.sink.Event(e)
}

// emitEnd emits the state of a complete answer, nil without one, and the finish.
func (x *exchange) emitEnd(state []byte, reason string) error {
	if state != nil {
		if err := x.emit(Event{Kind: State, Delta: state}); err != nil {
			return err
		}
	}
	return x.emit(Event{Kind: Finish, Reason: reason})
}

// emitCall emits a call that was received in one event.
func (x *exchange) emitCall(index int, id, name, args string) error {
	if err := x.emit(Event{Kind: ToolStart, Index: index, ID: id, Name: name}); err != nil || args == "" {
		return err
	}
	return x.emit(Event{Kind: ToolArgs, Index: index, Delta: []byte(args)})
}

// keep counts bytes that are stored without being passed on.
func (x *exchange) keep(n int) error {
	if x.size += n; x.size > MaxAnswer {
		return x.tooLarge()
	}
	return nil
}

// finish marks the answer as complete, and shortens the timeout for anything that
// follows.
func (x *exchange) finish() {
	x.finished = true
	if x.stall <= 0 || x.stall > graceTime {
		x.stall = graceTime
	}
}

// close ends the exchange. After a complete answer the rest of its body is read in
// the background, so that the connection can serve the next request.
func (x *exchange) close() {
	x.detach()
	if !x.marked || x.caller.Err() != nil {
		x.release()
		return
	}
	x.timer.Reset(drainTime)
	go func() {
		defer x.release()
		// An error here only means that the connection is not used again.
		_, _ = io.Copy(io.Discard, io.LimitReader(x.resp.Body, maxRefusal))
	}()
}

func (x *exchange) release() {
	x.timer.Stop()
	x.cancel(nil)
	if x.resp != nil {
		_ = x.resp.Body.Close() // nothing is written through it
	}
}
