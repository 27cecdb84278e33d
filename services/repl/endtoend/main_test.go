// Package endtoend_test tests the whole file REPL: the real binaries, a real browser,
// real editors, and an agent with a scripted model.
//
//	go test ./services/repl/endtoend -args -keep DIR
//
// saves the page's log and screenshots in DIR.
package endtoend_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/repl/browsertest"
)

var (
	update  = flag.Bool("update", false, "write the golden log")
	keepDir = flag.String("keep", "", "a directory for the log and for pictures")

	base string // a short directory for everything: paths of sockets are limited
	bin  string // where the binaries under test are built, once for all tests

	must = zinotest.Must
)

// timeout limits a wait. No test depends on its length.
const timeout = 2 * zinotest.Timeout

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (status int) {
	var err error
	if base, err = os.MkdirTemp("", "zr"); err == nil {
		defer func() {
			if err := os.RemoveAll(base); err != nil {
				fmt.Fprintln(os.Stderr, "cannot remove the temporary files:", err)
				status = 1
			}
		}()
		bin = filepath.Join(base, "bin")
		err = errors.Join(os.Setenv("TMPDIR", base), zinotest.Build(bin, "zino/services/..."),
			os.CopyFS(filepath.Join(base, "share", "zino", "tools"), os.DirFS("../../../tools")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status = m.Run()
	browsertest.Stop()
	// The processes of the browser end one after the other.
	left := zinotest.Processes(base)
	for end := time.Now().Add(timeout); len(left) > 0 && time.Now().Before(end); left = zinotest.Processes(base) {
		<-time.After(10 * time.Millisecond)
	}
	if len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes are still running: %q\n", left)
		status = 1
	}
	return status
}

// keep writes a file into the directory of -keep, if that is set.
func keep(t *testing.T, name string, data []byte) {
	t.Helper()
	if *keepDir != "" {
		must(t, os.MkdirAll(*keepDir, 0o755))
		must(t, os.WriteFile(filepath.Join(*keepDir, name), data, 0o644))
	}
}

// world is a zino-repl with a directory for its files and a site that it serves.
type world struct {
	t      *testing.T
	dir    string
	config string
	url    string // of the site, without a slash at the end
	proxy  string // the same of the proxied application; "" without --proxy
	flags  []string
	client *rpc.Client
	repl   *zinotest.Process
}

// newWorld starts zino-repl. settings are lines of [repl].
func newWorld(t *testing.T, settings string) *world {
	t.Helper()
	w := newStopped(t)
	w.start("127.0.0.1:0", settings)
	return w
}

// newStopped makes the directories of a world.
func newStopped(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp(base, "")
	must(t, err)
	w := &world{t: t, dir: dir, config: filepath.Join(dir, "ZINO.toml")}
	w.client = rpctest.Client(t, "repl", filepath.Join(dir, "s"))
	for _, name := range []string{"work", "home", "run"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	must(t, os.CopyFS(filepath.Join(dir, "site"), os.DirFS("testdata/site")))
	return w
}

// start starts the service on an address. After the test it must exit with status 0 on
// SIGTERM, without logged errors.
func (w *world) start(address, settings string) {
	w.t.Helper()
	text := fmt.Sprintf("[repl]\nsocket = \"s\"\nhttp = %q\ndir = \"work\"\nserve = \"site\"\n", address)
	must(w.t, os.WriteFile(w.config, []byte(text+settings), 0o600))
	cmd := exec.Command(filepath.Join(bin, "zino-repl"), append([]string{"--config", w.config}, w.flags...)...)
	cmd.Dir, cmd.Env = w.dir, w.env(zinotest.CoverEnv()...)
	p := zinotest.Start(w.t, cmd)
	w.repl = p
	w.t.Cleanup(func() {
		if p != w.repl {
			return // killed by the test
		}
		p.Signal(syscall.SIGTERM)
		if status := p.Exit(); status != 0 || p.Err.Contains("level=ERROR") {
			w.t.Errorf("zino-repl ended with status %d:\n%s", status, p.Err)
		}
	})
	p.Eventually("zino-repl answers", func() bool {
		_, err := rpc.Call(w.t.Context(), w.client, proto.Ping, proto.PingRequest{})
		stats, statsErr := rpc.Call(w.t.Context(), w.client, proto.GetStats, proto.StatsRequest{})
		if err != nil || statsErr != nil {
			return false
		}
		w.url = "http://" + stats.Info["http"]
		if address := stats.Info["proxy"]; address != "" {
			w.proxy = "http://" + address
		}
		return true
	})
}

// env returns an environment that is isolated from the user's.
func (w *world) env(more ...string) []string {
	return append(more, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+filepath.Join(w.dir, "home"), "XDG_RUNTIME_DIR="+filepath.Join(w.dir, "run"),
		"TMPDIR="+filepath.Join(w.dir, "run"), "LC_ALL=C.UTF-8", "TERM=dumb")
}

// until waits for a condition. On a timeout it logs the output of the service and all
// Markdown files.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	met := false
	defer func() {
		if !met {
			w.t.Logf("%s%s", w.repl.Err, w.everything())
		}
	}()
	zinotest.EventuallyIn(w.t, timeout, what, condition)
	met = true
}

// everything returns the ends of all Markdown files.
func (w *world) everything() string {
	var all strings.Builder
	files, err := filepath.Glob(w.path("debug/*.md"))
	must(w.t, err)
	for _, file := range append(files, w.path("debug.md")) {
		text := zinotest.Read(w.t, file)
		all.WriteString("\n--- " + filepath.Base(file) + " ---\n" + text[max(0, len(text)-4000):])
	}
	return all.String()
}

// path returns the path of a file in the directory of the REPL.
func (w *world) path(file string) string { return filepath.Join(w.dir, "work", file) }

// file returns the text of a file, or "" if it does not exist, as while an editor
// replaces it.
func (w *world) file(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(text)
}

// pages returns the connected pages.
func (w *world) pages() []proto.Page {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), timeout)
	defer cancel()
	list, err := rpc.Call(ctx, w.client, proto.ReplPages, proto.PagesRequest{})
	must(w.t, err)
	return list.Pages
}

