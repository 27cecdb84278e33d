package zino_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// imports are the imports of a package, as reported by go list.
type imports struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

// entrance lists the packages that may import a module, in the product and in tests.
// "x/..." is a package with all below it.
type entrance struct{ product, tests []string }

// entrances lists every third-party module. No other may be used.
var entrances = map[string]entrance{
	"github.com/pelletier/go-toml":         {product: []string{"zino/pkg/config", "zino/pkg/gate", "zino/services/daemon/approval"}},
	"go.yaml.in/yaml":                      {product: []string{"zino/pkg/catalog/frontmatter"}}, // front matter of skills and commands
	"mvdan.cc/sh":                          {product: []string{"zino/pkg/gate"}},                // commands of a shell to a tree
	"github.com/bmatcuk/doublestar":        {product: []string{"zino/pkg/gate"}},                // ** in patterns of paths
	"github.com/fsnotify/fsnotify":         {product: []string{"zino/pkg/watch"}},
	"github.com/sashabaranov/go-openai":    {product: []string{"zino/services/rtr/wire/..."}},
	"github.com/blevesearch/snowballstem":  {product: []string{"zino/services/mem/index"}},
	"github.com/coreos/go-systemd":         {product: []string{"zino/pkg/service"}},
	"github.com/google/renameio":           {product: []string{"zino/pkg/durable"}},
	"github.com/spf13/cobra":               {product: []string{"zino/services/cli/..."}},
	"github.com/spf13/pflag":               {product: []string{"zino/services/cli/..."}}, // a part of cobra
	"github.com/aymanbagabas/go-udiff":     {product: []string{"zino/services/exc/files"}},
	"golang.org/x/term":                    {product: []string{"zino/services/cli/...", "zino/services/chat/screen"}},
	"github.com/charmbracelet/ultraviolet": {product: []string{"zino/services/chat/input"}},    // keys of a terminal
	"github.com/charmbracelet/x":           {product: []string{"zino/services/chat/screen"}},   // widths of text
	"github.com/yuin/goldmark":             {product: []string{"zino/services/chat/markdown"}}, // Markdown to a tree
	"github.com/alecthomas/chroma":         {product: []string{"zino/services/chat/markdown"}}, // tokens of code
	"github.com/sourcegraph/jsonrpc2":      {product: []string{"zino/services/cli/acp"}},       // the wire of ACP
	"golang.org/x/mod":                     {product: []string{"zino/pkg/audit/chain"}},        // signed notes
	"golang.org/x/image":                   {product: []string{"zino/pkg/attach"}},             // decoders, scaling
	"golang.org/x/time":                    {product: []string{"zino/services/rtr/..."}},
	"golang.org/x/sys": {
		product: []string{"zino/pkg/durable", "zino/pkg/gate", "zino/pkg/mention", "zino/pkg/rpc", "zino/pkg/supervise", "zino/services/exc/...", "zino/services/repl/tail", "zino/services/chat/input", "zino/services/chat", "zino/services/cli/term"},
		tests:   []string{"zino/pkg/service", "zino/services/cli/...", "zino/services/constellation/bench"},
	},
	"github.com/landlock-lsm/go-landlock": {product: []string{"zino/services/exc/..."}},
	"github.com/coder/websocket":          {product: []string{"zino/services/repl/web"}, tests: []string{"zino/services/repl/zino-repl"}},
	"github.com/chromedp":                 {product: []string{"zino/services/repl/browsertest"}, tests: []string{"zino/services/repl/endtoend", "zino/services/repl/web"}}, // a browser
	"github.com/modelcontextprotocol":     {product: []string{"zino/services/mcp", "zino/services/mcp/server"}, tests: []string{"zino/services/constellation"}},
	"golang.org/x/oauth2":                 {product: []string{"zino/services/mcp"}},                                                       // tokens of the go-sdk
	"github.com/google/jsonschema-go":     {product: []string{"zino/pkg/schema", "zino/services/mcp/..."}, tests: []string{"zino/proto"}}, // values checked against a schema
	"github.com/rogpeppe/go-internal":     {tests: []string{"zino", "zino/pkg/fakellm", "zino/services/repl/page", "zino/services/rtr/..."}},
}

