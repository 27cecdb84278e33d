package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/status"
)

// connectServices connects to the daemon that a chat would use, or starts services
// that discard their sessions.
func (d *doctor) connectServices(ctx context.Context) (*connect.Daemon, error) {
	if _, err := connect.BaseDir(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("they did not start within %v", startLimit))
	defer cancel()
	if running, err := d.Find(ctx, d.cfg, false); running != nil || err != nil {
		return running, err
	}
	started, err := d.Spawn(ctx, d.cfg, connect.StorageDiscarded)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return started, err
}

// unchecked is the result of checks that need the services if these do not answer.
// checkServices reports the reason.
var unchecked = finding{Status: checkSkipped, Text: "not checked: the services do not answer"}

// checkServices requests the state of every service.
func (d *doctor) checkServices(ctx context.Context) []finding {
	began := time.Now()
	running, err := d.services()
	if err != nil {
		return []finding{failed("zino up", "the services do not start: %s", render.Line(err.Error()))}
	}
	reports := d.inspectAll(ctx, running)
	var list []finding
	var healthy []status.Report
	for _, r := range reports {
		switch r.State {
		case "up", "idle", "starting", "stopping": // the next caller waits for a moment at most
			healthy = append(healthy, r)
		default:
			list = append(list, failed("zino status", "%s is %s: %s", r.Service, r.State, strings.Join(r.Problems, "; ")))
		}
	}
	for _, p := range status.Problems(healthy) {
		if !d.aboutTools(p.Text) && !d.aboutKey(ctx, running, p.Text) {
			list = append(list, warned("", "%s", p))
		}
	}
	if running.Started() != nil {
		return append(list, passed("%d services started and answered within %v", len(reports), time.Since(began).Round(10*time.Millisecond)))
	}
	units := status.UserListens(ctx)
	if version := reports[0].Version; version != "" && version != rpc.Build { // of the daemon
		restart := "zino up # after Ctrl-C in the terminal of the earlier one"
		if units {
			restart = "systemctl --user restart 'zino-*.service'"
		}
		list = append(list, warned(restart, "the services are version %s and zino is version %s", version, rpc.Build))
	}
	if units && !Lingers() {
		list = append(list, warned("loginctl enable-linger", "your services stop when you log out: turns pause until you log in again, and jobs end"))
	}
	if list == nil {
		list = append(list, passed("%d services answer, the daemon on %s", len(reports), running.Client.Path))
	}
	return list
}

// inspectAll requests the state of each service on its own socket, or through the
// daemon if only the daemon's socket is known.
func (d *doctor) inspectAll(ctx context.Context, running *connect.Daemon) []status.Report {
	cfg := *d.cfg
	var units status.Units
	started := running.Started()
	if started != nil {
		cfg = *started
	} else {
		units = status.Locate(ctx, &d.Target, &cfg)
	}
	reports := make([]status.Report, len(config.Services))
	var wg sync.WaitGroup
	for i, name := range config.Services {
		wg.Go(func() {
			if started != nil || cfg.Daemon.Socket == running.Client.Path {
				reports[i] = units.Inspect(ctx, name, &cfg)
				return
			}
			through := running.Again() // a connection serves one request at a time
			defer through.Close()
			reports[i] = status.Report{Service: name}.AskThrough(ctx, through)
		})
	}
	wg.Wait()
	return reports
}

// LingerDir has a file for each user whose services continue after logout. Tests
// replace it.
var LingerDir = "/var/lib/systemd/linger"

// Lingers reports whether the user's services continue after logout.
func Lingers() bool {
	caller, err := user.Current()
	if err != nil {
		return true // not known
	}
	_, err = os.Stat(filepath.Join(LingerDir, caller.Username))
	return err == nil
}

// aboutTools reports whether a problem is about a file of tools, skills or
// prompts, or a program that a tool needs.
func (d *doctor) aboutTools(problem string) bool {
	for _, path := range []string{d.cfg.Tools.Dir, d.cfg.Skills.Dir, d.cfg.Sys.Template, d.cfg.Sys.SessionTemplate} {
		if path != "" && strings.Contains(problem, path) {
			return true
		}
	}
	return strings.Contains(problem, ".json: command ")
}

