package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

var (
	errTimeout    = errors.New("no answer in time")
	errNeedsLogin = errors.New("a login is needed")
)

// replyMax is the most bytes of a result with its attachments in base64.
const replyMax = 15<<20 + 512<<10

// outputEvery is the shortest time between two packets of progress.
const outputEvery = 100 * time.Millisecond

// Call calls a tool: see call. The call of a model is recorded for the audit.
func (s *Service) Call(ctx context.Context, req proto.CallTool, out *rpc.Out) (proto.ToolResult, error) {
	started := time.Now()
	req.Arguments = bytes.Clone(req.Arguments)
	serverToken := req.ServerToken
	if gate.IsServer(req.Grant) {
		serverToken, req.Grant = req.Grant, ""
	}
	result, err := s.call(ctx, req, serverToken, out)
	if s.audit != nil && req.Token != "" {
		s.record(req, result, err, time.Since(started))
	}
	if e, ok := errors.AsType[*toolError](err); ok {
		return proto.ToolResult{Result: e.envelope()}, nil
	}
	return result, err
}

// record records a call of a model. Its arguments are there as a digest alone: this service
// cannot mask secrets.
func (s *Service) record(req proto.CallTool, result proto.ToolResult, err error, took time.Duration) {
	kind, d := proto.AuditCall, audit.Call{Tool: toolName(req.Server, req.Tool), Digest: audit.Digest(req.Arguments), OK: err == nil && isOK(result.Result), By: -1, DurationMS: took.Milliseconds()}
	event := audit.Event{}
	if turn, err := s.guard.Turn(req.Token); err == nil {
		d.By, d.Mode, event.Session, event.Turn = turn.By, string(turn.Mode), turn.Session, turn.Turn
		d.Sandbox, _ = s.guard.Level(turn)
	}
	if parts := strings.Split(req.Key, "/"); len(parts) == 4 {
		event.Call = parts[3]
	}
	if e, ok := errors.AsType[*proto.Error](err); ok {
		d.Code = string(e.Code)
	} else if e, ok := errors.AsType[*toolError](err); ok {
		d.Code = e.Code
		if e.Code == proto.ToolDenied {
			kind, d.Reason = proto.AuditDenied, e.Message
		}
	}
	event.Data = d
	s.audit.Record(kind, event)
}

func isOK(result proto.Raw) bool { return bytes.HasPrefix(result, []byte(`{"ok":true`)) }

// toolName is the name of a tool in policies and approvals.
func toolName(server, tool string) string { return "mcp:" + server + "/" + tool }

// toolError is a result that is an error.
type toolError struct {
	Code    string
	Message string
	Schema  proto.Raw
}

func (e *toolError) Error() string { return e.Message }

// envelope returns the error as the result of a call.
func (e *toolError) envelope() proto.Raw {
	b := wire.AppendString([]byte(`{"ok":false,"error":{"code":`), e.Code)
	b = wire.AppendString(append(b, `,"message":`...), e.Message)
	if e.Schema != nil {
		b = append(append(b, `,"schema":`...), e.Schema...)
	}
	return append(b, "}}"...)
}

