package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"zino/proto"
)

// rule is a condition on a key's value and its text for the user.
type rule struct {
	key  string
	ok   bool
	want string
}

// check returns the first violated rule.
func (c *Config) check(file string, set keys, data []byte) error {
	for _, r := range slices.Concat(c.keyRules(), c.mcpRules()) {
		if r.ok {
			continue
		}
		for _, k := range set {
			if k.name == r.key || strings.HasPrefix(k.name, r.key+".") {
				return fmt.Errorf("%s:%d:%d: %s", file, k.line, k.column, r.message())
			}
		}
		return fmt.Errorf("%s: %s", file, r.message())
	}
	if slices.ContainsFunc(c.tableRules(), func(r rule) bool { return !r.ok }) {
		f := &faults{c: c, file: file, set: set, spans: spansOf(data)}
		f.checkTables()
		return errors.New(f.lines()[0])
	}
	return nil
}

func (r rule) message() string { return r.key + " must be " + r.want }

// keyRules returns the rules of single keys.
func (c *Config) keyRules() []rule {
	seconds := "a number of seconds, 0 to 86400 (0: no limit)"
	return []rule{
		{"provider", c.Provider == "" || c.Provider == "auto" || c.Provider == "offline" || isProvider(c.Provider), `"auto", "offline", ` + providers()},
		{"max_tokens", c.MaxTokens >= 0, "0 or more"},
		{"temperature", within(c.Temperature, 0, 2), "from 0 to 2"},
		{"tool_timeout_secs", within(c.ToolTimeoutSecs, 0, 86400), seconds},
		{"agent.temperature", within(c.Agent.Temperature, 0, 2), "from 0 to 2"},
		{"agent.top_p", within(c.Agent.TopP, 0, 1), "from 0 to 1"},
		{"skills.prompt_tokens", c.Skills.PromptTokens >= 100 && c.Skills.PromptTokens <= 100000, "from 100 to 100000"},
		{"cli.on_hangup", slices.Contains(Hangups, c.CLI.OnHangup), quoted(Hangups)},
		{"chat.preview_lines", c.Chat.PreviewLines >= 0 && c.Chat.PreviewLines <= 50, "from 0 to 50"},
		{"chat.reasoning", slices.Contains(ReasoningViews, c.Chat.Reasoning), quoted(ReasoningViews)},
		{"chat.width", c.Chat.Width >= 40 && c.Chat.Width <= 200, "from 40 to 200"},
		{"chat.width_method", slices.Contains(WidthMethods, c.Chat.WidthMethod), quoted(WidthMethods)},
		{"chat.notify", slices.Contains(Notifications, c.Chat.Notify), quoted(Notifications)},
		{"chat.theme", slices.Contains(Themes, c.Chat.Theme), quoted(Themes)},
		{"agent.effort", c.Agent.Effort == "" || slices.Contains(Efforts, c.Agent.Effort), quoted(Efforts) + `, or empty (the model's own)`},
		{"agent.continue_at", c.Agent.ContinueAt == 0 || within(c.Agent.ContinueAt, 0.5, 0.95), "0 (off), or from 0.5 to 0.95 of the model's context"},
		{"agent.continue_max", c.Agent.ContinueMax >= 0 && c.Agent.ContinueMax <= 1000, "from 0 to 1000"},
		{"daemon.running_max", c.Daemon.RunningMax >= 1, "1 or more"},
		{"daemon.resume_attempts", c.Daemon.ResumeAttempts >= 0, "0 or more"},
		{"daemon.resume_window", c.Daemon.ResumeWindow.valid(), durations},
		{"daemon.on_limit", c.Daemon.OnLimit == "stop" || c.Daemon.OnLimit == "park", `"stop" or "park"`},
		{"daemon.limit_wait", c.Daemon.LimitWait.valid(), durations},
		{"rtr.stall_timeout", within(c.Rtr.StallTimeout, 0, 86400), seconds},
		{"api.base_url", isURL(c.API.BaseURL), "an http or https URL such as http://127.0.0.1:8080/v1"},
		{"anthropic_base_url", isURL(c.AnthropicBaseURL), "an http or https URL such as https://api.anthropic.com"},
		{"openai_base_url", isURL(c.OpenAIBaseURL), "an http or https URL such as https://api.openai.com/v1"},
		{"gemini_base_url", isURL(c.GeminiBaseURL), "an http or https URL such as https://generativelanguage.googleapis.com"},
		{"openrouter_base_url", isURL(c.OpenRouterBaseURL), "an http or https URL such as https://openrouter.ai/api/v1"},
		{"budget.usd_per_day", within(c.Budget.USDPerDay, 0, 1e9), "US dollars, 0 (no limit) or more"},
		{"budget.usd_per_session", within(c.Budget.USDPerSession, 0, 1e9), "US dollars, 0 (no limit) or more"},
		{"budget.tokens_per_day", c.Budget.TokensPerDay >= 0, "0 (no limit) or more"},
		{"budget.tokens_per_session", c.Budget.TokensPerSession >= 0, "0 (no limit) or more"},
		{"exc.timeout", within(c.Exc.Timeout, 0, 86400), seconds},
		{"exc.orphan_timeout", c.Exc.OrphanTimeout.valid(), durations},
		{"exc.session_timeout", within(c.Exc.SessionTimeout, 0, 86400), seconds},
		{"exc.job_linger", c.Exc.JobLinger.valid(), durations},
		{"exc.job_max_age", c.Exc.JobMaxAge.valid(), durations},
		{"exc.job_output_max", c.Exc.JobOutputMax >= 1024 && c.Exc.JobOutputMax <= 1<<40, "1024 bytes or more"},
		{"exc.output_max", c.Exc.OutputMax >= 1024 && c.Exc.OutputMax <= 7<<20, "from 1024 to 7340032 bytes"},
		{"agr.tool_output_bytes", c.Agr.ToolOutputBytes >= 1024 && c.Agr.ToolOutputBytes <= 7<<20, "from 1024 to 7340032 bytes"},
		{"agr.loop_warn", c.Agr.LoopWarn >= 0 && c.Agr.LoopWarn <= 40, "from 1 to 40, or 0 (off)"},
		{"agr.loop_stop", c.Agr.LoopStop >= 0 && c.Agr.LoopStop <= 40, "from 1 to 40, or 0 (off)"},
		{"exc.sandbox", slices.Contains(proto.Levels, c.Exc.Sandbox), quoted(proto.Levels)},
		{"exc.memory_max", c.Exc.MemoryMax == 0 || c.Exc.MemoryMax >= 1<<20, "bytes, 1048576 or more, or 0 (no limit)"},
		{"exc.tasks_max", c.Exc.TasksMax >= 0, "0 (no limit) or more"},
		{"exc.cpu_max", within(c.Exc.CPUMax, 0, 4096), "a number of cores, 0 (no limit) or more"},
		{"undo.files", c.Undo.Files >= 1 && c.Undo.Files <= 1_000_000, "from 1 to 1000000"},
		{"undo.file_bytes", c.Undo.FileBytes >= 1 && c.Undo.FileBytes <= 1<<30, "from 1 to 1073741824 bytes"},
		{"undo.bytes", c.Undo.Bytes >= 1 && c.Undo.Bytes <= 1<<40, "from 1 to 1099511627776 bytes"},
		{"undo.scan_ms", c.Undo.ScanMS >= 1 && c.Undo.ScanMS <= 60000, "from 1 to 60000 milliseconds"},
		{"undo.max_bytes", c.Undo.MaxBytes >= 1<<20, "1048576 bytes or more"},
		{"undo.max_age", c.Undo.MaxAge.valid(), durations},
		{"gate.mode", c.Gate.Mode == "" || slices.Contains(Modes, c.Gate.Mode), quoted(Modes) + ", or empty (derived from the sandbox level)"},
		{"gate.expires", c.Gate.Expires.valid() && c.Gate.Expires.Value() > 0, durations + ", above 0"},
		{"gate.grant_days", c.Gate.GrantDays >= 1 && c.Gate.GrantDays <= 3650, "from 1 to 3650"},
		{"gate.approvers", areApprovers(c.Gate.Approvers), `"root", "requester", names or numbers of users, or "group:" and a name`},
		{"gate.notify", isCommand(c.Gate), `a command line, or a list of arguments such as ["notify-send", "zino"]`},
		{"audit.mirror", c.Audit.Mirror == MirrorJournal || c.Audit.Mirror == MirrorNone || filepath.IsAbs(c.Audit.Mirror), `"journal", "none", or the absolute path of a file`},
		{"audit.keep_days", c.Audit.KeepDays >= 0, "days, 0 (for ever) or more"},
		{"gate.escalate_to", areEscalations(c.Gate.EscalateTo), quoted(slices.DeleteFunc(slices.Clone(proto.Levels), func(l proto.Level) bool { return l == proto.LevelUnit }))},
		{"mem.durability", slices.Contains([]string{"fsync", "os"}, c.Mem.Durability), `"fsync" or "os"`},
		{"mem.embed", c.Mem.Embed == "" || isEmbedModel(c.Mem.Embed), `empty (off), or provider/model such as "ollama/nomic-embed-text", the provider one of ` + quoted(embedProviders)},
		{"mem.remember", slices.Contains([]string{"store", "propose"}, c.Mem.Remember), `"store" or "propose"`},
		{"ctx.examples_tokens", c.Ctx.ExamplesTokens >= 0, "0 (no limit) or more"},
		{"mask.files", arePatterns(c.Mask.Files), "absolute patterns of files, such as /etc/zino/secrets/*"},
		{"mask.allow", areExpressions(c.Mask.Allow), "Go regular expressions (RE2), each matching a whole text that is not a secret"},
		{"ctx.memories_tokens", c.Ctx.MemoriesTokens >= 0, "0 (no limit) or more"},
		{"ctx.history_tokens", c.Ctx.HistoryTokens >= 0, "0 (no limit) or more"},
		{"repl.http", IsLoopback(c.Repl.HTTP), "a loopback address with a port, such as 127.0.0.1:8302"},
		{"repl.timeout", within(c.Repl.Timeout, 0.001, 86400), "a number of seconds, up to 86400"},
		{"repl.debounce_ms", c.Repl.DebounceMS >= 1 && c.Repl.DebounceMS <= 10000, "from 1 to 10000 milliseconds"},
		{"repl.cadence", within(c.Repl.Cadence, 0.1, 3600), "from 0.1 to 3600 seconds"},
		{"repl.quiet", within(c.Repl.Quiet, 0.1, 3600), "from 0.1 to 3600 seconds"},
		{"repl.body_max", c.Repl.BodyMax >= 1024 && c.Repl.BodyMax <= 8<<20, "from 1024 to 8388608 bytes"},
		{"repl.footer", isFooter(c.Repl.Footer), `one line that begins with "> "`},
		{"repl.origins", areOrigins(c.Repl.Origins), "origins such as http://127.0.0.1:5173: scheme, host and port, nothing behind"},
		{"mcp.direct_tokens", c.MCP.DirectTokens >= 0, "0 or more"},
		{"mcp.idle_secs", within(c.MCP.IdleSecs, 0, 86400), seconds},
		{"logging.level", isLevel(c.Logging.Level), `"DEBUG", "INFO", "WARN" or "ERROR"`},
	}
}

