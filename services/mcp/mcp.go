// Package mcp is the client of MCP servers. It alone holds their tokens and secrets;
// programs run in exc, which knows nothing of the protocol.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/seal"
	"zino/proto"
)

// HostFile is the configuration of the host, whose servers users have, too.
const HostFile = "/etc/zino/ZINO.toml"

// Service is the client of MCP servers. It is safe for concurrent use.
type Service struct {
	guard    *gate.Guard
	audit    *audit.Log // nil: nothing is recorded
	log      *slog.Logger
	getenv   func(string) (string, bool)
	personal bool // requests may bring servers: not on the host's constellation
	current  atomic.Pointer[settings]
	load     func() (*config.Config, error) // nil: reload changes nothing

	// answer answers the questions of servers; nil: all are cancelled.
	answer func(context.Context, *call, *mcp.ElicitParams) *mcp.ElicitResult
	// standalone keeps a stream open for the requests of servers with a URL, which else come
	// on the streams of calls.
	standalone bool

	exc     *rpc.Client
	daemon  *rpc.Client // asks people for input
	catalog *catalog
	secrets secrets
	salt    []byte // of placeholders for secrets
	oauth   oauth
	schemas schemas
	pool    pool
	wg      sync.WaitGroup // of instances
	stop    context.CancelFunc
}

// settings are what a reload changes.
type settings struct {
	config.MCP
	sets  []serverSet // in the order of precedence
	level proto.Level // [exc] sandbox
}

// serverSet are the servers of one configuration.
type serverSet struct {
	source  string
	servers map[string]config.MCPServer
}

// New returns the service. It starts no server.
func New(cfg *config.Config, log *slog.Logger) (*Service, error) {
	known, err := openCatalog(cfg.MCP.DataDir)
	if err != nil {
		return nil, fmt.Errorf("the directory of the MCP client, [mcp] data_dir: %w", err)
	}
	s := &Service{
		guard: gate.NewGuard(cfg), log: log, getenv: os.LookupEnv, personal: !cfg.Gate.RequireToken,
		exc: &rpc.Client{Service: "exc", Path: cfg.Exc.Socket}, daemon: &rpc.Client{Service: "daemon", Path: cfg.Daemon.Socket}, catalog: known,
		salt:  []byte(random()),
		oauth: oauth{pending: map[string]*pendingLogin{}, challenges: map[string]*challenge{}},
		pool:  pool{instances: map[string]*instance{}, history: map[string]*history{}},
	}
	s.secrets.box = &seal.Box{Socket: seal.Socket, Name: "zino-mcp"}
	if s.secrets.dir, err = secretsDir(s.personal, cfg.MCP.DataDir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.wg.Go(func() {
		if err := s.secrets.protect(ctx); err != nil && ctx.Err() == nil {
			log.Error("cannot read the secrets of MCP servers", "error", err)
		}
	})
	s.load = func() (*config.Config, error) { return config.Load(cfg.File, "mcp") }
	s.Apply(cfg)
	return s, nil
}

// UseAudit has the calls of models recorded in l. It must be called before the first request.
func (s *Service) UseAudit(l *audit.Log) { s.audit = l }

// Apply puts a configuration into force. Instances whose definition went away end after
// their calls.
func (s *Service) Apply(cfg *config.Config) {
	next := &settings{MCP: cfg.MCP, level: cfg.Exc.Sandbox}
	if cfg.Source == HostFile {
		next.sets = []serverSet{{proto.MCPHost, cfg.MCP.Servers}}
	} else {
		next.sets = []serverSet{{proto.MCPUser, cfg.MCP.Servers}}
		if host, err := config.Load(HostFile, "cli"); err == nil {
			next.sets = append(next.sets, serverSet{proto.MCPHost, host.MCP.Servers})
		}
	}
	s.current.Store(next)
	s.retire()
}

// retire ends the instances of configured servers whose definition went away.
func (s *Service) retire() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, in := range s.pool.instances {
		if in.d.source != proto.MCPUser && in.d.source != proto.MCPHost {
			continue
		}
		list, _ := s.definitions(scope{root: in.d.root})
		if slices.ContainsFunc(list, func(d *definition) bool { return d.key() == in.d.key() && d.enabled() }) {
			continue
		}
		go in.endUnused()
	}
}

