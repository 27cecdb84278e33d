package cli

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
)

// ownSettings is what zino status shows of the constellation that zino starts
// for a run.
type ownSettings struct {
	Configuration   string `json:"configuration"`
	Provider        string `json:"provider"`
	Endpoint        string `json:"endpoint,omitzero"`
	Model           string `json:"model"`
	Key             string `json:"key"`
	Sandbox         string `json:"sandbox"`
	Budget          string `json:"budget"`
	Sockets         string `json:"sockets"` // their directory, once they run
	Log             string `json:"log"`
	Template        string `json:"template"`
	SessionTemplate string `json:"session_template"`
}

func describeOwn(ctx context.Context, cfg *config.Config) *ownSettings {
	m := findModelSource(ctx, cfg)
	s := &ownSettings{
		Configuration: cfg.File, Provider: m.provider, Endpoint: m.endpoint, Model: m.model, Key: m.key,
		Sandbox: cfg.Exc.Sandbox, Budget: describeBudget(cfg.Budget), Sockets: filepath.Dir(cfg.Daemon.Socket), Log: "none",
		Template: describeTemplate(cfg.Sys.Template), SessionTemplate: describeTemplate(cfg.Sys.SessionTemplate),
	}
	if s.Sandbox != "off" {
		s.Sandbox += map[bool]string{true: ", with network", false: ", no network"}[cfg.Exc.Network]
	}
	if base, err := baseDir(); err == nil {
		s.Log = filepath.Join(base, "log", "zino.log")
		s.Configuration = cmp.Or(s.Configuration, "defaults ("+filepath.Join(base, "config.toml")+" does not exist: zino config init)")
	}
	return s
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

// describeTemplate names a template as zino-sys does.
func describeTemplate(path string) string {
	if path == "" {
		return "none"
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("none (%s is missing)", path)
	case err == nil && !info.Mode().IsRegular():
		return path + " (not a regular file: fix it)"
	case syscall.Access(path, 4) != nil: // R_OK
		return path + " (cannot be read: fix it)"
	}
	return path
}

// rows are the settings as a table.
func (s *ownSettings) rows() [][]string {
	rows := [][]string{{"configuration", s.Configuration}, {"provider", s.Provider}}
	if s.Endpoint != "" {
		rows = append(rows, []string{"endpoint", s.Endpoint})
	}
	return append(rows, []string{"model", s.Model}, []string{"key", s.Key}, []string{"sandbox", s.Sandbox}, []string{"budget", s.Budget},
		[]string{"sockets", s.Sockets + " (with zino up)"}, []string{"log", s.Log}, []string{"template", s.Template}, []string{"session template", s.SessionTemplate})
}
