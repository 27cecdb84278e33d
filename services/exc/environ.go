package exc

import (
	"slices"
	"strings"
)

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
