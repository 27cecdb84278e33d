package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"zino/pkg/sse"
	"zino/proto"
	"zino/services/rtr/retry"
)

const (
	maxRefusal = 64 << 10             // bytes that are read of an error's body
	graceTime  = 2 * time.Second      // for what follows a finish reason: usage, [DONE]
	drainTime  = time.Second          // for the end of a body, so that its connection can be used again
	maxSilence = sse.MaxEvent + 1<<20 // bytes without an event: no event is larger
)

var (
	// errStalled is why an exchange was cancelled when no byte came in time.
	errStalled = &proto.Error{Code: proto.CodeTimeout}
	// errSilent is the error of a stream that has bytes and no events.
	errSilent = errors.New("no event")
)

// exchange is one request to an endpoint and its answer.
type exchange struct {
	*Endpoint
	caller  context.Context
	ctx     context.Context // ends with caller's, with a stall, and with the exchange
	cancel  context.CancelCauseFunc
	detach  func() bool // ends the tie to caller
	req     *Request
	body    []byte
	stream  bool
	sink    Sink
	limit   time.Duration // without a byte; 0: none
	timer   *time.Timer   // cancels after limit; runs only while the provider is waited for
	asked   time.Time     // when waiting began
	silent  time.Duration // for which the provider was waited for since the last event
	unsaid  int64         // bytes since then
	resp    *http.Response
	whole   bool   // the answer has been read to its end mark
	size    int    // bytes of the events so far
	slow    bool   // no byte comes before the model is loaded and has read the prompt
	remedy  string // what to do if it cannot stream
	missing string // what else status 404 may mean
}

// begin prepares an exchange. Its context is not derived from the caller's, so
// that the rest of a complete answer can be read after the caller has it.
func (ep *Endpoint) begin(caller context.Context, req *Request, body []byte, stream bool, sink Sink) *exchange {
	x := &exchange{Endpoint: ep, caller: caller, req: req, body: body, stream: stream, sink: sink, limit: ep.Stall}
	if !stream {
		x.limit *= wholeFactor
	}
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(caller))
	x.detach = context.AfterFunc(caller, func() { x.cancel(context.Cause(caller)) })
	x.timer = time.AfterFunc(time.Hour, func() { x.cancel(errStalled) })
	x.timer.Stop()
	return x
}

// post sends the request to a path below the base URL.
func (x *exchange) post(path string, header func(http.Header)) error {
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, x.Base+path, nil)
	if err != nil {
		return x.unusable("is no usable base URL")
	}
	req.Header.Set("Content-Type", "application/json")
	header(req.Header)
	return x.send(req)
}

// send sends the request with our body and waits for the answer's head.
func (x *exchange) send(req *http.Request) error {
	req.ContentLength = int64(len(x.body))
	body := x.body
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body = io.NopCloser(bytes.NewReader(body))
	identify(req)
	x.await()
	resp, err := x.Client.Do(req)
	x.arrived()
	if err != nil {
		return x.explain(err)
	}
	x.resp = resp
	x.body, resp.Request = nil, nil // a long conversation need not stay while the answer comes
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return x.readRefusal()
	}
	x.observe()
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
	if x.limit <= 0 {
		return
	}
	left := x.patience()
	if x.stream {
		left = min(left, max(x.limit*silentFactor-x.silent, time.Millisecond))
	}
	x.timer.Reset(left)
}

// patience is how long the next byte is waited for.
func (x *exchange) patience() time.Duration {
	if x.slow && x.resp == nil {
		return x.limit * silentFactor
	}
	return x.limit
}

// arrived stops the clock.
func (x *exchange) arrived() {
	x.timer.Stop()
	x.silent += time.Since(x.asked)
}

// Read reads from the provider. What has come so far goes to the caller first;
// a slow caller does not count against the provider's time.
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

// emit hands on an event.
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

// readRefusal reads the body of an answer with an error's status.
func (x *exchange) readRefusal() error {
	x.await()
	body, err := io.ReadAll(io.LimitReader(x.resp.Body, maxRefusal))
	x.arrived()
	if err != nil && x.caller.Err() != nil {
		return x.caller.Err()
	}
	f := x.refused(x.resp.StatusCode, x.resp.Header, body) // with as much of its words as came
	if f.Verdict.Class != retry.WaitLong {
		x.observe() // a quota of the day concerns this model or key, and no waiting helps
	}
	return f
}

// hurry is called when the answer is complete: what may follow is welcome, but
// is not waited for long.
func (x *exchange) hurry() {
	if x.limit <= 0 || x.limit > graceTime {
		x.limit = graceTime
	}
}

// end closes the exchange. After a complete answer the rest of its body is
// read in the background, so that the connection can serve the next request.
func (x *exchange) end() {
	x.detach()
	if !x.whole || x.caller.Err() != nil {
		x.close()
		return
	}
	x.timer.Reset(drainTime)
	go func() {
		defer x.close()
		// An error here only means that the connection is not used again.
		_, _ = io.Copy(io.Discard, io.LimitReader(x.resp.Body, maxRefusal))
	}()
}

func (x *exchange) close() {
	x.timer.Stop()
	x.cancel(nil)
	if x.resp != nil {
		_ = x.resp.Body.Close() // nothing is written through it
	}
}