// aboutKey reports whether checkKey reports the same problem.
func (d *doctor) aboutKey(ctx context.Context, running *connect.Daemon, problem string) bool {
	caps, err := d.capabilities(ctx, running)
	return err == nil && caps.Problem == problem
}

// capabilities asks the router for the provider and the model in use.
func (d *doctor) capabilities(ctx context.Context, running *connect.Daemon) (proto.RouterCapabilities, error) {
	return asked(ctx, running, "rtr", proto.RtrCapabilities, proto.ModelSelector{})
}

// asked forwards a request on a new connection, because checks run concurrently.
func asked[Req, Rep any](ctx context.Context, running *connect.Daemon, service string, m proto.Method[Req, Rep], req Req) (Rep, error) {
	through := running.Again()
	defer through.Close()
	return connect.Forward(ctx, through, service, m, req)
}

// checkTools checks the files of tools and skills and the templates of prompts.
func (d *doctor) checkTools(ctx context.Context) []finding {
	var list []finding
	for _, path := range []string{d.cfg.Tools.Dir, d.cfg.Skills.Dir, d.cfg.Sys.Template, d.cfg.Sys.SessionTemplate} {
		if _, err := os.Stat(path); err != nil {
			list = append(list, warned("zino config show", "%s does not exist, also not in the installation: install Zino again, or set its key", path))
		}
	}
	running, err := d.services()
	if err != nil {
		return append(list, unchecked)
	}
	for _, p := range status.Problems(d.inspectAll(ctx, running)) {
		problem := p.Text
		if !d.aboutTools(problem) {
			continue
		}
		if _, program, missing := strings.Cut(problem, ".json: command "); missing {
			program, _, _ = strings.Cut(program, " ")
			list = append(list, warned(installCommand(program), "%s", problem))
			continue
		}
		path, _, _ := strings.Cut(problem, ":")
		list = append(list, failed("${EDITOR:-vi} "+render.ShellWord(path), "%s", problem))
	}
	if list == nil {
		list = append(list, passed("tools in %s, skills in %s, prompts %s and %s", d.cfg.Tools.Dir, d.cfg.Skills.Dir, d.cfg.Sys.Template, d.cfg.Sys.SessionTemplate))
	}
	return list
}

// checkServers asks for the state of the configured MCP servers. It starts none.
func (d *doctor) checkServers(ctx context.Context) []finding {
	if len(d.cfg.MCP.Servers) == 0 {
		return nil
	}
	running, err := d.services()
	if err != nil {
		return []finding{unchecked}
	}
	root, err := d.RootDir()
	if err != nil {
		return []finding{unchecked}
	}
	list, err := asked(ctx, running, "mcp", proto.MCPServers, proto.ListServers{Root: root})
	if err != nil {
		return []finding{failed("zino status", "the MCP servers are not available: %s", render.Line(err.Error()))}
	}
	var findings []finding
	for _, s := range list.Servers {
		problem, _, _ := strings.Cut(s.Problem, "; run: ")
		switch s.State {
		case proto.MCPNeedsLogin:
			findings = append(findings, warned("zino mcp login "+s.Name, "the MCP server %s needs a login", s.Name))
		case proto.MCPFailed, proto.MCPUnavailable:
			findings = append(findings, warned("zino mcp test "+s.Name, "the MCP server %s cannot be used: %s", s.Name, render.Line(problem)))
		}
	}
	if findings == nil {
		secrets := ""
		if stats, err := asked(ctx, running, "mcp", proto.GetStats, proto.StatsRequest{}); err == nil && stats.Info["secrets"] != "" {
			secrets = "; their secrets are " + render.Line(stats.Info["secrets"])
		}
		findings = append(findings, passed("%s configured%s", text.Count(len(list.Servers), "MCP server"), secrets))
	}
	return findings
}

// installCommand is the command that installs a program.
func installCommand(program string) string {
	for _, manager := range []struct{ name, command string }{
		{"apt-get", "sudo apt-get install "},
		{"dnf", "sudo dnf install "},
		{"pacman", "sudo pacman -S "},
		{"zypper", "sudo zypper install "},
		{"apk", "sudo apk add "},
	} {
		if _, err := exec.LookPath(manager.name); err == nil {
			return manager.command + program
		}
	}
	return "command -v " + program
}

