// Package config reads ZINO.toml. Default has every key with its default value; a test
// compares it with the shipped ZINO.toml.
package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"zino/proto"
)

// Config has all settings. Paths are absolute after Load.
type Config struct {
	// File is the file that was read, "" without one, and Dir the base of relative
	// paths.
	File string `toml:"-"`
	Dir  string `toml:"-"`
	// Source is the file that the user edits: File or, if Write generated File, the
	// file that it was generated from.
	Source string `toml:"-"`
	// Warnings are lines for the log, each with its position.
	Warnings []string `toml:"-"`

	set keys // the keys in the file

	Provider          string  `toml:"provider"`            // one of Providers, "auto", "offline", or empty
	Model             string  `toml:"model"`               // same as [service] model
	MaxTokens         int     `toml:"max_tokens"`          // limit of one answer; 0: the provider's default
	Temperature       float64 `toml:"temperature"`         // same as [agent] temperature
	ToolTimeoutSecs   float64 `toml:"tool_timeout_secs"`   // same as [exc] timeout
	SystemPrompt      string  `toml:"system_prompt"`       // replaces the template; empty: the template
	SystemPromptFile  string  `toml:"system_prompt_file"`  // a file with it, which takes precedence
	AnthropicBaseURL  string  `toml:"anthropic_base_url"`  // empty: Anthropic's own; so for the next three
	OpenAIBaseURL     string  `toml:"openai_base_url"`     //
	GeminiBaseURL     string  `toml:"gemini_base_url"`     //
	OpenRouterBaseURL string  `toml:"openrouter_base_url"` //

	Daemon  Daemon  `toml:"daemon"`
	Agent   Agent   `toml:"agent"`
	Rtr     Rtr     `toml:"rtr"`
	API     API     `toml:"api"`
	Budget  Budget  `toml:"budget"`
	Service Service `toml:"service"`
	Agr     Agr     `toml:"agr"`
	Tools   Catalog `toml:"tools"`
	Skills  Skills  `toml:"skills"`
	Sys     Sys     `toml:"sys"`
	Exc     Exc     `toml:"exc"`
	Undo    Undo    `toml:"undo"`
	Gate    Gate    `toml:"gate"`
	Hooks   Hooks   `toml:"hooks"`
	Mask    Mask    `toml:"mask"`
	Audit   Audit   `toml:"audit"`
	Mem     Mem     `toml:"mem"`
	Ctx     Ctx     `toml:"ctx"`
	Repl    Repl    `toml:"repl"`
	MCP     MCP     `toml:"mcp"`
	CLI     CLI     `toml:"cli"`
	Chat    Chat    `toml:"chat"`
	Logging Logging `toml:"logging"`
}

// Daemon configures the daemon.
type Daemon struct {
	Socket     string `toml:"socket"`
	DataDir    string `toml:"data_dir"`    // directory of the environments of open turns
	RunningMax int    `toml:"running_max"` // turns that run at a time

	ResumeAttempts int      `toml:"resume_attempts"` // attempts to resume a turn since its last stored step
	ResumeWindow   Duration `toml:"resume_window"`   // age of the last event of a turn that is resumed; 0: none is
	OnLimit        string   `toml:"on_limit"`        // "stop" or "park"
	LimitWait      Duration `toml:"limit_wait"`      // the longest time that a turn is parked for a limit
	JobWake        bool     `toml:"job_wake"`        // the end of a job with wake starts a turn
}

// Agent configures the requests to the model.
type Agent struct {
	Temperature   float64 `toml:"temperature"`
	TopP          float64 `toml:"top_p"`
	MaxIterations int     `toml:"max_iterations"`
	Effort        string  `toml:"effort"`       // one of Efforts; empty: the model's own
	ContinueAt    float64 `toml:"continue_at"`  // part of the model's context at which a turn goes on in a new session; 0: never
	ContinueMax   int     `toml:"continue_max"` // new sessions of a turn in a row
}