// endUnused ends the instance as soon as no call uses it. No new call does.
func (in *instance) endUnused() {
	in.mu.Lock()
	in.ending = true
	in.mu.Unlock()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		in.mu.Lock()
		unused := in.users == 0
		in.mu.Unlock()
		if unused {
			tick.Stop()
			in.end()
			return
		}
		select {
		case <-tick.C:
		case <-in.gone:
			tick.Stop()
			return
		}
	}
}

func (s *Service) config() *settings { return s.current.Load() }

// level returns the level of confinement of a server.
func (d *definition) level(cfg *settings) proto.Level { return cmp.Or(d.Sandbox, cfg.level) }

// Register has s answer the methods of mcp.
func (s *Service) Register(srv *rpc.Server) {
	rpc.Handle(srv, proto.MCPServers, s.Servers)
	rpc.Handle(srv, proto.MCPSearch, s.Search)
	rpc.HandleEvents(srv, proto.MCPCall, s.Call)
	rpc.Handle(srv, proto.MCPRead, s.Read)
	rpc.Handle(srv, proto.MCPPrompts, s.Prompts)
	rpc.Handle(srv, proto.MCPPrompt, s.Prompt)
	rpc.Handle(srv, proto.MCPTest, s.Test)
	rpc.Handle(srv, proto.MCPLoginBegin, s.LoginBegin)
	rpc.Handle(srv, proto.MCPLoginEnd, s.LoginEnd)
	rpc.Handle(srv, proto.MCPLogout, s.Logout)
	rpc.Handle(srv, proto.MCPSecretSet, s.SecretSet)
	rpc.Handle(srv, proto.MCPForget, s.Forget)
	rpc.Handle(srv, proto.MCPReload, s.Reload)
	srv.OnStats(s.stats)
	srv.KeepWhile(s.running)
}

// running reports whether servers run: the service then does not exit for being idle.
func (s *Service) running() bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return len(s.pool.instances) > 0
}

func (s *Service) stats(stats *proto.Stats) {
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	list, _ := s.definitions(scope{root: "/"})
	configured := map[string]bool{}
	for _, d := range list {
		configured[d.key()] = true
		if server := s.describe(d); slices.Contains([]string{proto.MCPFailed, proto.MCPNeedsLogin, proto.MCPUnavailable}, server.State) {
			stats.Problems = append(stats.Problems, fmt.Sprintf("MCP server %s: %s: %s", d.name, server.State, server.Problem))
		}
	}
	s.secrets.mu.Lock()
	if s.secrets.form != "" {
		stats.Info["secrets"] = s.secrets.form
	}
	if s.secrets.problem != nil {
		stats.Problems = append(stats.Problems, s.secrets.problem.Error())
	}
	s.secrets.mu.Unlock()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	stats.Info["instances"] = fmt.Sprint(len(s.pool.instances))
	for key, h := range s.pool.history { // of projects and clients
		if h.failed && !configured[key] {
			stats.Problems = append(stats.Problems, "MCP server "+h.last.Error())
		}
	}
}

// Close ends the servers.
func (s *Service) Close() error {
	s.pool.mu.Lock()
	s.pool.closed = true
	all := slices.Collect(maps.Values(s.pool.instances))
	s.pool.mu.Unlock()
	s.stop()
	var wg sync.WaitGroup
	for _, in := range all {
		wg.Go(in.end)
	}
	wg.Wait()
	s.oauth.mu.Lock()
	for _, p := range s.oauth.pending {
		p.cancel()
	}
	s.oauth.mu.Unlock()
	s.wg.Wait()
	s.exc.Close()
	s.daemon.Close()
	return s.catalog.close()
}

// Reload reads the configuration again.
func (s *Service) Reload(context.Context, proto.ReloadServers) (proto.Empty, error) {
	cfg, err := s.load()
	if err != nil {
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "%v", err)
	}
	s.Apply(cfg)
	return proto.Empty{}, nil
}