func toolErrorf(code, format string, args ...any) *toolError {
	return &toolError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// call is a call of a tool that runs.
type call struct {
	session string
	token   string // of its turn; empty: a person calls
	events  bool
	out     *rpc.Out
	limit   time.Duration // without progress

	mu     sync.Mutex
	ctx    context.Context // while the server is asked
	ended  bool
	sent   time.Time // of the last packet of progress
	idle   countdown // from limit
	whole  countdown // of all attempts
	asking int       // questions of the server that wait for a person
	wanted []string  // input that the server asked for and did not get
}

// countdown is a timer that can pause.
type countdown struct {
	*time.Timer
	left  time.Duration
	since time.Time // when it began or went on
}

func newCountdown(d time.Duration, over func()) countdown {
	return countdown{time.AfterFunc(d, over), d, time.Now()}
}

func (c *countdown) pause() {
	if c.Timer != nil && c.Stop() {
		c.left -= time.Since(c.since)
	}
}

func (c *countdown) goOn() {
	if c.Timer != nil {
		c.since = time.Now()
		c.Reset(c.left)
	}
}

// limited returns ctx, which ends when the whole time of a call is over.
func (c *call) limited(ctx context.Context, whole time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.whole = newCountdown(whole, func() { cancel(errTimeout) })
	return ctx, func() {
		c.whole.Stop()
		cancel(nil)
	}
}

// pause stops the clock of the call until the function that it returns is called: for every
// question.
func (c *call) pause() (goOn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking++; c.asking == 1 {
		c.idle.pause()
		c.whole.pause()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asking--; c.asking == 0 {
			c.idle.goOn()
			c.whole.goOn()
		}
	}
}

// running returns the context of the present attempt.
func (c *call) running() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx
}

// inputs returns what want has recorded.
func (c *call) inputs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wanted)
}

// want records input that the server asked for and did not get.
func (c *call) want(input string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = append(c.wanted, input)
}

type callKey struct{}

// progressed passes on progress, and restarts the clock.
func (c *call) progressed(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.idle.left = c.limit; c.asking == 0 && c.idle.Stop() {
		c.idle.goOn()
	}
	if now := time.Now(); c.events && now.Sub(c.sent) >= outputEvery {
		c.sent = now
		c.out.Event(proto.TypeToolOutput, proto.ToolOutput{Text: line + "\n"}) // an error ends the call by its context
		c.out.Flush()
	}
}

// call calls a tool. Errors that the model reads are toolErrors.
func (s *Service) call(ctx context.Context, req proto.CallTool, serverToken string, out *rpc.Out) (proto.ToolResult, error) {
	var none proto.ToolResult
	in := scope{req.Root, req.Project, req.Client}
	d, err := s.usable(in, req.Server)
	if err != nil {
		return none, err
	}
	if len(req.Arguments) == 0 {
		req.Arguments = proto.Raw("{}")
	}
	if !isObject(req.Arguments) {
		return none, &toolError{proto.ToolInvalidInput, "arguments: want an object", nil}
	}
	known := s.catalog.get(d.hash)
	check := func() (*toolInfo, error) { return s.checkCall(d, known, req) }
	if err := s.permit(ctx, d, req); errors.Is(err, proto.ErrDenied) {
		return none, &toolError{proto.ToolDenied, err.Error(), nil}
	} else if err != nil {
		if known.Listed { // no person is asked about a call that cannot be made
			if _, checkErr := check(); checkErr != nil {
				return none, checkErr
			}
		}
		if !s.personal { // the token for the start comes first: that for the call is used once
			in, startErr := s.acquire(ctx, d, serverToken)
			if startErr != nil {
				return none, s.explain(ctx, d, startErr)
			}
			in.release()
		}
		return none, err
	}
	if known.Listed && known.valid() {
		if _, err := check(); err != nil {
			return none, err
		}
	}
	c := &call{session: req.SessionID, token: req.Token, events: req.Events, out: out, limit: d.timeout()}
	ctx, cancel := c.limited(ctx, d.max())
	defer cancel()
	for again := false; ; again = true {
		result, repeat, err := s.attempt(ctx, c, d, req, serverToken)
		if err == nil || again || !repeat || ctx.Err() != nil {
			err = s.explain(ctx, d, err)
			if e, ok := errors.AsType[*toolError](err); ok {
				if wanted := c.inputs(); len(wanted) > 0 {
					e.Message += "\nInput was wanted: " + strings.Join(wanted, "; ")
				}
			}
			return result, err
		}
		s.log.Info("repeating a call of a server that ended", "server", d.name, "tool", req.Tool)
	}
}