// Efforts are the levels of reasoning that a model can be asked for.
var Efforts = []string{"off", "low", "medium", "high", "max"}

// Agr configures the agent's loop.
type Agr struct {
	Socket            string `toml:"socket"`
	MaxIterations     int    `toml:"max_iterations"`
	SessionIterations int    `toml:"session_iterations"`
	ToolOutputBytes   int    `toml:"tool_output_bytes"` // of each output of a command, for the model
	Todo              bool   `toml:"todo"`              // the tool todo is offered
	LoopWarn          int    `toml:"loop_warn"`         // equal calls until the model is warned, 0: never
	LoopStop          int    `toml:"loop_stop"`         // equal calls until the turn is stopped, 0: never
}

// Service has the model's identifier; the section's name is the specification's.
type Service struct {
	Model string `toml:"model"`
}

// Catalog is a directory of tool definitions.
type Catalog struct {
	Dir string `toml:"dir"`
}

// Sys configures the system prompt.
type Sys struct {
	Socket          string `toml:"socket"`
	Template        string `toml:"template"`         // of plain messages
	SessionTemplate string `toml:"session_template"` // of turns of a session
	Personality     string `toml:"personality"`
	SoftMemory      string `toml:"soft_memory"` // used until one was stored, even an empty one
}

// Exc configures the executor.
type Exc struct {
	Socket         string      `toml:"socket"`
	DataDir        string      `toml:"data_dir"`        // directory of recorded calls, jobs and undo
	Timeout        float64     `toml:"timeout"`         // seconds; 0: none
	OrphanTimeout  Duration    `toml:"orphan_timeout"`  // how long a call of a turn goes on without its caller
	SessionTimeout float64     `toml:"session_timeout"` // seconds until a command of a session goes to the background; 0: none
	JobLinger      Duration    `toml:"job_linger"`      // how long a job outlives the lease of its session
	JobMaxAge      Duration    `toml:"job_max_age"`     // of a job that is kept; "0": none
	JobOutputMax   int64       `toml:"job_output_max"`  // bytes of each output file of a job
	OutputMax      int         `toml:"output_max"`      // bytes of stdout and of stderr
	PassEnv        []string    `toml:"pass_env"`        // variables that executed code receives although they look like secrets
	Sandbox        proto.Level `toml:"sandbox"`         // one of proto.Levels
	Network        bool        `toml:"network"`         // whether confined code may use the network
	MemoryMax      int64       `toml:"memory_max"`      // bytes of a run, where the host can limit them; 0: no limit
	TasksMax       int         `toml:"tasks_max"`       // processes and threads of a run; 0: no limit
	CPUMax         float64     `toml:"cpu_max"`         // cores that a run may keep busy; 0: no limit
}

// Undo configures what exc records of the file changes of turns.
type Undo struct {
	Enabled   bool     `toml:"enabled"`
	Files     int      `toml:"files"`      // files of a root that a scan covers
	FileBytes int64    `toml:"file_bytes"` // size of the largest file that a scan keeps
	Bytes     int64    `toml:"bytes"`      // of the files of a root that scans keep
	ScanMS    int      `toml:"scan_ms"`    // milliseconds that a scan may take
	MaxBytes  int64    `toml:"max_bytes"`  // of all that is kept, over all roots
	MaxAge    Duration `toml:"max_age"`    // of what is kept of a turn; "0": no limit
	Exclude   []string `toml:"exclude"`    // names of directories that scans skip
}

