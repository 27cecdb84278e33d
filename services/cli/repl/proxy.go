package repl

import (
	"context"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
)

// proxy holds the flags of the reverse proxy.
type proxy struct {
	url    string
	port   int
	remote bool
}

func (p *proxy) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.url, "proxy", "", "serve the application at `URL`, such as http://localhost:5173, with its pages connected")
	cmd.Flags().IntVar(&p.port, "port", 0, "port `N` of --proxy on 127.0.0.1 (default the port of URL + 10000, or the next free one)")
	cmd.Flags().BoolVar(&p.remote, "allow-remote", false, "let URL of --proxy be on another host")
}

// args checks the flags and returns them for zino-repl.
func (p *proxy) args(cmd *cobra.Command) ([]string, error) {
	const maxPort = 65535
	if !cmd.Flags().Changed("proxy") {
		for _, name := range []string{"port", "allow-remote"} {
			if cmd.Flags().Changed(name) {
				return nil, command.Mistake(cmd, "--%s belongs to --proxy", name)
			}
		}
		return nil, nil
	}
	if _, err := config.Upstream(p.url, p.remote); err != nil {
		return nil, command.Mistake(cmd, "--proxy %v", err)
	}
	args := []string{"--proxy", p.url}
	if cmd.Flags().Changed("port") {
		if p.port < 1 || p.port > maxPort {
			return nil, command.Mistake(cmd, "--port %d is not a port", p.port)
		}
		args = append(args, "--port", strconv.Itoa(p.port))
	}
	if p.remote {
		args = append(args, "--allow-remote")
	}
	return args, nil
}

// sayWhere prints the address to open. Its host name is the application's, so that
// both share their cookies.
func (p *proxy) sayWhere(ctx context.Context, env *command.Env, cfg *config.Config) {
	upstream, err := config.Upstream(p.url, p.remote)
	if err != nil {
		return // args has checked it
	}
	err = env.WithRepl(cfg, func(c *rpc.Client) error {
		stats, err := rpc.Call(ctx, c, proto.GetStats, proto.StatsRequest{})
		if err != nil {
			return err
		}
		host, port, err := net.SplitHostPort(stats.Info["proxy"])
		if err != nil {
			return err
		}
		if upstream.Hostname() == "localhost" {
			host = "localhost"
		}
		app := upstream.Scheme + "://" + upstream.Host
		upstream.Scheme, upstream.Host = "http", net.JoinHostPort(host, port)
		if upstream.Path == "" {
			upstream.Path = "/"
		}
		env.Say("Open %s: it is %s with every page connected.", upstream, app)
		return nil
	})
	if err != nil {
		env.Say("Warning: the address of the proxy is not known: %v", err)
	}
}
