package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newTest(env *command.Env) *cobra.Command {
	var req proto.TestServer
	var arguments string
	cmd := &cobra.Command{
		Use: "test NAME", Short: "start an MCP server and list its tools", Annotations: command.PrintsJSON,
		Long: `Start an MCP server, also one that failed before, and print the revision of MCP, its
tools, how long the start took, and how it is confined. If it cannot be used, what it
wrote to standard error last is printed, and the exit status is 1. --call calls one of
its tools as you, with the arguments of --args.`,
		Example: "  zino mcp test github\n  zino mcp test files --call read_file --args '{\"path\":\"README.md\"}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := one(cmd, args)
			if err != nil {
				return err
			}
			switch {
			case arguments != "" && req.Tool == "":
				return command.Mistake(cmd, "--args is for --call TOOL")
			case arguments != "" && (!json.Valid([]byte(arguments)) || !strings.HasPrefix(strings.TrimSpace(arguments), "{")):
				return command.Mistake(cmd, "--args is not a JSON object")
			case arguments != "":
				req.Arguments = proto.Raw(arguments)
			}
			return env.WithDaemon(cmd, true, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				if _, err := find(ctx, env, d, name); err != nil {
					return err
				}
				return test(ctx, env, d, name, req)
			})
		},
	}
	cmd.Flags().StringVar(&req.Tool, "call", "", "call this `TOOL`")
	cmd.Flags().StringVar(&arguments, "args", "", "the arguments of --call, a JSON `OBJECT`")
	return cmd
}

// test starts a server and prints what came of it.
func test(ctx context.Context, env *command.Env, d *connect.Daemon, name string, req proto.TestServer) error {
	root, err := env.RootDir()
	if err != nil {
		return err
	}
	req.Server, req.Root = name, root
	report, err := connect.Forward(ctx, d, service, proto.MCPTest, req)
	if err != nil {
		return err
	}
	usable := report.Server.State == proto.MCPRunning || report.Server.State == proto.MCPIdle
	if env.JSON() {
		err = render.JSON(env.Out, report)
	} else {
		err = print(env, report, usable)
	}
	if err == nil && (!usable || len(report.Result) > 0 && !succeeded(report.Result)) {
		err = render.ErrReported
	}
	return err
}

// print prints a report for people.
func print(env *command.Env, r proto.ServerReport, usable bool) error {
	head := append(row(r.Server)[:6], fmt.Sprintf("%d ms", r.DurationMS))
	if r.Confinement != nil {
		head = append(head, "sandbox "+string(r.Confinement.Sandbox))
	}
	if err := env.PrintTable([][]string{head}); err != nil {
		return err
	}
	for _, t := range r.Tools {
		first, _, _ := strings.Cut(t.Description, "\n")
		line := "  " + t.Name
		if first = strings.TrimSpace(first); first != "" {
			line += ": " + first
		}
		if err := env.PrintLine(line); err != nil {
			return err
		}
	}
	for _, problem := range r.Problems {
		env.Say("%s", problem)
	}
	if r.Dropped > 0 {
		env.Say("%s of its standard output were no messages and were left out.", text.Count(int(r.Dropped), "line"))
	}
	if !usable {
		if r.Server.Problem != "" {
			env.Say("%s", r.Server.Problem)
		}
		for line := range strings.Lines(strings.TrimSpace(r.Stderr)) {
			env.Say("  %s", strings.TrimRight(line, "\n"))
		}
	}
	if len(r.Result) > 0 {
		return env.PrintLine(string(r.Result))
	}
	return nil
}

// succeeded reports whether the envelope of a result says ok.
func succeeded(envelope proto.Raw) bool {
	var result proto.Envelope
	return json.Unmarshal(envelope, &result) == nil && result.OK
}