// undoExclude are the directories that scans skip by default.
var undoExclude = []string{".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".gradle", ".next", ".cache"}

// Gate configures which calls of a model run without a question.
type Gate struct {
	Mode         string   `toml:"mode"`          // one of Modes; empty: derived from the sandbox level
	Env          []string `toml:"env"`           // patterns of variables that a command may set and still be allowed by a rule
	RequireToken bool     `toml:"require_token"` // no call is carried out without a token of the daemon
	Expires      Duration `toml:"expires"`       // how long a request for an approval waits for an answer
	GrantDays    int      `toml:"grant_days"`    // how long an answer "always" holds
	Approvers    []string `toml:"approvers"`     // who may answer: "root", "requester", users, "group:NAME"
	Notify       any      `toml:"notify"`        // what is run for a new request: see NotifyArgv
	// EscalateTo has the level that a command at level unit gets if it asks for less
	// confinement: the first one. Empty: it is denied.
	EscalateTo []proto.Level `toml:"escalate_to"`
}

// NotifyArgv returns the command that is run for a new request: a list of arguments, or a
// line for sh; empty: none is.
func (g Gate) NotifyArgv() (argv []string, err error) {
	switch notify := g.Notify.(type) {
	case nil:
		return nil, nil
	case string:
		if strings.TrimSpace(notify) == "" {
			return nil, nil
		}
		return []string{"sh", "-c", notify}, nil
	case []any:
		for _, arg := range notify {
			text, ok := arg.(string)
			if !ok || strings.ContainsRune(text, 0) {
				return nil, errNotify
			}
			argv = append(argv, text)
		}
		if len(argv) == 0 || argv[0] == "" {
			return nil, errNotify
		}
		return argv, nil
	}
	return nil, errNotify
}

var errNotify = errors.New("neither a command line nor a list of arguments")

// Hooks are the commands that run at events of turns: [[hooks.EVENT]].
type Hooks struct {
	Foreign          bool   `toml:"foreign"` // use those of ~/.claude/settings.json, too
	SessionStart     []Hook `toml:"SessionStart"`
	UserPromptSubmit []Hook `toml:"UserPromptSubmit"`
	PreToolUse       []Hook `toml:"PreToolUse"`
	PostToolUse      []Hook `toml:"PostToolUse"`
	Stop             []Hook `toml:"Stop"`
	PreHandoff       []Hook `toml:"PreHandoff"`
	PreCompact       []Hook `toml:"PreCompact"` // another name of PreHandoff
	Notification     []Hook `toml:"Notification"`
}

// Hook is one command.
type Hook struct {
	Matcher   string   `toml:"matcher"` // regular expression for whole names; empty or "*": all
	Command   string   `toml:"command"`
	Timeout   *float64 `toml:"timeout"`    // seconds; nil: 60
	OnFailure string   `toml:"on_failure"` // "allow" or "block"; empty: allow
	Network   *bool    `toml:"network"`    // false takes it away from a confined hook; nil: as the turn
}

// List returns the hooks of a file for turns.
func (h *Hooks) List(source, file string) (list []proto.Hook) {
	of := h.tables()
	for _, event := range proto.HookEvents {
		for _, one := range *of[event] {
			hook := proto.Hook{
				Event: event, Matcher: one.Matcher, Command: one.Command, TimeoutMS: 60_000,
				OnFailure: cmp.Or(one.OnFailure, proto.HookAllow), Network: one.Network, Source: source, File: file,
			}
			if one.Timeout != nil {
				hook.TimeoutMS = int64(*one.Timeout * 1000)
			}
			list = append(list, hook)
		}
	}
	return list
}

// tables returns the arrays of hooks by their event.
func (h *Hooks) tables() map[string]*[]Hook {
	return map[string]*[]Hook{
		proto.HookSessionStart: &h.SessionStart, proto.HookUserPrompt: &h.UserPromptSubmit, proto.HookPreTool: &h.PreToolUse,
		proto.HookPostTool: &h.PostToolUse, proto.HookStop: &h.Stop, proto.HookPreHandoff: &h.PreHandoff,
		proto.HookPreCompact: &h.PreCompact, proto.HookNotification: &h.Notification,
	}
}

// Mask configures which secrets are masked in what models read, besides the keys of
// providers.
type Mask struct {
	Files         []string `toml:"files"`           // patterns of files whose values are secrets
	ValuesFromEnv []string `toml:"values_from_env"` // variables whose values are secrets
	Allow         []string `toml:"allow"`           // expressions for shapes that are not secrets
	Shapes        bool     `toml:"shapes"`          // whether what looks like a secret is masked
}

// Audit configures the audit: the service, and what the others send to it.
type Audit struct {
	Socket   string   `toml:"socket"`    // empty: the services write a plain log
	DataDir  string   `toml:"data_dir"`  // directory of the records and the key
	Mirror   string   `toml:"mirror"`    // where checkpoints go, too: "journal", "none", or a file
	Required bool     `toml:"required"`  // no tool is called and no model asked without it
	KeepDays int      `toml:"keep_days"` // age at which files are removed; 0: never
	Readers  []string `toml:"readers"`   // users, and groups as "group:NAME"
}

// Values of [audit] mirror that are no files.
const (
	MirrorJournal = "journal"
	MirrorNone    = "none"
)

// Modes are the modes of approval.
var Modes = []string{"plan", "ask", "auto", "yolo"}

// Mem configures the memory.
type Mem struct {
	Socket      string `toml:"socket"`
	DataDir     string `toml:"data_dir"`
	SessionsDir string `toml:"sessions_dir"` // empty: sessions below DataDir
	Durability  string `toml:"durability"`   // "fsync" or "os"
	Remember    string `toml:"remember"`     // what the tool remember does: "store" or "propose"
	// SessionIndex keeps an index of the sessions for recall_sessions.
	SessionIndex bool `toml:"session_index"`
	// Embed is the model for the vectors of memories, "provider/model"; empty: none.
	Embed string `toml:"embed"`
}

// Ctx configures the context. Token limits are estimates, four bytes of the
// messages as JSON per token; 0: no limit.
type Ctx struct {
	Socket         string `toml:"socket"`
	HistoryLimit   int    `toml:"history_limit"`     // messages; 0: all
	HardMemoryTopK int    `toml:"hard_memory_top_k"` // 0: none
	ExamplesTokens int    `toml:"examples_tokens"`
	MemoriesTokens int    `toml:"memories_tokens"`
	HistoryTokens  int    `toml:"history_tokens"`
}

// CLI configures zino itself.
type CLI struct {
	OnHangup string `toml:"on_hangup"` // one of Hangups
}

// Chat configures the interactive chat.
type Chat struct {
	Plain        bool   `toml:"plain"`         // lines in place of the interactive chat
	PreviewLines int    `toml:"preview_lines"` // of the output of a command
	Reasoning    string `toml:"reasoning"`     // one of ReasoningViews
	Width        int    `toml:"width"`         // of prose, in cells
	WidthMethod  string `toml:"width_method"`  // one of WidthMethods
	Notify       string `toml:"notify"`        // one of Notifications
	Title        bool   `toml:"title"`         // set the terminal's title
	Theme        string `toml:"theme"`         // one of Themes
	ScreenReader bool   `toml:"screen_reader"` // print each state as a line
}

// Values of the keys of [chat].
var (
	ReasoningViews = []string{"fold", "show", "hide"}
	WidthMethods   = []string{"grapheme", "wc"}
	Notifications  = []string{"auto", "bell", "off"}
	Themes         = []string{"auto", "mono"}
)

// What happens to a turn whose terminal is closed, in services that keep running.
const (
	HangupLeave = "leave" // it goes on
	HangupStop  = "stop"  // it is interrupted
)

// Hangups are the values of [cli] on_hangup.
var Hangups = []string{HangupLeave, HangupStop}

// Logging configures the log.
type Logging struct {
	Level string `toml:"level"`
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Temperature:     0.7,
		ToolTimeoutSecs: 30,
		Daemon:          Daemon{Socket: "/run/zino/daemon.sock", DataDir: "data/daemon", RunningMax: 16, ResumeAttempts: 3, ResumeWindow: "24h", OnLimit: "stop", LimitWait: "24h"},
		Agent:           Agent{Temperature: 0.7, TopP: 1.0, MaxIterations: 5, ContinueMax: 5},
		Rtr:             Rtr{Socket: "/run/zino/rtr.sock", DataDir: "data/rtr", Streaming: true, StallTimeout: 60},
		Agr:             Agr{Socket: "/run/zino/agr.sock", MaxIterations: 5, SessionIterations: 200, ToolOutputBytes: 256 << 10, Todo: true, LoopWarn: 5, LoopStop: 10},
		Tools:           Catalog{Dir: "tools"},
		Skills:          Skills{Dir: "skills", Foreign: true, PromptTokens: 2000},
		Sys:             Sys{Socket: "/run/zino/sys.sock", Template: "SYSTEM.md", SessionTemplate: "SESSION.md"},
		Exc:             Exc{Socket: "/run/zino/exc.sock", DataDir: "data/exc", OrphanTimeout: "10m", Timeout: 30, SessionTimeout: 120, JobLinger: "15m", JobMaxAge: "24h", JobOutputMax: 64 << 20, OutputMax: 1 << 20, PassEnv: []string{}, Sandbox: proto.LevelOff, TasksMax: 4096},
		Undo:            Undo{Enabled: true, Files: 20000, FileBytes: 16 << 20, Bytes: 64 << 20, ScanMS: 2000, MaxBytes: 2 << 30, MaxAge: "336h", Exclude: undoExclude},
		Gate:            Gate{Env: []string{"LANG", "LC_*", "TZ", "TERM", "NO_COLOR", "CI", "GO*"}, Expires: "24h", GrantDays: 30, Approvers: []string{"root", "requester"}, Notify: "", EscalateTo: []proto.Level{}},
		Mask:            Mask{Files: []string{}, ValuesFromEnv: []string{}, Allow: []string{}, Shapes: true},
		Audit:           Audit{Socket: "/run/zino/audit.sock", DataDir: "data/audit", Mirror: MirrorJournal, KeepDays: 90, Readers: []string{"root", "group:adm"}},
		Mem:             Mem{Socket: "/run/zino/mem.sock", DataDir: "data/mem", Durability: "fsync", Remember: "store", SessionIndex: true},
		Ctx: Ctx{
			Socket: "/run/zino/ctx.sock", HistoryLimit: 50, HardMemoryTopK: 3,
			ExamplesTokens: 8000, MemoriesTokens: 8000, HistoryTokens: 32000,
		},
		Repl:    defaultRepl(),
		MCP:     defaultMCP(),
		CLI:     CLI{OnHangup: HangupLeave},
		Chat:    Chat{PreviewLines: 5, Reasoning: "fold", Width: 100, WidthMethod: "grapheme", Notify: "auto", Title: true, Theme: "auto"},
		Logging: Logging{Level: "INFO"},
	}
}

