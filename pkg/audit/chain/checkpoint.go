// Package chain verifies the log of the audit: its lines, and the checkpoints, which are
// signed. It writes nothing.
package chain

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"zino/pkg/audit/line"
)

const (
	// CheckpointEvery is the greatest number of records without a checkpoint.
	CheckpointEvery = 1000
	// origin is the beginning of the first line of a checkpoint.
	origin = "zino-audit/"
	// signatureMark begins the line of a signature.
	signatureMark = "— "
)

// Names of the files beside the log.
const (
	CheckpointsFile = "checkpoints"
	KeyFile         = "key"     // of the signer, secret
	VerifierFile    = "key.pub" // its public part
)

// Checkpoint says which hash a record's line has.
type Checkpoint struct {
	Machine string
	Seq     int64
	Hash    line.Hash
	Time    time.Time
}

// Text returns the text that is signed.
func (c Checkpoint) Text() string {
	return fmt.Sprintf("%s%s\n%d\n%s\n%s\n", origin, c.Machine, c.Seq, base64.StdEncoding.EncodeToString(c.Hash[:]), c.Time.UTC().Format(line.TimeFormat))
}

// NewKey makes a key. signer is secret, verifier is what zino audit key prints.
func NewKey(machine string) (signer, verifier string, err error) {
	return note.GenerateKey(rand.Reader, origin+MachineName(machine))
}

// MachineName returns the name of a machine as it stands in checkpoints and keys.
func MachineName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, name)
	if name == "" {
		return "localhost"
	}
	return name
}

// Sign returns a signed checkpoint. Its machine is that of the key.
func Sign(c Checkpoint, key string) ([]byte, error) {
	signer, err := note.NewSigner(key)
	if err != nil {
		return nil, err
	}
	c.Machine = strings.TrimPrefix(signer.Name(), origin)
	return note.Sign(&note.Note{Text: c.Text()}, signer)
}

// Open checks the signature of a checkpoint and reads it.
func Open(signed []byte, verifier string) (c Checkpoint, err error) {
	v, err := note.NewVerifier(verifier)
	if err != nil {
		return c, err
	}
	n, err := note.Open(signed, note.VerifierList(v))
	if err != nil {
		return c, errors.New("the signature does not match the key")
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 5 || lines[4] != "" || !strings.HasPrefix(lines[0], origin) {
		return c, errNote
	}
	c.Machine = strings.TrimPrefix(lines[0], origin)
	c.Seq, err = strconv.ParseInt(lines[1], 10, 64)
	hash, hashErr := base64.StdEncoding.DecodeString(lines[2])
	when, timeErr := time.Parse(line.TimeFormat, lines[3])
	if err != nil || hashErr != nil || timeErr != nil || len(hash) != len(c.Hash) || c.Seq < 1 {
		return c, errNote
	}
	c.Hash, c.Time = line.Hash(hash), when
	return c, nil
}

var errNote = errors.New("the text is not a checkpoint")

// Split splits the signed checkpoints in a file, and returns the length of the complete
// ones. Each has an empty line behind its text and another one behind its signatures.
func Split(data []byte) (notes [][]byte, size int) {
	for {
		rest := data[size:]
		at := bytes.Index(rest, []byte("\n\n"+signatureMark))
		if at < 0 {
			return notes, size
		}
		end := bytes.Index(rest[at+2:], []byte("\n\n"))
		if end < 0 {
			return notes, size
		}
		end += at + 2
		notes = append(notes, rest[:end+1])
		size += end + 2
	}
}
