// Package propose proposes patterns for rules that allow a command.
package propose

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// hasSubcommands are the programs whose second word says what they do: a grant for
// "git push" is no grant for "git reset".
var hasSubcommands = []string{
	"apt", "apt-get", "brew", "bundle", "cargo", "dnf", "docker", "dotnet", "gh", "git", "go", "helm", "kubectl", "npm", "pip", "pip3",
	"pnpm", "podman", "poetry", "systemctl", "terraform", "uv", "yarn", "yum",
}

// runSubcommands are the subcommands that run what the words behind them say.
var runSubcommands = []string{"dlx", "exec", "run", "x"}

// hasTargets are the programs whose arguments name what a file in the project describes.
var hasTargets = []string{"gmake", "gradle", "just", "make", "mvn", "ninja", "task"}

// runsOthers are wrappers and interpreters: they run whatever their arguments say.
var runsOthers = []string{
	".", "alias", "awk", "bash", "bun", "chroot", "command", "csh", "dash", "deno", "doas", "env", "eval", "exec", "find", "fish", "gawk",
	"ionice", "ksh", "lua", "nice", "node", "nohup", "npx", "osascript", "parallel", "perl", "php", "pkexec", "pypy", "python", "Rscript",
	"ruby", "script", "sed", "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su", "sudo", "systemd-run", "tclsh", "tcsh", "time",
	"timeout", "trap", "unshare", "uvx", "watch", "xargs", "zsh",
}

var (
	// knownWords is a simple command without expansions, quotes, redirections and
	// assignments: words that the shell passes on as they are.
	knownWords = lazy(`^[A-Za-z0-9_./:,@%+=^-]+( +[A-Za-z0-9_./:,@%+=^-]+)*$`)
	subcommand = lazy(`^[a-z][a-z0-9-]*$`)
	// relativeName is a name of a file below the working directory.
	relativeName = lazy(`^[A-Za-z_][A-Za-z0-9_./-]*$`)
	version      = lazy(`[0-9.]+$`)
)

// lazy compiles an expression on first use: few runs of zino propose a pattern.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Pattern returns the pattern that is proposed for a command: the program with its subcommand
// or target, "git push *", "make *". Other programs have no words that say what they do, so
// it is the command with what its last file name begins with: "rm -rf build*". A pattern
// must not allow more than a person expects: for words that the shell expands, several
// commands, interpreters and wrappers it is the command itself.
func Pattern(command string) string {
	if !knownWords().MatchString(command) {
		return command
	}
	words := strings.Fields(command)
	name := words[0]
	switch {
	case strings.ContainsAny(name, "/="), slices.Contains(runsOthers, name), slices.Contains(runsOthers, version().ReplaceAllString(name, "")):
		return command
	case slices.Contains(hasTargets, name):
		return name + " *"
	case slices.Contains(hasSubcommands, name):
		if len(words) < 2 || !subcommand().MatchString(words[1]) || slices.Contains(runSubcommands, words[1]) {
			return command
		}
		return name + " " + words[1] + " *"
	}
	last := words[len(words)-1]
	if len(words) > 1 && relativeName().MatchString(last) && !strings.Contains(last, "..") {
		return strings.Join(words, " ") + "*"
	}
	return command
}
