package page

import "strings"

// guide returns the quoted lines below the title: how to use the file. No line of it
// is a header, a footer or a fence.
func (o *Options) guide() string {
	lines := []string{
		"This file is a REPL, a chat between you and a live page: append a closed, fenced " + o.language() + " block and save; the page runs it, and the reply is written below it.",
		"- Request: `printf '\\n```" + o.Lang + "\\n" + o.example() + "\\n```\\n' >>" + logPath(o.full()) + "`. Several blocks run in their order; text around them stays.",
		"- Header, optional, to name yourself, in the line above: `> **NAME** to " + o.full() + " at HH:MM:SS`.",
	}
	if o.Program {
		lines = append(lines,
			"- Options behind the label: ` ```"+o.Lang+" timeout=10 max=64` waits 10 seconds and shows up to 64 KiB of the result here.",
			"- The value of the last expression is the result, and what a block defines is there in the next one.",
			"- After an error the next block runs; after a timeout the rest is left as it is.",
			"- The page is a program: there is no document, and there are no helpers.",
		)
	} else {
		lines = append(lines,
			"- Options behind the label: ` ```js timeout=10 max=64` waits 10 seconds and shows up to 64 KiB of the result here; `after=reload` runs first in the next load of the page.",
			"- The value of the last expression is the result; `await` and `import` work, and what a block declares is there in the next one.",
			"- Look: `zino.outline()` shows roles, names, boxes and values in about 1 KiB, `zino.outline(el, depth)` a part of it; `zino.find(\"Save\")` is the element with that text.",
			"- Act: `zino.click(zino.find(\"Save\"))`, `zino.fill(zino.find(\"Email\"), \"a@b.c\")`, `await zino.wait(() => document.querySelector(\".done\"), 5000)`, `zino.expect(2).toBe(2)`.",
			"- Test: in ` ```js test`, `test(\"adds\", () => expect(2).toBe(2))` is a row of one table: passed N, failed N.",
		)
	}
	lines = append(lines,
		"- A long result is cut here; the line below it names the file with the whole, `debug/"+o.full()+"/N.txt`.",
		"- All above the last line of the file is history and never runs again: do not edit it or the last line, append below.",
	)
	return "> " + strings.Join(lines, "\n> ") + "\n"
}

// example returns code that runs in any page of the language.
func (o *Options) example() string {
	switch {
	case o.Lang == "py":
		return "dir()"
	case o.Lang != "js":
		return "CODE"
	case o.Program:
		return "process.uptime()"
	}
	return "document.title"
}