// usable returns a server that a call can use.
func (s *Service) usable(in scope, name string) (*definition, error) {
	d, err := s.find(in, name)
	switch {
	case err != nil:
		return nil, &toolError{proto.ToolUnknown, err.Error(), nil}
	case !d.enabled():
		return nil, toolErrorf(proto.ToolUnavailable, "%s is disabled", d.name)
	case d.problem != "":
		return nil, toolErrorf(proto.ToolUnavailable, "%s: %s", d.name, strings.TrimPrefix(d.problem, ".mcp.json: "+d.name+": "))
	}
	return d, nil
}

// valid reports whether what is known need not be asked again.
func (e *entry) valid() bool { return e.Expires.IsZero() || time.Now().Before(e.Expires) }

// attempt makes a call once. It reports whether a call that failed may be repeated: its
// server ended, and the tool may be called twice.
func (s *Service) attempt(ctx context.Context, c *call, d *definition, req proto.CallTool, serverToken string) (result proto.ToolResult, repeat bool, err error) {
	in, err := s.acquire(ctx, d, serverToken)
	if err != nil {
		return result, false, err
	}
	defer in.release()
	known := s.catalog.get(d.hash)
	if !known.valid() {
		if err := in.refresh(ctx); err != nil {
			return result, false, err
		}
		known = s.catalog.get(d.hash)
	}
	info, err := s.checkCall(d, known, req)
	if err != nil {
		return result, false, err
	}
	var reply *mcp.CallToolResult
	err = in.do(ctx, c, func(ctx context.Context, token string) error {
		s.countCall(d)
		params := &mcp.CallToolParams{Name: req.Tool, Arguments: req.Arguments}
		params.SetProgressToken(token)
		reply, err = in.session.CallTool(ctx, params)
		return err
	})
	if err != nil {
		return result, errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, errEnded) && (info.ReadOnly || info.Idempotent), err
	}
	result, err = resultOf(reply, c.inputs())
	if e, ok := errors.AsType[*toolError](err); ok {
		e.Message = in.hidden(e.Message)
	}
	result.Result, _ = in.hide.JSON(result.Result)
	return result, false, err
}

// errEnded: the server ended while it was asked.
var errEnded = errors.New("the server ended")