// connected waits for n idle pages with a name and returns them.
func (w *world) connected(name string, n int) []proto.Page {
	w.t.Helper()
	var found []proto.Page
	w.until(name+" is connected", func() bool {
		found = nil
		for _, p := range w.pages() {
			if p.Name == name && strings.HasSuffix(w.file(p.File), footer) {
				found = append(found, p)
			}
		}
		return len(found) == n
	})
	return found
}

// footer is the last line of a file whose page is idle.
const footer = "> Write code in a fenced JS block below to execute against this page.\n"

const fence = "```"

// js is a block of code.
func js(code string) string { return fence + "js\n" + code + "\n" + fence + "\n" }

// add appends to a file in one write.
func (w *world) add(file, text string) {
	w.t.Helper()
	zinotest.Append(w.t, w.path(file), text)
}

// history returns the text above the footer of a file whose page is idle.
func (w *world) history(file string) string {
	w.t.Helper()
	var history string
	w.until(file+" ends with the footer", func() (ok bool) { // a page is listed before its file is written
		history, ok = strings.CutSuffix(w.file(file), "\n"+footer)
		return ok
	})
	return history + "\n"
}

// since waits until a page is idle and its history has grown, and returns the new
// part. The old part must be unchanged.
func (w *world) since(file, history string) string {
	w.t.Helper()
	var text string
	w.until("an answer in "+file, func() bool {
		text = w.file(file)
		// The service writes the end of an edit first, so a reader may see it below the
		// old footer.
		return strings.Count(text, footer) == 1 && strings.HasSuffix(text, "\n\n"+footer) && len(text) > len(history)+len(footer)
	})
	fresh, ok := strings.CutPrefix(text, history)
	if !ok {
		w.t.Fatalf("the history was\n%s\nand is\n%s", history, text)
	}
	return strings.TrimSuffix(fresh, footer)
}

// ask appends a block of code to a page's file and returns the exchange.
func (w *world) ask(p proto.Page, code string) string {
	w.t.Helper()
	history := w.history(p.File)
	w.add(p.File, js(code))
	return w.since(p.File, history)
}

// want appends a block of code and compares the exchange.
func (w *world) want(p proto.Page, code, label, result string) {
	w.t.Helper()
	if got, want := plain(p, w.ask(p, code)), answered(code, label, result); got != want {
		w.t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
}

// answered returns an exchange in the form of plain.
func answered(code, label, result string) string {
	return "> **agent** to PAGE at TIME\n" + js(code) + replied(label, result)
}

func replied(label, result string) string {
	how := "(DURATION)"
	if label == "Error" {
		how = "(**ERROR** after DURATION)"
	}
	return "\n> **PAGE** to agent at TIME " + how + "\n" + fence + label + "\n" + result + "\n" + fence + "\n\n"
}

var (
	clock    = regexp.MustCompile(` at \d\d:\d\d:\d\d`)
	logged   = regexp.MustCompile("(?m)^(```+(?:Text|JSON|Error) [^ ]+) [0-9:]{8}(?:\\.[0-9]{3})?(?: .*)?$")
	duration = regexp.MustCompile(` at TIME \((\*\*ERROR\*\* after )?(\d+ms|\d+(\.\d)?s)\)`)
)

// plain replaces ids, times and durations, and removes the time and place of events.
func plain(p proto.Page, text string) string {
	text = strings.ReplaceAll(text, p.Name+"-"+p.ID, "PAGE")
	text = logged.ReplaceAllString(clock.ReplaceAllString(text, " at TIME"), "$1")
	return duration.ReplaceAllString(text, " at TIME (${1}DURATION)")
}
