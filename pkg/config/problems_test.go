package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// found lists the problems of a text.
func found(t *testing.T, text string) (problems, warnings []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	zinotest.Write(t, path, text)
	problems, warnings, err := Problems(path)
	zinotest.Must(t, err)
	for _, list := range [][]string{problems, warnings} {
		for i, line := range list {
			list[i] = strings.ReplaceAll(line, filepath.Dir(path)+"/", "")
		}
	}
	return problems, warnings
}

func TestProblems(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"none", "model = \"m\"\n[exc]\ntimeout = 3\n", nil},
		{"empty", "", nil},
		{"unknown keys everywhere", "modle = \"x\"\n[exc]\ntimeot = 3\n[exd]\na = 1\nb = 2\n[mem]\nx = 1\n", []string{
			`f:1:1: unknown key "modle": the nearest one is "model"`,
			`f:3:1: unknown key "exc.timeot": the nearest one is "exc.timeout"`,
			`f:4:2: unknown section "exd": the nearest one is "exc"`,
			`f:8:1: unknown key "mem.x": the nearest one is "mem.embed"`,
		}},
		{"values out of range", "max_tokens = -1\n[agent]\ntemperature = 3\ntop_p = nan\n", []string{
			"f:1:1: max_tokens must be 0 or more", "f:3:1: agent.temperature must be from 0 to 2", "f:4:1: agent.top_p must be from 0 to 1",
		}},
		{"values of a wrong type", "model = 1\nmax_tokens = \"x\"\n\n[exc]\ntimeout = []\noutput_max = 1.5\npass_env = \"A\"\n[rtr]\nstreaming = \"yes\"\n", []string{
			`f:1:9: model must be text in quotes, such as "x"`, "f:2:14: max_tokens must be a whole number",
			"f:5:11: exc.timeout must be a number", "f:6:14: exc.output_max must be a whole number",
			`f:7:12: exc.pass_env must be a list of texts, such as ["x", "y"]`, "f:9:13: rtr.streaming must be true or false",
		}},
		{"twins", "temperature = 9.0\ntool_timeout_secs = -5\n", []string{
			"f:1:1: temperature must be from 0 to 2", "f:2:1: tool_timeout_secs must be a number of seconds, 0 to 86400 (0: no limit)",
		}},
		{"one of each", "[exc]\ntimeout = \"x\"\noutput_max = 1\ntimeot = 1\n", []string{
			"f:2:11: exc.timeout must be a number", "f:3:1: exc.output_max must be from 1024 to 7340032 bytes",
			`f:4:1: unknown key "exc.timeot": the nearest one is "exc.timeout"`,
		}},
		{"over several lines", "[exc]\npass_env = [\n  \"A\",\n  1,\n]\ntimeout = -1\n", []string{
			`f:4:3: exc.pass_env must be a list of texts, such as ["x", "y"]`, "f:6:1: exc.timeout must be a number of seconds, 0 to 86400 (0: no limit)",
		}},
		{"the second entry", "[[rtr.limit]]\nprovider = \"openai\"\nconcurrent = 1\n[[rtr.limit]]\nprovider = \"openai\"\nconcurrent = -1\n[[rtr.model]]\ntools = \"native\"\n", []string{
			"f:6:1: rtr.limit.concurrent must be 0 (no limit) or more",
			"f:7:3: rtr.model.name must be given: a model's identifier, in which '*' stands for any characters",
		}},
		{"inline entries", "[rtr]\nfallback = [{provider = \"azure\"}]\n", []string{
			`f:2:14: rtr.fallback.provider must be "anthropic", "openai", "gemini", "openrouter", "ollama"`,
		}},
		{"refused twice", "[[rtr.model]]\nname = \"a\"\nrefuses = [\"seed\", \"mood\"]\n", []string{
			"f:3:1: rtr.model.refuses must be of temperature, top_p, stream_options, assistant_last",
		}},
		{"invalid prices", "[[rtr.model]]\nname = \"a\"\ninput = \"free\"\noutput = -1\n", []string{
			"f:3:9: rtr.model.input must be a number", "f:4:1: rtr.model.output must be US dollars per million tokens, 0 or more",
		}},
		{"syntax", "model = \"m\"\n[exc\ntimeot = 1\n", []string{"f:2:5: expected ']' to close table name"}},
		{"twice", "model = \"a\"\nmodel = \"b\"\n", []string{"f:2:1: "}},
		{"a section that is a key", "[model]\nx = 1\n", []string{`f:1:2: unknown section "model": the nearest one is "mem"`}},
		{"a key that is a section", "exc = 3\nmem = []\n", []string{"f:1:7: exc must be a section", "f:2:7: mem must be a section"}},
		{"lists of tables", "[rtr]\nfallback = 1\nlimit = [2]\n", []string{"f:2:12: rtr.fallback must be a list of tables", "f:3:10: rtr.limit must be a list of tables"}},
		{"no prompt", "system_prompt_file = \"none.md\"\n", []string{"f:1:1: system_prompt_file cannot be read: "}},
		{"a directory as prompt", "system_prompt_file = \".\"\n", []string{"f:1:1: system_prompt_file cannot be read: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, warnings := found(t, test.text)
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) || len(warnings) > 0 {
				t.Errorf("got\n%s\nwarnings %q, want\n%s", strings.Join(got, "\n"), warnings, strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestProblemsWarnings(t *testing.T) {
	got, warnings := found(t, "[agent]\nmax_iterations = 3\n[agr]\nmax_iterations = 4\n")
	if len(got) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "set only one of them") {
		t.Errorf("problems %q, warnings %q", got, warnings)
	}
	for text, want := range map[string]string{
		"model = \"claude-sonnet-5-5\"\n[agent]\ntemperature = 0.3\n":                                    "f:3:1: agent.temperature has no effect: claude-sonnet-5-5 takes no sampling parameters",
		"temperature = 0.3\nprovider = \"openai\"\n":                                                     "f:1:1: temperature has no effect: gpt-6-luna takes no sampling parameters",
		"[agent]\ntop_p = 0.3\n":                                                                         "f:2:1: agent.top_p has no effect: with models that take no sampling parameters, such as claude-sonnet-5-5",
		"temperature = 0.3\nprovider = \"gemini\"\n":                                                     "",
		"temperature = 0.3\n[api]\nbase_url = \"http://h/v1\"\n":                                         "",
		"temperature = 0.3\nmodel = \"gpt-5\"\n[[rtr.model]]\nname = \"gpt-5\"\nrefuses = [\"top_p\"]\n": "",
		"model = \"claude-sonnet-5-5\"\n":                                                                "",
	} {
		problems, warnings := found(t, text)
		if got := strings.Join(warnings, " "); len(problems) > 0 || got != want {
			t.Errorf("%q: problems %q, warnings %q, want %q", text, problems, got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "f")
	zinotest.Must(t, os.WriteFile(path, []byte("[api]\nkey = \"secret\"\n"), 0o644))
	got, warnings, err := Problems(path)
	if err != nil || len(got) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "chmod 600") || strings.Contains(warnings[0], "secret") {
		t.Errorf("problems %q, warnings %q, error %v", got, warnings, err)
	}
	if _, _, err := Problems(path + "none"); err == nil || !strings.Contains(err.Error(), "cannot read the configuration: open "+path) {
		t.Errorf("a missing file: error %v", err)
	}
}

// FuzzProblems checks that a file without problems loads for every service, and that
// each problem is one line.
func FuzzProblems(f *testing.F) {
	for _, seed := range []string{
		"", "[exc]\ntimeout = 3", "[exc]\ntimeout = \"x\"\npass_env = [1]\n", "[[rtr.model]]\n[[rtr.model]]\nname = 1\n", "[rtr]\nlimit = [{a=1},2]",
		"[model]\n[model.x]\ny=1\n[exc]", "exc.timeout = nan\r\nmem = 3", "a.b.c = {d=[1,{e=2}]}", "\"\\u0000\" = '''\n\n''' # x", "rtr.limit = {}\nrtr.model.name = 1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found := &faults{c: Default(), file: "Z", dir: "/d"}
		found.find(data)
		lines := found.lines()
		for _, line := range lines {
			if strings.Contains(line, "\n") || !strings.HasPrefix(line, "Z:") {
				t.Errorf("%q is not one line with its position", line)
			}
		}
		for _, service := range Services {
			if _, err := Parse(data, "Z", "/d", service); (err != nil) && len(lines) == 0 {
				t.Errorf("no problems, but %s cannot load it: %v", service, err)
			}
		}
	})
}
