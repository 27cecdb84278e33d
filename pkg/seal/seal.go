// Package seal encrypts what a service keeps in a file, for this host and its user.
//
// The content is encrypted with a key that lies beside it, and that key by systemd's service
// for credentials (systemd 256 or later). The service binds it to the host, and to its TPM
// if it has one, and to the user who asks: no other user's process, and no other host, gets
// it back. systemd is asked once for each key, which this package then remembers: files may
// have any size, and writing them later needs no service.
package seal

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// Socket is that of systemd's service.
const Socket = "/run/systemd/io.systemd.Credentials"

const (
	version  = 2                // of a sealed file
	keySize  = 32               // of AES-256
	replyMax = 64 << 10         // bytes of a reply
	timeout  = 20 * time.Second // of a request: a TPM may take a second
)

// Box seals and opens the content of a file. Its methods may be called concurrently.
type Box struct {
	Socket string // of systemd's service
	Name   string // of the key, which the service checks

	mu   sync.Mutex
	key  []byte // that was used last; nil: none
	blob string // the encrypted key
}

// file is a sealed file.
type file struct {
	Version int    `json:"version"`
	Key     string `json:"key"`  // encrypted by systemd's service
	Data    []byte `json:"data"` // a nonce, and the encrypted content
}

// parse returns a sealed file. ok is false if data is something else.
func parse(data []byte) (f file, ok bool) {
	err := json.Unmarshal(data, &f)
	return f, err == nil && f.Version == version && f.Key != ""
}

// Sealed reports whether data was made by Seal.
func Sealed(data []byte) bool {
	_, ok := parse(data)
	return ok
}

// Seal encrypts content with the key that was used last, or with a new one. The error says
// why the service does not encrypt it.
func (b *Box) Seal(ctx context.Context, content []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.key == nil {
		if err := b.newKey(ctx); err != nil {
			return nil, err
		}
	}
	aead, err := newAEAD(b.key)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(file{version, b.blob, aead.Seal(nil, nil, content, []byte(b.Name))})
	return append(data, '\n'), err
}

// newKey makes a key, and checks that it can be decrypted again.
func (b *Box) newKey(ctx context.Context) error {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	blob, err := b.call(ctx, "Encrypt", map[string]string{"data": base64.StdEncoding.EncodeToString(key)})
	if err != nil {
		return err
	}
	back, err := b.decrypt(ctx, blob)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(back, key) == 0 {
		return errors.New("systemd's service for credentials does not give back what it was given")
	}
	b.key, b.blob = key, blob
	return nil
}

// Open decrypts what Seal has made.
func (b *Box) Open(ctx context.Context, data []byte) ([]byte, error) {
	f, ok := parse(data)
	if !ok {
		return nil, errors.New("it is damaged")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := b.key
	if f.Key != b.blob {
		var err error
		if key, err = b.decrypt(ctx, f.Key); err != nil {
			return nil, err
		}
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	content, err := aead.Open(nil, nil, f.Data, []byte(b.Name))
	if err != nil {
		return nil, errors.New("it is damaged, or belongs to another key")
	}
	b.key, b.blob = key, f.Key
	return content, nil
}

// newAEAD is AES-256-GCM with a nonce before each text.
func newAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("its key has %d bytes, want %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// decrypt has the service decrypt a key.
func (b *Box) decrypt(ctx context.Context, blob string) ([]byte, error) {
	text, err := b.call(ctx, "Decrypt", map[string]string{"blob": blob})
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errBadReply
	}
	return key, nil
}

// errBadReply does not contain the reply, which may hold a key.
var errBadReply = errors.New("systemd's service for credentials sends no valid reply")

// call calls a method of the service and returns what it answers. The protocol is varlink:
// one JSON object each way, terminated by NUL. In the scope of the caller's own user the
// service requires no authorisation.
func (b *Box) call(ctx context.Context, method string, parameters map[string]string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "unix", b.Socket)
	if err != nil {
		return "", fmt.Errorf("systemd's service for credentials (systemd 256 or later) does not answer: %w", err)
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	parameters["name"], parameters["scope"] = b.Name, "user"
	request, err := json.Marshal(map[string]any{"method": "io.systemd.Credentials." + method, "parameters": parameters})
	if err != nil {
		return "", err
	}
	_, err = nc.Write(append(request, 0))
	var reply []byte
	if err == nil {
		reply, err = bufio.NewReader(io.LimitReader(nc, replyMax)).ReadBytes(0)
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("systemd's service for credentials does not answer: %w", context.Cause(ctx))
	case errors.Is(err, io.EOF):
		return "", errBadReply
	case err != nil:
		return "", fmt.Errorf("systemd's service for credentials does not answer: %w", err)
	}
	return parseReply(bytes.TrimSuffix(reply, []byte{0}))
}

// parseReply returns the value that a reply carries.
func parseReply(reply []byte) (string, error) {
	var r struct {
		Parameters struct{ Blob, Data string }
		Error      string
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return "", errBadReply
	}
	value := r.Parameters.Blob + r.Parameters.Data
	switch {
	case r.Error != "":
		return "", fmt.Errorf("systemd's service for credentials refuses it: %s", strconv.Quote(r.Error[:min(len(r.Error), 100)]))
	case value == "":
		return "", errBadReply
	}
	return value, nil
}