// do asks the server for something within the limits of a call.
func (in *instance) do(ctx context.Context, c *call, ask func(ctx context.Context, token string) error) error {
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-in.gone:
		return in.lost()
	}
	in.mu.Lock()
	serial := in.serial
	in.mu.Unlock()
	if serial {
		select {
		case in.single <- struct{}{}:
			defer func() { <-in.single }()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-in.gone:
			return in.lost()
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx = context.WithValue(ctx, callKey{}, c)
	in.mu.Lock()
	in.nextID++
	token := fmt.Sprintf("p%d", in.nextID)
	in.progress[token] = c
	in.mu.Unlock()
	c.mu.Lock()
	c.ctx, c.ended, c.idle = ctx, false, newCountdown(c.limit, func() { cancel(errTimeout) })
	c.mu.Unlock()
	err := ask(ctx, token)
	c.mu.Lock()
	c.ended = true
	c.idle.Stop()
	c.mu.Unlock()
	cause := context.Cause(ctx)
	in.mu.Lock()
	delete(in.progress, token)
	if err != nil && cause != nil {
		in.abandoned[c.session] = true
	}
	in.mu.Unlock()
	if err == nil {
		return nil
	}
	if cause != nil {
		go in.awaitSign(time.Now())
		return cause
	}
	if errors.Is(err, mcp.ErrConnectionClosed) { // it was not sent
		return fmt.Errorf("%w (%w)", in.lost(), mcp.ErrConnectionClosed)
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && answered(err) {
		e = &jsonrpc.Error{Code: e.Code, Message: in.hidden(e.Message), Data: e.Data}
		if e.Code == mcp.CodeURLElicitationRequired {
			in.visits(ctx, c, e)
		}
		return e
	}
	_, rejected := errors.AsType[*jsonrpc.Error](err)
	switch {
	case in.program != nil && (rejected || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)):
		return in.lost()
	case errors.Is(err, errNeedsLogin), tooLong(err):
		return err
	}
	return errors.New(in.hidden(message(err)))
}

// tooLong reports whether an answer over HTTP has more bytes than are accepted.
func tooLong(err error) bool {
	return errors.Is(err, errTooLong) || strings.Contains(err.Error(), "SSE event exceeded") // the SDK has no error value for it
}

// hidden returns a text of the server without its secrets.
func (in *instance) hidden(s string) string {
	if in.hide == nil { // it was not started: the secrets could not be read
		return s
	}
	shown, _ := in.hide.Text([]byte(s))
	return string(shown)
}

// lost returns the error of a call whose server has ended.
func (in *instance) lost() error {
	reason := errors.New("it ended")
	if in.program != nil {
		select {
		case <-in.program.done:
			reason = in.program.reason()
		case <-time.After(closeGrace):
		}
	}
	select { // the next start sees this failure
	case <-in.gone:
	case <-time.After(2 * closeGrace):
	}
	return fmt.Errorf("%w: %w", errEnded, reason)
}

// awaitSign ends a server that stays silent after a call was cancelled while others wait.
func (in *instance) awaitSign(since time.Time) {
	if in.program == nil {
		return
	}
	select { // it is not a user: the instance may end meanwhile
	case <-in.gone:
		return
	case <-time.After(silentMax):
	}
	in.mu.Lock()
	waiting := len(in.progress) > 0
	in.mu.Unlock()
	if waiting && in.program.heardAt().Before(since) {
		in.s.log.Warn("an MCP server is silent: ending it", "server", in.d.name)
		go in.end()
	}
}

// explain returns the error of a call as the model reads it.
func (s *Service) explain(ctx context.Context, d *definition, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*toolError](err); ok {
		return err
	}
	var rpcErr *jsonrpc.Error
	switch {
	case errors.Is(err, errNeedsLogin):
		return &toolError{proto.ToolNeedsLogin, "run: zino mcp login " + d.name, nil}
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		return toolErrorf(proto.ToolTimeout, "%s gave no answer in time", d.name)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, proto.ErrApproval):
		return err
	case errors.Is(err, proto.ErrUnavailable):
		return &toolError{proto.ToolUnavailable, err.Error(), nil}
	case errors.Is(err, errEnded):
		reason := strings.TrimSuffix(strings.TrimPrefix(err.Error(), errEnded.Error()+": "), " ("+mcp.ErrConnectionClosed.Error()+")")
		return toolErrorf(proto.ToolUnavailable, "%s: %s", d.name, reason)
	case tooLong(err):
		return toolErrorf(proto.ToolTooLarge, "%s: the answer has more than the %d bytes that are accepted", d.name, d.resultBytes())
	case errors.As(err, &rpcErr) && rpcErr.Code == codeTooLong:
		return toolErrorf(proto.ToolTooLarge, "%s: %s", d.name, rpcErr.Message)
	case answered(err) && errors.As(err, &rpcErr):
		return toolErrorf(proto.ToolFailed, "%s: %s", d.name, text.Clip(clean(rpcErr.Message, 4096), 4096))
	}
	return toolErrorf(proto.ToolUnavailable, "%s: %s", d.name, text.Clip(clean(message(err), 1000), 1000))
}

// ofMethod matches the names of methods that the SDK puts in front of an error.
var ofMethod = regexp.MustCompile(`^((calling|sending) "[^"]*": )+`)

// message returns what a server or the SDK says about an error, without the names of
// methods.
func message(err error) string {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && answered(err) {
		return e.Message
	}
	said, _, _ := strings.Cut(ofMethod.ReplaceAllString(err.Error(), ""), " into Go value of type ")
	return strings.ReplaceAll(said, "rejected by transport: ", "")
}

