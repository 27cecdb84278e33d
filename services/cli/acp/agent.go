package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/sourcegraph/jsonrpc2"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

// Codes of errors that the protocol adds to those of JSON-RPC.
const (
	codeAuth     = -32000 // no model is connected
	codeNotFound = -32002
	codeCanceled = -32800
)

// pageSize is how many sessions an answer to session/list has.
const pageSize = 50

// connectModel says how to connect a model.
const connectModel = `No model is connected. Connect one, then start the agent again:
zino auth login openrouter
or: zino auth set PROVIDER, which stores a key
or: [api] base_url in the configuration, for a model server of your own`

// agent answers a client.
type agent struct {
	env    *command.Env // without a terminal
	limits options
	conn   *jsonrpc2.Conn
	gone   chan os.Signal // SIGHUP when the client has gone

	version  int // of the protocol; 0: before initialize
	terminal bool
	notices  bool
	readsFS  bool
	asks     elicitation // what the client can ask its user for

	daemonLock sync.Mutex
	d          *connect.Daemon
	approvals  bool // the daemon has them
	modelsLock sync.Mutex
	models     []proto.Model // nil: not asked yet

	mu       sync.Mutex
	sessions map[string]*session
	requests map[jsonrpc2.ID]context.CancelFunc // those that run beside the reader
	running  sync.WaitGroup
}

// options are the flags of zino acp.
type options struct{ clientFS, v2 bool }

// serve answers the client on in and out until it closes its end, or ctx ends.
func serve(ctx context.Context, env *command.Env, in io.Reader, out io.Writer, flags options) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	quiet := *env
	quiet.In = null // the client's messages: nothing is asked there
	a := &agent{env: &quiet, limits: flags, sessions: map[string]*session{}, requests: map[jsonrpc2.ID]context.CancelFunc{}, gone: make(chan os.Signal, 1)}
	ready := make(chan struct{})
	a.conn = jsonrpc2.NewConn(ctx, newStream(in, out), handler(func(ctx context.Context, req *jsonrpc2.Request) {
		<-ready
		a.handle(ctx, req)
	}), jsonrpc2.SetLogger(log.New(io.Discard, "", 0)))
	close(ready)
	<-a.conn.DisconnectNotify()
	a.leave(command.Signal(ctx))
	a.running.Wait()
	if a.d != nil {
		a.d.Close()
	}
	return nil
}

type handler func(context.Context, *jsonrpc2.Request)

// Handle implements jsonrpc2.Handler.
func (h handler) Handle(ctx context.Context, _ *jsonrpc2.Conn, req *jsonrpc2.Request) { h(ctx, req) }

