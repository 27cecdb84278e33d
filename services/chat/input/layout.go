package input

import (
	"strings"

	"zino/pkg/text"
)

// row is a row of the editor: a range of elements, without the newline at its end.
type row struct{ from, to int }

// cells returns the width of an element in a column.
func (e *Editor) cells(el element, column int) int {
	if c := el.text; el.label == "" && len(c) == 1 && c[0] >= ' ' && c[0] < 0x7f {
		return 1
	}
	return e.widths.Of(e.shown(el, column))
}

// shown returns how an element looks in a column.
func (e *Editor) shown(el element, column int) string {
	switch {
	case el.label != "":
		return el.label
	case el.text == "\t":
		return e.widths.ExpandTabs("\t", column)
	}
	return text.Visible(el.text)
}

// rows breaks the message into rows of a width.
func (e *Editor) rows(width int) []row {
	rows := []row{{}}
	column := 0
	for i, el := range e.elements {
		r := &rows[len(rows)-1]
		if el.text == "\n" && el.label == "" {
			rows = append(rows, row{i + 1, i + 1})
			column = 0
			continue
		}
		cells := e.cells(el, column)
		if column > 0 && column+cells > width {
			rows = append(rows, row{i, i})
			r, cells, column = &rows[len(rows)-1], e.cells(el, 0), 0
		}
		r.to = i + 1
		column += cells
	}
	return rows
}

// at returns the row of the cursor, and its column. Behind a row that is broken, the cursor
// stands at the start of the next one, unless End moved it there.
func (e *Editor) at(rows []row, width int) (r, column int) {
	for r = len(rows) - 1; r > 0 && rows[r].from > e.cursor; r-- {
	}
	if e.rowEnded && r > 0 && rows[r].from == e.cursor && rows[r-1].to == e.cursor {
		r--
	}
	for _, el := range e.elements[rows[r].from:e.cursor] {
		column += e.cells(el, column)
	}
	return r, min(column, width)
}

// Layout returns at most height rows of a width, those around the cursor, and the place
// of the cursor in them.
func (e *Editor) Layout(width, height int) (list []string, r, column int) {
	rows := e.rows(width)
	r, column = e.at(rows, width)
	if column >= width && r == len(rows)-1 && !e.rowEnded { // behind a full row
		rows = append(rows, row{len(e.elements), len(e.elements)})
		r, column = r+1, 0
	}
	first := 0
	if height = max(height, 1); len(rows) > height {
		first = min(max(0, r-height/2), len(rows)-height)
	}
	for _, row := range rows[first:min(len(rows), first+height)] {
		var b strings.Builder
		cells := 0
		for _, el := range e.elements[row.from:row.to] {
			b.WriteString(e.shown(el, cells))
			cells += e.cells(el, cells)
		}
		list = append(list, b.String())
	}
	return list, r - first, column
}

func (e *Editor) rowStart(width int) int {
	rows := e.rows(width)
	r, _ := e.at(rows, width)
	return rows[r].from
}

func (e *Editor) moveToRowEnd(width int) {
	rows := e.rows(width)
	r, _ := e.at(rows, width)
	e.move(rows[r].to)
	e.rowEnded = true
}

// vertical moves the cursor by a row, and reports whether there is one.
func (e *Editor) vertical(by, width int) bool {
	rows := e.rows(width)
	r, column := e.at(rows, width)
	to := r + by
	if to < 0 || to >= len(rows) {
		return false
	}
	goal := e.goal
	if goal < 0 {
		goal = column
	}
	i, column := rows[to].from, 0
	for ; i < rows[to].to; i++ {
		cells := e.cells(e.elements[i], column)
		if column+cells > goal {
			break
		}
		column += cells
	}
	e.move(i)
	e.goal, e.rowEnded = goal, i == rows[to].to
	return true
}