// permit returns nil if a call may be made: the mode of the turn whose model asks, the
// policy, and the token of an approval decide about it. A person is not asked for a token.
func (s *Service) permit(ctx context.Context, d *definition, req proto.CallTool) error {
	if req.Ask == "" && !s.guard.ByModel(req.Token, rpc.PeerUID(ctx)) {
		return nil
	}
	turn, err := s.guard.Turn(req.Token)
	if err == nil {
		err = turn.Fits(req.SessionID, req.Turn, req.Root)
	}
	if err != nil {
		return err
	}
	turn.Session, turn.Turn = req.SessionID, req.Turn // also without a token
	level, network := s.guard.Level(turn)
	input := wire.AppendString([]byte(`{"server":`), req.Server)
	input = wire.AppendString(append(input, `,"tool":`...), req.Tool)
	input = append(append(append(input, `,"arguments":`...), req.Arguments...), '}')
	host := ""
	if u, err := url.Parse(d.URL); err == nil {
		host = u.Host
	}
	root := gate.Root(turn.Root)
	return s.guard.Permit(&gate.Request{
		Turn: turn, Call: gate.Call{Tool: toolName(req.Server, req.Tool), Host: host, Root: root, Sandbox: level, Trusted: true},
		Input: input, Root: root, Dir: root, Network: network, Key: req.Key, Grant: req.Grant, Once: true, Ask: req.Ask,
	})
}

// checkCall returns the tool that a call names, if its arguments fit.
func (s *Service) checkCall(d *definition, known entry, req proto.CallTool) (*toolInfo, error) {
	var names []string
	for i := range known.Tools {
		t := &known.Tools[i]
		if !d.allows(t.Name) {
			continue
		}
		if t.Name != req.Tool {
			names = append(names, t.Name)
			continue
		}
		if problem := s.schemas.check(t.Input, req.Arguments); problem != "" {
			return nil, &toolError{proto.ToolInvalidInput, fmt.Sprintf("%s.%s: %s", d.name, req.Tool, problem), t.Input}
		}
		return t, nil
	}
	e := toolErrorf(proto.ToolUnknown, "%s has no tool %s", d.name, text.Quote(text.Clip(req.Tool, 80)))
	var near []string
	for len(near) < 3 && len(names) > 0 {
		one := config.Nearest(req.Tool, names)
		near = append(near, one)
		names = slices.DeleteFunc(names, func(n string) bool { return n == one })
	}
	if len(near) > 0 {
		e.Message += "; the nearest are " + strings.Join(near, ", ")
	}
	return nil, e
}

// schemas are the resolved schemas of tools.
type schemas struct {
	mu    sync.Mutex
	known map[string]*jsonschema.Resolved // nil: it cannot be resolved, the server decides
}

const schemasMax = 500

// check returns what is wrong with arguments, empty if nothing is or if the schema cannot be
// resolved here.
func (s *schemas) check(schema, arguments proto.Raw) (problem string) {
	defer func() {
		if recover() != nil { // a schema that the library does not expect
			problem = ""
		}
	}()
	resolved := s.resolve(schema)
	var value any
	if resolved == nil || json.Unmarshal(arguments, &value) != nil {
		return ""
	}
	err := resolved.Validate(value)
	if err == nil {
		return ""
	}
	return text.Clip(clean(text.OneLine(validation(err.Error())), 1000), 1000)
}

// validation shortens an error of the library to what is wrong.
func validation(s string) string {
	if _, rest, ok := strings.Cut(s, "required: missing properties: "); ok {
		return "required: " + strings.Join(strings.Fields(strings.NewReplacer("[", " ", "]", " ", `"`, "", ",", " ").Replace(rest)), ", ")
	}
	return strings.TrimPrefix(s, "validating root: ")
}

func (s *schemas) resolve(schema proto.Raw) *jsonschema.Resolved {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(schema)
	if r, ok := s.known[key]; ok {
		return r
	}
	if s.known == nil || len(s.known) >= schemasMax {
		s.known = map[string]*jsonschema.Resolved{}
	}
	s.known[key] = nil
	var parsed jsonschema.Schema
	if json.Unmarshal(schema, &parsed) == nil {
		if r, err := parsed.Resolve(nil); err == nil {
			s.known[key] = r
		}
	}
	return s.known[key]
}

