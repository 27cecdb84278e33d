package gate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"zino/proto"
)

// Exact is a call with all that an approval holds for.
type Exact struct {
	Tool    string
	Input   []byte // a JSON object
	Root    string // without symbolic links
	Dir     string // the working directory, likewise
	Sandbox proto.Level
	Network bool
	Session string
	Turn    string
	UID     int      // of the requester, -1: unknown
	Files   []string // see Files
}

// Digest returns the digest of a call, "sha256:" and hex. Calls that differ in one byte of
// a field have different digests; blanks between the tokens of the input, and the way in
// which its strings are escaped, make no difference.
func (e *Exact) Digest() (string, error) {
	input, err := canonical(e.Input)
	if err != nil {
		return "", err
	}
	network := "0"
	if e.Network {
		network = "1"
	}
	fields := append([]string{
		e.Tool, input, e.Root, e.Dir, string(e.Sandbox), network, e.Session, e.Turn, strconv.Itoa(e.UID),
	}, e.Files...)
	h := sha256.New()
	io.WriteString(h, "zino-call-1\n") // a hash returns no error
	for _, field := range fields {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field))))
		io.WriteString(h, field)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// canonical returns JSON without blanks, its strings with the escapes that JSON requires.
func canonical(data []byte) (string, error) {
	if !json.Valid(data) || !utf8.Valid(data) {
		return "", errors.New("the input of the call is not valid JSON")
	}
	var b strings.Builder
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case ' ', '\t', '\n', '\r':
		case '"':
			end := i + 1
			for data[end] != '"' {
				if data[end] == '\\' {
					end++
				}
				end++
			}
			var s string
			if err := json.Unmarshal(data[i:end+1], &s); err != nil {
				return "", err
			}
			quoteTo(&b, s)
			i = end
		default:
			b.WriteByte(data[i])
		}
	}
	return b.String(), nil
}

func quoteTo(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

// Files returns the fields of a digest for the files that a call depends on: of write and
// edit the SHA-256 of what is there, or "absent"; of each command that is named by a path,
// this path and the SHA-256 of the program.
func Files(c *Call) (fields []string, err error) {
	switch c.Tool {
	case "write", "edit":
		sum, err := hashOf(c, c.Path)
		return []string{sum}, err
	case "bash":
		for _, p := range partsOf(c.Command, nil) {
			if len(p.words) == 0 || !p.words[0].known || !strings.Contains(p.words[0].text, "/") {
				continue
			}
			sum, err := hashOf(c, p.words[0].text)
			if err != nil {
				return nil, err
			}
			fields = append(fields, p.words[0].text, sum)
		}
	}
	return fields, nil
}

// hashOf returns the SHA-256 of the file at a path of a call.
func hashOf(c *Call, path string) (string, error) {
	at := c.locate(path)
	if at.real == "" {
		return "", fmt.Errorf("%s: the path cannot be resolved", at.path)
	}
	f, err := os.OpenFile(at.real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file: %w", at.real, errors.Join(err, fs.ErrInvalid))
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
