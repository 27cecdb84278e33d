package web

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// formPage is a form with 30 fields.
func formPage() string {
	var out strings.Builder
	out.WriteString("<!doctype html><title>Form</title><main><h1>Register</h1><form id=reg>")
	for i := range 6 {
		fmt.Fprintf(&out, `<div class="form-group mb-3 css-1x2y3z"><label class="form-label" for="f%[1]d">Field %[1]d</label><input class="form-control form-control-lg" id="f%[1]d" name="f%[1]d" placeholder="Type here" required></div>
<div class="form-group mb-3"><label>Mail %[1]d<input class="form-control" name="mail%[1]d" type="email" value="a%[1]d@b.c"></label></div>
<div class="form-group"><label for="s%[1]d">Country %[1]d</label><select class="form-select" id="s%[1]d"><option value="de">Germany</option><option value="fr">France</option><option value="it">Italy</option></select></div>
<div class="form-check"><input class="form-check-input" type="checkbox" id="c%[1]d" checked><label class="form-check-label" for="c%[1]d">Option %[1]d</label></div>
<div class="form-group"><label for="t%[1]d">Notes %[1]d</label><textarea class="form-control" id="t%[1]d" rows="2">text %[1]d</textarea></div>
`, i)
	}
	out.WriteString(`<input type="password" name="pw" value="secret"><button class="btn btn-primary">Save</button><button type="button" disabled>Cancel</button></form></main>`)
	return out.String()
}

// tablePage is a table with 200 rows.
func tablePage() string {
	var out strings.Builder
	out.WriteString(`<!doctype html><title>Table</title><main><h1>Orders</h1><table id="orders"><caption>All orders</caption><thead><tr><th>#</th><th>Customer</th></tr></thead><tbody>`)
	for i := range 200 {
		fmt.Fprintf(&out, `<tr class="odd:bg-slate-50 hover:bg-slate-100"><td class="px-4 py-2 font-mono">%d</td><td class="px-4 py-2"><span class="name">Customer %d</span> <button class="btn btn-sm" data-id="%d">Edit</button></td></tr>`, i+1, i, i)
	}
	out.WriteString("</tbody></table></main>")
	return out.String()
}

// newHelpersSite starts a service with the pages for the helpers.
func newHelpersSite(t *testing.T) *env {
	return newSite(t, map[string]string{
		"dialog.html": zinotest.Read(t, "testdata/helpers/dialog.html"), "form.html": formPage(), "table.html": tablePage(),
		"strict.html": `<meta http-equiv="Content-Security-Policy" content="script-src 'self'"><title>Strict</title><h1>Closed</h1>`,
	})
}

// visit opens a page and returns its id, and its tab.
func (b *env) visit(name string) (id string, script func(string)) {
	b.t.Helper()
	tab := b.browse(b.url("/" + name + ".html"))
	return b.connected(name, 1).ID, func(code string) {
		b.t.Helper()
		js[bool](tab, "("+code+", true)")
	}
}

// box is the place and the size of an element: they depend on the fonts of the host.
var box = regexp.MustCompile(`\[-?\d+,-?\d+ \d+x\d+\]`)

// outline returns the outline of a page without places and sizes.
func (b *env) outline(req proto.OutlinePage) string {
	b.t.Helper()
	o, err := b.service.Outline(b.t.Context(), req)
	must(b.t, err)
	for line := range strings.Lines(o.Text) {
		if !box.MatchString(line) && !strings.Contains(line, "more ") && !strings.HasPrefix(line, "page ") {
			b.t.Errorf("no box in %q", line)
		}
	}
	return box.ReplaceAllString(o.Text, "[]")
}