// Forget removes what is kept of a server. What another server of the same definition uses
// stays.
func (s *Service) Forget(ctx context.Context, req proto.ForgetServer) (proto.Empty, error) {
	in := scope{root: req.Root, project: req.Project}
	d, err := s.find(in, req.Server)
	if err != nil {
		return proto.Empty{}, err
	}
	err = s.secrets.update(ctx, func(v *vault) error {
		delete(v.Logins, d.loginKey())
		for _, name := range d.Secrets {
			if strings.HasPrefix(name, d.name+".") { // zino mcp add has made it
				delete(v.Secrets, name)
			}
		}
		return nil
	})
	if err != nil {
		return proto.Empty{}, fmt.Errorf("cannot remove the secrets: %w", err)
	}
	list, _ := s.definitions(in)
	if slices.ContainsFunc(list, func(other *definition) bool { return other.hash == d.hash && other.name != d.name }) {
		return proto.Empty{}, nil
	}
	s.pool.mu.Lock()
	running := slices.DeleteFunc(slices.Collect(maps.Values(s.pool.instances)), func(in *instance) bool { return in.d.hash != d.hash })
	delete(s.pool.history, d.key())
	s.pool.mu.Unlock()
	for _, in := range running {
		in.end()
	}
	s.catalog.remove(d.hash)
	if d.URL != "" {
		return proto.Empty{}, nil
	}
	_, err = rpc.Call(ctx, s.exc, proto.ExcRemoveHome, proto.RemoveHome{Home: d.hash})
	return proto.Empty{}, errors.Join(err, os.RemoveAll(s.workDir(d)))
}

// Servers lists the servers of a turn.
func (s *Service) Servers(_ context.Context, req proto.ListServers) (proto.ServerList, error) {
	list, notices := s.definitions(scope{req.Root, req.Project, req.Client})
	reply := proto.ServerList{Servers: []proto.MCPServer{}, Notices: notices}
	for _, d := range list {
		reply.Servers = append(reply.Servers, s.describe(d))
	}
	if req.Definitions {
		reply.Tools = s.direct(list)
	}
	return reply, nil
}

// direct returns the definitions of all tools, if all are known and they are small enough to
// be offered directly.
func (s *Service) direct(list []*definition) (tools []proto.MCPTool) {
	size := 0
	for _, d := range list {
		switch {
		case !d.enabled() || d.problem != "":
		case !s.catalog.get(d.hash).Listed:
			return nil
		}
	}
	for _, f := range s.tools(slices.DeleteFunc(list, func(d *definition) bool { return !d.enabled() || d.problem != "" })) {
		t := s.tool(f)
		const around = len(`{"name":"mcp____","description":"","input_schema":},`)
		size += len(t.Server) + len(t.Name) + len(t.Description) + len(t.Input) + around
		tools = append(tools, t)
	}
	if size > s.config().DirectTokens*bytesToken {
		return nil
	}
	return tools
}

// describe returns the state of a server.
func (s *Service) describe(d *definition) proto.MCPServer {
	known := s.catalog.get(d.hash)
	server := proto.MCPServer{Name: d.name, Source: d.source, Transport: d.transport(), State: proto.MCPNew, Protocol: known.Protocol, Problem: d.problem}
	for _, t := range known.Tools {
		if d.allows(t.Name) {
			server.Tools++
		}
	}
	if known.Listed {
		server.State = proto.MCPIdle
	}
	if server.Problem == "" {
		server.Problem = strings.Join(known.Problems, "; ")
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	in, h := s.pool.instances[d.key()], s.pool.history[d.key()]
	for _, other := range s.pool.instances {
		if other.d.hash == d.hash {
			server.Instances++
		}
	}
	if h != nil {
		server.Calls = h.calls.Load()
	}
	switch {
	case !d.enabled():
		server.State = proto.MCPDisabled
	case d.problem != "":
		server.State = proto.MCPUnavailable
	case in != nil:
		server.State = proto.MCPStarting
		select {
		case <-in.ready:
			server.State = proto.MCPRunning
		default:
		}
	case h != nil && h.login:
		server.State, server.Problem = proto.MCPNeedsLogin, "run: zino mcp login "+d.name
	case h != nil && h.failed:
		server.State, server.Problem = proto.MCPFailed, strings.TrimPrefix(h.last.Error(), d.name+": ")+"; run: zino mcp test "+d.name
	case h != nil && h.last != nil && time.Now().Before(h.next.Add(failureWindow)):
		server.Problem = strings.TrimPrefix(h.last.Error(), d.name+": ")
	}
	return server
}

// countCall counts a call.
func (s *Service) countCall(d *definition) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.historyOf(d.key()).calls.Add(1)
}

