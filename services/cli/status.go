package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/visible"
	"zino/proto"
)

// patience is how long a service may take to answer before it counts as
// silent: a user waits for at most twice this.
const patience = 800 * time.Millisecond

const statusLong = `Show every service: states, versions, uptimes, sockets and problems, and who may
call whom. Nothing is started: a service that systemd keeps and that does not run is
idle, which means that the first connection starts it. On the host's installation
the daemon asks the others. The exit status is 1 unless all are up or idle.

Where none runs, zino starts its own for each run: status shows what these would
use, and the exit status is 0.`

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "show which services run, and what is wrong", Long: statusLong, Args: noArgs, Annotations: printsJSON,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.showStatus(cmd.Context()) },
	}
	return cmd
}

// report is what is known of one service.
type report struct {
	service, socket, state string
	pong                   proto.Pong
	callers                string
	templates              [2]string // of sys: of plain messages, and of sessions
	problems               []string
}

func (a *app) showStatus(ctx context.Context) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	kept := a.locate(ctx, cfg)
	services := a.shownServices(cfg)
	reports := make([]report, len(services))
	var wg sync.WaitGroup
	for i, name := range services {
		wg.Go(func() { reports[i] = kept.by(cfg.Socket(name)).inspect(ctx, name, cfg) })
	}
	wg.Wait()
	brings := a.socket == "" && !a.host // else a run has no services of its own
	if brings && !slices.ContainsFunc(reports, func(r report) bool { return r.service != "repl" && r.state != "down" }) {
		return a.printOwn(ctx, cfg, reports)
	}
	well, err := a.printStatus(reports)
	switch {
	case err != nil:
		return err
	case well == len(reports):
		return nil
	case well == 0:
		a.say("Nothing is running. Start a constellation with: zino up")
	default:
		a.say("%d of %d services are up.", well, len(reports))
	}
	return errQuiet
}

// printOwn prints what a run would use where no services are running.
func (a *app) printOwn(ctx context.Context, cfg *config.Config, reports []report) error {
	own := describeOwn(ctx, cfg)
	if a.asJSON() {
		return printJSON(a.out, statusObject(reports, own))
	}
	if running := slices.DeleteFunc(reports, func(r report) bool { return r.state == "down" }); len(running) > 0 {
		a.printTable(running)
		fmt.Fprintln(a.out)
	}
	_, err := io.WriteString(a.out, "No services are running: zino starts its own for each run. To keep some running: zino up\n\n"+columns(own.rows(), 0))
	return err
}

// shownServices are those of every constellation, and the file REPL where there
// is one.
func (a *app) shownServices(cfg *config.Config) []string {
	for _, socket := range a.replSockets(cfg) {
		if _, err := os.Lstat(socket); err == nil {
			cfg.Repl.Socket = socket
			return append(slices.Clone(config.Services), "repl")
		}
	}
	return config.Services
}

// locate turns the sockets of cfg to the constellation that is there: the
// user's own if there is one, else the host's. It returns what systemd knows of
// both.
func (a *app) locate(ctx context.Context, cfg *config.Config) keepers {
	dir, err := runtimeDir()
	if err != nil {
		a.say("Warning: %v", err)
		return keepers{}
	}
	k := askSystemd(ctx, dir)
	own := k.user.listening("daemon") || answers(dir+"/daemon.sock")
	if !own && (a.named() || k.host.listening("daemon") || answers(hostSocket)) {
		return k // the named configuration's sockets, or the defaults: the host's
	}
	settleSockets(cfg, dir)
	return k
}

// inspect asks one service on its own socket.
func inspect(ctx context.Context, name, socket string) report {
	c := &rpc.Client{Service: name, Path: socket}
	defer c.Close()
	return question(ctx, report{service: name, socket: socket}, func(ctx context.Context) (proto.Pong, error) {
		return rpc.Call(ctx, c, proto.Ping, proto.PingRequest{})
	}, func(ctx context.Context) (proto.Stats, error) {
		return rpc.Call(ctx, c, proto.GetStats, proto.StatsRequest{})
	})
}

// question completes a report with the answers to two questions.
func question(ctx context.Context, r report, ping func(context.Context) (proto.Pong, error), ask func(context.Context) (proto.Stats, error)) report {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.state = "up"
	var err error
	if r.pong, err = ping(ctx); err != nil {
		return r.without(ctx, err)
	}
	stats, err := ask(ctx)
	if err != nil {
		r.problems = append(r.problems, err.Error())
	}
	r.problems = append(r.problems, stats.Problems...)
	r.callers = stats.Info["callers"]
	r.templates = [2]string{stats.Info["template"], stats.Info["session_template"]}
	return r
}

// without is a report of a service that gave no answer.
func (r report) without(ctx context.Context, err error) report {
	refused, ok := errors.AsType[*proto.Error](err)
	switch {
	case ok && refused.Code == proto.CodeUnavailable && refused.Service == r.service: // from its supervisor
		r.state, r.problems = "failed", append(r.problems, err.Error())
	case errors.Is(err, proto.ErrDenied), errors.Is(err, fs.ErrPermission):
		r.state, r.problems = "denied", append(r.problems, unreachable(err).Error())
	case errors.Is(err, rpc.ErrConnect):
		r.state = "down"
	case ctx.Err() != nil:
		r.state, r.problems = "silent", append(r.problems, "no answer within "+patience.String())
	default:
		r.state, r.problems = "silent", append(r.problems, err.Error())
	}
	return r
}

// printStatus prints the reports and counts the services that are up, or idle.
func (a *app) printStatus(reports []report) (well int, err error) {
	for _, r := range reports {
		if r.state == "up" || r.state == "idle" {
			well++
		}
	}
	if a.asJSON() {
		return well, printJSON(a.out, statusObject(reports, nil))
	}
	a.printTable(reports)
	a.printCallers(reports)
	return well, nil
}

// printTable prints the table and the problems below it.
func (a *app) printTable(reports []report) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tSTATE\tVERSION\tUPTIME\tSOCKET\tPROBLEMS")
	for _, r := range reports {
		version, uptime := "-", "-"
		if r.pong.Version != "" {
			version, uptime = visible.Text(r.pong.Version), (time.Duration(r.pong.UptimeS) * time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", r.service, r.state, version, uptime, r.socket, len(r.problems))
	}
	w.Flush()
	for _, line := range distinct(reports) {
		fmt.Fprintln(a.out, visible.Text(line))
	}
	for _, r := range reports {
		if r.templates[0] != "" {
			fmt.Fprintln(a.out, visible.Text("\nTemplate: "+r.templates[0]+"\nSession template: "+r.templates[1]))
		}
	}
}

// distinct lists the problems, each once with the services that told of it.
func distinct(reports []report) []string {
	var order []string
	tellers := map[string]string{}
	for _, r := range reports {
		for _, p := range r.problems {
			if tellers[p] == "" {
				order, tellers[p] = append(order, p), r.service
			} else {
				tellers[p] += ", " + r.service
			}
		}
	}
	for i, p := range order {
		order[i] = tellers[p] + ": " + p
	}
	return order
}
