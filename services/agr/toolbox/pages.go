package toolbox

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"zino/proto"
)

// PageError is the code of a call that ran code in a page, which failed there.
const PageError = "page_error"

// OfPages reports whether a function is one of those for live pages. Where they
// are offered a file cannot take their names.
func OfPages(name string) bool {
	return slices.ContainsFunc(ofPages, func(f function) bool { return f.Name == name })
}

// ofPages are the tools for live pages.
var ofPages = []function{
	{
		PageList, "Lists the live pages (browser tabs, workers, programs) that code can be run in.",
		parameters{Type: "object", Properties: map[string]property{}, Required: []string{}}.schema(),
	},
	{
		PageEval, "Runs code in a live page, in the page's language, and returns its value, with what went to the console. Globals stay. Each call and its answer can be read in the page's Markdown file.",
		texts("page", "The page, as name, name-id or id.", "code", "An expression or statements; await works.").with("timeout_ms", property{
			Type: "integer", Minimum: 1, Description: "How long the code may run, in milliseconds.",
		}).schema(),
	},
}

// Pages is the result of listing the pages.
func Pages(pages proto.Pages) proto.Raw {
	return append(encode(proto.Raw(`{"ok":true,"data":`), pages), '}')
}

// evaluated is what a model sees of code that was run in a page, beside its error.
type evaluated struct {
	Kind       string             `json:"kind,omitzero"`
	Value      string             `json:"value,omitzero"`
	Background []proto.RealmEvent `json:"background,omitzero"`
	Omitted    int                `json:"background_omitted,omitzero"`
	DurationMS int64              `json:"duration_ms"`
	File       string             `json:"file,omitzero"`
	Note       string             `json:"note,omitzero"`
}

// Evaluated is the result of code that was run in a page. Code that failed is a
// call that failed: a model is not to take the one for an answer. Value, error
// and each text of the background are shortened: the first two to limit bytes.
// In a turn whose sandbox is not off, a note says that the page is outside of it.
func Evaluated(r proto.Evaluated, limit int, sandbox proto.Level) proto.Raw {
	data := evaluated{Kind: r.Kind, Value: shorten(r.Value, limit), Omitted: r.Omitted, DurationMS: r.DurationMS, File: r.File}
	for _, e := range r.Background {
		const part = 32 // of the limit: there are ten of them, with two texts each
		e.Message, e.Stack = shorten(e.Message, limit/part), shorten(e.Stack, limit/part)
		data.Background = append(data.Background, e)
	}
	if sandbox.Confined() {
		data.Note = fmt.Sprintf("Pages are not confined: this code ran outside the sandbox (%s) of this turn.", sandbox)
	}
	if r.OK {
		return append(encode(proto.Raw(`{"ok":true,"data":`), data), '}')
	}
	failed := Failed(PageError, shorten(r.Error, limit))
	return append(encode(append(failed[:len(failed)-1], `,"data":`...), data), '}')
}

// shorten leaves out the middle of a text that is longer than limit bytes, and
// cuts no character.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit/4*3, len(text)-limit/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n... (%d bytes are left out here; the page's file has more) ...\n%s", text[:head], tail-head, text[tail:])
}
