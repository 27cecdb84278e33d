package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// addition holds the flags of zino mcp add.
type addition struct {
	env, secrets, headers []string
	host                  bool
}

func newAdd(env *command.Env) *cobra.Command {
	var a addition
	cmd := &cobra.Command{
		Use: "add NAME -- COMMAND… | URL", Short: "configure an MCP server",
		Long: `Add an MCP server to your configuration: a command with its arguments, which is started
when a tool of it is needed, or a URL. The server is started once, and its tools are
printed. If that fails the server stays configured, and the exit status is 1.

--secret VAR reads a value without echo, or a line of standard input, and stores it in
the secret store of zino-mcp, which systemd (256 or later) encrypts for this host and
user; the server gets it as the variable VAR, or as the header
VAR with a URL. Values of --env and --header are in the configuration for all to read.`,
		Example: "  zino mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/src\n" +
			"  zino mcp add github --secret GITHUB_TOKEN -- github-mcp-server stdio\n" +
			"  zino mcp add docs https://docs.example.com/mcp",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckPerson(cmd); err != nil {
				return err
			}
			if len(args) < 2 {
				return command.Mistake(cmd, "give a name, and a command behind -- or a URL")
			}
			return env.Guard(cmd.Context(), func(ctx context.Context) error { return add(ctx, cmd, env, args[0], args[1:], a) })
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&a.env, "env", nil, "a variable of the command, as `NAME=VALUE`")
	flags.StringArrayVar(&a.secrets, "secret", nil, "read the secret for this `VARIABLE` or header")
	flags.StringArrayVar(&a.headers, "header", nil, "a header for a URL, as `NAME=VALUE`")
	flags.BoolVar(&a.host, "host", false, "configure the server for the host, in "+config.HostFile)
	return cmd
}

// add writes a server to the configuration, stores its secrets and starts it once.
func add(ctx context.Context, cmd *cobra.Command, env *command.Env, name string, target []string, a addition) error {
	file, data, err := read(env, a.host)
	if err != nil {
		return err
	}
	section, err := a.section(name, target)
	if err != nil {
		return command.Mistake(cmd, "%v", err)
	}
	cfg, err := parse(data, file)
	if err != nil {
		return mistake("the configuration has a mistake and was not changed: %v", err)
	}
	if _, ok := cfg.MCP.Servers[name]; ok {
		return mistake("there is an MCP server %q in %s; zino mcp remove %s removes it", name, file, name)
	}
	changed := slices.Clone(data)
	if len(changed) > 0 {
		changed = append(bytes.TrimRight(changed, "\n"), "\n\n"...)
	}
	changed = append(changed, section...)
	if _, err := parse(changed, file); err != nil {
		return render.Usage("zino mcp add: %w", err)
	}
	values := map[string]string{}
	for _, variable := range a.secrets {
		if values[name+"."+variable], err = readSecret(ctx, env, variable); err != nil {
			return err
		}
	}
	if err := write(env, file, changed); err != nil {
		return err
	}
	env.Say("Added %s to %s.", name, file)
	d, err := env.Open(ctx, false, connect.StorageOptional)
	if err != nil {
		return err
	}
	defer d.Close()
	// A running zino-mcp that reads another file, or has read this one already, is no error.
	_, _ = connect.Forward(ctx, d, service, proto.MCPReload, proto.ReloadServers{})
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, err := connect.Forward(ctx, d, service, proto.MCPSecretSet, proto.SetSecret{Name: key, Value: values[key]}); err != nil {
			return err
		}
	}
	return test(ctx, env, d, name, proto.TestServer{})
}

// section returns the lines of a server in the configuration.
func (a addition) section(name string, target []string) (string, error) {
	lines := []string{"[mcp.servers." + name + "]"}
	isURL := len(target) == 1 && strings.Contains(target[0], "://")
	if isURL {
		if u, err := url.Parse(target[0]); err != nil || u.Host == "" {
			return "", fmt.Errorf("%q is not a URL", target[0])
		}
		lines = append(lines, "url = "+quote(target[0]))
	} else {
		var words []string
		for _, word := range target {
			words = append(words, quote(word))
		}
		lines = append(lines, "command = ["+strings.Join(words, ", ")+"]")
	}
	for _, table := range []struct {
		key   string
		pairs []string
	}{{"env", a.env}, {"headers", a.headers}} {
		var list []string
		for _, pair := range table.pairs {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return "", fmt.Errorf("--%s %q is not NAME=VALUE", strings.TrimSuffix(table.key, "s"), pair)
			}
			list = append(list, quote(key)+" = "+quote(value))
		}
		if list != nil {
			lines = append(lines, table.key+" = { "+strings.Join(list, ", ")+" }")
		}
	}
	if len(a.secrets) > 0 {
		var list []string
		for _, variable := range a.secrets {
			list = append(list, quote(variable)+" = "+quote(name+"."+variable))
		}
		lines = append(lines, "secrets = { "+strings.Join(list, ", ")+" }")
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// quote returns a text as a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func newRemove(env *command.Env) *cobra.Command {
	var host bool
	cmd := &cobra.Command{
		Use: "remove NAME", Short: "remove an MCP server from the configuration",
		Long: `Remove an MCP server from your configuration, with its tokens, the secrets that zino mcp
add has stored for it, and the directory in which its program keeps files.`,
		Example: "  zino mcp remove github",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckPerson(cmd); err != nil {
				return err
			}
			name, err := one(cmd, args)
			if err != nil {
				return err
			}
			return env.Guard(cmd.Context(), func(ctx context.Context) error { return remove(ctx, env, name, host) })
		},
	}
	cmd.Flags().BoolVar(&host, "host", false, "remove a server of the host, from "+config.HostFile)
	return cmd
}