// checkAnalysers looks for the programs that analyse code before it runs.
func (d *doctor) checkAnalysers(ctx context.Context) []finding {
	running, err := d.services()
	if err != nil {
		return []finding{unchecked}
	}
	caps, err := asked(ctx, running, "exc", proto.ExcCapabilities, proto.CapabilitiesRequest{})
	if err != nil {
		return []finding{failed("zino status", "%v", err)}
	}
	have, missing := []string{}, map[string][]string{}
	for name, executor := range caps.Executors {
		if executor.StaticAnalysis == nil {
			continue
		}
		analyser, _, _ := strings.Cut(*executor.StaticAnalysis, " ") // options follow
		if executor.HasValidator {
			have = append(have, analyser+" for "+name)
		} else {
			missing[analyser] = append(missing[analyser], name)
		}
	}
	var list []finding
	for analyser, names := range missing {
		slices.Sort(names)
		list = append(list, warned(installCommand(analyser), "%s is not installed: %s code is run without warnings", analyser, strings.Join(names, " and ")))
	}
	switch {
	case list != nil:
	case len(have) == 0:
		list = append(list, passed("no tool has an analyser"))
	default:
		slices.Sort(have)
		list = append(list, passed("%s", strings.Join(have, ", ")))
	}
	return list
}

// checkSandbox lists the levels of confinement.
func (d *doctor) checkSandbox(ctx context.Context) []finding {
	running, err := d.services()
	if err != nil {
		return []finding{unchecked}
	}
	stats, err := asked(ctx, running, "exc", proto.GetStats, proto.StatsRequest{})
	if err != nil {
		return []finding{failed("zino status", "%v", err)}
	}
	var list []finding
	var levels strings.Builder
	levels.WriteString("levels " + stats.Info["sandboxes"] + "; " + stats.Info["sandbox"] + " is used unless another one is asked for")
	for _, l := range proto.Levels {
		level := string(l)
		why := stats.Info["no sandbox "+level]
		switch {
		case why == "":
		case level == stats.Info["sandbox"]:
			list = append(list, failed("zino config edit # [exc] sandbox", "the configured level %s is not available, so no code is run: %s", level, why))
		case level == "unit":
			levels.WriteString("; unit needs the installation for the whole host")
		default:
			list = append(list, warned("sysctl -a | grep -E 'unprivileged_userns|max_user_namespaces'", "the level %s is not available: %s", level, why))
		}
	}
	if weak := stats.Info["limits not enforced"]; weak != "" {
		levels.WriteString("; this host cannot limit: " + weak)
	}
	if why := stats.Info["no homes in units"]; why != "" {
		levels.WriteString("; MCP servers in units begin with an empty home: " + why)
	}
	return append([]finding{passed("%s", levels.String())}, list...)
}

// checkKey reports where keys come from, and whether one is missing.
func (d *doctor) checkKey(ctx context.Context) []finding {
	search := keys.NewSearch(d.cfg, os.Getenv)
	var list []finding
	var from []string
	for _, account := range keys.Accounts() {
		_, source, err := search.Lookup(ctx, account)
		switch {
		case err != nil:
			list = append(list, failed("zino auth set "+account.Name, "%v", err))
		case source.Kind == "store":
			from = append(from, account.Name+" from your store")
		case source.Kind != "":
			from = append(from, account.Name+" from "+source.String())
		}
	}
	running, err := d.services()
	if err != nil {
		return append(list, unchecked)
	}
	caps, err := d.capabilities(ctx, running)
	keysFrom := "no key"
	if from != nil {
		keysFrom = "keys: " + strings.Join(from, ", ")
	}
	switch shell := connect.KeyInShell(); {
	case err != nil:
		list = append(list, failed("zino status", "%v", err))
	case caps.Problem != "" && running.Started() == nil && shell.Name != "":
		list = append(list, failed("zino auth set "+shell.Name, "the running daemon was started without %s, which this shell has: %s", shell.Variable, caps.Problem))
	case strings.HasPrefix(caps.Problem, "no model is connected"):
		list = append(list, failed("zino auth set anthropic # or openai, gemini, openrouter; in the browser: zino login openrouter", "no model is connected: there is no key, and no [api] base_url"))
	case caps.Problem != "":
		name := caps.Provider
		if _, ok := keys.Find(name); !ok {
			name = "anthropic"
		}
		list = append(list, failed("zino auth set "+name, "%s", caps.Problem))
	case caps.Provider == "offline":
		list = append(list, warned("zino auth set anthropic", "no model is connected: the offline provider answers, which is not an AI"))
	default:
		list = append(list, passed("%s; %s is asked for %s", keysFrom, caps.Provider, cmp.Or(caps.Model, "its default model")))
	}
	return list
}

