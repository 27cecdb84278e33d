package input

// row is a row of the editor: a range of elements.
type row struct {
	from, to int // without the newline at its end
	text     string
}

// rows breaks the message into rows of a width.
func (e *Editor) rows(width int) []row {
	rows := []row{{}}
	column := 0
	for i, el := range e.elements {
		r := &rows[len(rows)-1]
		if el.text == "\n" && el.label == "" {
			r.to = i
			rows = append(rows, row{from: i + 1, to: i + 1})
			column = 0
			continue
		}
		shown := e.shown(el, column)
		cells := e.widths.Of(shown)
		if column > 0 && column+cells > width {
			r.to = i
			rows = append(rows, row{from: i, to: i})
			r = &rows[len(rows)-1]
			shown, column = e.shown(el, 0), 0
			cells = e.widths.Of(shown)
		}
		r.text += shown
		r.to = i + 1
		column += cells
	}
	return rows
}

// at returns the row of the cursor, and its column. Where a row is full, the cursor
// stands at the start of the next one.
func (e *Editor) at(rows []row) (r, column int) {
	for r = len(rows) - 1; r > 0 && rows[r].from > e.cursor; r-- {
	}
	for _, el := range e.elements[rows[r].from:e.cursor] {
		column += e.widths.Of(e.shown(el, column))
	}
	return r, column
}

// Layout returns at most height rows of a width, those around the cursor, and the place
// of the cursor in them.
func (e *Editor) Layout(width, height int) (list []string, r, column int) {
	rows := e.rows(width)
	r, column = e.at(rows)
	if column >= width && r == len(rows)-1 { // behind a full row
		rows = append(rows, row{from: len(e.elements), to: len(e.elements)})
		r, column = r+1, 0
	}
	first := 0
	if height = max(height, 1); len(rows) > height {
		first = min(max(0, r-height/2), len(rows)-height)
	}
	for _, row := range rows[first:min(len(rows), first+height)] {
		list = append(list, row.text)
	}
	return list, r - first, column
}

func (e *Editor) rowStart(width int) int {
	rows := e.rows(width)
	r, _ := e.at(rows)
	return rows[r].from
}

func (e *Editor) rowEnd(width int) int {
	rows := e.rows(width)
	r, _ := e.at(rows)
	end := rows[r].to
	if r+1 < len(rows) && rows[r+1].from == end { // a broken row: its end is the start of the next one
		end = max(rows[r].from, end-1)
	}
	return end
}

// vertical moves the cursor by a row, and reports whether there is one.
func (e *Editor) vertical(by, width int) bool {
	rows := e.rows(width)
	r, column := e.at(rows)
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
		cells := e.widths.Of(e.shown(e.elements[i], column))
		if column+cells > goal {
			break
		}
		column += cells
	}
	if i == rows[to].to && to+1 < len(rows) && rows[to+1].from == i && i > rows[to].from {
		i-- // the end of a broken row is the start of the next one
	}
	e.move(i)
	e.goal = goal
	return true
}
