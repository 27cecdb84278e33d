package render

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"zino/pkg/text"
)

// CellMax is the greatest width of a column but the last where lines are cut.
const CellMax = 24

// Columns aligns rows at the left and cuts lines to limit cells if that is
// positive. It changes rows.
func Columns(rows [][]string, limit int) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = Line(row[i])
			if limit > 0 && i < len(row)-1 {
				row[i] = Cut(row[i], CellMax)
			}
			widths[i] = max(widths[i], Cells(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row[:len(row)-1] {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-Cells(cell)+2))
		}
		line.WriteString(row[len(row)-1])
		b.WriteString(Cut(strings.TrimRight(line.String(), " "), limit) + "\n")
	}
	return b.String()
}

// Numbers aligns rows of numbers: the first column at the left, the others at the
// right. It changes rows.
func Numbers(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = strings.ReplaceAll(text.Visible(row[i]), "\n", " ")
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(&b, "  %*s", widths[i+1], cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Cut shortens s to limit cells of a terminal, if limit is positive.
func Cut(s string, limit int) string {
	if limit <= 0 || len(s) <= limit || Cells(s) <= limit {
		return s
	}
	used := 1 // the ellipsis
	for i, r := range s {
		if used += cell(r); used > limit {
			return s[:i] + "…"
		}
	}
	return s
}

// Cells returns the width of s on a terminal.
func Cells(s string) (n int) {
	for _, r := range s {
		n += cell(r)
	}
	return n
}

// wide are the scripts whose characters take two cells.
var wide = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul}

func cell(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, wide...), r >= 0x3000 && r <= 0x303E, r >= 0xFF01 && r <= 0xFF60, r >= 0x1F300 && r <= 0x1FAFF:
		return 2
	}
	return 1
}

// Dash replaces an empty text by "-".
func Dash(s string) string { return cmp.Or(s, "-") }

// Count formats a number.
func Count(n int64) string { return strconv.FormatInt(n, 10) }

// Dollars formats an amount with four decimals; a smaller one is not shown as zero.
func Dollars(usd float64) string {
	if amount := fmt.Sprintf("$%.4f", usd); usd <= 0 || amount != "$0.0000" {
		return amount
	}
	return "<$0.0001"
}

// Cost formats a sum of costs, of which unpriced requests have no known price.
func Cost(usd *float64, unpriced int) string {
	switch {
	case usd == nil:
		return "-"
	case unpriced > 0:
		return ">= " + Dollars(*usd)
	}
	return Dollars(*usd)
}

// Minute is the layout of times in listings.
const Minute = "2006-01-02 15:04"

// LocalTime formats an RFC 3339 time in the local zone, "-" if it is empty.
func LocalTime(s string) string {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return Dash(s)
	}
	return at.Local().Format(Minute)
}

// Clock formats an RFC 3339 time in the local zone, without the date if it is today.
func Clock(s string) string {
	at, err := time.Parse(time.RFC3339, s)
	if err == nil && at.Local().Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return at.Local().Format("15:04")
	}
	return LocalTime(s)
}

// Age formats how long ago a time was in its largest unit, or its day if that was
// more than two months ago.
func Age(s string) string {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "-"
	}
	const day = 24 * time.Hour
	switch age := time.Since(at); {
	case age < time.Minute:
		return "now"
	case age < time.Hour:
		return fmt.Sprintf("%dm ago", age/time.Minute)
	case age < day:
		return fmt.Sprintf("%dh ago", age/time.Hour)
	case age < 60*day:
		return fmt.Sprintf("%dd ago", age/day)
	}
	return at.Local().Format(time.DateOnly)
}

// Elapsed formats the time since an RFC 3339 time in its largest unit.
func Elapsed(since string) string {
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return "-"
	}
	const day = 24 * time.Hour
	switch age := max(0, time.Since(at)); {
	case age < time.Minute:
		return fmt.Sprintf("%ds", age/time.Second)
	case age < time.Hour:
		return fmt.Sprintf("%dm", age/time.Minute)
	case age < day:
		return fmt.Sprintf("%dh", age/time.Hour)
	default:
		return fmt.Sprintf("%dd", age/day)
	}
}

// Home abbreviates the home directory in a path to ~.
func Home(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "/" {
		return path
	}
	if rest, ok := strings.CutPrefix(path, filepath.Clean(home)); ok && (rest == "" || rest[0] == '/') {
		return "~" + rest
	}
	return path
}

// ShellWord quotes a word for a shell where that is necessary.
func ShellWord(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ShellFlag formats a flag with its value for a shell, with a blank before it;
// nothing if the value is empty.
func ShellFlag(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + " " + ShellWord(value)
}