// providerAnswer is the answer of the model's provider.
type providerAnswer struct {
	caps proto.RouterCapabilities
	took time.Duration
	date time.Time // zero without a Date header
}

// errNoProvider is the error if no provider is configured.
var errNoProvider = errors.New("no model is connected")

// askProvider sends a request without a key to the model's provider: any answer
// shows that it can be reached.
func (d *doctor) askProvider(ctx context.Context) (*providerAnswer, error) {
	running, err := d.services()
	if err != nil {
		return nil, err
	}
	caps, err := d.capabilities(ctx, running)
	if err != nil {
		return nil, err
	}
	if caps.Endpoint == "" {
		return nil, errNoProvider
	}
	ctx, cancel := context.WithTimeoutCause(ctx, ReachLimit, fmt.Errorf("no answer within %v", ReachLimit))
	defer cancel()
	a := &providerAnswer{caps: caps}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, caps.Endpoint, nil)
	if err != nil {
		return a, err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return a, err
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, 1<<16) // to end the connection cleanly; the content is ignored
	a.took = time.Since(began)
	a.date, _ = http.ParseTime(resp.Header.Get("Date"))
	return a, nil
}

// checkProvider checks that the model's provider can be reached, accepts the key and
// has the model.
func (d *doctor) checkProvider(ctx context.Context) []finding {
	a, err := d.provider()
	switch {
	case errors.Is(err, errNoProvider):
		return []finding{{Status: checkSkipped, Text: "not checked: no model is connected"}}
	case a == nil:
		return []finding{unchecked}
	case err != nil:
		return []finding{failed("curl -sSI "+render.ShellWord(a.caps.Endpoint), "%s cannot be reached: %v", a.caps.Endpoint, err)}
	}
	reached := fmt.Sprintf("%s answers in %v", a.caps.Endpoint, a.took.Round(time.Millisecond))
	running, err := d.services()
	if err != nil {
		return []finding{unchecked}
	}
	ctx, cancel := context.WithTimeout(ctx, ReachLimit)
	defer cancel()
	list, err := asked(ctx, running, "rtr", proto.RtrModels, proto.ModelsRequest{Provider: a.caps.Provider})
	refused, ok := errors.AsType[*proto.Error](err)
	switch {
	case ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		return []finding{failed("zino auth set "+a.caps.Provider, "%s, and refuses the key: %v", reached, err)}
	case err != nil:
		return []finding{warned("zino models", "%s, but its models are not known: %v", reached, err)}
	case a.caps.Model != "" && !slices.ContainsFunc(list.Models, func(m proto.Model) bool { return m.Name == a.caps.Model }):
		return []finding{warned("zino models", "%s, but does not list the model %s", reached, a.caps.Model)}
	}
	return []finding{passed("%s and has %s", reached, text.Count(len(list.Models), "model"))}
}

// maxSkew is the largest accepted difference from the provider's clock.
const maxSkew = 5 * time.Minute

// checkClock compares the clock with the provider's, and with the day of the build.
func (d *doctor) checkClock(context.Context) []finding {
	const remedy = "sudo timedatectl set-ntp true"
	a, err := d.provider()
	clock := time.Now()
	if built, dateErr := time.Parse(time.DateOnly, rpc.Date); dateErr == nil && clock.Before(built.AddDate(0, 0, -1)) {
		return []finding{failed(remedy, "the clock says %s, and zino was built on %s", clock.Format(time.DateOnly), rpc.Date)}
	}
	if err != nil || a.date.IsZero() {
		return []finding{passed("%s", clock.Format(render.Minute+" MST"))}
	}
	off := clock.Sub(a.date).Round(time.Second)
	if off.Abs() > maxSkew {
		return []finding{failed(remedy, "the clock is %v off that of %s", off, a.caps.Endpoint)}
	}
	return []finding{passed("%s, as the provider's", clock.Format(render.Minute+" MST"))}
}
