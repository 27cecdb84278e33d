package rtr

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

const (
	maxRefusal = 64 << 10        // bytes that are read of an error's body
	graceTime  = 2 * time.Second // for what follows a finish reason: usage, [DONE]
	drainTime  = time.Second     // for the end of a body, so that its connection can be used again
)

// errStalled is why an exchange was cancelled when no byte came in time.
var errStalled = &proto.Error{Code: proto.CodeTimeout}

// exchange is one request to an endpoint and its answer. It is the HTTP client
// that go-openai is given: it sends our body in place of go-openai's, whose
// typed requests drop temperature 0 and fields that it does not know, and
// hands back a body that RecvRaw can read, whatever the provider sent.
type exchange struct {
	*endpoint
	caller context.Context
	ctx    context.Context // ends with caller's, with a stall, and with the exchange
	cancel context.CancelCauseFunc
	detach func() bool // ends the tie to caller
	body   []byte
	stream bool
	sink   rpc.Sink
	limit  time.Duration // without a byte; 0: none
	timer  *time.Timer   // cancels after limit; runs only while the provider is waited for
	resp   *http.Response
	events *events
}

// begin prepares an exchange. Its context is not derived from the caller's, so
// that the rest of a complete answer can be read after the caller has it.
func (e *endpoint) begin(caller context.Context, body []byte, stream bool, sink rpc.Sink) *exchange {
	x := &exchange{endpoint: e, caller: caller, body: body, stream: stream, sink: sink, limit: e.stall}
	if !stream {
		x.limit *= wholeFactor
	}
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(caller))
	x.detach = context.AfterFunc(caller, func() { x.cancel(context.Cause(caller)) })
	x.timer = time.AfterFunc(time.Hour, func() { x.cancel(errStalled) })
	x.timer.Stop()
	return x
}

// Do sends the request.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	req.ContentLength = int64(len(x.body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
	req.Body = io.NopCloser(bytes.NewReader(x.body))
	req.Header.Del("Connection")
	if !x.stream {
		req.Header.Set("Accept", "application/json")
	}
	x.authorize(req)
	x.await()
	resp, err := x.client.Do(req)
	x.timer.Stop()
	if err != nil {
		return nil, x.explain(err)
	}
	x.resp = resp
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, x.readRefusal()
	}
	if x.events, err = x.open(); err != nil {
		return nil, err
	}
	out := *resp
	out.Body = x.events
	return &out, nil
}

// await starts the clock for the provider's next byte.
func (x *exchange) await() {
	if x.limit > 0 {
		x.timer.Reset(x.limit)
	}
}

// Read reads from the provider. What has come so far goes to the caller first;
// a slow caller does not count against the provider's time.
func (x *exchange) Read(p []byte) (int, error) {
	if err := x.sink.Flush(); err != nil {
		return 0, err
	}
	x.await()
	n, err := x.resp.Body.Read(p)
	x.timer.Stop()
	if err != nil && err != io.EOF {
		err = x.explain(err)
	}
	return n, err
}

// readRefusal reads the body of an answer with an error's status.
func (x *exchange) readRefusal() error {
	x.await()
	body, err := io.ReadAll(io.LimitReader(x.resp.Body, maxRefusal))
	x.timer.Stop()
	if err != nil && x.caller.Err() != nil {
		return x.caller.Err()
	}
	return x.refused(x.resp.StatusCode, body) // with as much of its words as came
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
	if x.events == nil || !x.events.done || x.caller.Err() != nil {
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