// neighbours lists the services that the tests of another one run in place of fakes.
var neighbours = map[string][]string{
	"zino":                 {"zino/services/daemon/turnlog"},
	"zino/services/daemon": {"zino/services/ctx", "zino/services/mem"},
}

// linked lists, per binary, the heavy modules and packages of the standard
// library that it may link, besides those in all.
var (
	all    = []string{"github.com/coreos/go-systemd/v22", "github.com/google/renameio/v2", "github.com/pelletier/go-toml/v2", "golang.org/x/sys"}
	linked = map[string][]string{
		"zino/services/agr/zino-agr":     {"golang.org/x/image", "github.com/fsnotify/fsnotify", "github.com/bmatcuk/doublestar/v4", "mvdan.cc/sh/v3"},
		"zino/services/audit/zino-audit": {"golang.org/x/mod"},
		"zino/services/cli/zino-attach":  {"golang.org/x/image"},
		"zino/services/chat/zino-chat": {
			"golang.org/x/image",
			"github.com/alecthomas/chroma/v2", "github.com/dlclark/regexp2/v2", "encoding/xml",
			"github.com/charmbracelet/ultraviolet", "github.com/charmbracelet/colorprofile", "github.com/charmbracelet/x/ansi",
			"github.com/charmbracelet/x/term", "github.com/charmbracelet/x/termios", "github.com/charmbracelet/x/windows",
			"github.com/clipperhouse/displaywidth", "github.com/clipperhouse/uax29/v2", "github.com/lucasb-eyer/go-colorful",
			"github.com/mattn/go-runewidth", "github.com/muesli/cancelreader", "github.com/rivo/uniseg", "github.com/xo/terminfo",
			"github.com/yuin/goldmark", "golang.org/x/sync", "golang.org/x/term",
		},
		"zino/services/cli/zino":           {"github.com/sourcegraph/jsonrpc2", "golang.org/x/mod", "mvdan.cc/sh/v3", "github.com/bmatcuk/doublestar/v4", "go.yaml.in/yaml/v3", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term", "net/http", "text/template"},
		"zino/services/ctx/zino-ctx":       {"github.com/fsnotify/fsnotify"},
		"zino/services/daemon/zino-daemon": {"github.com/google/jsonschema-go", "go.yaml.in/yaml/v3", "github.com/bmatcuk/doublestar/v4", "mvdan.cc/sh/v3"},
		"zino/services/exc/zino-exc": {
			"github.com/aymanbagabas/go-udiff", "github.com/fsnotify/fsnotify",
			"github.com/landlock-lsm/go-landlock", "kernel.org/pub/linux/libs/security/libcap/psx", "github.com/bmatcuk/doublestar/v4", "mvdan.cc/sh/v3",
		},
		"zino/services/mcp/zino-mcp": {
			"github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go", "github.com/segmentio/encoding", "github.com/segmentio/asm",
			"github.com/yosida95/uritemplate/v3", "golang.org/x/oauth2", "golang.org/x/sync", "golang.org/x/time", "encoding/gob", "net/http",
			"github.com/bmatcuk/doublestar/v4", "mvdan.cc/sh/v3",
		},
		"zino/services/mem/zino-mem":   {"github.com/blevesearch/snowballstem", "encoding/gob", "golang.org/x/text"},
		"zino/services/repl/zino-repl": {"github.com/coder/websocket", "github.com/fsnotify/fsnotify", "net/http", "text/template", "html/template", "github.com/bmatcuk/doublestar/v4", "mvdan.cc/sh/v3"},
		"zino/services/rtr/zino-rtr":   {"github.com/sashabaranov/go-openai", "golang.org/x/time", "net/http"},
		"zino/services/sys/zino-sys":   {"github.com/fsnotify/fsnotify", "go.yaml.in/yaml/v3"},
	}
	// heavy lists standard packages that add to the size or start time of a binary.
	heavy = []string{"net/http", "text/template", "html/template", "encoding/gob", "encoding/xml", "database/sql", "go/ast", "testing"}
)

// TestImports checks the layers: cli and constellation, services, pkg, rpc, wire and
// proto. No service imports another.
func TestImports(t *testing.T) {
	packages := listImports(t)
	if len(packages) < 20 {
		t.Fatalf("only %d packages were listed", len(packages))
	}
	for _, p := range packages {
		for _, imported := range p.Imports {
			if reason := refused(p.ImportPath, imported, false); reason != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, reason)
			}
		}
		for _, imported := range append(p.TestImports, p.XTestImports...) {
			if reason := refused(p.ImportPath, imported, true); reason != "" {
				t.Errorf("the tests of %s import %s: %s", p.ImportPath, imported, reason)
			}
		}
	}
}

