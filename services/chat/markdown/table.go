package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"

	"zino/services/chat/screen"
)

// columnMin is the width down to which the columns of a table shrink.
const columnMin = 8

// table returns a table with columns as wide as their content. If that is too wide, the
// widest columns shrink and their cells are wrapped; if that is not enough, each row
// becomes lines of names and values.
func (r *renderer) table(n *extension.Table, width int) []string {
	var rows [][]string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		st := screen.Style{Bold: row.Kind() == extension.KindTableHeader}
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			var b strings.Builder
			r.inline(&b, cell, st)
			cells = append(cells, strings.TrimSpace(strings.ReplaceAll(b.String(), "\n", " ")))
		}
		rows = append(rows, cells)
	}
	if r.Spoken {
		return r.records(rows, width)
	}
	columns := len(n.Alignments)
	widths := make([]int, columns)
	total := 3 * (columns - 1)
	for i := range columns {
		for _, row := range rows {
			if i < len(row) {
				widths[i] = max(widths[i], r.Widths.Of(row[i]))
			}
		}
		total += widths[i]
	}
	for total > width {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= columnMin {
			return r.records(rows, width)
		}
		widths[widest]--
		total--
	}
	var lines []string
	for i, row := range rows {
		lines = append(lines, r.tableRow(row, widths, n.Alignments)...)
		if i == 0 {
			rules := make([]string, columns)
			for c, w := range widths {
				rules[c] = strings.Repeat("─", w)
			}
			lines = append(lines, strings.Join(rules, "─┼─"))
		}
	}
	return lines
}

// tableRow returns the lines of a row.
func (r *renderer) tableRow(row []string, widths []int, align []extension.Alignment) (lines []string) {
	cells := make([][]string, len(widths))
	height := 1
	for i, w := range widths {
		cells[i] = []string{""}
		if i < len(row) {
			cells[i] = r.Widths.Wrap(row[i], w)
		}
		height = max(height, len(cells[i]))
	}
	for y := range height {
		var line strings.Builder
		for i, w := range widths {
			if i > 0 {
				line.WriteString(" │ ")
			}
			cell := ""
			if y < len(cells[i]) {
				cell = cells[i][y]
			}
			room := max(0, w-r.Widths.Of(cell))
			left := 0
			switch align[i] {
			case extension.AlignRight:
				left = room
			case extension.AlignCenter:
				left = room / 2
			}
			line.WriteString(strings.Repeat(" ", left) + cell)
			if i < len(widths)-1 {
				line.WriteString(strings.Repeat(" ", room-left))
			}
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// rawTable returns the lines of a table as they are.
func (r *renderer) rawTable(n ast.Node) []string {
	start := lineStart(r.source, n.FirstChild().Pos())
	end := n.LastChild().Pos()
	if length := bytes.IndexByte(r.source[end:], '\n'); length >= 0 {
		end += length
	} else {
		end = len(r.source)
	}
	return strings.Split(r.plain(string(r.source[start:end])), "\n")
}

// records returns the rows of a table as lines of names and values.
func (r *renderer) records(rows [][]string, width int) (lines []string) {
	for i, row := range rows[1:] {
		if i > 0 {
			lines = append(lines, "")
		}
		for c, cell := range row {
			name := ""
			if c < len(rows[0]) {
				name = rows[0][c]
			}
			lines = append(lines, r.Widths.Wrap(name+": "+cell, width)...)
		}
	}
	if len(rows) == 1 {
		return r.Widths.Wrap(strings.Join(rows[0], " │ "), width)
	}
	return lines
}
