package endtoend_test

import (
	"os"
	"regexp"
	"strings"

	"zino/proto"
)

// footer is the last line of a file whose page is idle.
const footer = "> Write code in a fenced JS block below to execute against this page.\n"

const fence = "```"

// js is a block of code.
func js(code string) string { return fence + "js\n" + code + "\n" + fence + "\n" }

// add appends as "echo >>" does.
func (w *world) add(file, text string) {
	w.t.Helper()
	f, err := os.OpenFile(w.path(file), os.O_WRONLY|os.O_APPEND, 0)
	must(w.t, err)
	_, err = f.WriteString(text)
	must(w.t, err)
	must(w.t, f.Close())
}

// history is what stands above the footer of a file whose page is idle.
func (w *world) history(file string) string {
	w.t.Helper()
	text := w.file(file)
	history, ok := strings.CutSuffix(text, "\n"+footer)
	if !ok {
		w.t.Fatalf("the page is not idle:\n%s", text)
	}
	return history + "\n"
}

// since waits until a page is idle and its history longer, and returns what is
// new in it. What stood there before has to stand there still, byte for byte.
func (w *world) since(file, history string) string {
	w.t.Helper()
	var text string
	w.until("an answer in "+file, func() bool {
		text = w.file(file)
		return strings.HasSuffix(text, "\n\n"+footer) && len(text) > len(history)+len(footer)
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

// want asks and holds the exchange against the one expected.
func (w *world) want(p proto.Page, code, label, result string) {
	w.t.Helper()
	if got, want := plain(p, w.ask(p, code)), answered(code, label, result); got != want {
		w.t.Errorf("the exchange is\n%s\nwant\n%s", got, want)
	}
}

// answered is an exchange as plain has it.
func answered(code, label, result string) string {
	return "> **agent** to PAGE at TIME\n" + js(code) + replied(label, result)
}

func replied(label, result string) string {
	how := "(DURATION)"
	if label == "Error" {
		how = "(**ERROR** after DURATION)"
	}
	return "> **PAGE** to agent at TIME " + how + "\n" + fence + label + "\n" + result + "\n" + fence + "\n\n"
}

var (
	clock    = regexp.MustCompile(` at \d\d:\d\d:\d\d`)
	duration = regexp.MustCompile(` at TIME \((\*\*ERROR\*\* after )?(\d+ms|\d+(\.\d)?s)\)`)
)

// plain is a text without what differs from run to run: ids, times, durations.
func plain(p proto.Page, text string) string {
	text = strings.ReplaceAll(text, p.Name+"-"+p.ID, "PAGE")
	text = clock.ReplaceAllString(text, " at TIME")
	return duration.ReplaceAllString(text, " at TIME (${1}DURATION)")
}
