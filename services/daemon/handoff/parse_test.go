package handoff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// shown is what was found, in one line a section.
func shown(found map[string]string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, fmt.Sprintf("%s=%q", name, found[name]))
	}
	return strings.Join(lines, " ")
}

var answers = map[string]struct{ answer, want string }{
	"empty":           {"", ``},
	"prose":           {"I cannot do that.", ``},
	"as told":         {"## Goal\n\nG\n\n## Starter prompt\n\n````text\nP\n````\n\n## Relevant files\n\n- a\n\n## Open tasks\n\n- [ ] t\n\n## Repro commands\n\n```sh\nm\n```\n", `Goal="G" Open tasks="- [ ] t" Relevant files="- a" Repro commands="` + "```sh\\nm\\n```" + `" Starter prompt="` + "````text\\nP\\n````" + `"`},
	"levels and case": {"# HANDOFF\n# goal\nG\n#### STARTER  prompt ##\nP\n###### Relevant Files:\n- a", `Goal="G" Relevant files="- a" Starter prompt="P"`},
	"bold":            {"**Goal**\nG\n\n__Starter prompt:__\nP\n**Open tasks:**\n- t", `Goal="G" Open tasks="- t" Starter prompt="P"`},
	"in their line":   {"**Goal:** G\n**Starter prompt**: P\n## Open tasks: t\n## **Relevant files:** a", `Goal="G" Open tasks="t" Relevant files="a" Starter prompt="P"`},
	"numbered":        {"## 1. Goal\nG\n## 2) Starter-prompt\nP\n### **3. Open tasks**\nt", `Goal="G" Open tasks="t" Starter prompt="P"`},
	"remarked":        {"## Relevant files (relative to root)\n- a\n##Goal\nG", `Goal="G" Relevant files="- a"`},
	"crlf and bom":    {"\ufeff## Goal\r\nG\r\nH\r\n", `Goal="G\nH"`},
	"extra sections":  {"## Summary\nx\n## Goal\nG\n## Notes\nn\n### Open tasks\nt\n# More\nm", `Goal="G" Open tasks="t"`},
	"deeper headings": {"## Starter prompt\nP\n### Context\nC\n**Rules**\n#no\n## Goal\nG", `Goal="G" Starter prompt="P\n### Context\nC\n**Rules**\n#no"`},
	"rules":           {"## Goal\n\nG\n\n---\n\n## Open tasks\n***\n- t\n___\n", `Goal="G" Open tasks="- t"`},
	"in code":         {"## Starter prompt\n```\n## Goal\nnot this\n```\n## Goal\nG", "Goal=\"G\" Starter prompt=\"```\\n## Goal\\nnot this\\n```\""},
	"in tildes":       {"## Starter prompt\n~~~~\n```\n## Goal\n~~~\n~~~~\n## Goal\nG", "Goal=\"G\" Starter prompt=\"~~~~\\n```\\n## Goal\\n~~~\\n~~~~\""},
	"inline backtick": {"```not a fence``` x\n## Goal\nG", `Goal="G"`},
	"all fenced":      {"Here you are:\n\n```markdown\n# Handoff\n## Goal\nG\n## Repro commands\n```sh\nm\n```\n## Open tasks\n- t\n```\n", "Goal=\"G\" Open tasks=\"- t\" Repro commands=\"```sh\\nm\\n```\""},
	"all in four":     {"````\n## Goal\nG\n## Repro commands\n```sh\nm\n```\n````", "Goal=\"G\" Repro commands=\"```sh\\nm\\n```\""},
	"code last":       {"```md\n## Goal\nG\n## Repro commands\n```sh\nm\n```\n```", "Goal=\"G\" Repro commands=\"```sh\\nm\\n```\""},
	"blocks nested":   {"## Goal\nG\n## Starter prompt\n```text\nrun\n```sh\nm\n```\nthen\n```\n## Open tasks\n- t\n## Relevant files\n- a", "Goal=\"G\" Open tasks=\"- t\" Relevant files=\"- a\" Starter prompt=\"```text\\nrun\\n```sh\\nm\\n```\\nthen\\n```\""},
	"never closed":    {"## Goal\nG\n## Repro commands\n```sh\nm", "Goal=\"G\" Repro commands=\"```sh\\nm\""},
	"again deeper":    {"## Starter prompt\nP\n### Relevant files\n- x\n## Relevant files\n- a", `Relevant files="- a" Starter prompt="P\n### Relevant files\n- x"`},
	"again":           {"## Goal\ndraft\n## Open tasks\n- draft\n## Goal\nG\n## Open tasks\n- t", `Goal="G" Open tasks="- t"`},
	"again, bold":     {"## Starter prompt\nP\n**Open tasks:** x\n## Open tasks\n- t", `Open tasks="- t" Starter prompt="P\n**Open tasks:** x"`},
	"empty sections":  {"## Goal\n\n## Open tasks\n", `Goal="" Open tasks=""`},
	"only a fence":    {"```", ``},
	"marks only":      {"#\n####### Goal\n** **\n****\nx", ``},
}

