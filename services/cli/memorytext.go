package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"zino/pkg/visible"
	"zino/pkg/wire"
	"zino/proto"
)

// storedMessage is what every stored message has.
type storedMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// readMessages reads a list of stored messages. All of it is checked.
func readMessages(raw proto.Raw) (list []storedMessage, err error) {
	elements, err := wire.Elements(raw)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	for i, element := range elements {
		var m storedMessage
		if err := wire.Decode(element, &m); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// contents are the texts of a list of messages, in one line. What cannot be
// read is said instead.
func contents(raw proto.Raw) string {
	list, err := readMessages(raw)
	if err != nil {
		return "(cannot be read: " + err.Error() + ")"
	}
	var texts []string
	for _, m := range list {
		texts = append(texts, m.Content)
	}
	return strings.Join(texts, " ")
}

// printMessages prints messages as "role: text". What follows a text's first
// line is indented, so that no text looks like the next message.
func printMessages(w io.Writer, raw proto.Raw) error {
	list, err := readMessages(raw)
	if err != nil {
		return err
	}
	for _, m := range list {
		role := strings.ReplaceAll(m.Role, "\n", " ")
		text := strings.ReplaceAll(strings.TrimRight(m.Content, "\n"), "\n", "\n  ")
		if _, err := fmt.Fprintf(w, "%s: %s\n", visible.Text(role), visible.Text(text)); err != nil {
			return err
		}
	}
	return nil
}

// print has do write to standard output, few large pieces instead of many.
func (a *app) print(do func(io.Writer) error) error {
	w := bufio.NewWriter(a.out)
	if err := do(w); err != nil {
		return err
	}
	return w.Flush()
}

// printJSON prints a struct as a line of JSON.
func printJSON(w io.Writer, v any) error {
	text, err := wire.AppendObject(nil, "", v)
	if err != nil {
		return err
	}
	return printRaw(w, text)
}

// printAll prints structs, each as a line of JSON.
func printAll[T any](w io.Writer, list []T) error {
	for _, v := range list {
		if err := printJSON(w, v); err != nil {
			return err
		}
	}
	return nil
}

// printRaw prints JSON in one line. What a terminal would act on is escaped,
// which changes nothing of what the JSON says: it can only stand in a string.
func printRaw(w io.Writer, text []byte) error {
	if bytes.ContainsAny(text, "\n\r") {
		var line bytes.Buffer
		if err := json.Compact(&line, text); err != nil {
			return fmt.Errorf("the memory's answer cannot be read: %w", err)
		}
		text = line.Bytes()
	}
	_, err := fmt.Fprintf(w, "%s\n", visible.JSON(string(text)))
	return err
}

// printItems prints the elements of a list, each as a line of JSON.
func printItems(w io.Writer, list proto.Raw) error {
	for element := range wire.Items(list) {
		if err := printRaw(w, element); err != nil {
			return err
		}
	}
	return nil
}

// localTime is a time as people read it, "-" if it is not known.
func localTime(text string) string {
	if text == "" {
		return "-"
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.Local().Format("2006-01-02 15:04")
}

// dash stands for what is not there.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// width is how many cells a line on standard output may take, 0 for any number.
func (a *app) width() int {
	if !isTerminal(a.out) {
		return 0
	}
	width, _, err := term.GetSize(int(a.out.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// cellMax is how wide a column but the last may be where lines are cut.
const cellMax = 24

// columns aligns rows at their left and cuts them to limit cells, if it is above
// 0. The rows are changed.
func columns(rows [][]string, limit int) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = strings.NewReplacer("\n", " ", "\t", " ").Replace(visible.Text(row[i]))
			if limit > 0 && i < len(row)-1 {
				row[i] = cut(row[i], cellMax)
			}
			widths[i] = max(widths[i], cells(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row[:len(row)-1] {
			line.WriteString(text + strings.Repeat(" ", widths[i]-cells(text)+2))
		}
		line.WriteString(row[len(row)-1])
		b.WriteString(cut(strings.TrimRight(line.String(), " "), limit) + "\n")
	}
	return b.String()
}

// cut shortens a text to so many cells, if limit is above 0.
func cut(text string, limit int) string {
	if limit <= 0 || len(text) <= limit || cells(text) <= limit {
		return text
	}
	used := 1 // the mark
	for i, r := range text {
		if used += cell(r); used > limit {
			return text[:i] + "…"
		}
	}
	return text
}

func cells(text string) (n int) {
	for _, r := range text {
		n += cell(r)
	}
	return n
}

// wide are the scripts whose characters take two cells.
var wide = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul}

// cell is how many cells of a terminal a character takes.
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