// leave ends the following of all turns. They go on where the services stay, unless a
// signal has asked for their end.
func (a *agent) leave(s os.Signal) {
	if s == nil {
		s = syscall.SIGHUP
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sess := range a.sessions {
		sess.stop(s)
	}
}

// failure is an error for the client.
func failure(code int64, format string, args ...any) error {
	return &jsonrpc2.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// later is the rest of an answer that takes long. It runs beside the reader.
type later func(context.Context) (any, error)

// handle answers a request. Requests and notifications are handled in their order, so that
// a cancellation finds what it cancels; what takes long runs beside the reader.
func (a *agent) handle(ctx context.Context, req *jsonrpc2.Request) {
	if req.Notif {
		a.notification(req)
		return
	}
	answer := a.methods()[req.Method]
	switch {
	case answer == nil:
		a.reply(req, nil, failure(jsonrpc2.CodeMethodNotFound, "unknown method %q", req.Method))
	case a.version == 0 && req.Method != "initialize":
		a.reply(req, nil, failure(jsonrpc2.CodeInvalidRequest, "initialize comes first"))
	default:
		result, err := answer(ctx, req)
		rest, long := result.(later)
		if !long {
			a.reply(req, result, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		a.mu.Lock()
		a.requests[req.ID] = cancel
		a.mu.Unlock()
		a.running.Go(func() {
			defer cancel()
			result, err := rest(ctx)
			a.mu.Lock()
			delete(a.requests, req.ID)
			a.mu.Unlock()
			if err != nil && ctx.Err() != nil {
				err = failure(codeCanceled, "the request was cancelled")
			}
			a.reply(req, result, err)
		})
	}
}

// methods are the methods of the protocol's version.
func (a *agent) methods() map[string]func(context.Context, *jsonrpc2.Request) (any, error) {
	list := map[string]func(context.Context, *jsonrpc2.Request) (any, error){
		"initialize":                a.initialize,
		"session/new":               a.with(a.newSession),
		"session/resume":            a.with(a.resume),
		"session/list":              a.with(a.list),
		"session/delete":            a.with(a.remove),
		"session/close":             a.with(a.close),
		"session/prompt":            a.with(a.prompt),
		"session/set_config_option": a.with(a.setOption),
	}
	if a.version == 2 {
		list["auth/login"] = a.authenticate
	} else {
		list["authenticate"] = a.authenticate
		list["session/load"] = a.with(a.load)
	}
	return list
}

// with parses the parameters of a method about sessions.
func (a *agent) with(answer func(context.Context, sessionParams) (any, error)) func(context.Context, *jsonrpc2.Request) (any, error) {
	return func(ctx context.Context, req *jsonrpc2.Request) (any, error) {
		var p sessionParams
		if req.Params == nil {
			return nil, invalid("params: missing")
		}
		if err := json.Unmarshal(*req.Params, &p); err != nil {
			return nil, invalid("params: %v", err)
		}
		p.request, p.raw = req.ID, *req.Params
		return answer(ctx, p)
	}
}

// reply answers a request. An error to write means that the client has gone.
func (a *agent) reply(req *jsonrpc2.Request, result any, err error) {
	ctx := context.Background()
	if err == nil {
		if e, ok := result.(entered); ok {
			result = e.object
			defer a.running.Go(e.sess.announce)
		}
		_ = a.conn.Reply(ctx, req.ID, result)
		return
	}
	_ = a.conn.ReplyWithError(ctx, req.ID, errorFor(err))
}

// errorFor returns an error for the client.
func errorFor(err error) *jsonrpc2.Error {
	if e, ok := errors.AsType[*jsonrpc2.Error](err); ok {
		return e
	}
	e := &jsonrpc2.Error{Code: jsonrpc2.CodeInternalError, Message: err.Error()}
	packet := render.ErrorPacket(err)
	e.Message = packet.Message
	e.SetError(object{"code": packet.Code, "kind": packet.Kind, "details": packet.Details})
	return e
}

// notification handles session/cancel and $/cancel_request; others are ignored.
func (a *agent) notification(req *jsonrpc2.Request) {
	var p struct {
		SessionID string          `json:"sessionId"`
		RequestID json.RawMessage `json:"requestId"`
	}
	if req.Params == nil || json.Unmarshal(*req.Params, &p) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch req.Method {
	case "session/cancel":
		if sess := a.sessions[p.SessionID]; sess != nil {
			sess.stop(os.Interrupt)
		}
	case "$/cancel_request":
		var id jsonrpc2.ID
		if json.Unmarshal(p.RequestID, &id) != nil {
			return
		}
		for _, sess := range a.sessions {
			if sess.current != nil && sess.current.request == id {
				sess.stop(os.Interrupt)
				return
			}
		}
		if cancel := a.requests[id]; cancel != nil {
			cancel()
		}
	}
}

func (a *agent) initialize(ctx context.Context, req *jsonrpc2.Request) (any, error) {
	var p initialize
	if req.Params == nil || json.Unmarshal(*req.Params, &p) != nil {
		return nil, invalid("params: want protocolVersion and what the client can do")
	}
	a.version = 1
	if a.limits.v2 && p.ProtocolVersion >= 2 {
		a.version = 2
	}
	c := p.ClientCapabilities
	a.asks = cmp.Or(c.Elicitation, p.Capabilities.Elicitation)
	a.terminal, a.notices, a.readsFS = c.Auth.Terminal || p.Capabilities.Auth.Terminal != nil, c.Session.Notices != nil || a.version == 2, c.FS.ReadTextFile
	info := object{"name": "zino", "title": "Zino", "version": rpc.Build}
	auth := a.authMethods(ctx)
	if a.version == 2 {
		return object{
			"protocolVersion": 2, "info": info, "authMethods": auth,
			"capabilities": object{"session": object{
				"prompt": object{"image": object{}, "embeddedContext": object{}}, "mcp": object{"stdio": object{}, "http": object{}}, "delete": object{},
			}},
		}, nil
	}
	return object{
		"protocolVersion": 1, "agentInfo": info, "authMethods": auth,
		"agentCapabilities": object{
			"loadSession":         true,
			"promptCapabilities":  object{"image": true, "audio": false, "embeddedContext": true},
			"mcpCapabilities":     object{"http": true, "sse": false},
			"sessionCapabilities": object{"list": object{}, "resume": object{}, "close": object{}, "delete": object{}},
		},
	}, nil
}

// authMethods says how to connect a model, if none is connected and the client can run a
// command in a terminal.
func (a *agent) authMethods(ctx context.Context) []object {
	if !a.terminal || a.connected(ctx) == nil {
		return []object{}
	}
	id := "id"
	if a.version == 2 {
		id = "methodId"
	}
	return []object{{id: "openrouter", "type": "terminal", "name": "Log in to OpenRouter", "description": "Runs zino auth login openrouter", "args": []string{"auth", "login", "openrouter"}}}
}

func (a *agent) authenticate(context.Context, *jsonrpc2.Request) (any, error) {
	return nil, invalid("log in on a terminal: zino auth login openrouter")
}

// connected returns an error if no model is connected.
func (a *agent) connected(ctx context.Context) error {
	cfg, err := a.env.Config()
	if err != nil {
		return nil // reported with the first session
	}
	d, err := a.env.Find(ctx, cfg, false)
	if err != nil || d == nil {
		if a.env.CheckModel(cfg) != nil {
			return failure(codeAuth, "%s", connectModel)
		}
		return nil
	}
	defer d.Close()
	caps, err := connect.Forward(ctx, d, "rtr", proto.RtrCapabilities, proto.ModelSelector{Provider: a.env.Provider, Model: a.env.Model})
	if err == nil && (caps.Fallback || caps.Problem != "") {
		return failure(codeAuth, "%s", connectModel)
	}
	return nil
}

// daemon returns the daemon, which is found or started with the first session.
func (a *agent) daemon(ctx context.Context) (*connect.Daemon, error) {
	a.daemonLock.Lock()
	defer a.daemonLock.Unlock()
	if a.d != nil {
		return a.d, nil
	}
	cfg, err := a.env.Config()
	if err != nil {
		return nil, err
	}
	a.env.OnHangup = cfg.CLI.OnHangup
	d, err := a.env.ConnectForTurn(ctx, cfg, connect.StorageRequired)
	if err != nil {
		return nil, err
	}
	if a.approvals, err = turn.Gate(ctx, a.env, d, true); err != nil {
		d.Close()
		return nil, err
	}
	if !d.Named {
		a.env.CompareVersions(ctx, d)
	}
	a.d = d
	return d, nil
}

// forward asks another service through the daemon, on a connection of its own.
func forward[Req, Rep any](ctx context.Context, a *agent, service string, m proto.Method[Req, Rep], req Req) (Rep, error) {
	d, err := a.daemon(ctx)
	if err != nil {
		var none Rep
		return none, err
	}
	d = again(d)
	defer d.Client.Close()
	return connect.Forward(ctx, d, service, m, req)
}

// call calls the daemon on a connection of its own.
func call[Req, Rep any](ctx context.Context, a *agent, m proto.Method[Req, Rep], req Req) (Rep, error) {
	d, err := a.daemon(ctx)
	if err != nil {
		var none Rep
		return none, err
	}
	d = again(d)
	defer d.Client.Close()
	return rpc.Call(ctx, d.Client, m, req)
}

// again returns the daemon with another connection, which the caller closes.
func again(d *connect.Daemon) *connect.Daemon {
	copied := *d
	copied.Client = &rpc.Client{Service: "daemon", Path: d.Client.Path}
	return &copied
}

// newSession begins a session, which is stored with its first prompt.
func (a *agent) newSession(ctx context.Context, p sessionParams) (any, error) {
	if err := a.connected(ctx); err != nil {
		return nil, err
	}
	sess, err := a.enter(proto.NewSessionID(), p)
	if err != nil {
		return nil, err
	}
	if _, err := a.daemon(ctx); err != nil {
		return nil, err
	}
	return a.enterAnswer(ctx, sess, object{"sessionId": sess.id})
}

// enter adds a session, and takes the client's directory and servers for it.
func (a *agent) enter(id string, p sessionParams) (*session, error) {
	if !filepath.IsAbs(p.Cwd) {
		return nil, invalid("cwd %q is not an absolute path", p.Cwd)
	}
	root, err := filepath.EvalSymlinks(p.Cwd)
	if err != nil {
		return nil, invalid("cwd: %v", err)
	}
	servers, err := clientServers(p.MCPServers)
	if err != nil {
		return nil, err
	}
	sess := &session{
		agent: a, id: id, root: root, servers: servers, model: a.env.Model, sandbox: a.env.Sandbox, mode: a.env.Mode,
		asked: map[string]bool{}, ids: map[string]int{},
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.sessions[id]; old != nil && old.current != nil {
		return nil, failure(jsonrpc2.CodeInvalidRequest, "a prompt is running in session %s", id)
	}
	a.sessions[id] = sess
	return sess, nil
}

// enterAnswer adds the options of a session to the answer.
func (a *agent) enterAnswer(ctx context.Context, sess *session, answer object) (any, error) {
	answer["configOptions"] = sess.options(ctx)
	return entered{answer, sess}, nil
}

// entered answers a request that adds a session. The session is announced behind it: the
// client knows it then.
type entered struct {
	object
	sess *session
}

// known returns a session that is stored.
func (a *agent) known(ctx context.Context, id string) (proto.SessionSummary, error) {
	if proto.CheckSessionID(id) != nil {
		return proto.SessionSummary{}, unknown(id)
	}
	found, err := forward(ctx, a, "mem", proto.MemFindSession, proto.FindSession{SessionID: id})
	if err == nil && found.SessionID != id || errors.Is(err, proto.ErrNotFound) || errors.Is(err, proto.ErrInvalid) {
		err = unknown(id)
	}
	return found, err
}

func unknown(id string) error { return failure(codeNotFound, "no such session: %q", id) }

// session returns a session that the client has begun or loaded.
func (a *agent) session(id string) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sess := a.sessions[id]; sess != nil {
		return sess, nil
	}
	return nil, unknown(id)
}

// load takes up a session and replays it.
func (a *agent) load(_ context.Context, p sessionParams) (any, error) {
	return later(func(ctx context.Context) (any, error) { return a.takeUp(ctx, p, true) }), nil
}

// resume takes up a session; in version 2 it can replay it.
func (a *agent) resume(_ context.Context, p sessionParams) (any, error) {
	replay := p.ReplayFrom != nil && p.ReplayFrom.Type == "start"
	return later(func(ctx context.Context) (any, error) { return a.takeUp(ctx, p, replay) }), nil
}

func (a *agent) takeUp(ctx context.Context, p sessionParams, replay bool) (any, error) {
	found, err := a.known(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	sess, err := a.enter(p.SessionID, p)
	if err != nil {
		return nil, err
	}
	if found.CostUSD != nil {
		sess.cost = *found.CostUSD
	}
	if replay {
		if err := sess.replay(ctx); err != nil {
			return nil, err
		}
	}
	return a.enterAnswer(ctx, sess, object{})
}

// list lists stored sessions that have a directory. The cursor names the last session of a
// page, so that the next one begins behind it when others are removed or added meanwhile.
func (a *agent) list(ctx context.Context, p sessionParams) (any, error) {
	updated, last, _ := strings.Cut(p.Cursor, " ")
	if p.Cursor != "" && proto.CheckSessionID(last) != nil {
		return nil, invalid("cursor %q is not one of session/list", p.Cursor)
	}
	root := p.Cwd
	if root != "" {
		if !filepath.IsAbs(root) {
			return nil, invalid("cwd %q is not an absolute path", root)
		}
		if real, err := filepath.EvalSymlinks(root); err == nil {
			root = real
		}
	}
	found, err := forward(ctx, a, "mem", proto.MemListSessions, proto.ListSessions{Root: root})
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(found.Sessions, func(s proto.SessionSummary) bool { return s.Root == "" })
	if p.Cursor != "" {
		from := slices.IndexFunc(list, func(s proto.SessionSummary) bool { return s.SessionID == last }) + 1
		if from == 0 { // it was removed
			if from = slices.IndexFunc(list, func(s proto.SessionSummary) bool { return s.Updated <= updated }); from < 0 {
				from = len(list)
			}
		}
		list = list[from:]
	}
	answer, sessions := object{}, []object{}
	for i, s := range list {
		if i == pageSize {
			answer["nextCursor"] = list[i-1].Updated + " " + list[i-1].SessionID
			break
		}
		session := object{"sessionId": s.SessionID, "cwd": s.Root, "updatedAt": s.Updated}
		if title := firstOf(s.Title, s.Text); title != "" {
			session["title"] = title
		}
		sessions = append(sessions, session)
	}
	answer["sessions"] = sessions
	return answer, nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// close ends what runs in a session, and forgets it.
func (a *agent) close(_ context.Context, p sessionParams) (any, error) {
	sess, err := a.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	a.forget(sess)
	return object{}, nil
}

func (a *agent) forget(sess *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sess.stop(os.Interrupt)
	delete(a.sessions, sess.id)
}

// remove deletes a session. One that is begun and not stored yet is forgotten.
func (a *agent) remove(ctx context.Context, p sessionParams) (any, error) {
	sess, begun := a.session(p.SessionID)
	if begun == nil {
		a.forget(sess)
		sess.wait()
	}
	if _, err := a.known(ctx, p.SessionID); err != nil {
		if e, ok := errors.AsType[*jsonrpc2.Error](err); ok && e.Code == codeNotFound && begun == nil {
			return object{}, nil
		}
		return nil, err
	}
	_, err := forward(ctx, a, "mem", proto.MemRemoveSession, proto.RemoveSession{SessionID: p.SessionID})
	return object{}, err
}