// Repl configures the file REPL.
type Repl struct {
	Socket      string   `toml:"socket"`
	HTTP        string   `toml:"http"`         // a loopback address with a port
	Dir         string   `toml:"dir"`          // directory of debug.md and debug/
	Serve       string   `toml:"serve"`        // directory of static files; empty: none
	Origins     []string `toml:"origins"`      // further origins whose pages may connect
	Timeout     float64  `toml:"timeout"`      // time limit of a run in seconds
	DebounceMS  int      `toml:"debounce_ms"`  // milliseconds without a change before a file is read
	Cadence     float64  `toml:"cadence"`      // seconds between updates while code runs
	Quiet       float64  `toml:"quiet"`        // seconds without a change before the footer moves
	BodyMax     int      `toml:"body_max"`     // bytes of a result or an event in the file
	Footer      string   `toml:"footer"`       // the line below which requests are appended
	FromSandbox bool     `toml:"from_sandbox"` // whether the tool page_eval works at confined levels
}

func defaultRepl() Repl {
	return Repl{
		Socket: "/run/zino/repl.sock", HTTP: "127.0.0.1:8302", Dir: ".", Origins: []string{},
		Timeout: 60, DebounceMS: 150, Cadence: 5, Quiet: 2, BodyMax: 8 << 10,
		Footer: "> Write code in a fenced JS block below to execute against this page.",
	}
}