// TestImportsLinked checks that binaries link no other heavy modules than those listed.
func TestImportsLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{.ImportPath}} {{.Module.Path}}{{end}}", "./...").Output()
	zinotest.Must(t, err)
	moduleOf := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		moduleOf[path] = module
	}
	for _, p := range listImports(t) {
		allowed, ok := linked[p.ImportPath]
		if !ok {
			continue
		}
		delete(linked, p.ImportPath)
		seen := map[string]bool{"zino": true}
		for _, path := range p.Deps {
			module, ours := moduleOf[path]
			if !ours && slices.Contains(heavy, path) {
				module = path
			}
			if module == "" || seen[module] {
				continue
			}
			seen[module] = true
			if !slices.Contains(all, module) && !slices.Contains(allowed, module) {
				t.Errorf("%s links %s", p.ImportPath, module)
			}
		}
	}
	for path := range linked {
		t.Errorf("there is no binary %s", path)
	}
}

func listImports(t *testing.T) (list []imports) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...").Output()
	zinotest.Must(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p imports
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// refused returns why a package, or its tests, may not import another; "" if
// they may.
func refused(from, imported string, tests bool) string {
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case imported == "testing" && !tests && !forTests(from):
		return "only tests and their support import it"
	case first == "zino":
		return refusedOurs(from, imported, tests)
	case !strings.Contains(first, "."):
		return "" // the standard library
	case !tests && strings.HasPrefix(from, "zino/proto"):
		return "proto imports the standard library only"
	case strings.HasPrefix(from, "zino/pkg/zinotest"):
		return "zinotest imports the standard library only"
	}
	for module, allowed := range entrances {
		if !within(imported, module+"/...") {
			continue
		}
		if slices.ContainsFunc(allowed.product, func(tree string) bool { return within(from, tree) }) ||
			tests && slices.ContainsFunc(allowed.tests, func(tree string) bool { return within(from, tree) }) {
			return ""
		}
		return "only " + strings.Join(append(allowed.product, allowed.tests...), ", ") + " may"
	}
	return "the module is not in the list of imports_test.go"
}

func refusedOurs(from, imported string, tests bool) string {
	switch {
	case forTests(imported) && !tests && !forTests(from):
		return "only test files import it"
	case from == "zino/pkg/zinotest" && imported != from:
		return "zinotest imports the standard library only"
	case from == "zino/pkg/zinotest/rpctest":
		if within(imported, "zino/pkg/zinotest/...") || slices.Contains([]string{"zino/pkg/rpc", "zino/proto"}, imported) {
			return ""
		}
		return "rpctest imports zinotest, rpc and proto only"
	case tests && within(imported, "zino/pkg/zinotest/..."):
		return ""
	case from == imported:
		return "" // tests of the package from outside
	case from == "zino/proto":
		return "proto imports no package of ours"
	case from == "zino/pkg/wire":
		return "wire imports no package of ours"
	case from == "zino/pkg/heap":
		return "heap imports no package of ours"
	case from == "zino/pkg/rpc" && imported != "zino/pkg/heap" && imported != "zino/pkg/wire" && imported != "zino/proto":
		return "rpc imports heap, wire and proto only"
	case strings.HasPrefix(from, "zino/pkg/") && strings.HasPrefix(imported, "zino/services/"):
		return "packages below pkg import no service"
	case strings.HasPrefix(from, "zino/services/constellation"), !strings.HasPrefix(imported, "zino/services/"):
		return ""
	case serviceOf(from) == serviceOf(imported):
		return ""
	case tests && slices.Contains(neighbours[from], imported):
		return ""
	}
	return "services speak over sockets"
}

// forTests reports whether a package is test support.
func forTests(path string) bool {
	return within(path, "zino/pkg/zinotest/...") || within(path, "zino/pkg/fakellm/...") ||
		path == "zino/services/constellation/measure" || path == "zino/services/mem/store/storetest" || path == "zino/services/repl/browsertest"
}