func TestSections(t *testing.T) {
	for name, c := range answers {
		t.Run(name, func(t *testing.T) {
			if got := shown(sections(c.answer)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestItems(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   ``,
		"- a\n* b\n+ c\n1. d\n2) e\n• f":     `"a" "b" "c" "d" "e" "f"`,
		"- [ ] a\n- [x] b\n* [X] c\n[ ] d":   `"a" "b" done "c" done "d"`,
		"- a\n  more\n\tand more\n- b":       `"a more and more" "b"`,
		"First:\n- a\nand\n  - b\n\nlast":    `"a" "b"`,
		"a\n\nb\n---\n":                      `"a" "b"`,
		"```\na.go\nb.go\n```":               `"a.go" "b.go"`,
		"-a":                                 `"-a"`,
		"- ":                                 `""`,
		"- [link](x)\n- [] a\n- [ ]b":        `"[link](x)" "a" "b"`,
		"1. do\n   ```sh\n   make\n   ```\n": `"do make"`,
	} {
		var got []string
		for _, it := range items(text) {
			if got = append(got, fmt.Sprintf("%q", it.text)); it.done {
				got = append(got, "done")
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("items(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestPathOf(t *testing.T) {
	for text, want := range map[string]string{
		"a.go": "a.go", "`a b.go` — the main one": "a b.go", "**`a.go`**: x": "a.go", "[a.go](./a.go) x": "a.go", "a.go - x": "a.go",
		"a.go: x": "a.go", "a.go (new)": "a.go", "a.go:12": "a.go", "`a.go:12-20`": "a.go", "*a.go*,": "a.go", `"a.go"`: "a.go",
		"``a`b``": "a`b", "`` `a ``": "`a", "a-b.go": "a-b.go", "./x/": "./x/", "": "", "``": "``",
	} {
		if got := pathOf(text); got != want {
			t.Errorf("pathOf(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestCommandsOfText(t *testing.T) {
	for text, want := range map[string]string{
		"```sh\nmake\n\nls\n```":                 "make| | ls",
		"```sh\nmake\n```\nand\n```\nls\n```":    "make| ls",
		"```json\n{}\n```\n```Bash\nls\n```":     "ls",
		"```json\n{}\n```":                       "",
		"- `make test`: runs\n- ls":              "make test| ls",
		"make\nls":                               "make| ls",
		"```console\n$ make\nok\n$ ls\na b\n```": "make| ls",
		"~~~\nfor i in 1\n  do ls\n  done\n~~~":  "for i in 1|   do ls|   done",
		"```sh\nmake":                            "make",
	} {
		if got := strings.Join(commands(text), "| "); got != want {
			t.Errorf("commands(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestUnfenced(t *testing.T) {
	for text, want := range map[string]string{
		"P": "P", "```\nP\n```": "P", "\n````text\na\n```\nb\n```\n````\n": "a\n```\nb\n```", "Paste this:\n\n```text\nP\n```": "P",
		"a\nb\n```\nP\n```": "a\nb\n```\nP\n```", "```\nP\n```\nand": "```\nP\n```\nand", "```\nP": "```\nP", "```\n```": "", "": "",
		"```text\nrun\n```sh\nm\n```\nthen\n```": "run\n```sh\nm\n```\nthen",
	} {
		if got := unfenced(text); got != want {
			t.Errorf("unfenced(%q) = %q, want %q", text, got, want)
		}
	}
}
