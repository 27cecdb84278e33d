package exc

import (
	"regexp"
	"slices"
	"strings"
)

// What marks a variable's name, in capitals, as one that holds a secret.
var (
	secretParts = []string{
		"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
		"API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "AUTH_TOKEN", "CONNECTION_STRING",
	}
	// secretWords stand between underscores, with or without a number behind.
	secretWords = []string{
		"TOKEN", "TOKENS", "KEY", "KEYS", "PASS", "PWD", "PAT", "CRED", "CREDS", "AUTH", "OAUTH", "AUTHORIZATION",
		"BEARER", "JWT", "COOKIE", "COOKIES", "WEBHOOK", "WEBHOOKS", "DSN",
	}
	secretEnds  = []string{"TOKEN", "_HEADERS"}
	secretNames = []string{"DATABASE_URL", "REDIS_URL", "MONGODB_URI", "AMQP_URL"}
)

// secretURL is a URL with a password, or with a token in the user's place.
var secretURL = regexp.MustCompile(`://[^/?#\s]*:[^/?#\s]*@|(?i)https?://[^/?#\s]+@`)

// harmless names look like secrets and are none: a limit, a directory that
// shells hand on, and the way to an agent that keeps its keys to itself.
var harmless = []string{"MAX_TOKENS", "OLDPWD", "PWD", "SSH_AUTH_SOCK"}

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
		name, value, found := strings.Cut(entry, "=")
		if !found || name == "" {
			continue
		}
		if slices.Contains(pass, name) || !withheld(name, value) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// withheld reports whether executed code must not see the variable.
func withheld(name, value string) bool {
	upper := strings.ToUpper(name)
	if slices.Contains(harmless, upper) {
		return false
	}
	return belongsToService(upper) || looksSecret(upper) || secretURL.MatchString(value)
}

func belongsToService(upper string) bool {
	hasPrefix := func(p string) bool { return strings.HasPrefix(upper, p) }
	return slices.Contains(ownNames, upper) || slices.ContainsFunc(ownPrefixes, hasPrefix)
}

func looksSecret(upper string) bool {
	contains := func(part string) bool { return strings.Contains(upper, part) }
	ends := func(end string) bool { return strings.HasSuffix(upper, end) }
	return slices.Contains(secretNames, upper) || hasSecretWord(upper) ||
		slices.ContainsFunc(secretParts, contains) || slices.ContainsFunc(secretEnds, ends)
}

func hasSecretWord(upper string) bool {
	between := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	return slices.ContainsFunc(strings.FieldsFunc(upper, between), func(word string) bool {
		return slices.Contains(secretWords, strings.TrimRight(word, "0123456789"))
	})
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