// TestOutline checks the outline of pages with a dialog, a shadow root, a frame, hidden
// elements, a long form and a long table, and that it is short.
func TestOutline(t *testing.T) {
	b := newHelpersSite(t)
	dialog, script := b.visit("dialog")
	b.until("the frame is loaded", func() bool { return strings.Contains(b.outline(proto.OutlinePage{Page: dialog}), "In frame") })
	script("dlg.showModal()")
	const wantDialog = `button "vis" [] body > div:nth-of-type(3) button
button "Delete" [] #del
button "Archive" disabled [] #off
text "Hello big world" [] body > p
text "contents" [] i
group [] details
  button "More" [] summary
textbox "Inside" [] #host >>> #inner
button "Shadow save" [] #host >>> button
frame [] #fr
  button "In frame" [] #fr >>> button
textbox = "edit me" [] #ed
clickable "Menu" expanded=false [] #menu
img "Logo" [] img
dialog modal open [] #dlg
  heading 2 "Sure?" [] h2
  text "This cannot be undone." [] #dlg p
  form [] form
    button "Yes, delete" focus [] #yes
    button "No" [] #no`
	first, rest, _ := strings.Cut(b.outline(proto.OutlinePage{Page: dialog}), "\n")
	if !regexp.MustCompile(`^page "Dialog" /dialog.html \d+x\d+ scrolled 0 of \d+$`).MatchString(first) || rest != wantDialog {
		t.Errorf("%s\n%s", first, rest)
	}
	for selector, want := range map[string]string{
		"#host >>> #inner": `textbox "Inside" [] #host >>> #inner`, "#fr": "frame [] #fr\n  button \"In frame\" [] #fr >>> button", "Yes, delete": `button "Yes, delete" focus [] #yes`,
	} {
		if got := b.outline(proto.OutlinePage{Page: dialog, Selector: selector}); got != want {
			t.Errorf("%s: %s", selector, got)
		}
	}
	if got := b.outline(proto.OutlinePage{Page: dialog, Selector: "#dlg", Depth: 1}); got != "dialog modal open [] #dlg (3 inside)" {
		t.Error(got)
	}
	if o, err := b.service.Outline(t.Context(), proto.OutlinePage{Page: dialog, Selector: "#none"}); !errors.Is(err, proto.ErrInvalid) || !strings.HasPrefix(err.Error(), "Error: nothing matches \"#none\"; there are:\n  button \"vis\" ") || strings.Contains(err.Error(), "    at ") {
		t.Errorf("%q, %v", o.Text, err)
	}

	form, _ := b.visit("form")
	text := b.outline(proto.OutlinePage{Page: form})
	for _, want := range []string{
		"    textbox \"Field 0\" required [] #f0\n", "    textbox \"Mail 1\" = \"a1@b.c\" [] input[name=\"mail1\"]\n", "    combobox \"Country 2\" = \"Germany\" [] #s2\n",
		"    checkbox \"Option 3\" checked [] #c3\n", "    textbox \"Notes 5\" = \"text 5\" [] #t5\n", "    textbox \"pw\" = \"•••\" [] input[name=\"pw\"]\n", "    button \"Cancel\" disabled [] ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	table, _ := b.visit("table")
	const wantTable = `main [] main
  heading 1 "Orders" [] h1
  table "All orders" [] #orders 200 rows
    header "# | Customer" [] thead tr
    row "1 | Customer 0 Edit" [] tbody tr:nth-of-type(1)
      button "Edit" [] tbody > tr:nth-of-type(1) button
    … 198 more rows
    row "200 | Customer 199 Edit" [] tbody tr:nth-of-type(200)
      button "Edit" [] tbody > tr:nth-of-type(200) button`
	if _, got, _ := strings.Cut(b.outline(proto.OutlinePage{Page: table}), "\n"); got != wantTable {
		t.Error(got)
	}
	for page, size := range map[string]struct{ html, least int }{"form": {len(formPage()), 2}, "table": {len(tablePage()), 30}} {
		o, err := b.service.Outline(t.Context(), proto.OutlinePage{Page: page})
		must(t, err)
		t.Logf("%s: %d bytes of HTML, %d of outline", page, size.html, len(o.Text))
		if len(o.Text)*size.least > size.html || len(o.Text) > 2500 {
			t.Errorf("%s: the outline has %d bytes, the page %d", page, len(o.Text), size.html)
		}
	}
}

// TestOutlineWithoutEval checks that an outline needs no permission to run code, and
// that it is answered while code waits in the page.
func TestOutlineWithoutEval(t *testing.T) {
	b := newHelpersSite(t)
	strict, _ := b.visit("strict")
	if got := b.outline(proto.OutlinePage{Page: strict}); !strings.HasSuffix(got, "\nheading 1 \"Closed\" [] h1") {
		t.Error(got)
	}
	form, script := b.visit("form")
	done := make(chan proto.Evaluated, 1)
	go func() {
		r, err := b.service.Eval(t.Context(), proto.Eval{Page: form, Code: "new Promise(done => { globalThis.finish = done })"})
		if err != nil {
			r.Error = err.Error()
		}
		done <- r
	}()
	b.until("code waits in the page", func() bool { return b.pages()[0].State == "executing" || b.pages()[1].State == "executing" })
	if got := b.outline(proto.OutlinePage{Page: form}); !strings.Contains(got, "Register") {
		t.Error(got)
	}
	b.until("the code is answered", func() bool { script("globalThis.finish?.(5)"); return len(done) == 1 })
	if r := <-done; !r.OK {
		t.Errorf("%+v", r)
	}
	page := b.connected("form", 1)
	text, err := os.ReadFile(b.dir + "/" + page.File)
	must(t, err)
	if strings.Contains(string(text), "Register") {
		t.Errorf("the outline was recorded:\n%s", text)
	}
}

// value runs code in a page and returns its value, or its error without the stack.
func (b *env) value(page, code string) string {
	b.t.Helper()
	r := b.eval(page, code)
	if r.Value != nil {
		return *r.Value
	}
	message, _, _ := strings.Cut(r.Error, "\n    at ")
	return message
}

// TestHelpers checks that helpers find elements and act on them as a person would, and
// that their errors say what to use instead.
func TestHelpers(t *testing.T) {
	b := newHelpersSite(t)
	dialog, script := b.visit("dialog")
	form, _ := b.visit("form")
	table, _ := b.visit("table")
	for _, c := range []struct{ page, code, want string }{
		{dialog, `zino.click("#del"); heard.splice(0).join(" ")`, "pointerdown:del mousedown:del focusin:del pointerup:del mouseup:del click:del"},
		{dialog, `zino.click("Shadow save")`, `clicked button "Shadow save" #host >>> button`},
		{dialog, `zino.fill("#host >>> #inner", "abc"); host.shadowRoot.querySelector("input").value`, "abc"},
		{dialog, `zino.fill("Inside", "abd")`, `filled textbox "Inside" #host >>> #inner = "abd" focus`},
		{dialog, `zino.click("In frame")`, `clicked button "In frame" #fr >>> button`},
		{dialog, `heard.length = 0; zino.fill("#ed", "new text"); ed.textContent + " " + heard.join(" ")`, "new text focusin:ed input:ed"},
		{dialog, `cover.style.display = "block"; zino.click("Delete")`, `Error: button "Delete" #del is covered by div "Loading…" #cover`},
		{dialog, `cover.style.display = "none"; zino.click("Delete")`, `clicked button "Delete" #del`},
		{dialog, `zino.click("Archive")`, `Error: button "Archive" #off is disabled`},
		{dialog, `zino.click("#dlg")`, "Error: dialog #dlg is not visible"},
		{dialog, `dlg.showModal(); zino.click("No"); dlg.open`, "false"},
		{dialog, `zino.click(zino.find("Delete"))`, `clicked button "Delete" #del`},
		{dialog, `[zino.find("hidden text"), zino.find("icon"), zino.find("BIG").localName, zino.find("logo").alt, zino.find("Inside").id]`, `[null,null,"b","Logo","inner"]`},
		{dialog, `zino.click(7)`, "Error: expected an element, a selector or a text, got 7"},
		{dialog, `"zino" in globalThis || "expect" in globalThis || "test" in globalThis`, "false"},

		{form, `zino.fill("Mail 1", "x@y.z"); document.querySelector("[name=mail1]").value`, "x@y.z"},
		{form, `zino.fill("Country 2", "France"); s2.value + zino.fill("Country 2", "it") + s2.value`, `frfilled combobox "Country 2" #s2 = "Italy" focusit`},
		{form, `zino.fill("Country 2", "Spain")`, `Error: combobox "Country 2" #s2 has no option Spain; it has: Germany, France, Italy`},
		{form, `zino.fill("#c3", false); [c3.checked, zino.fill("#c3", false)]`, `[false,"left checkbox \"Option 3\" #c3"]`},
		{form, `zino.click("Option 4"); c4.checked`, "false"},
		{form, `zino.fill("Save", "x")`, `Error: button "Save" button.btn cannot be filled`},
		{form, `document.querySelector("[name=mail2]").type = "date"; zino.fill("Mail 2", "soon")`, `Error: textbox "Mail 2" input[name="mail2"] does not take "soon"`},
		// A field that watches its property value, as React does.
		{form, `let was = f0.value, reported = []; Object.defineProperty(f0, "value", {get: () => was, set: v => { was = v }, configurable: true});
f0.addEventListener("input", e => { const now = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").get.call(f0); if (now !== was) reported.push(now) });
zino.fill("Field 0", "typed"); reported`, `["typed"]`},

		{table, `zino.click("Edit")`, "Error: 200 elements match \"Edit\":\n  button \"Edit\" tbody > tr:nth-of-type(1) button\n  button \"Edit\" tbody > tr:nth-of-type(2) button\n" +
			"  button \"Edit\" tbody > tr:nth-of-type(3) button\n  button \"Edit\" tbody > tr:nth-of-type(4) button\n  button \"Edit\" tbody > tr:nth-of-type(5) button\n" +
			"  button \"Edit\" tbody > tr:nth-of-type(6) button\n  button \"Edit\" tbody > tr:nth-of-type(7) button\n  button \"Edit\" tbody > tr:nth-of-type(8) button\n  … 192 more"},
		{table, `zino.click("tbody > tr:nth-of-type(150) button")`, `clicked button "Edit" tbody > tr:nth-of-type(150) button`},
		{table, `zino.click("Delete").length`, `Error: nothing matches "Delete"; there are:`},

		{form, `await zino.wait(() => document.title === "Form")`, "true"},
		{form, `setTimeout(() => { document.title = "Later" }, 20); await zino.wait(async () => document.title === "Later" && 7)`, "7"},
		{form, `(await zino.wait("Save")).className`, "btn btn-primary"},
		{form, `await zino.wait(() => false, 60)`, "Error: waited 60 ms for () => false: false"},
		{form, `await zino.wait(() => missing.x, 60)`, "Error: waited 60 ms for () => missing.x: ReferenceError: missing is not defined"},
	} {
		if got := b.value(c.page, c.code); got != c.want && !(strings.HasSuffix(c.want, "there are:") && strings.HasPrefix(got, c.want)) && !(strings.Contains(c.code, "missing") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n%s\nwant\n%s", c.code, got, c.want)
		}
	}
	// Errors of the helpers point to the cell.
	if r := b.eval(form, "const a = 1\n\nzino.click('Nothing')"); r.OK || !regexp.MustCompile(`(?m)^    at .*zino-job-[\w-]+\.js:3:\d+`).MatchString(r.Error) || strings.Contains(r.Error, "zino.js") || strings.Contains(r.Error, "<anonymous>") {
		t.Errorf("%+v", r)
	}
	// A page that has replaced what the helpers use.
	script(`HTMLElement.prototype.focus = Element.prototype.getAttribute = Element.prototype.matches = Document.prototype.querySelectorAll = Array.prototype.join = EventTarget.prototype.dispatchEvent = () => { throw Error("hostile") }`)
	if got := b.value(dialog, `zino.click("#del")`); got != `clicked button "Delete" #del` {
		t.Error(got)
	}
}

// TestExpect checks the comparisons of expect.
func TestExpect(t *testing.T) {
	b := newHelpersSite(t)
	page, _ := b.visit("form")
	for code, want := range map[string]string{
		`expect(2).toBe(2)`: "undefined", `expect(NaN).toBe(NaN)`: "undefined", `expect(0).toBe(-0)`: `expected 0 to be -0`, `expect({}).toBe({})`: "expected {} to be {}", `expect(2).not.toBe(2)`: "expected 2 not to be 2",
		`expect({a: [1, {b: 2}]}).toEqual({a: [1, {b: 2}], c: undefined})`: "undefined", `expect({a: [1, {b: 2}]}).toEqual({a: [1, {b: 3}]})`: `expected {"a":[1,{"b":2}]} to equal {"a":[1,{"b":3}]}`,
		`expect([1, 2]).toEqual([1])`: "expected [1,2] to equal [1]", `expect([]).toEqual({})`: "expected [] to equal {}", `expect(new Date(0)).toEqual(new Date(0))`: "undefined",
		`expect(new Map([[1, {a: 1}]])).toEqual(new Map([[1, {a: 1}]]))`: "undefined", `expect(new Set([1])).not.toEqual(new Set([2]))`: "undefined", `expect(/a/g).not.toEqual(/a/)`: "undefined",
		`expect(new Error("a")).toEqual(new Error("a"))`: "undefined", `expect({a: 1, b: 1}).toEqual({b: 1, a: 1})`: "undefined", `expect(null).toEqual({})`: "expected null to equal {}",
		`expect("abc").toMatch(/b/)`: "undefined", `expect("abc").toMatch("bc")`: "undefined", `expect("abc").toMatch("x")`: "expected abc to match x",
		`expect(() => { throw new TypeError("boo") }).toThrow()`: "undefined", `expect(() => { throw new TypeError("boo") }).toThrow("bo")`: "undefined", `expect(() => { throw new TypeError("boo") }).toThrow(TypeError)`: "undefined",
		`expect(() => { throw new TypeError("boo") }).toThrow(/x/)`: "to throw", `expect(() => 1).toThrow()`: "to throw", `expect(() => 1).not.toThrow()`: "undefined",
		`await expect(async () => { throw Error("later") }).toThrow("later")`: "undefined", `await expect(async () => 1).toThrow()`: "to throw",
	} {
		got := b.value(page, strings.Replace(code, "expect(", "zino.expect(", 1))
		if got != want && got != "Error: "+want && !(want == "to throw" && strings.HasPrefix(got, "Error: expected ") && strings.Contains(got, " to throw")) {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}

// TestBlockOfTests checks the report of a block of tests.
func TestBlockOfTests(t *testing.T) {
	b := newHelpersSite(t)
	page := func() proto.Page {
		b.visit("form")
		return b.connected("form", 1)
	}()
	took, answer := regexp.MustCompile(`\d+ms\b`), regexp.MustCompile("(?s)\n> [^\n]*ms\\)\n```(.*?)\n```\n")
	file, footer := b.dir+"/"+page.File, b.cfg.Footer
	b.until("the page has its file", func() bool {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.HasSuffix(string(text), footer+"\n")
	})
	run := func(options, code string) string {
		t.Helper()
		before := len(zinotest.Read(t, file))
		zinotest.Append(t, file, "```js test"+options+"\n"+code+"\n```\n")
		var reply []string
		b.until("the block is answered", func() bool {
			text := zinotest.Read(t, file)
			if len(text) <= before || !strings.HasSuffix(text, "\n\n"+footer+"\n") {
				return false
			}
			reply = answer.FindStringSubmatch(text[before-len(footer)-1:])
			return reply != nil
		})
		return took.ReplaceAllString(reply[1], "0ms")
	}
	for code, want := range map[string]string{
		`test("adds", () => expect(1 + 1).toBe(2))
test("waits", async () => { await zino.wait(() => true); expect([1]).toEqual([1]) })
test("adds", () => { expect(2).toBe(3) })
test("late", async () => {
  await 1
  null.x
})`: "Text\npassed 2, failed 2\nadds  ok  0ms\nwaits  ok  0ms\nadds  Error: expected 2 to be 3 (3:32)  0ms\nlate  TypeError: Cannot read properties of null (reading 'x') (6:8)  0ms",
		"test('one', () => {})\nthrow new Error('outside')":       "Text\npassed 1, failed 1\none  ok  0ms\n(outside of test)  Error: outside (2:7)  0ms",
		"const x = await 1; test('top', () => expect(x).toBe(1))": "Text\npassed 1, failed 0\ntop  ok  0ms",
		"1 + 1": "Text\nno tests: the block did not call test(name, fn)", "1 +": "Text\npassed 0, failed 1\n(outside of test)  SyntaxError: ",
		"test('nothing')": "Text\npassed 0, failed 1\nnothing  ",
	} {
		if got := run("", code); got != want && !(strings.HasSuffix(want, " ") && strings.HasPrefix(got, want)) {
			t.Errorf("%s:\n%s\nwant\n%s", code, got, want)
		}
	}
	if got := run(" timeout=3", "test('never', () => new Promise(() => {}))\ntest('last', () => {})"); !regexp.MustCompile(`^Text\npassed 1, failed 1\nnever  did not end within \d+ ms  0ms\nlast  ok  0ms$`).MatchString(got) {
		t.Error(got)
	}
	b.want(page.ID, "typeof test + typeof expect", "text undefinedundefined")
}
