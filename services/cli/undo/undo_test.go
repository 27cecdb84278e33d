package undo

import (
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/cli/render"
)

// TestPrintStat checks the table of diff --stat, in a file and on narrow terminals.
func TestPrintStat(t *testing.T) {
	files := []proto.DiffFile{
		{Path: "a.txt", Added: 1, Removed: 1},
		{Path: "numbers.txt", Added: 60},
		{Path: "old.txt", Removed: 1, Late: true},
		{Path: "picture.png", Binary: true},
		{Path: "disk.img", NotCovered: true},
		{Path: "src/日本語/a-name-that-is-rather-long.go", Added: 300, Removed: 100},
	}
	for width, want := range map[int]string{
		0: `
 a.txt                                    |   2 +-
 numbers.txt                              |  60 ++++++
 old.txt                                  |   1 - (late)
 picture.png                              | Bin
 disk.img                                 | not covered
 src/日本語/a-name-that-is-rather-long.go | 400 ++++++++++++++++++++++++++++++----------
 6 files changed, 361 insertions(+), 102 deletions(-)
`,
		40: `
 a.txt                |   2 +-
 numbers.txt          |  60 ++
 old.txt              |   1 - (late)
 picture.png          | Bin
 disk.img             | not covered
 …t-is-rather-long.go | 400 ++++++++---
 6 files changed, 361 insertions(+), 102 deletions(-)
`,
	} {
		var b strings.Builder
		zinotest.Must(t, printStat(&b, files, width))
		zinotest.Equal(t, "stat", "\n"+b.String(), want)
		for line := range strings.Lines(b.String()) {
			if n := render.Cells(strings.TrimSuffix(line, "\n")); width > 0 && n > width && !strings.Contains(line, "changed") {
				t.Errorf("%d cells: %q", n, line)
			}
		}
	}
	var b strings.Builder
	zinotest.Must(t, printStat(&b, files[:0], 0))
	zinotest.Equal(t, "nothing", b.String(), " 0 files changed, 0 insertions(+), 0 deletions(-)\n")
}
