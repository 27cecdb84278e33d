package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fault is an error in a file's content, with its position.
type fault struct {
	offset int // in bytes from the start of the file
	reason string
}

func (f *fault) Error() string { return f.reason }

// decode decodes the JSON object in data into v. It skips a byte order mark, which
// some editors write.
func decode(data []byte, v any) error {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at := badUTF8(data); at >= 0 {
		return &fault{at, "is not UTF-8"}
	}
	text := bytes.TrimLeft(data, " \t\r\n")
	if len(text) == 0 {
		return &fault{0, "is empty"}
	}
	if text[0] != '{' {
		return &fault{len(data) - len(text), "is not a JSON object"}
	}
	return locate(json.Unmarshal(data, v))
}

// badUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func badUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// locate converts an error of encoding/json, whose offset is after the invalid byte, to
// a fault.
func locate(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return &fault{int(syntax.Offset) - 1, syntax.Error()}
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		text := fmt.Sprintf("%s: must be %s, not %s", mismatch.Field, wanted(mismatch.Type), mismatch.Value)
		return &fault{int(mismatch.Offset) - 1, text}
	}
	return err
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}

// problem is a file or directory that could not be used.
type problem struct {
	path         string
	line, column int // from 1; 0 if the position is not known
	reason       string
}

func newProblem(path string, data []byte, err error) problem {
	p := problem{path: path, reason: oneLine(reason(err).Error())}
	var f *fault
	if errors.As(err, &f) {
		p.line, p.column = position(data, f.offset)
	}
	return p
}

// String returns the line for logs and users.
func (p problem) String() string {
	where := oneLine(p.path)
	if p.line > 0 {
		where = fmt.Sprintf("%s:%d:%d", where, p.line, p.column)
	}
	return where + ": " + p.reason + " (skipped; repair or remove it)"
}

// position counts lines and characters from 1.
func position(data []byte, offset int) (line, column int) {
	before := data[:min(max(offset, 0), len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[start:])
}

// reason removes the path from an error of package os.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}