// Providers are the kinds of provider that rtr can speak to.
var Providers = []string{"anthropic", "openai", "gemini", "openrouter", "ollama"}

// DefaultModels are the models used if none is configured. Local servers are asked
// for theirs.
var DefaultModels = map[string]string{
	"anthropic": "claude-sonnet-5-5", "openai": "gpt-6-luna", "gemini": "gemini-flash-latest", "openrouter": "openrouter/auto",
}

// Rtr configures the router.
type Rtr struct {
	Socket       string     `toml:"socket"`
	DataDir      string     `toml:"data_dir"`      // directory of usage.jsonl
	Streaming    bool       `toml:"streaming"`     //
	StallTimeout float64    `toml:"stall_timeout"` // seconds without a byte until a stream fails; 0: no limit
	Fallback     []Fallback `toml:"fallback"`
	Limit        []Limit    `toml:"limit"`
	Model        []Model    `toml:"model"`
}

// Fallback is a model to ask if the ones before it cannot answer.
type Fallback struct {
	Provider string `toml:"provider"` // one of Providers
	Model    string `toml:"model"`    // empty: the provider's default
}

// Limit is how often a provider is asked, over all callers.
type Limit struct {
	Provider          string `toml:"provider"`            // one of Providers
	Concurrent        int    `toml:"concurrent"`          // requests at once; 0: no limit
	RequestsPerMinute int    `toml:"requests_per_minute"` // size and refill per minute of a token bucket; 0: no limit
}

