package service

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
)

func TestConfigurationIsNamedByFlagOrEnvironment(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		env  string
	}{
		{"-c", []string{"-c", "own.toml"}, ""},
		{"-c=", []string{"-c=own.toml"}, ""},
		{"--config", []string{"--config", "own.toml"}, ""},
		{"--config=", []string{"--config=own.toml"}, ""},
		{"ZINO_CONFIG", []string{}, "own.toml"},
		{"the flag before the variable", []string{"-c", "own.toml"}, "missing.toml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := command(t, zinotest.Dir(t), "[mem]\nsocket = \"wrong.sock\"\n", test.args...)
			zinotest.Write(t, filepath.Join(c.Dir, "own.toml"), socketOnly)
			c.Env = append(c.Env, "ZINO_CONFIG="+test.env)
			c.start().listening()
			zinotest.Must(t, call(c.socket, holdRequest{}))
		})
	}
}

func TestConfigurationDefaultsToWorkingDirectory(t *testing.T) {
	c := command(t, zinotest.Dir(t), socketOnly, []string{}...).start().listening()
	zinotest.Must(t, call(c.socket, holdRequest{}))
	c.Signal(syscall.SIGTERM)
	c.Exit()
}

func TestInvalidFlagsAndConfigurations(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		text   string
		status int
		want   string
	}{
		{"unknown flag", []string{"--nope"}, "", 2, "zino-mem: flag provided but not defined: -nope; try zino-mem --help"},
		{"no value", []string{"--config"}, "", 2, "zino-mem: flag needs an argument: -config; try zino-mem --help"},
		{"an argument", []string{"-c", "ZINO.toml", "start"}, "", 2, `zino-mem: unexpected argument "start"; try zino-mem --help`},
		{"invalid time", []string{"--idle-exit", "soon"}, "", 2, `zino-mem: invalid value "soon" for flag -idle-exit: parse error; try zino-mem --help`},
		{"negative time", []string{"--idle-exit", "-1s"}, "", 2, "zino-mem: --idle-exit -1s: it must not be negative; try zino-mem --help"},
		{"no such file", []string{"-c", "missing.toml"}, "", 1, "zino-mem: cannot read the configuration: open "},
		{"not TOML", []string{"-c", "ZINO.toml"}, "[mem", 1, "zino-mem: "},
		{"unknown key", []string{"-c", "ZINO.toml"}, "[mem]\nsokcet = 1\n", 1, "zino-mem: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := command(t, zinotest.Dir(t), test.text, test.args...).start()
			c.exits(test.status)
			oneLine(t, c.output())
			if !strings.HasPrefix(c.output(), test.want) {
				t.Errorf("wrote %q, want %q", c.output(), test.want)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{
		"--version": "zino-mem " + rpc.Version + " (dev)\n",
		"--help":    "Usage: zino-mem [--config PATH]\n",
		"-h":        "Usage: zino-mem [--config PATH]\n",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := command(t, zinotest.Dir(t), "", args)
			var out strings.Builder
			c.Stdout = &out
			c.start().exits(0)
			if !strings.HasPrefix(out.String(), want) || c.output() != "" {
				t.Errorf("printed %q, %q", &out, c.output())
			}
		})
	}
}
