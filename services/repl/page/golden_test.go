package page

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden plays the scripts in testdata. Each is a txtar archive: the lines of
// "script" are commands, other sections are texts for them, "end" is the file at the
// end, "actions" are the actions, "file X" compares the file with X, and "kept X" the overflow file X. The guide at
// the head of a file is the word <guide>, except in scripts with "guide".
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p := &player{world: newWorld(t, options(t, archive)), archive: archive, copies: map[string][]byte{}}
			p.play()
			if *update {
				if err := os.WriteFile(name, txtar.Format(archive), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// options parses the lines of a script that begin with "option".
func options(t *testing.T, a *txtar.Archive) Options {
	o := Options{Name: "zen", ID: "1a2b", Epoch: "E"}
	for line := range strings.Lines(section(t, a, "script")) {
		w := strings.Fields(line)
		if len(w) < 3 || w[0] != "option" {
			continue
		}
		n, err := strconv.Atoi(w[2])
		switch w[1] {
		case "lang":
			o.Lang, err = w[2], nil
		case "program":
			o.Program = n == 1
		case "name":
			o.Name, err = w[2], nil
		case "footer":
			o.Footer, err = strings.Join(w[2:], " "), nil
		case "body":
			o.BodyMax = n
		case "kept":
			o.Kept = n
		case "timeout":
			o.Timeout = time.Duration(n) * time.Second
		default:
			err = fmt.Errorf("no such option")
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return o
}

func section(t testing.TB, a *txtar.Archive, name string) string {
	t.Helper()
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	t.Fatalf("there is no section %s", name)
	return ""
}

// player plays a script.
type player struct {
	*world
	archive *txtar.Archive
	copies  map[string][]byte
	guide   string // "" to show it in full
}

func (p *player) play() {
	p.t.Helper()
	p.guide = p.page.options.guide()
	for line := range strings.Lines(section(p.t, p.archive, "script")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.HasPrefix(line, "option ") {
			p.command(p.words(line))
		}
	}
	p.compare("end", p.file)
	p.compare("actions", []byte(strings.Join(append(p.log, ""), "\n")))
}

// words splits a command; words in quotes are Go strings.
func (p *player) words(line string) (words []string) {
	p.t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		words, line = append(words, word), line[len(quoted):]
	}
	return append(words, "", "", "", "", "", "")
}

// text is a word, or the section of that name.
func (p *player) text(word string) string {
	for _, f := range p.archive.Files {
		if f.Name == word {
			word = string(f.Data)
		}
	}
	return strings.ReplaceAll(word, "<guide>\n", p.page.options.guide())
}

func (p *player) command(w []string) {
	p.t.Helper()
	switch w[0] {
	case "guide":
		p.guide = ""
	case "start":
		p.start()
	case "restart": // of the service
		o := p.page.options
		o.Epoch += "E"
		p.page = New(o)
		p.apply(Start{p.now})
	case "connect":
		p.apply(Connected{At: p.now, Title: p.text(w[1]), URL: w[2]})
	case "frozen":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			p.t.Fatal(err)
		}
		p.apply(Frozen{p.now, p.now.Add(-d)})
	case "thawed":
		p.apply(Thawed{p.now})
	case "stop":
		p.apply(Stopping{p.now})
	case "gone":
		p.apply(Gone{p.now})
	case "changed":
		p.apply(Changed{p.now})
	case "pass":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			p.t.Fatal(err)
		}
		p.pass(d)
	case "unavailable":
		p.unavailable = w[1] == "on"
	case "file":
		p.compare(w[1], p.file)
	case "kept": // an overflow file
		p.compare(w[1], []byte(p.kept[w[1]]))

	// The file.
	case "append":
		p.append(p.text(w[1]))
	case "write": // without an event
		p.save([]byte(string(p.file) + p.text(w[1])))
	case "save":
		p.save([]byte(p.text(w[1])))
		p.changed()
	case "put": // without an event
		p.save([]byte(p.text(w[1])))
	case "sed":
		if !bytes.Contains(p.file, []byte(p.text(w[1]))) {
			p.t.Fatalf("no %q in\n%s", w[1], p.file)
		}
		p.save(bytes.Replace(p.file, []byte(p.text(w[1])), []byte(p.text(w[2])), 1))
		p.changed()
	case "rival":
		p.rival = func() { p.save([]byte(string(p.file) + p.text(w[1]))) }
	case "crlf":
		p.save(bytes.ReplaceAll(bytes.ReplaceAll(p.file, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n")))
		p.changed()
	case "rm":
		p.file, p.exists = nil, false
		p.changed()
	case "copy": // under a name, or without one
		p.copies[w[1]] = bytes.Clone(p.file)
	case "copysed": // edit the copy
		p.copies[""] = bytes.Replace(p.copies[""], []byte(p.text(w[1])), []byte(p.text(w[2])), 1)
	case "paste": // save the copy with a text behind it
		p.save(append(bytes.Clone(p.copies[w[2]]), p.text(w[1])...))
		p.changed()

	// Pages and programs.
	case "started":
		p.apply(Started{p.now, p.job})
	case "json", "text", "error":
		p.apply(Result{At: p.now, Job: p.job, OK: w[0] != "error", JSON: w[0] == "json", Value: p.text(w[1]), Error: p.text(w[1])})
	case "answer": // a job by its id
		p.apply(Result{At: p.now, Job: w[1], OK: true, JSON: true, Value: w[2]})
	case "say":
		p.apply(Background{p.now, []Captured{{Type: w[1], Level: w[2], Message: p.text(w[3]), Stack: p.text(w[4]), Time: w[5], Place: w[6]}}})
	case "says": // many times
		n, err := strconv.Atoi(w[3])
		if err != nil {
			p.t.Fatal(err)
		}
		for i := range n {
			p.apply(Background{p.now, []Captured{{Type: w[1], Level: w[2], Message: fmt.Sprint(i + 1)}}})
		}
	case "eval":
		p.apply(Eval{At: p.now, Key: w[1], Agent: w[2], Code: p.text(w[3])})
	case "abort":
		p.apply(Abort{p.now, w[1]})
	default:
		p.t.Fatalf("no command %s", w[0])
	}
}

// compare compares a text with a section.
func (p *player) compare(name string, got []byte) {
	p.t.Helper()
	if p.guide != "" {
		got = bytes.ReplaceAll(got, []byte(p.guide), []byte("<guide>\n"))
		got = bytes.ReplaceAll(got, []byte(strings.ReplaceAll(p.guide, "\n", "\r\n")), []byte("<guide>\r\n"))
	}
	text := []byte(legible(got))
	i := slices.IndexFunc(p.archive.Files, func(f txtar.File) bool { return f.Name == name })
	switch {
	case *update && i < 0:
		p.archive.Files = append(p.archive.Files, txtar.File{Name: name, Data: text})
	case *update:
		p.archive.Files[i].Data = text
	case i < 0:
		p.t.Fatalf("there is no section %s", name)
	case !bytes.Equal(p.archive.Files[i].Data, text):
		p.t.Errorf("%s:\n%s\nwant:\n%s", name, text, p.archive.Files[i].Data)
	}
}

// legible returns a text, or its lines quoted if it has characters that do not show.
func legible(b []byte) string {
	strange := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if utf8.Valid(b) && !bytes.ContainsFunc(b, strange) && (len(b) == 0 || b[len(b)-1] == '\n') {
		return string(b)
	}
	var out strings.Builder
	for _, l := range lines(b) {
		out.WriteString(strconv.Quote(string(l)) + "\n")
	}
	return out.String()
}
