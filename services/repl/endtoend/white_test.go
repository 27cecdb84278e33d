package endtoend_test

import (
	"os"
	"strings"
	"testing"
)

// faulty are the files of an application that stays white: the path of an import is
// wrong, then a request has the wrong path, then a handler is broken.
func faulty(t *testing.T) map[string]string {
	t.Helper()
	changed := map[string]string{}
	for _, fault := range [][3]string{
		{"src/main.js", `"./view.js";`, `"./veiw.js";`},
		{"src/main.js", `"/prices.json"`, `"/price.json"`},
		{"src/view.js", "cart.pieces.apple++", "cart.piece.apple++"},
	} {
		name := fault[0]
		if changed[name] == "" {
			text, err := os.ReadFile("testdata/vite/" + name)
			must(t, err)
			changed[name] = string(text)
		}
		if strings.Count(changed[name], fault[1]) != 1 {
			t.Fatalf("%s does not contain %s once", name, fault[1])
		}
		changed[name] = strings.Replace(changed[name], fault[1], fault[2], 1)
	}
	return changed
}

// TestWhite checks that the agent finds and repairs, one after the other, three faults
// of a Vite application that shows nothing, with the tools for pages and edits of
// files, and that the page's log tells all of it.
func TestWhite(t *testing.T) {
	for name, proxied := range map[string]bool{"proxy": true, "tag": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, address := newVite(t, proxied, faulty(t))
			v := w.browse(address)
			p := w.connected("shop", 1)[0]
			w.until("Vite shows its error", func() bool { return in[bool](v, `!!document.querySelector("vite-error-overlay")`) })
			model := provider(t, "testdata/white.script")
			for _, step := range []struct{ logged, prompt, answer string }{
				{"", "The page shop is white. Why?", "main.js imported ./veiw.js; it imports ./view.js now.\n"},
				{"no prices at", "It is still white.", "main.js fetched /price.json, for which Vite sends its page; it fetches /prices.json now.\n"},
				{"shop is ready", "The button does nothing.", "The button counted in cart.piece; it counts in cart.pieces now.\n"},
				{"view was updated", "Does it work?", "It does: the button adds an apple.\n"},
			} {
				w.until("the log shows "+step.logged, func() bool { return strings.Contains(w.file(p.File), step.logged) })
				if answer, progress := w.exec(model, step.prompt); !strings.HasSuffix(answer, step.answer) {
					t.Fatalf("%s %q\n%s\n%s", step.prompt, answer, progress, w.everything())
				}
			}
			if shown := in[string](v, `document.querySelector("output").textContent`); shown != "Total 2.25" || model.Unused() != 0 {
				t.Errorf("the page shows %q, %d turns of the model are unused", shown, model.Unused())
			}
			// The log tells the story in its order.
			rest := w.file(p.File)
			for _, want := range []string{
				"shadowRoot", "veiw.js", "no prices at", "fetch('/price.json')", "text/html",
				"shop is ready", ".click()", "TypeError: Cannot read properties of undefined (reading 'apple')", "view was updated", "Total 2.25",
			} {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("%q is missing or too early in\n%s", want, w.file(p.File))
				}
				rest = after
			}
			keep(t, "white-"+name+".md", []byte(w.file(p.File)))
		})
	}
}
