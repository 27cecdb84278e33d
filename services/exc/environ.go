package exc

import (
	"slices"
	"strings"
)

// What marks a variable's name, in capitals, as one that holds a secret.
var (
	secretParts = []string{
		"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
		"API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "AUTH_TOKEN",
	}
	secretEnds = []string{
		"TOKEN", "_KEY", "_KEYS", "_TOKENS", "_PWD", "_PASS", "_PAT", "_AUTH", "_COOKIE", "_DSN",
	}
	secretNames = []string{"KEY", "PASS", "DATABASE_URL", "REDIS_URL", "MONGODB_URI", "AMQP_URL"}
)

// harmless names look like secrets and are none: a limit, and a directory that
// shells hand on.
var harmless = []string{"MAX_TOKENS", "OLDPWD", "PWD"}

// Variables that belong to this process and its supervisor: handed on, they
// would let executed code speak in the service's name.
var (
	ownNames = []string{
		"NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", "MANAGERPID",
		"SYSTEMD_EXEC_PID", "RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY",
		"LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY",
	}
	ownPrefixes = []string{"ZINO_", "LISTEN_", "WATCHDOG_", "MEMORY_PRESSURE_"}
)

// environ builds the environment of executed code anew: the entries of env
// without secrets and without what belongs to the service, but with everything
// that pass names.
func environ(env, pass []string) []string {
	kept := make([]string, 0, len(env))
	for _, entry := range env {
		name, _, found := strings.Cut(entry, "=")
		if !found || name == "" {
			continue
		}
		if slices.Contains(pass, name) || !withheld(name) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// withheld reports whether executed code must not see the variable name.
func withheld(name string) bool {
	upper := strings.ToUpper(name)
	if slices.Contains(harmless, upper) {
		return false
	}
	return belongsToService(upper) || looksSecret(upper)
}

func belongsToService(upper string) bool {
	hasPrefix := func(p string) bool { return strings.HasPrefix(upper, p) }
	return slices.Contains(ownNames, upper) || slices.ContainsFunc(ownPrefixes, hasPrefix)
}

func looksSecret(upper string) bool {
	contains := func(part string) bool { return strings.Contains(upper, part) }
	ends := func(end string) bool { return strings.HasSuffix(upper, end) }
	return slices.Contains(secretNames, upper) ||
		slices.ContainsFunc(secretParts, contains) || slices.ContainsFunc(secretEnds, ends)
}

// sessionNames are variables that lead to sockets and files of the user's
// session, none of which confined code can reach.
var sessionNames = []string{
	"HOME", "TMPDIR", "TMP", "TEMP", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY",
	"XAUTHORITY", "OLDPWD",
}

// confinedEnviron is env for code that has just one directory of its own.
func confinedEnviron(env []string, home string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return hasName(entry, sessionNames...) || strings.HasPrefix(entry, "XDG_")
	})
	return append(kept, "HOME="+home, "TMPDIR="+home)
}

// hasName reports whether a variable has one of those names.
func hasName(entry string, names ...string) bool {
	name, _, _ := strings.Cut(entry, "=")
	return slices.Contains(names, name)
}
