// Package replfile defines the start of debug.md, the registry file of zino repl. exc
// uses it to recognize a directory with logs of repl, which it must protect.
package replfile

import (
	"bytes"
	"strings"
)

const (
	// Name is the registry's file name.
	Name = "debug.md"
	// Logs is the directory of the logs, beside the registry.
	Logs = "debug"
	// HeadMax is the number of bytes of a file that IsRegistry needs.
	HeadMax = 256

	title = "# Connected pages:\n"
	guide = "> Master registry of connected pages and their states."
)

// Head is the start of a registry: its title, and a note for its reader.
const Head = title + guide + " Do not edit it; open a page's log in debug/ to run code against that page.\n\n"

// IsForeign reports whether a file that begins with text was not written by zino repl,
// not by an earlier version either, and has content.
func IsForeign(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return len(bytes.TrimSpace(text)) > 0 && !bytes.HasPrefix(text, []byte(strings.TrimSuffix(title, "\n")))
}

// IsRegistry reports whether a file that begins with text is a registry. An editor
// may have changed the line ends or added a byte order mark.
func IsRegistry(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return strings.HasPrefix(strings.ReplaceAll(string(text[:min(len(text), HeadMax)]), "\r\n", "\n"), title+guide)
}
