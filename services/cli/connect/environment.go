package connect

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"zino/pkg/config"
	"zino/pkg/environ"
	"zino/proto"
)

// providerKeys are the variables that hold keys of providers, which only rtr gets.
var providerKeys = []string{"ZINO_API_KEY", "LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"}

// headersVariable holds headers of requests to Anthropic, which may be secret.
const headersVariable = "ANTHROPIC_CUSTOM_HEADERS"

// lifetimeVariable is set for services whose constellation ends with the run that
// started it: services of other constellations do not have it.
const lifetimeVariable = "ZINO_CONSTELLATION"

// serviceEnvironment returns the environment of a service: the caller's, without the
// variables of the caller's supervisor. Only rtr gets the keys of providers, only rtr,
// exc and mcp get other secrets, which pass_env and definitions of MCP servers may name.
func serviceEnvironment(name string, cfg *config.Config) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		key, _, _ := strings.Cut(v, "=")
		return key == "ZINO_CONFIG" || key == lifetimeVariable || key == "NOTIFY_SOCKET" || strings.HasPrefix(key, "LISTEN_") || strings.HasPrefix(key, "WATCHDOG_") ||
			name != "rtr" && (key == headersVariable || slices.Contains(providerKeys, key))
	})
	switch {
	case name == "exc", name == "mcp": // definitions of MCP servers may refer to variables
		return env
	case name != "rtr":
		return environ.ForService(env)
	case cfg.API.Key != "":
		env = append(env, "ZINO_API_KEY="+cfg.API.Key)
	}
	return env
}

// WithEnvironment adds the caller's environment to a turn, for its tools: variables
// without secrets, directory and umask. Services that this run started have it
// already; services of other users do not get it.
func (d *Daemon) WithEnvironment(req proto.Chat) proto.Chat {
	if d.private != nil || !isOwnSocket(d.Client.Path) {
		return req
	}
	req.Env = environ.Map(environ.ForCode(os.Environ(), d.passEnv))
	for name, value := range req.Env {
		if !utf8.ValidString(name) || !utf8.ValidString(value) { // JSON cannot carry it unchanged
			delete(req.Env, name)
		}
	}
	if dir, err := os.Getwd(); err == nil {
		if dir, err = filepath.EvalSymlinks(dir); err == nil { // like the root
			req.Cwd = dir
		}
	}
	req.Umask = umask()
	return req
}

// InUnits reports whether units of the caller's systemd run the daemon. Each of them has
// a configuration file beside its socket, which zino up has not.
func (d *Daemon) InUnits() bool {
	dir, err := RuntimeDir()
	return err == nil && d.Client.Path == filepath.Join(dir, "daemon.sock") && isFile(filepath.Join(dir, "daemon.toml")) && !isFile(filepath.Join(dir, upFile))
}

// isOwnSocket reports whether a socket belongs to services of the caller.
func isOwnSocket(path string) bool {
	info, err := os.Stat(path)
	if err != nil || path == HostSocket {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// umask reads the umask of this process, nil before Linux 4.7. The system call
// would change it.
func umask() *int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(status), "\nUmask:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseInt(strings.TrimSpace(line), 8, 32)
	if err != nil {
		return nil
	}
	return new(int(mask))
}
