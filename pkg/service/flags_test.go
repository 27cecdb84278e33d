package service

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
)

// TestFlags names the configuration in every way there is.
func TestFlags(t *testing.T) {
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
			c := command(t, shortDir(t), "[mem]\nsocket = \"wrong.sock\"\n", test.args...)
			if err := os.WriteFile(filepath.Join(c.Dir, "own.toml"), []byte(socketOnly), 0o600); err != nil {
				t.Fatal(err)
			}
			c.Env = append(c.Env, "ZINO_CONFIG="+test.env)
			c.start().listening()
			if err := call(c.socket, holdRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFlagsDefault reads ZINO.toml in the working directory.
func TestFlagsDefault(t *testing.T) {
	c := command(t, shortDir(t), socketOnly, []string{}...).start().listening()
	if err := call(c.socket, holdRequest{}); err != nil {
		t.Error(err)
	}
	c.signal(syscall.SIGTERM)
	c.status()
}

func TestFlagsRefused(t *testing.T) {
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
		{"no time", []string{"--idle-exit", "soon"}, "", 2, `zino-mem: invalid value "soon" for flag -idle-exit: parse error; try zino-mem --help`},
		{"a time that has passed", []string{"--idle-exit", "-1s"}, "", 2, "zino-mem: --idle-exit -1s: it must not be negative; try zino-mem --help"},
		{"no such file", []string{"-c", "missing.toml"}, "", 1, "zino-mem: cannot read the configuration: open "},
		{"no TOML", []string{"-c", "ZINO.toml"}, "[mem", 1, "zino-mem: "},
		{"an own key mistyped", []string{"-c", "ZINO.toml"}, "[mem]\nsokcet = 1\n", 1, "zino-mem: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := command(t, shortDir(t), test.text, test.args...).start()
			if status := c.status(); status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			oneLine(t, c.said.String())
			if !strings.HasPrefix(c.said.String(), test.want) {
				t.Errorf("said %q, want %q", c.said, test.want)
			}
		})
	}
}

// TestFlagsInform prints to standard output and ends.
func TestFlagsInform(t *testing.T) {
	for args, want := range map[string]string{
		"--version": "zino-mem " + rpc.Version + " (dev)\n",
		"--help":    "Usage: zino-mem [--config PATH]\n",
		"-h":        "Usage: zino-mem [--config PATH]\n",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := command(t, shortDir(t), "", args)
			var out strings.Builder
			c.Stdout = &out
			if status := c.start().status(); status != 0 {
				t.Errorf("status %d", status)
			}
			if !strings.HasPrefix(out.String(), want) || c.said.String() != "" {
				t.Errorf("printed %q, %q", &out, c.said)
			}
		})
	}
}
