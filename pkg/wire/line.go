package wire

import (
	"bytes"
	"encoding/json"
)

// Line returns JSON text as the session log stores it: without insignificant white
// space, and with U+2028 and U+2029 escaped, which some readers take for line breaks.
func Line(text []byte) ([]byte, error) {
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return nil, err
	}
	escaped := bytes.ReplaceAll(line.Bytes(), []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(escaped, []byte("\u2029"), []byte(`\u2029`)), nil
}
