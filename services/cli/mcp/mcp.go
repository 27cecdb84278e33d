// Package mcp implements zino mcp.
package mcp

import (
	"github.com/spf13/cobra"

	"zino/services/cli/command"
)

// New returns zino mcp.
func New(env *command.Env) *cobra.Command {
	return command.Group("mcp", "serve Zino to MCP clients",
		"Use the Model Context Protocol (MCP), which connects programs with models.", newServe(env))
}