// tableRules returns the rules of the entries of arrays of tables.
func (c *Config) tableRules() (rules []rule) {
	for _, f := range c.Rtr.Fallback {
		rules = append(rules, rule{"rtr.fallback.provider", isProvider(f.Provider), providers()})
	}
	for _, l := range c.Rtr.Limit {
		rules = append(
			rules,
			rule{"rtr.limit.provider", isProvider(l.Provider), providers()},
			rule{"rtr.limit.concurrent", l.Concurrent >= 0, "0 (no limit) or more"},
			rule{"rtr.limit.requests_per_minute", l.RequestsPerMinute >= 0, "0 (no limit) or more"},
		)
	}
	for _, m := range c.Rtr.Model {
		rules = append(rules, m.rules()...)
	}
	hooks := c.Hooks.tables()
	for _, event := range proto.HookEvents {
		for _, h := range *hooks[event] {
			rules = append(rules, h.rules("hooks."+event)...)
		}
	}
	return rules
}

func (h Hook) rules(array string) []rule {
	_, err := regexp.Compile(h.Matcher)
	return []rule{
		{array + ".command", strings.TrimSpace(h.Command) != "" && !strings.ContainsRune(h.Command, 0), "given: a command line for sh"},
		{array + ".matcher", err == nil || h.Matcher == "*", "a Go regular expression (RE2) for whole names of tools, or \"*\""},
		{array + ".timeout", h.Timeout == nil || within(*h.Timeout, 0.1, 600), "from 0.1 to 600 seconds"},
		{array + ".on_failure", slices.Contains([]string{"", proto.HookAllow, proto.HookBlock}, h.OnFailure), `"allow" or "block"`},
	}
}

