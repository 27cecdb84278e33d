package cli

import (
	"context"
	"errors"
	"fmt"
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

const statusLong = `Ask every service whether it is there, and print a table of states, versions,
uptimes, sockets and problems. The exit status is 1 unless all of them are up.
Nothing is started.`

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "which services run, and what is wrong", Long: statusLong, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.showStatus(cmd.Context()) },
	}
}

// report is what one service says of itself.
type report struct {
	service, socket, state string
	pong                   proto.Pong
	problems               []string
}

func (a *app) showStatus(ctx context.Context) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	a.locate(cfg)
	services := a.shownServices(cfg)
	reports := make([]report, len(services))
	var wg sync.WaitGroup
	for i, name := range services {
		wg.Go(func() { reports[i] = inspect(ctx, name, cfg.Socket(name)) })
	}
	wg.Wait()
	up := a.printStatus(reports)
	switch {
	case up == len(reports):
		return nil
	case up == 0:
		a.say("Nothing is running. Start a constellation with: zino up")
	default:
		a.say("%d of %d services are up.", up, len(reports))
	}
	return errQuiet
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

// locate turns the sockets of cfg to the constellation that is running: the
// user's own if there is one, else the host's.
func (a *app) locate(cfg *config.Config) {
	dir, err := runtimeDir()
	if err != nil {
		a.say("Warning: %v", err)
		return
	}
	if a.named() && !answers(dir+"/daemon.sock") || !answers(dir+"/daemon.sock") && answers(hostSocket) {
		return // the named configuration's sockets, or the defaults: the host's
	}
	for _, name := range config.Services {
		if !cfg.IsSet(name + ".socket") {
			*cfg.SocketOf(name) = dir + "/" + name + ".sock"
		}
	}
}

// inspect asks one service.
func inspect(ctx context.Context, name, socket string) report {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := &rpc.Client{Service: name, Path: socket}
	defer c.Close()
	r := report{service: name, socket: socket, state: "up"}
	var err error
	if r.pong, err = rpc.Call(ctx, c, proto.Ping, proto.PingRequest{}); err != nil {
		r.state = "down"
		if !errors.Is(err, rpc.ErrConnect) {
			r.state = "silent"
			r.problems = append(r.problems, "no answer within "+patience.String())
		}
		return r
	}
	stats, err := rpc.Call(ctx, c, proto.GetStats, proto.StatsRequest{})
	if err != nil {
		r.problems = append(r.problems, err.Error())
	}
	r.problems = append(r.problems, stats.Problems...)
	return r
}

// printStatus prints the table and the problems below it, and counts the
// services that are up.
func (a *app) printStatus(reports []report) (up int) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tSTATE\tVERSION\tUPTIME\tSOCKET\tPROBLEMS")
	for _, r := range reports {
		version, uptime := "-", "-"
		if r.state == "up" {
			up++
			version, uptime = visible.Text(r.pong.Version), (time.Duration(r.pong.UptimeS) * time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", r.service, r.state, version, uptime, r.socket, len(r.problems))
	}
	w.Flush()
	for _, line := range distinct(reports) {
		fmt.Fprintln(a.out, visible.Text(line))
	}
	return up
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