// remove removes a server from the configuration, and then what zino-mcp keeps of it.
func remove(ctx context.Context, env *command.Env, name string, host bool) error {
	file, data, err := read(env, host)
	if err != nil {
		return err
	}
	cfg, err := parse(data, file)
	if err != nil {
		return mistake("the configuration has a mistake and was not changed: %v", err)
	}
	if _, ok := cfg.MCP.Servers[name]; !ok {
		return unknown(name, slices.Sorted(maps.Keys(cfg.MCP.Servers)))
	}
	changed := without(data, name)
	if next, err := parse(changed, file); err != nil || !sameWithout(cfg, next, name) {
		return mistake("%s has [mcp.servers.%s] in a form that cannot be edited here: remove it with zino config edit", file, name)
	}
	d, err := env.Open(ctx, false, connect.StorageOptional)
	if err != nil {
		return err
	}
	defer d.Close()
	root, err := env.RootDir()
	if err == nil {
		_, err = connect.Forward(ctx, d, service, proto.MCPForget, proto.ForgetServer{Server: name, Root: root})
	}
	if err != nil && !errors.Is(err, proto.ErrNotFound) { // of another configuration
		env.Say("Warning: what is stored for %s could not be removed: %v", name, err)
	}
	if err := write(env, file, changed); err != nil {
		return err
	}
	_, _ = connect.Forward(ctx, d, service, proto.MCPReload, proto.ReloadServers{})
	env.Say("Removed %s from %s.", name, file)
	return nil
}

// without returns a configuration without the tables of a server, and without the comments
// directly above and in them.
func without(data []byte, name string) []byte {
	var kept, above []string // above: comments and blank lines before the next key or table
	inside := false
	for line := range strings.Lines(string(data)) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' {
			above = append(above, line)
			continue
		}
		was := inside
		if trimmed[0] == '[' {
			inside = isTable(trimmed, name)
		}
		switch {
		case !inside && was: // the comments within go, those directly above the next table stay
			kept = append(kept, above[blank(above):]...)
		case !inside:
			kept = append(kept, above...)
		case !was:
			kept = append(kept, above[:blank(above)]...)
		}
		if !inside {
			kept = append(kept, line)
		}
		above = nil
	}
	if !inside {
		kept = append(kept, above...)
	}
	return []byte(strings.TrimRight(strings.Join(kept, ""), "\n") + "\n")
}

// blank returns the index behind the last blank line.
func blank(lines []string) int {
	for i, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) == "" {
			return i + 1
		}
	}
	return 0
}

// isTable reports whether a line begins a table of a server.
func isTable(line, name string) bool {
	head, _, ok := strings.Cut(strings.TrimPrefix(line, "["), "]")
	if !ok || strings.HasPrefix(line, "[[") {
		return false
	}
	var parts []string
	for part := range strings.SplitSeq(head, ".") {
		parts = append(parts, strings.Trim(strings.TrimSpace(part), `"'`))
	}
	return len(parts) >= 3 && parts[0] == "mcp" && parts[1] == "servers" && parts[2] == name
}

// sameWithout reports whether two configurations differ in a server alone.
func sameWithout(before, after *config.Config, name string) bool {
	values := func(c *config.Config) map[string]string {
		list := map[string]string{}
		for _, s := range c.Settings() {
			if s.Key != "mcp.servers" && !strings.HasPrefix(s.Key, "mcp.servers."+name+".") {
				list[s.Key] = fmt.Sprint(s.Value)
			}
		}
		return list
	}
	left := maps.Clone(before.MCP.Servers)
	delete(left, name)
	return maps.Equal(values(before), values(after)) && fmt.Sprint(left) == fmt.Sprint(after.MCP.Servers)
}

// read returns the configuration to edit, which need not exist.
func read(env *command.Env, host bool) (file string, data []byte, err error) {
	if file, env.Host = config.HostFile, env.Host || host; !host {
		if file, err = env.ConfigFile(); err != nil {
			return "", nil, err
		}
	}
	data, err = os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return file, data, err
}

func parse(data []byte, file string) (*config.Config, error) {
	return config.Parse(data, file, filepath.Dir(file), "cli")
}

func write(env *command.Env, file string, data []byte) error {
	edit := func(dirMode, mode fs.FileMode) error {
		if err := os.MkdirAll(filepath.Dir(file), dirMode); err != nil {
			return err
		}
		return command.WriteFile(file, mode, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	if file == config.HostFile { // the services of all users read it
		return edit(0o755, 0o644)
	}
	return env.EditServers(func() error { return edit(0o700, 0o600) })
}

// readSecret reads a secret without echo, or a line of standard input.
func readSecret(ctx context.Context, env *command.Env, name string) (string, error) {
	read, restore := func() (string, error) { return term.ReadLine(env.In) }, func() {}
	if term.IsTerminal(env.In) {
		var err error
		if read, restore, err = term.Secret(env.In, term.Screen(env.Err), name+" (it is not shown): "); err != nil {
			return "", fmt.Errorf("the terminal cannot be kept from showing the secret: %w; pass it on standard input", err)
		}
	}
	defer restore()
	value, err := command.Await(ctx, read, nil)
	switch {
	case errors.Is(err, term.ErrCtrlC):
		return "", render.ErrInterrupted
	case errors.Is(err, io.EOF):
		err = nil
	}
	if value = strings.TrimRight(value, "\r"); err == nil && value == "" {
		err = mistake("no value for --secret %s", name)
	}
	return value, err
}
