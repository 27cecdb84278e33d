// Package config reads ZINO.toml. One Go value, Default, holds every key with
// its default; the shipped ZINO.toml shows the same, and a test holds both
// together. The package knows keys and their positions in the file, and
// nothing of what a service does with them.
package config

// Config is everything that can be configured. Paths are absolute after Load.
type Config struct {
	// File is the file that was read, empty if there was none, and Dir the
	// directory that relative paths are relative to.
	File string `toml:"-"`
	Dir  string `toml:"-"`
	// Source is the file that a person edits: File, or the one from which a
	// file that Write wrote was made.
	Source string `toml:"-"`
	// Warnings are remarks for the log, each a line with its place.
	Warnings []string `toml:"-"`

	set keys // what the file sets

	Provider          string  `toml:"provider"`            // one of Providers, "auto", "offline", or empty
	Model             string  `toml:"model"`               // means [service] model
	MaxTokens         int     `toml:"max_tokens"`          // limit of one answer; 0: the provider's default
	Temperature       float64 `toml:"temperature"`         // means [agent] temperature
	ToolTimeoutSecs   float64 `toml:"tool_timeout_secs"`   // means [exc] timeout
	SystemPrompt      string  `toml:"system_prompt"`       // in the template's place; empty: none
	SystemPromptFile  string  `toml:"system_prompt_file"`  // a file that holds it, and wins
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
	Skills  Catalog `toml:"skills"`
	Sys     Sys     `toml:"sys"`
	Exc     Exc     `toml:"exc"`
	Mem     Mem     `toml:"mem"`
	Ctx     Ctx     `toml:"ctx"`
	Repl    Repl    `toml:"repl"`
	Logging Logging `toml:"logging"`
}

// Daemon configures the entrance.
type Daemon struct {
	Socket string `toml:"socket"`
}

// Agent holds how the model is asked.
type Agent struct {
	Temperature   float64 `toml:"temperature"`
	TopP          float64 `toml:"top_p"`
	MaxIterations int     `toml:"max_iterations"`
	Effort        string  `toml:"effort"` // one of Efforts; empty: the model's own
}

// Efforts are the levels of reasoning that a model can be asked for.
var Efforts = []string{"off", "low", "medium", "high", "max"}

// Agr configures the agent's loop.
type Agr struct {
	Socket            string `toml:"socket"`
	MaxIterations     int    `toml:"max_iterations"`
	SessionIterations int    `toml:"session_iterations"`
	ToolOutputBytes   int    `toml:"tool_output_bytes"` // of each output of a command, for the model
}

// Service holds the model's identifier; the section's name is the specification's.
type Service struct {
	Model string `toml:"model"`
}

// Catalog is a directory of tool or skill definitions.
type Catalog struct {
	Dir string `toml:"dir"`
}

// Sys configures the system prompt.
type Sys struct {
	Socket          string `toml:"socket"`
	Template        string `toml:"template"`         // of plain messages
	SessionTemplate string `toml:"session_template"` // of turns of a session
	Personality     string `toml:"personality"`
	SoftMemory      string `toml:"soft_memory"` // used until there was one, be it an empty one
}

// Exc configures the executor.
type Exc struct {
	Socket    string   `toml:"socket"`
	Timeout   float64  `toml:"timeout"`    // seconds; 0: none
	OutputMax int      `toml:"output_max"` // bytes of stdout and of stderr
	PassEnv   []string `toml:"pass_env"`   // variables that executed code may see although they look like secrets
	Sandbox   string   `toml:"sandbox"`    // one of Sandboxes
	Network   bool     `toml:"network"`    // whether confined code may use the network
	MemoryMax int64    `toml:"memory_max"` // bytes of a run, where the host can limit them; 0: no limit
	TasksMax  int      `toml:"tasks_max"`  // processes and threads of a run; 0: no limit
	CPUMax    float64  `toml:"cpu_max"`    // cores that a run may keep busy; 0: no limit
}

// Sandboxes are the levels of confinement, from none to one's own uid.
var Sandboxes = []string{"off", "read-only", "workspace-write", "unit"}

// Mem configures the memory.
type Mem struct {
	Socket      string `toml:"socket"`
	DataDir     string `toml:"data_dir"`
	SessionsDir string `toml:"sessions_dir"` // empty: sessions below DataDir
	Durability  string `toml:"durability"`   // "fsync" or "os"
}

// Ctx configures the context. Its budgets are estimates: a token is taken for
// four bytes of the messages as JSON; 0 is no limit.
type Ctx struct {
	Socket         string `toml:"socket"`
	HistoryLimit   int    `toml:"history_limit"`     // messages; 0: all
	HardMemoryTopK int    `toml:"hard_memory_top_k"` // 0: none
	ExamplesTokens int    `toml:"examples_tokens"`
	MemoriesTokens int    `toml:"memories_tokens"`
	HistoryTokens  int    `toml:"history_tokens"`
}

// Logging configures the log.
type Logging struct {
	Level string `toml:"level"`
}

// Default is the configuration of an empty file.
func Default() *Config {
	return &Config{
		Temperature:     0.7,
		ToolTimeoutSecs: 30,
		Daemon:          Daemon{Socket: "/run/zino/daemon.sock"},
		Agent:           Agent{Temperature: 0.7, TopP: 1.0, MaxIterations: 5},
		Rtr:             Rtr{Socket: "/run/zino/rtr.sock", DataDir: "data/rtr", Streaming: true, StallTimeout: 60},
		Agr:             Agr{Socket: "/run/zino/agr.sock", MaxIterations: 5, SessionIterations: 200, ToolOutputBytes: 256 << 10},
		Tools:           Catalog{Dir: "tools"},
		Skills:          Catalog{Dir: "skills"},
		Sys:             Sys{Socket: "/run/zino/sys.sock", Template: "SYSTEM.md", SessionTemplate: "SESSION.md"},
		Exc:             Exc{Socket: "/run/zino/exc.sock", Timeout: 30, OutputMax: 1 << 20, PassEnv: []string{}, Sandbox: "off", TasksMax: 4096},
		Mem:             Mem{Socket: "/run/zino/mem.sock", DataDir: "data/mem", Durability: "fsync"},
		Ctx: Ctx{
			Socket: "/run/zino/ctx.sock", HistoryLimit: 50, HardMemoryTopK: 3,
			ExamplesTokens: 8000, MemoriesTokens: 8000, HistoryTokens: 32000,
		},
		Repl:    defaultRepl(),
		Logging: Logging{Level: "INFO"},
	}
}