// link is a resource that a result refers to.
type link struct {
	URI       string `json:"uri"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
}

// file is an attachment of a result.
type file struct {
	ID        string `json:"id,omitempty"` // set by agr, which stores it
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Bytes     int    `json:"bytes"`
}

// resultData is the data of a result.
type resultData struct {
	Text       string          `json:"text,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Resources  []link          `json:"resources,omitempty"`
	Files      []file          `json:"files,omitempty"`
	Wanted     []string        `json:"input_wanted,omitempty"`
}

// resultOf returns the result of a tool. One with isError is an error.
func resultOf(reply *mcp.CallToolResult, wanted []string) (result proto.ToolResult, err error) {
	data, attachments := contents(reply.Content)
	data.Wanted = wanted
	if reply.IsError {
		if data.Text == "" {
			data.Text = "the tool failed"
		}
		return result, &toolError{proto.ToolFailed, data.Text, nil}
	}
	if reply.StructuredContent != nil {
		var same any
		if json.Unmarshal([]byte(data.Text), &same) == nil && reflect.DeepEqual(same, reply.StructuredContent) {
			data.Text = ""
		}
		if data.Structured, err = marshal(reply.StructuredContent); err != nil {
			return result, err
		}
	}
	return pack(data, attachments)
}

// pack returns a result, or the error too_large.
func pack(data resultData, attachments []proto.FileData) (result proto.ToolResult, err error) {
	encoded, err := marshal(data)
	if err != nil {
		return result, err
	}
	size := len(encoded)
	for _, a := range attachments {
		size += len(a.Data)*4/3 + 100
	}
	if size > replyMax {
		return result, toolErrorf(proto.ToolTooLarge, "the result has %d bytes, more than the %d that are accepted", size, replyMax)
	}
	result.Result = append(append([]byte(`{"ok":true,"data":`), encoded...), '}')
	result.Attachments = attachments
	return result, nil
}

// marshal encodes without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// contents returns the parts of a result.
func contents(list []mcp.Content) (data resultData, attachments []proto.FileData) {
	var parts []string
	attach := func(name, mediaType string, bytes []byte) {
		if name == "" {
			name = fmt.Sprintf("%d%s", len(attachments)+1, extension(mediaType))
		}
		name, mediaType = text.Clip(clean(text.OneLine(name), 200), 100), text.Clip(clean(text.OneLine(mediaType), 200), 100)
		attachments = append(attachments, proto.FileData{Name: name, MediaType: mediaType, Data: bytes})
		data.Files = append(data.Files, file{Name: name, MediaType: mediaType, Bytes: len(bytes)})
	}
	for _, content := range list {
		switch c := content.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			attach("", c.MIMEType, c.Data)
		case *mcp.AudioContent:
			parts = append(parts, fmt.Sprintf("[audio %s, %d bytes, left out]", text.Clip(clean(c.MIMEType, 100), 100), len(c.Data)))
		case *mcp.ResourceLink:
			data.Resources = append(data.Resources, link{c.URI, c.Name, c.MIMEType})
		case *mcp.EmbeddedResource:
			if r := c.Resource; r != nil && r.Blob != nil {
				attach(r.URI[strings.LastIndexByte(r.URI, '/')+1:], r.MIMEType, r.Blob)
			} else if r != nil {
				parts = append(parts, r.Text)
			}
		}
	}
	data.Text = strings.Join(parts, "\n")
	return data, attachments
}

// extension returns the usual extension of a media type.
func extension(mediaType string) string {
	switch mediaType {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	case "image/gif":
		return ".gif"
	case "image/webp":
		return ".webp"
	case "application/pdf":
		return ".pdf"
	}
	return ".bin"
}