// Model has properties of models that rtr does not know by itself. Per key the
// first matching entry that has it counts; an absent key changes nothing.
type Model struct {
	Name           string    `toml:"name"`             // identifier; '*' matches any characters
	Provider       string    `toml:"provider"`         // empty: any
	Tools          string    `toml:"tools"`            // "native" or "text"; empty: as known
	Schema         string    `toml:"schema"`           // "native" or "prompt": how an answer by a JSON Schema is asked for; empty: as known
	Wire           string    `toml:"wire"`             // of Wires, at openai; empty: as known
	Refuses        *[]string `toml:"refuses"`          // of Refusable; absent: as known, empty: nothing
	Images         *bool     `toml:"images"`           // whether images are accepted; absent: as known, else true
	MaxTokensField string    `toml:"max_tokens_field"` // name of the parameter that limits an answer
	Context        int       `toml:"context"`          // tokens; also the context requested from Ollama
	Input          *float64  `toml:"input"`            // US dollars per million tokens; absent: as known
	Output         *float64  `toml:"output"`           //
	CacheRead      *float64  `toml:"cache_read"`       // absent: as known, else as input
	CacheWrite     *float64  `toml:"cache_write"`      // absent: as known, else as input
}

// Wires are OpenAI's two wire formats.
var Wires = []string{"responses", "chat"}

// Refusable lists what a model may refuse: parameters of a request, and an
// assistant message as the last one.
var Refusable = []string{"temperature", "top_p", "stream_options", "assistant_last"}

// API is the provider's endpoint.
type API struct {
	BaseURL string `toml:"base_url"`
	Key     string `toml:"key"`
	KeyFile string `toml:"key_file"`
}

// Budget limits spending; 0: no limit. Days are in local time.
type Budget struct {
	USDPerDay        float64 `toml:"usd_per_day"`
	TokensPerDay     int64   `toml:"tokens_per_day"`
	USDPerSession    float64 `toml:"usd_per_session"`
	TokensPerSession int64   `toml:"tokens_per_session"`
}

// fixedSampling are prefixes of models that refuse temperature and top_p.
var fixedSampling = []string{
	"o1", "o3", "o4", "gpt-5", "gpt-6", "claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5", "claude-haiku-5", "claude-fable", "claude-mythos",
}

// FixedSampling reports whether a model is known to refuse temperature and top_p.
// The name has no vendor prefix, and Claude's versions have hyphens.
func FixedSampling(model string) bool {
	return slices.ContainsFunc(fixedSampling, func(prefix string) bool { return strings.HasPrefix(model, prefix) })
}
