package gate

import (
	"slices"
	"strings"
)

// families are programs whose first word is a command of their own.
var families = []string{
	"apt", "apt-get", "brew", "bundle", "cargo", "docker", "dnf", "gh", "git", "go", "helm", "kubectl", "npm", "pip", "pip3", "pnpm",
	"podman", "poetry", "rustup", "systemctl", "terraform", "uv", "yarn", "zino",
}

// interpreters run what their words say: a pattern would allow everything.
var interpreters = []string{"awk", "bash", "dash", "find", "lua", "node", "perl", "php", "python", "python3", "ruby", "sh", "ssh", "zsh"}

// Propose returns a pattern for rules that allow a command and others like it: its name,
// and the command of a program such as git. For an interpreter, or a program that runs
// others, it is the command itself. It is empty if no pattern can stand for the command.
func Propose(command string) string {
	parts := partsOf(command, nil)
	if len(parts) != 1 || parts[0].doubt != "" || parts[0].tool != "bash" {
		return ""
	}
	words := parts[0].words
	name, like := words[0].text, 1
	if slices.Contains(families, name) {
		like = 2
	}
	_, wraps := wrappers[name]
	exact := wraps || slices.Contains(interpreters, name) || len(words) < like || like == 2 && strings.HasPrefix(words[1].text, "-")
	if exact {
		like = len(words)
	}
	var texts []string
	for _, w := range words[:like] {
		if !w.known || w.text == "" || strings.ContainsFunc(w.text, isSpecial) {
			return ""
		}
		texts = append(texts, w.text)
	}
	if !exact {
		texts = append(texts, "*")
	}
	return strings.Join(texts, " ")
}
