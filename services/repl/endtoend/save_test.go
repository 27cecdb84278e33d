package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// style is a way in which programs append text to a file.
type style struct {
	name string
	save func(w *world, path, text string)
}

var styles = []style{
	{"append", func(w *world, path, text string) {
		w.run(`cat "$1" >>"$2"`, w.part(text), path)
	}},
	{"append in pieces", func(w *world, path, text string) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(w.t, err)
		for i := range len(text) {
			_, err = f.WriteString(text[i : i+1])
			must(w.t, err)
		}
		must(w.t, f.Close())
	}},
	{"in place", func(w *world, path, text string) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(w.t, err)
		_, err = f.WriteString(zinotest.Read(w.t, path) + text)
		must(w.t, err)
		must(w.t, f.Close())
	}},
	{"truncate and write", func(w *world, path, text string) {
		must(w.t, os.WriteFile(path, []byte(zinotest.Read(w.t, path)+text), 0o644))
	}},
	{"write and rename", func(w *world, path, text string) {
		must(w.t, os.WriteFile(path+".new", []byte(zinotest.Read(w.t, path)+text), 0o644))
		must(w.t, os.Rename(path+".new", path))
	}},
	{"backup and write", func(w *world, path, text string) {
		whole := zinotest.Read(w.t, path) + text
		must(w.t, os.Rename(path, path+"~"))
		must(w.t, os.WriteFile(path, []byte(whole), 0o644))
		must(w.t, os.Remove(path+"~"))
	}},
	{"vim with a backup", func(w *world, path, text string) { // which renames the old file
		w.run(`vim -N -u NONE -i NONE -es -c "set writebackup backupcopy=no" -c "\$r $1" -c wq "$2"`, w.part(text), path)
	}},
	{"vim", func(w *world, path, text string) { // with default settings, driven by keys
		keys := w.part("G:r " + w.part(text) + "\n:wq\n")
		w.run(`vim --not-a-term -s "$1" "$2"`, keys, path)
	}},
	{"sed -i", func(w *world, path, text string) {
		w.run(`sed -i "\$r $1" "$2"`, w.part(text), path)
	}},
}

// part writes a text to a temporary file and returns its path.
func (w *world) part(text string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "part")
	zinotest.Write(w.t, path, text)
	return path
}

// run runs a shell command.
func (w *world) run(command string, arguments ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "sh", append([]string{"-ec", command, "sh"}, arguments...)...)
	cmd.Dir, cmd.Env = w.dir, w.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// remarks are texts above a request that an editor or the service could damage.
var remarks = []string{
	"", "\n", "Why is that?\n\n", "a line with blanks at its end  \n\ttabs, üñí, \u202e and \x01\n\n", "> **page** said (so)\n\n",
	fence + "text\nexecuting (5s)\n" + fence + "\n\n", "> a quote\n\n# A title\n\n",
}

// TestSaves saves requests in all styles in random order. Each must be evaluated once,
// with the reply directly below it, and the text above must not change.
func TestSaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	order := append(append(random.Perm(len(styles)), random.Perm(len(styles))...), random.Perm(len(styles))...)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, n := range order {
		remark := remarks[random.IntN(len(remarks))]
		code := fmt.Sprintf("[%q, runs = (globalThis.runs ?? 0) + 1]", styles[n].name)
		history := w.history(p.File)
		styles[n].save(w, w.path(p.File), remark+js(code))
		want := remarked(remark, answered(code, "JSON", fmt.Sprintf("[%q,%d]", styles[n].name, i+1)))
		if got := plain(p, w.since(p.File, history)); got != want {
			t.Fatalf("%d, %s: the exchange is\n%q\nwant\n%q", i, styles[n].name, got, want)
		}
	}
}

// TestOlderCopy checks that a reply is restored, and its code is not run again, when
// an editor saves an older copy without that reply.
func TestOlderCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	history, buffer, want := w.history(p.File), w.file(p.File), ""
	for i := range 3 {
		code := fmt.Sprintf("[%d, runs = (globalThis.runs ?? 0) + 1]", i)
		buffer += js(code)
		must(t, os.WriteFile(w.path(p.File), []byte(buffer), 0o644))
		want += js(code) + replied("JSON", fmt.Sprintf("[%d,%d]", i, i+1))
		var got string
		w.until(fmt.Sprintf("answer %d", i+1), func() bool {
			text := w.file(p.File)
			got = plain(p, strings.TrimSuffix(strings.TrimPrefix(text, history), footer))
			return strings.HasSuffix(text, "\n\n"+footer) && strings.Count(got, "JSON") > i
		})
		// Requests of the same second share a header.
		if strings.ReplaceAll(got, "> **agent** to PAGE at TIME\n", "") != want {
			t.Fatalf("after save %d the exchanges are\n%s\nwant\n%s", i+1, got, want)
		}
	}
}

// remarked returns an exchange whose request begins with a remark: blank lines are moved
// before the header, the first in the place of the one above the footer, and one follows
// the header if text comes next.
func remarked(remark, exchange string) string {
	text := strings.TrimLeft(remark, "\n")
	header, rest, _ := strings.Cut(exchange, "\n")
	if text != "" && !strings.HasPrefix(text, fence) {
		text = "\n" + text
	}
	return strings.Repeat("\n", max(0, len(remark)-len(strings.TrimLeft(remark, "\n"))-1)) + header + "\n" + text + rest
}
