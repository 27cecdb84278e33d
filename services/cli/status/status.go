// Package status implements zino status: the states and problems of the services.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/audit"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// New returns zino status.
func New(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "show which services run, and what is wrong", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `Show every service: states, versions, uptimes, sockets and problems, and who may
call whom. Nothing is started: a service that systemd keeps and that does not run is
idle, which means that the first connection starts it. On the host's installation
the daemon asks the others. The exit status is 1 unless all are up or idle.

Where none runs, zino starts its own for each run: status shows what these would
use, and the exit status is 0.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return show(cmd.Context(), env) },
	}
}

func show(ctx context.Context, env *command.Env) error {
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	p, err := connect.Policy(cfg)
	if err != nil {
		return err
	}
	policy := p.Problems()
	units := Locate(ctx, &env.Target, cfg)
	services := config.Services
	if len(cfg.MCP.Servers) > 0 {
		services = append(slices.Clone(services), "mcp")
	}
	for _, socket := range env.ReplSockets(cfg) {
		if _, err := os.Lstat(socket); err == nil {
			cfg.Repl.Socket = socket
			services = append(slices.Clone(services), "repl")
			break
		}
	}
	reports := make([]Report, len(services))
	var wg sync.WaitGroup
	for i, name := range services {
		wg.Go(func() { reports[i] = units.Inspect(ctx, name, cfg) })
	}
	wg.Wait()
	starts := env.Socket == "" && !env.Host // a run would start private services
	if starts && !slices.ContainsFunc(reports, func(r Report) bool { return r.Service != "repl" && r.State != "down" }) {
		return printOwn(ctx, env, cfg, reports, policy)
	}
	well := 0
	for _, r := range reports {
		if r.State == "up" || r.State == "idle" {
			well++
		}
	}
	if env.JSON() {
		err = render.JSON(env.Out, object{Services: reports, Policy: policy, Audit: auditOf(env, cfg)})
	} else {
		printTable(env.Out, reports)
		printCallers(env.Out, reports)
		fmt.Fprintln(env.Out, "\nAudit: "+text.Visible(auditOf(env, cfg)))
		printPolicy(env.Out, policy)
		printApprovals(env.Out, env, cfg)
	}
	switch {
	case err != nil:
		return err
	case well == len(reports):
		return nil
	case well == 0:
		env.Say("Nothing is running. Start a constellation with: zino up")
	default:
		env.Say("%d of %d services are up.", well, len(reports))
	}
	return render.ErrReported
}

// auditOf returns which audit records what the services do.
func auditOf(env *command.Env, cfg *config.Config) string {
	return audit.Kind(cfg, env.Host || cfg.Daemon.Socket == config.Default().Daemon.Socket)
}

// printOwn prints what a run would use if no services are running.
func printOwn(ctx context.Context, env *command.Env, cfg *config.Config, reports []Report, policy []string) error {
	own := describeOwn(ctx, cfg)
	if env.JSON() {
		return render.JSON(env.Out, object{Services: reports, Own: own, Policy: policy})
	}
	if running := slices.DeleteFunc(reports, func(r Report) bool { return r.State == "down" }); len(running) > 0 {
		printTable(env.Out, running)
		fmt.Fprintln(env.Out)
	}
	_, err := io.WriteString(env.Out, "No services are running: zino starts its own for each run. To keep some running: zino up\n\n"+render.Columns(own.rows(), 0))
	printPolicy(env.Out, policy)
	printApprovals(env.Out, env, cfg)
	return err
}

// printApprovals says where nothing keeps a model's command from approving its own calls:
// at level off under one uid.
func printApprovals(out io.Writer, env *command.Env, cfg *config.Config) {
	if cfg.Exc.Sandbox == proto.LevelOff && !env.Host && cfg.Daemon.Socket != connect.HostSocket {
		fmt.Fprintln(out, "\nAt sandbox level off a model's command runs as you: nothing keeps it from approving its own calls. Confined levels do.")
	}
}

// printPolicy prints the mistakes in the rules of zino policy.
func printPolicy(out io.Writer, problems []string) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprintln(out, "\nThe rules of zino policy have mistakes: tools can only read until they are corrected.")
	for _, p := range problems {
		fmt.Fprintln(out, text.Visible(p))
	}
}

// object is the output of zino status --json. Own is set if no services are running.
type object struct {
	Services []Report `json:"services"`
	Own      *own     `json:"own,omitzero"`
	Policy   []string `json:"policy,omitempty"` // mistakes in the rules of zino policy
	Audit    string   `json:"audit,omitzero"`   // what records the work of the services that run
}

// Report is the state of one service.
type Report struct {
	Service  string   `json:"service"`
	State    string   `json:"state"`
	Version  string   `json:"version,omitzero"`
	UptimeS  int64    `json:"uptime_s,omitzero"`
	Socket   string   `json:"socket"`
	Callers  string   `json:"callers,omitzero"`
	Problems []string `json:"problems,omitempty"`

	Template        string `json:"template,omitzero"`         // of sys: for plain messages
	SessionTemplate string `json:"session_template,omitzero"` // of sys
}

// Locate sets the sockets of cfg to those of the user's own services if these run,
// else of the host's. It returns what systemd reports about both.
func Locate(ctx context.Context, t *connect.Target, cfg *config.Config) Units {
	dir, err := connect.RuntimeDir()
	if err != nil {
		t.Say("Warning: %v", err)
		return Units{}
	}
	u := askSystemd(ctx, dir)
	own := u.user.listening("daemon") || connect.Answers(dir+"/daemon.sock")
	if own || !t.Named() && !u.host.listening("daemon") && !connect.Answers(connect.HostSocket) {
		connect.DefaultSockets(cfg, dir)
	}
	return u
}

// timeout is how long a service may take to answer. One that systemd or zino up starts
// for the question needs more than a moment on a busy host.
const timeout = 3 * time.Second

// Ask requests the state of a service with ping and stats, which reach the service on
// its own socket or through the daemon.
func (r Report) Ask(ctx context.Context, ping func(context.Context) (proto.Pong, error), stats func(context.Context) (proto.Stats, error)) Report {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pong, err := ping(ctx)
	if err != nil {
		return r.fail(ctx, err)
	}
	r.State, r.Version, r.UptimeS = "up", pong.Version, pong.UptimeS
	st, err := stats(ctx)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
	r.Problems = append(r.Problems, st.Problems...)
	r.Callers, r.Template, r.SessionTemplate = st.Info["callers"], st.Info["template"], st.Info["session_template"]
	return r
}

// AskSocket requests the state of a service on its own socket.
func (r Report) AskSocket(ctx context.Context) Report {
	c := &rpc.Client{Service: r.Service, Path: r.Socket}
	defer c.Close()
	return r.Ask(ctx, func(ctx context.Context) (proto.Pong, error) {
		return rpc.Call(ctx, c, proto.Ping, proto.PingRequest{})
	}, func(ctx context.Context) (proto.Stats, error) {
		return rpc.Call(ctx, c, proto.GetStats, proto.StatsRequest{})
	})
}

// AskThrough requests the state of a service through a daemon.
func (r Report) AskThrough(ctx context.Context, d *connect.Daemon) Report {
	return r.Ask(ctx, func(ctx context.Context) (proto.Pong, error) {
		return connect.Forward(ctx, d, r.Service, proto.Ping, proto.PingRequest{})
	}, func(ctx context.Context) (proto.Stats, error) {
		return connect.Forward(ctx, d, r.Service, proto.GetStats, proto.StatsRequest{})
	})
}

// fail sets the state of a service that did not answer.
func (r Report) fail(ctx context.Context, err error) Report {
	refused, ok := errors.AsType[*proto.Error](err)
	switch {
	case ok && refused.Code == proto.CodeUnavailable && refused.Service == r.Service: // from its supervisor
		r.State, r.Problems = "failed", append(r.Problems, err.Error())
	case errors.Is(err, proto.ErrDenied), errors.Is(err, fs.ErrPermission):
		r.State, r.Problems = "denied", append(r.Problems, connect.Explain(err).Error())
	case errors.Is(err, rpc.ErrConnect):
		r.State = "down"
	case ctx.Err() != nil:
		r.State, r.Problems = "silent", append(r.Problems, "no answer within "+timeout.String())
	default:
		r.State, r.Problems = "silent", append(r.Problems, err.Error())
	}
	return r
}

// printTable prints the reports and the problems below them.
func printTable(out io.Writer, reports []Report) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tSTATE\tVERSION\tUPTIME\tSOCKET\tPROBLEMS")
	for _, r := range reports {
		version, uptime := "-", "-"
		if r.Version != "" {
			version, uptime = text.Visible(r.Version), (time.Duration(r.UptimeS) * time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", r.Service, r.State, version, uptime, r.Socket, len(r.Problems))
	}
	w.Flush()
	for _, p := range Problems(reports) {
		fmt.Fprintln(out, text.Visible(p.String()))
	}
	for _, r := range reports {
		if r.Template != "" {
			fmt.Fprintln(out, text.Visible("\nTemplate: "+r.Template+"\nSession template: "+r.SessionTemplate))
		}
	}
}

// Problem is a problem with the services that reported it.
type Problem struct {
	Services []string
	Text     string
}

func (p Problem) String() string { return strings.Join(p.Services, ", ") + ": " + p.Text }

// Problems lists each problem once.
func Problems(reports []Report) (list []Problem) {
	for _, r := range reports {
		for _, problem := range r.Problems {
			i := slices.IndexFunc(list, func(p Problem) bool { return p.Text == problem })
			if i < 0 {
				list = append(list, Problem{Text: problem})
				i = len(list) - 1
			}
			list[i].Services = append(list[i].Services, r.Service)
		}
	}
	return list
}

// printCallers prints the allowed callers of each service, on one line if they are the
// same for all.
func printCallers(out io.Writer, reports []Report) {
	known := slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Callers == "" })
	if len(known) == 0 {
		return
	}
	if !slices.ContainsFunc(known, func(r Report) bool { return r.Callers != known[0].Callers }) {
		fmt.Fprintf(out, "\nAll may be called by: %s\n", text.Visible(known[0].Callers))
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSERVICE\tMAY BE CALLED BY")
	for _, r := range known {
		fmt.Fprintf(w, "%s\t%s\n", r.Service, text.Visible(r.Callers))
	}
	w.Flush()
}