// Read reads a resource.
func (s *Service) Read(ctx context.Context, req proto.ReadResource) (proto.ToolResult, error) {
	var none proto.ToolResult
	d, err := s.usable(scope{req.Root, req.Project, req.Client}, req.Server)
	if err == nil {
		err = s.permit(ctx, d, proto.CallTool{
			Server: req.Server, Tool: "resources/read", Arguments: readInput(req.URI), Root: req.Root,
			SessionID: req.SessionID, Turn: turnOf(req.Key), Key: req.Key, Token: req.Token, Grant: req.Grant,
		})
	}
	var reply *mcp.ReadResourceResult
	var in *instance
	if err == nil {
		in, err = s.ask(ctx, d, req.SessionID, req.Token, "", func(ctx context.Context, session *mcp.ClientSession, token string) error {
			params := &mcp.ReadResourceParams{URI: req.URI}
			params.SetProgressToken(token)
			reply, err = session.ReadResource(ctx, params)
			return err
		})
	}
	if errors.Is(err, proto.ErrDenied) {
		err = &toolError{proto.ToolDenied, err.Error(), nil}
	}
	if err == nil {
		var list []mcp.Content
		for _, c := range reply.Contents {
			list = append(list, &mcp.EmbeddedResource{Resource: c})
		}
		data, attachments := contents(list)
		none, err = pack(data, attachments)
		none.Result, _ = in.hide.JSON(none.Result)
	}
	if e, ok := errors.AsType[*toolError](err); ok {
		return proto.ToolResult{Result: e.envelope()}, nil
	}
	return none, err
}

func readInput(uri string) proto.Raw {
	b, _ := marshal(map[string]string{"uri": uri})
	return b
}

