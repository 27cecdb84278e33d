// Package environ keeps secrets out of environments: those of executed code, of
// services that need no keys, and those that a client sends with a request.
package environ

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Parts of names, in capitals, that mark a variable as secret.
var (
	secretParts = []string{
		"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
		"API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "AUTH_TOKEN", "CONNECTION_STRING",
	}
	// secretWords are whole words between underscores, with or without a number.
	secretWords = []string{"PAT", "AUTH", "OAUTH", "AUTHORIZATION", "BEARER", "JWT", "COOKIE", "COOKIES", "WEBHOOK", "WEBHOOKS", "DSN"}
	// secretSuffixes are whole words or ends of words.
	secretSuffixes = []string{"TOKEN", "TOKENS", "KEY", "KEYS", "PASS", "PWD", "PW", "CRED", "CREDS"}
	// plainWords end in such a suffix but are not secret.
	plainWords = []string{
		"MONKEY", "TURKEY", "DONKEY", "HOTKEY", "HOTKEYS", "HOCKEY", "JOCKEY", "WHISKEY", "MICKEY", "FLUNKEY",
		"ASKPASS", "COMPASS", "BYPASS", "OVERPASS", "UNDERPASS", "LOWPASS", "HIGHPASS", "BANDPASS", "SURPASS", "TRESPASS", "SACRED",
	}
	secretEnds  = []string{"TOKEN", "_HEADERS"}
	secretNames = []string{"DATABASE_URL", "REDIS_URL", "MONGODB_URI", "AMQP_URL"}
)

// secretURL is a URL with a password, or with a token in the user's place. It is
// compiled on first use: every program of Zino filters an environment, and few
// environments have such a URL.
var secretURL = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`://[^/?#\s]*:[^/?#\s]*@|(?i)https?://[^/?#\s]+@`)
})

// harmless names look like secrets: a limit, directories of shells, and the socket
// of an agent that never shows its keys.
var harmless = []string{"MAX_TOKENS", "OLDPWD", "PWD", "SSH_AUTH_SOCK"}

// Variables of a service and its supervisor: with them executed code could act in
// the name of the service.
var (
	serviceNames = []string{
		"NOTIFY_SOCKET", "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", "MANAGERPID",
		"SYSTEMD_EXEC_PID", "RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY",
		"LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY",
	}
	servicePrefixes = []string{"ZINO_", "LISTEN_", "WATCHDOG_", "MEMORY_PRESSURE_"}
)

// InJob is set in the environment of executed code. Commands of zino that are for people
// refuse to run there: this prevents accidents, no attack.
const InJob = "ZINO_JOB"

// ForCode returns the entries of env that executed code may see: no secrets and
// no variables of the service, except those named by pass. The result is
// never nil.
func ForCode(env, pass []string) []string {
	return keep(env, func(name, value string) bool {
		return slices.Contains(pass, name) || !Secret(name, value) && !ofService(strings.ToUpper(name))
	})
}

// Withheld returns the values of secrets that ForCode drops. A path is not one.
func Withheld(env, pass []string) (values []string) {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if Secret(name, value) && !slices.Contains(pass, name) && !strings.HasPrefix(value, "/") {
			values = append(values, value)
		}
	}
	return values
}

// ForService returns the entries of env without secrets.
func ForService(env []string) []string {
	return keep(env, func(name, value string) bool { return !Secret(name, value) })
}

// keep returns the well-formed entries of env that ok accepts.
func keep(env []string, ok func(name, value string) bool) []string {
	kept := make([]string, 0, len(env))
	for _, entry := range env {
		if name, value, found := strings.Cut(entry, "="); found && name != "" && ok(name, value) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// Secret reports whether a variable holds a secret, by its name or its value.
func Secret(name, value string) bool {
	upper := strings.ToUpper(name)
	if slices.Contains(harmless, upper) {
		return false
	}
	contains := func(part string) bool { return strings.Contains(upper, part) }
	ends := func(end string) bool { return strings.HasSuffix(upper, end) }
	return slices.Contains(secretNames, upper) || slices.ContainsFunc(strings.FieldsFunc(upper, separates), secretWord) ||
		slices.ContainsFunc(secretParts, contains) || slices.ContainsFunc(secretEnds, ends) ||
		strings.Contains(value, "://") && strings.Contains(value, "@") && secretURL().MatchString(value)
}

// Marks returns strings in capitals, of which every secret name contains one: parts
// anywhere, ends before a character that is not a letter or at the end. They are a filter
// for texts, in which Secret then judges the names.
func Marks() (parts, ends []string) {
	return slices.Concat(secretParts, secretNames), slices.Concat(secretWords, secretSuffixes, secretEnds)
}

// separates reports whether a character separates the words of a name.
func separates(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }

// secretWord reports whether a word of a name, such as DB, PW or DEPLOYKEY2,
// means a secret.
func secretWord(word string) bool {
	word = strings.TrimRight(word, "0123456789")
	ends := func(end string) bool { return strings.HasSuffix(word, end) }
	return slices.Contains(secretWords, word) || slices.ContainsFunc(secretSuffixes, ends) && !slices.Contains(plainWords, word)
}

func ofService(upper string) bool {
	hasPrefix := func(p string) bool { return strings.HasPrefix(upper, p) }
	return slices.Contains(serviceNames, upper) || slices.ContainsFunc(servicePrefixes, hasPrefix)
}

// Map returns the entries of env by name. Of duplicates the last one counts, as
// in os/exec.
func Map(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, entry := range env {
		if name, value, found := strings.Cut(entry, "="); found && name != "" {
			m[name] = value
		}
	}
	return m
}

// List returns the variables of m as entries, sorted. A name or value that no
// process can have is an error.
func List(m map[string]string) ([]string, error) {
	env := make([]string, 0, len(m))
	for name, value := range m {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return nil, fmt.Errorf("invalid variable %.80q: a name is not empty and has no '=', and neither name nor value has a NUL character", name)
		}
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

// Get returns the value of a variable, empty if env does not have it.
func Get(env []string, name string) string { return Map(env)[name] }
