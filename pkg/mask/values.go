package mask

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/environ"
)

// maxFile is the length in bytes up to which a file of secrets is read.
const maxFile = 1 << 20

// Values returns the secrets in the files that match patterns, and those of the
// variables names of env. Values under 8 bytes cannot be masked and are left out. With
// an error it returns the values that it could read.
func Values(patterns []string, env, names []string) (values []string, err error) {
	all := environ.Map(env)
	for _, name := range names {
		values = appendValue(values, all[name])
	}
	for _, pattern := range patterns {
		files, bad := filepath.Glob(pattern)
		if bad != nil {
			err = fmt.Errorf("invalid pattern %q in [mask] files: %w", pattern, bad)
		}
		for _, name := range files {
			text, failed := readFile(name)
			if failed != nil {
				err = fmt.Errorf("cannot read secrets of [mask] files: %w", failed)
				continue
			}
			values = append(values, fileValues(text)...)
		}
	}
	return values, err
}

func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than 1 MiB", name)
	}
	return string(text), err
}

// fileValues returns the secrets in a file: all strings of a JSON document; else of
// each line what is behind NAME=, the strings of a JSON member, or the whole line.
func fileValues(text string) (values []string) {
	if values, ok := jsonValues(text); ok {
		return values
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		member := strings.TrimSuffix(line, ",")
		if list, ok := jsonValues(member); ok {
			values = append(values, list...)
		} else if list, ok := jsonValues("{" + member + "}"); ok {
			values = append(values, list...)
		} else {
			values = appendValue(values, lineValue(line))
		}
	}
	return values
}

// lineValue returns the value of NAME=value, else the line: it may end in the "=" of
// Base64.
func lineValue(line string) string {
	name, value, _ := strings.Cut(strings.TrimPrefix(line, "export "), "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if strings.Trim(value, "=") == "" || name == "" || wordChar.run([]byte(name)) < len(name) {
		return line
	}
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return value
}

// jsonValues returns the strings in a JSON document that is a string, list or object.
func jsonValues(text string) (values []string, ok bool) {
	var document any
	if json.Unmarshal([]byte(text), &document) != nil {
		return nil, false
	}
	switch document.(type) {
	case string, []any, map[string]any:
		return appendStrings(nil, document), true
	}
	return nil, false
}

func appendStrings(values []string, document any) []string {
	switch v := document.(type) {
	case string:
		values = appendValue(values, v)
	case []any:
		for _, e := range v {
			values = appendStrings(values, e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			values = appendStrings(values, v[name])
		}
	}
	return values
}

func appendValue(values []string, value string) []string {
	if len(value) < minValue {
		return values
	}
	return append(values, value)
}