// within reports whether a package is in a tree: "x" is x alone, "x/..." x and
// what is below it. Modules such as github.com/x have the version below them.
func within(path, tree string) bool {
	root, ok := strings.CutSuffix(tree, "/...")
	return path == root || ok && strings.HasPrefix(path, root+"/")
}

// serviceOf returns the service that a package belongs to.
func serviceOf(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "zino/services/"), "/")
	return name
}

// TestRefused checks the rules of TestImports.
func TestRefused(t *testing.T) {
	const product, tests = false, true
	for _, tt := range []struct {
		from, imported string
		tests          bool
		refused        bool
	}{
		{"zino/proto", "encoding/json", product, false},
		{"zino/proto", "golang.org/x/sys/unix", product, true},
		{"zino/proto", "zino/pkg/wire", product, true},
		{"zino/proto", "github.com/google/jsonschema-go/jsonschema", product, true},
		{"zino/proto", "github.com/google/jsonschema-go/jsonschema", tests, false},
		{"zino/pkg/wire", "zino/proto", product, true},
		{"zino/pkg/wire", "zino/pkg/zinotest", tests, false},
		{"zino/pkg/heap", "zino/pkg/wire", product, true},
		{"zino/pkg/rpc", "zino/pkg/heap", product, false},
		{"zino/pkg/rpc", "zino/pkg/config", product, true},
		{"zino/pkg/rpc", "zino/pkg/config", tests, true},
		{"zino/pkg/rpc", "zino/proto", product, false},
		{"zino/pkg/rpc", "zino/pkg/zinotest/rpctest", tests, false},
		{"zino/pkg/config", "zino/services/mem", product, true},
		{"zino/pkg/config", "zino/services/mem", tests, true},
		{"zino/pkg/config", "github.com/fsnotify/fsnotify", tests, true},
		{"zino/pkg/config", "testing", product, true},
		{"zino/pkg/zinotest", "testing", product, false},
		{"zino/pkg/zinotest", "zino/proto", product, true},
		{"zino/pkg/zinotest", "golang.org/x/sys/unix", product, true},
		{"zino/pkg/zinotest/rpctest", "zino/pkg/rpc", product, false},
		{"zino/pkg/zinotest/rpctest", "zino/pkg/config", product, true},
		{"zino/pkg/fakellm/fakellm", "zino/pkg/fakellm", product, false},
		{"zino/services/agr", "zino/services/mem", product, true},
		{"zino/services/agr", "zino/services/mem", tests, true},
		{"zino/services/daemon", "zino/services/mem", product, true},
		{"zino/services/daemon", "zino/services/mem", tests, false},
		{"zino/services/cli", "zino/services/daemon", product, true},
		{"zino/services/cli", "zino/pkg/fakellm", product, true},
		{"zino/services/cli", "zino/pkg/fakellm", tests, false},
		{"zino/services/cli", "zino/pkg/zinotest", product, true},
		{"zino/services/cli/render", "github.com/spf13/cobra", product, false},
		{"zino/services/client", "github.com/spf13/cobra", product, true},
		{"zino/services/mem/zino-mem", "zino/services/mem", product, false},
		{"zino/services/mem", "zino/services/mem/store/storetest", product, true},
		{"zino/services/mem/store", "zino/services/mem/store/storetest", tests, false},
		{"zino/services/constellation", "zino/services/mem", product, false},
		{"zino/services/agr", "github.com/sashabaranov/go-openai", product, true},
		{"zino/services/rtr", "github.com/sashabaranov/go-openai", product, true},
		{"zino/services/rtr/wire", "github.com/sashabaranov/go-openai", product, false},
		{"zino/services/rtr", "zino/services/rtr/wire", product, false},
		{"zino/services/agr", "zino/services/rtr/wire", product, true},
		{"zino/services/rtr", "example.com/left/pad", product, true},
		{"zino/services/rtr", "example.com/left/pad", tests, true},
	} {
		if got := refused(tt.from, tt.imported, tt.tests) != ""; got != tt.refused {
			t.Errorf("refused(%s, %s, tests %v) = %v, want %v", tt.from, tt.imported, tt.tests, got, tt.refused)
		}
	}
}
