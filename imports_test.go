package zino_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// entrances names the packages through which a third-party module may come in.
// A module that is not listed may not be used at all.
var entrances = map[string][]string{
	"github.com/pelletier/go-toml":        {"zino/pkg/config"},
	"github.com/fsnotify/fsnotify":        {"zino/pkg/watch"},
	"github.com/sashabaranov/go-openai":   {"zino/services/rtr/wire"},
	"github.com/blevesearch/snowballstem": {"zino/services/mem/index"},
	"github.com/coreos/go-systemd":        {"zino/pkg/service"},
	"github.com/google/renameio":          {"zino/pkg/durable"},
	"github.com/spf13/cobra":              {"zino/services/cli"},
	"github.com/aymanbagabas/go-udiff":    {"zino/services/exc/files"},
	"github.com/spf13/pflag":              {"zino/services/cli"}, // a part of cobra
	"golang.org/x/term":                   {"zino/services/cli"},
	"golang.org/x/sys":                    {"zino/pkg/durable", "zino/pkg/rpc", "zino/services/exc", "zino/services/exc/cgroup", "zino/services/exc/confine", "zino/services/exc/files", "zino/services/exc/protect", "zino/services/repl/tail"},
	"github.com/landlock-lsm/go-landlock": {"zino/services/exc/confine"},
	"github.com/coder/websocket":          {"zino/services/repl/web"},
	"github.com/chromedp":                 {}, // a browser for tests
	"github.com/google/jsonschema-go":     {},
	"github.com/rogpeppe/go-internal":     {},
}

// TestImports keeps the layers apart: cli and constellation, services, pkg,
// rpc, wire and proto. No service imports another.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(packages) < 20 {
		t.Fatalf("only %d packages were listed", len(packages))
	}
	for _, line := range packages {
		words := strings.Fields(line)
		for _, imported := range words[1:] {
			if reason := refused(words[0], imported); reason != "" {
				t.Errorf("%s imports %s: %s", words[0], imported, reason)
			}
		}
	}
}

func refused(from, imported string) string {
	switch first, _, _ := strings.Cut(imported, "/"); {
	case first == "zino":
		return refusedOurs(from, imported)
	case !strings.Contains(first, "."):
		return "" // the standard library
	case strings.HasPrefix(from, "zino/proto"):
		return "proto imports the standard library only"
	}
	for module, allowed := range entrances {
		if strings.HasPrefix(imported, module) {
			if slices.Contains(allowed, from) {
				return ""
			}
			return "it enters through " + strings.Join(allowed, ", ")
		}
	}
	return "no package brings it in"
}

func refusedOurs(from, imported string) string {
	switch {
	case from == "zino/proto":
		return "proto imports nothing of ours"
	case from == "zino/pkg/wire":
		return "wire imports nothing of ours"
	case from == "zino/pkg/rpc" && imported != "zino/pkg/wire" && imported != "zino/proto":
		return "rpc stands on wire and proto only"
	case strings.HasPrefix(from, "zino/pkg/") && strings.HasPrefix(imported, "zino/services/"):
		return "a package knows no service"
	case strings.HasPrefix(from, "zino/services/constellation"), !strings.HasPrefix(imported, "zino/services/"):
		return ""
	case serviceOf(from) == serviceOf(imported):
		return "" // a service's binary and packages are its own business
	}
	return "services speak over sockets"
}

// serviceOf is the service that a package belongs to.
func serviceOf(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "zino/services/"), "/")
	return name
}

// TestRefused shows that the rules above can fail.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		from, imported string
		refused        bool
	}{
		{"zino/proto", "encoding/json", false},
		{"zino/proto", "golang.org/x/sys/unix", true},
		{"zino/proto", "zino/pkg/wire", true},
		{"zino/pkg/wire", "zino/proto", true},
		{"zino/pkg/rpc", "zino/pkg/config", true},
		{"zino/pkg/rpc", "zino/proto", false},
		{"zino/pkg/config", "zino/services/mem", true},
		{"zino/services/agr", "zino/services/mem", true},
		{"zino/services/cli", "zino/services/daemon", true},
		{"zino/services/mem/zino-mem", "zino/services/mem", false},
		{"zino/services/constellation", "zino/services/mem", false},
		{"zino/services/agr", "github.com/sashabaranov/go-openai", true},
		{"zino/services/rtr", "github.com/sashabaranov/go-openai", true},
		{"zino/services/rtr/wire", "github.com/sashabaranov/go-openai", false},
		{"zino/services/rtr", "zino/services/rtr/wire", false},
		{"zino/services/rtr/wire", "zino/services/rtr/retry", false},
		{"zino/services/agr", "zino/services/rtr/wire", true},
		{"zino/services/rtr", "example.com/left/pad", true},
	} {
		if got := refused(test.from, test.imported) != ""; got != test.refused {
			t.Errorf("refused(%s, %s) = %v, want %v", test.from, test.imported, got, test.refused)
		}
	}
}
