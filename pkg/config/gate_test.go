package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestNotifyIsALineOrAList(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "[] <nil>",
		`notify = ""`:                 "[] <nil>",
		`notify = "mail -s a b"`:      "[sh -c mail -s a b] <nil>",
		`notify = ["page", "a b"]`:    "[page a b] <nil>",
		`notify = []`:                 "gate.notify must be",
		`notify = 3`:                  "gate.notify must be",
		`notify = [1]`:                "gate.notify must be",
		`approvers = ["group:"]`:      "gate.approvers must be",
		`expires = "0"`:               "gate.expires must be",
		`grant_days = 0`:              "gate.grant_days must be",
		`approvers = ["group:a", ""]`: "gate.approvers must be",
	} {
		path := filepath.Join(zinotest.Dir(t), "config.toml")
		zinotest.Must(t, os.WriteFile(path, []byte("[gate]\n"+text+"\n"), 0o600))
		cfg, err := Load(path, "daemon")
		got := fmt.Sprint(err)
		if err == nil {
			argv, err := cfg.Gate.NotifyArgv()
			got = fmt.Sprint(argv, err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
