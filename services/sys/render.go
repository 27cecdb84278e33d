package sys

import (
	"cmp"
	"fmt"
	"strings"

	"zino/pkg/catalog"
)

// render replaces every %%NAME%% whose name is in values. It is a single
// pass: what stands in a value is not looked at again.
func render(template string, values map[string]string) string {
	pairs := make([]string, 0, 2*len(values))
	for name, value := range values {
		pairs = append(pairs, "%%"+name+"%%", value)
	}
	return strings.NewReplacer(pairs...).Replace(template)
}

const noneLoaded = "  (none loaded)"

// toolLines lists the functions that a model can call: the executors, and
// behind them what is built in.
func toolLines(s *catalog.Snapshot) string {
	var lines []string
	for _, t := range s.Executors() {
		lines = append(lines, fmt.Sprintf(`  - "%s": %s executor`, t.FunctionName(), t.Executor))
	}
	for _, t := range s.Builtins() {
		lines = append(lines, fmt.Sprintf(`  - "%s": %s`, t.FunctionName(), cmp.Or(firstSentence(t.Description), "built-in tool")))
	}
	return cmp.Or(strings.Join(lines, "\n"), noneLoaded)
}

// firstSentence returns a text up to the first full stop that a blank follows,
// as one line.
func firstSentence(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	for i, r := range line {
		if strings.ContainsRune(".!?", r) && strings.HasPrefix(line[i+1:], " ") {
			return line[:i+1]
		}
	}
	return line
}

// skillLines lists the skills that a model can delegate to.
func skillLines(s *catalog.Snapshot) string {
	var lines []string
	for _, k := range s.Skills {
		analysis := cmp.Or(k.StaticAnalysis, "none")
		lines = append(lines, fmt.Sprintf(`  - "%s": %s executor, static analysis: %s`, k.Name, k.Executor, analysis))
	}
	return cmp.Or(strings.Join(lines, "\n"), noneLoaded)
}