// turnOf returns the turn of a key SESSION/TURN/STEP/CALL.
func turnOf(key string) string {
	if parts := strings.Split(key, "/"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// ask asks a server for something other than a call of a tool. It returns the instance that
// has answered.
func (s *Service) ask(ctx context.Context, d *definition, session, turnToken, serverToken string, ask func(ctx context.Context, session *mcp.ClientSession, token string) error) (*instance, error) {
	c := &call{session: session, token: turnToken, limit: d.timeout()}
	ctx, cancel := c.limited(ctx, d.max())
	defer cancel()
	in, err := s.acquire(ctx, d, serverToken)
	if err == nil {
		defer in.release()
		err = in.do(ctx, c, func(ctx context.Context, token string) error {
			s.countCall(d)
			return ask(ctx, in.session, token)
		})
	}
	return in, s.explain(ctx, d, err)
}

// Prompts lists the prompts of the servers that are known.
func (s *Service) Prompts(_ context.Context, req proto.ListPrompts) (proto.PromptList, error) {
	reply := proto.PromptList{Prompts: []proto.MCPPromptInfo{}}
	list, _ := s.definitions(scope{req.Root, req.Project, req.Client})
	for _, d := range list {
		if !d.enabled() || d.problem != "" {
			continue
		}
		for _, p := range s.catalog.get(d.hash).Prompts {
			info := proto.MCPPromptInfo{Server: d.name, Name: p.Name, Description: p.Description, Arguments: p.Arguments}
			if info.Arguments == nil {
				info.Arguments = []proto.PromptArgument{}
			}
			reply.Prompts = append(reply.Prompts, info)
		}
	}
	return reply, nil
}

// Prompt returns the text of a prompt.
func (s *Service) Prompt(ctx context.Context, req proto.GetMCPPrompt) (proto.PromptText, error) {
	d, err := s.usable(scope{req.Root, req.Project, req.Client}, req.Server)
	var reply *mcp.GetPromptResult
	var in *instance
	if err == nil {
		in, err = s.ask(ctx, d, "", "", req.ServerToken, func(ctx context.Context, session *mcp.ClientSession, token string) error {
			params := &mcp.GetPromptParams{Name: req.Name, Arguments: req.Arguments}
			params.SetProgressToken(token)
			reply, err = session.GetPrompt(ctx, params)
			return err
		})
	}
	if e, ok := errors.AsType[*toolError](err); ok {
		return proto.PromptText{}, proto.Errorf(codeOf(e.Code), "%s", e.Message)
	}
	if err != nil {
		return proto.PromptText{}, err
	}
	var parts []string
	var out proto.PromptText
	for _, m := range reply.Messages {
		if m == nil || m.Content == nil {
			continue
		}
		data, attachments := contents([]mcp.Content{m.Content})
		out.Attachments = append(out.Attachments, attachments...)
		if data.Text != "" && m.Role == "assistant" {
			data.Text = "Assistant: " + data.Text
		}
		if data.Text != "" {
			parts = append(parts, data.Text)
		}
	}
	out.Text = in.hidden(strings.Join(parts, "\n\n"))
	return out, nil
}

// codeOf returns the code of an error for that of a result.
func codeOf(code string) proto.Code {
	switch code {
	case proto.ToolUnknown:
		return proto.CodeNotFound
	case proto.ToolTimeout:
		return proto.CodeTimeout
	case proto.ToolTooLarge:
		return proto.CodeTooLarge
	case proto.ToolFailed:
		return proto.CodeInvalid
	}
	return proto.CodeUnavailable
}

// Test starts a server anew and reports what came of it.
func (s *Service) Test(ctx context.Context, req proto.TestServer) (proto.ServerReport, error) {
	in := scope{root: req.Root, project: req.Project}
	reply := proto.ServerReport{Tools: []proto.MCPTool{}}
	d, err := s.find(in, req.Server)
	if err != nil {
		return reply, err
	}
	if d.problem != "" || !d.enabled() {
		reply.Server = s.describe(d)
		return reply, nil
	}
	s.pool.mu.Lock()
	old := s.pool.instances[d.key()]
	calls := s.pool.historyOf(d.key()).calls.Load()
	next := &history{}
	next.calls.Store(calls)
	s.pool.history[d.key()] = next
	s.pool.mu.Unlock()
	if old != nil {
		old.endUnused()
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, d.max(), errTimeout)
	defer cancel()
	started, startErr := s.acquire(ctx, d, req.ServerToken)
	reply.DurationMS = time.Since(began).Milliseconds()
	if startErr == nil {
		defer started.release()
	}
	if startErr == nil && req.Tool != "" {
		began = time.Now()
		result, err := s.call(ctx, proto.CallTool{Server: req.Server, Tool: req.Tool, Arguments: req.Arguments, Root: req.Root, Project: req.Project}, "", nil)
		reply.CallMS = time.Since(began).Milliseconds()
		if e, ok := errors.AsType[*toolError](err); ok {
			result.Result, err = e.envelope(), nil
		}
		if err != nil {
			return reply, err
		}
		reply.Result = result.Result
	}
	known := s.catalog.get(d.hash)
	for i := range known.Tools {
		reply.Tools = append(reply.Tools, s.tool(found{d: d, tool: &known.Tools[i]}))
	}
	reply.Server, reply.Problems = s.describe(d), known.Problems
	if startErr != nil {
		if errors.Is(startErr, proto.ErrApproval) || ctx.Err() != nil && context.Cause(ctx) != errTimeout {
			return reply, startErr
		}
		reply.Server.Problem = strings.TrimPrefix(s.explain(ctx, d, startErr).Error(), d.name+": ")
		if failed, ok := errors.AsType[*startError](startErr); ok {
			reply.Stderr = failed.stderr
		}
		return reply, nil
	}
	if p := started.program; p != nil {
		reply.Confinement, reply.Stderr, reply.Dropped = p.confinement, p.Stderr(), p.dropped()
	}
	return reply, nil
}

// startError is the error of a start, with what the program wrote to standard error.
type startError struct {
	error
	stderr string
}

func (e *startError) Unwrap() error { return e.error }
