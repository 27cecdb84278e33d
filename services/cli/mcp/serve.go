package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/environ"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
)

func newServe(env *command.Env) *cobra.Command {
	var tools []string
	cmd := &cobra.Command{
		Use: "serve", Short: "be an MCP server on standard input and output",
		Long: `Be an MCP server on standard input and output, for programs that start one: their
models can search and store memories, read sessions, run code in live pages, and ask
Zino to carry out a task.

What Zino runs for ask is confined to reading (--sandbox chooses another level), and
has no working directory unless --root names one: ask takes it and directories below.
--tools restricts the tools: memory_search, memory_store, sessions_search,
sessions_read, pages_list, pages_eval, ask. Those for pages are there while a REPL
runs when the server starts.`,
		Example: "  zino mcp serve\n  zino mcp serve --tools memory_search,memory_store\n  zino mcp serve --root ~/src --sandbox workspace-write",
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.Guard(cmd.Context(), func(ctx context.Context) error { return serve(ctx, env, tools) })
		},
	}
	cmd.Flags().StringSliceVar(&tools, "tools", nil, "offer these tools alone, a `LIST` separated by commas")
	return cmd
}

// serve runs the sibling zino-mcp as the server. Services that run are used; else they run
// as long as the server.
func serve(ctx context.Context, env *command.Env, tools []string) error {
	program, err := sibling()
	if err != nil {
		return err
	}
	d, err := env.Open(ctx, false, connect.StorageOptional)
	if err != nil {
		return err
	}
	defer d.Close()
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	args := []string{"--serve", "--daemon", d.Client.Path, "--sandbox", cmp.Or(env.Sandbox, string(proto.LevelReadOnly)), "--tools", strings.Join(tools, ",")}
	if i := slices.IndexFunc(env.ReplSockets(cfg), connect.Answers); i >= 0 {
		args = append(args, "--repl", env.ReplSockets(cfg)[i])
	}
	if env.RootSet {
		root, err := env.RootDir()
		if err != nil {
			return err
		}
		args = append(args, "--root", root)
	}
	if env.NetworkSet {
		args = append(args, "--network", strconv.FormatBool(env.Network))
	}
	server := exec.CommandContext(ctx, program, args...)
	server.Stdin, server.Stdout, server.Stderr = env.In, env.Out, env.Err
	server.Env = environ.ForService(os.Environ())
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	server.WaitDelay = 5 * time.Second
	err = server.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() && ctx.Err() == nil {
		return command.Status(exit.ExitCode())
	}
	return err
}

// sibling returns the path of zino-mcp, which is installed beside this program.
func sibling() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(exe), "zino-mcp")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("zino-mcp is missing: it belongs beside %s; build all with: make build", exe)
	}
	return path, nil
}