func (m Model) rules() []rule {
	rules := []rule{
		{"rtr.model.name", m.Name != "", "given: a model's identifier, in which '*' stands for any characters"},
		{"rtr.model.provider", m.Provider == "" || isProvider(m.Provider), providers()},
		{"rtr.model.tools", slices.Contains([]string{"", "native", "text"}, m.Tools), `"native" or "text"`},
		{"rtr.model.schema", slices.Contains([]string{"", "native", "prompt"}, m.Schema), `"native" or "prompt"`},
		{"rtr.model.wire", m.Wire == "" || slices.Contains(Wires, m.Wire), `"responses" or "chat"`},
		{"rtr.model.context", m.Context >= 0, "0 (as the server has it) or more"},
	}
	if m.Refuses != nil {
		for _, refused := range *m.Refuses {
			rules = append(rules, rule{"rtr.model.refuses", slices.Contains(Refusable, refused), "of " + strings.Join(Refusable, ", ")})
		}
	}
	for key, price := range map[string]*float64{"input": m.Input, "output": m.Output, "cache_read": m.CacheRead, "cache_write": m.CacheWrite} {
		rules = append(rules, rule{"rtr.model." + key, price == nil || within(*price, 0, 1e6), "US dollars per million tokens, 0 or more"})
	}
	return rules
}

