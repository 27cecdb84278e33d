// Package mcp implements zino mcp: the MCP servers that Zino uses, and Zino as a server.
package mcp

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// service is the service that the daemon forwards to.
const service = "mcp"

// New returns zino mcp.
func New(env *command.Env) *cobra.Command {
	return command.Group("mcp", "use MCP servers, or be one",
		`Use servers of the Model Context Protocol (MCP), which offer tools to the model, or
serve Zino to other programs. Servers are sections [mcp.servers.NAME] of your
configuration, of the host's, or come with a project in .mcp.json (see zino trust).`,
		newList(env), newAdd(env), newRemove(env), newTest(env), newLogin(env), newLogout(env), newServe(env))
}

func newList(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the MCP servers", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `List the MCP servers of the working directory: name, where it is configured, how it is
reached, state, number of tools that are known, and the revision of MCP. No server is
started. States: new (never started), idle (its tools are known), starting, running,
needs_login, failed, disabled, unavailable.`,
		Example: "  zino mcp list\n  zino mcp list --json | jq -r .name",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithDaemon(cmd, true, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				list, err := servers(ctx, env, d)
				if err != nil {
					return err
				}
				for _, notice := range list.Notices {
					env.Say("%s", notice)
				}
				if env.JSON() {
					return env.Print(func(w io.Writer) error { return render.JSONList(w, list.Servers) })
				}
				if len(list.Servers) == 0 {
					env.Say("No MCP servers. Add one: zino mcp add NAME -- COMMAND")
					return nil
				}
				var rows [][]string
				for _, s := range list.Servers {
					rows = append(rows, row(s))
				}
				return env.PrintTable(rows)
			})
		},
	}
}

// row returns the line of a server.
func row(s proto.MCPServer) []string {
	tools := text.Count(s.Tools, "tool")
	if s.Tools == 0 && s.Protocol == "" { // it was never started
		tools = ""
	}
	return []string{s.Name, s.Source, s.Transport, s.State, tools, s.Protocol, render.Line(s.Problem)}
}

// servers lists the servers of the working directory.
func servers(ctx context.Context, env *command.Env, d *connect.Daemon) (proto.ServerList, error) {
	root, err := env.RootDir()
	if err != nil {
		return proto.ServerList{}, err
	}
	return connect.Forward(ctx, d, service, proto.MCPServers, proto.ListServers{Root: root})
}

// find returns a server by its name.
func find(ctx context.Context, env *command.Env, d *connect.Daemon, name string) (proto.MCPServer, error) {
	list, err := servers(ctx, env, d)
	if err != nil {
		return proto.MCPServer{}, err
	}
	var names []string
	for _, s := range list.Servers {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return proto.MCPServer{}, unknown(name, names)
}

// unknown is the error for a name that no server has.
func unknown(name string, names []string) error {
	if similar := config.Similar(name, names); similar != "" {
		return mistake("no MCP server %q; did you mean %q?", name, similar)
	}
	return mistake("no MCP server %q; zino mcp list shows all", name)
}

// mistake is the error for arguments that are well-formed, with exit status 1.
func mistake(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// one returns the name that a command takes.
func one(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 {
		return "", command.Mistake(cmd, "name one server; zino mcp list shows them")
	}
	return args[0], nil
}
