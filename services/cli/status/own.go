package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/services/cli/audit"
	"zino/services/cli/connect"
)

// own describes the services that zino would start for a run.
type own struct {
	Configuration   string `json:"configuration"`
	Provider        string `json:"provider"`
	Endpoint        string `json:"endpoint,omitzero"`
	Model           string `json:"model"`
	Key             string `json:"key"`
	Sandbox         string `json:"sandbox"`
	Budget          string `json:"budget"`
	Sockets         string `json:"sockets"` // their directory with zino up
	Log             string `json:"log"`
	Audit           string `json:"audit"`
	Template        string `json:"template"`
	SessionTemplate string `json:"session_template"`
}

// rows formats the settings as a table.
func (o *own) rows() [][]string {
	rows := [][]string{{"configuration", o.Configuration}, {"provider", o.Provider}}
	if o.Endpoint != "" {
		rows = append(rows, []string{"endpoint", o.Endpoint})
	}
	return append(rows, []string{"model", o.Model}, []string{"key", o.Key}, []string{"sandbox", o.Sandbox}, []string{"budget", o.Budget},
		[]string{"sockets", o.Sockets + " (with zino up)"}, []string{"log", o.Log}, []string{"audit", o.Audit}, []string{"template", o.Template}, []string{"session template", o.SessionTemplate})
}

func describeOwn(ctx context.Context, cfg *config.Config) *own {
	o := &own{
		Configuration: cfg.File, Sandbox: string(cfg.Exc.Sandbox), Budget: describeBudget(cfg.Budget), Sockets: filepath.Dir(cfg.Daemon.Socket), Log: "none",
		Template: describeTemplate(cfg.Sys.Template), SessionTemplate: describeTemplate(cfg.Sys.SessionTemplate),
	}
	o.Audit = audit.Kind(cfg, false)
	o.describeModel(ctx, cfg)
	if o.Sandbox != "off" {
		o.Sandbox += map[bool]string{true: ", with network", false: ", no network"}[cfg.Exc.Network]
	}
	if base, err := connect.BaseDir(); err == nil {
		o.Log = filepath.Join(base, "log", "zino.log")
		o.Configuration = cmp.Or(o.Configuration, "defaults ("+filepath.Join(base, "config.toml")+" does not exist: zino config init)")
	}
	return o
}

// describeModel sets provider, endpoint, model and the source of the key.
func (o *own) describeModel(ctx context.Context, cfg *config.Config) {
	search := keys.NewSearch(cfg, os.Getenv)
	o.Provider, o.Model, o.Key = search.First, cfg.Service.Model, "none"
	for _, account := range keys.Accounts() {
		if o.Provider != "" && o.Provider != account.Name {
			continue
		}
		_, from, err := search.Lookup(ctx, account)
		if from.Kind != "" || err != nil {
			o.Provider, o.Key = account.Name, connect.DescribeSource(from, err)
		}
	}
	switch o.Provider {
	case "offline":
		o.Model = "none"
		return
	case "":
		o.Provider = "none: connect one with zino auth login openrouter, or zino auth set PROVIDER"
		if cfg.Provider == "auto" {
			o.Provider = "auto: a model server on this host, else the offline provider (no AI)"
		}
		o.Model = cmp.Or(o.Model, "none")
		return
	case "openai":
		o.Endpoint = cmp.Or(cfg.API.BaseURL, os.Getenv("OPENAI_BASE_URL"), cfg.OpenAIBaseURL)
	case "anthropic":
		o.Endpoint = cmp.Or(os.Getenv("ANTHROPIC_BASE_URL"), cfg.AnthropicBaseURL)
	case "gemini":
		o.Endpoint = cmp.Or(os.Getenv("GEMINI_BASE_URL"), cfg.GeminiBaseURL)
	case "openrouter":
		o.Endpoint = cmp.Or(os.Getenv("OPENROUTER_BASE_URL"), cfg.OpenRouterBaseURL)
	case "ollama":
		o.Endpoint = os.Getenv("OLLAMA_HOST")
	}
	o.Endpoint = connect.WithoutPassword(o.Endpoint)
	if o.Model == "" && cfg.API.BaseURL == "" {
		o.Model = config.DefaultModels[o.Provider]
	}
	o.Model = cmp.Or(o.Model, "the first that the server names")
}

func describeBudget(b config.Budget) string {
	var limits []string
	for _, limit := range []struct {
		value float64
		unit  string
	}{
		{b.USDPerDay, "USD a day"},
		{float64(b.TokensPerDay), "tokens a day"},
		{b.USDPerSession, "USD a session"},
		{float64(b.TokensPerSession), "tokens a session"},
	} {
		if limit.value > 0 {
			limits = append(limits, strconv.FormatFloat(limit.value, 'f', -1, 64)+" "+limit.unit)
		}
	}
	return cmp.Or(strings.Join(limits, ", "), "none")
}

// describeTemplate describes a template like zino-sys.
func describeTemplate(path string) string {
	if path == "" {
		return "none"
	}
	const readable = 4
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("none (%s is missing)", path)
	case err == nil && !info.Mode().IsRegular():
		return path + " (not a regular file: fix it)"
	case syscall.Access(path, readable) != nil:
		return path + " (cannot be read: fix it)"
	}
	return path
}