func isProvider(name string) bool { return slices.Contains(Providers, name) }

func providers() string { return quoted(Providers) }

func quoted[S ~string](names []S) string {
	var list []string
	for _, name := range names {
		list = append(list, `"`+string(name)+`"`)
	}
	return strings.Join(list, ", ")
}

func within(v, low, high float64) bool { return !math.IsNaN(v) && v >= low && v <= high }

func isURL(s string) bool {
	u, err := url.Parse(s)
	return s == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// areEscalations reports whether all are levels other than unit.
func areEscalations(levels []proto.Level) bool {
	return !slices.ContainsFunc(levels, func(l proto.Level) bool { return l == proto.LevelUnit || !slices.Contains(proto.Levels, l) })
}

func isLevel(s string) bool {
	return slices.Contains([]string{"DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL"}, strings.ToUpper(s))
}

// IsLoopback reports whether an address, with its port, can be reached from this
// host only.
func IsLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func isFooter(line string) bool {
	return strings.HasPrefix(line, "> ") && strings.TrimSpace(line) == line && !strings.ContainsFunc(line, unicode.IsControl) &&
		!strings.HasPrefix(line, "> **") // it would look like a header
}

func arePatterns(list []string) bool {
	return !slices.ContainsFunc(list, func(pattern string) bool {
		_, err := filepath.Match(pattern, "")
		return err != nil || !filepath.IsAbs(pattern)
	})
}

func areExpressions(list []string) bool {
	return !slices.ContainsFunc(list, func(expr string) bool {
		_, err := regexp.Compile(expr)
		return err != nil
	})
}

func areOrigins(list []string) bool {
	return !slices.ContainsFunc(list, func(origin string) bool { return !IsOrigin(origin) })
}

// IsOrigin reports whether a text is an origin as browsers send it: scheme, host
// and port, without a path.
func IsOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && origin == u.Scheme+"://"+u.Host
}

func areApprovers(list []string) bool {
	return !slices.ContainsFunc(list, func(who string) bool {
		name := strings.TrimPrefix(who, "group:")
		return name == "" || strings.ContainsFunc(name, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == ':' || c == ',' })
	})
}

func isCommand(g Gate) bool {
	_, err := g.NotifyArgv()
	return err == nil
}
