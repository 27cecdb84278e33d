package gate

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"zino/pkg/durable"
)

const (
	// KeyName is the file of the daemon's private key, in its data directory.
	KeyName = "gate.key"
	// publicName is the file of its public key.
	publicName             = "gate.pub"
	publicMode fs.FileMode = 0o644
	// hostDir holds the sockets of the host's services, and hostPublicDir the public key
	// of their daemon, which cannot write to hostDir.
	hostDir, hostPublicDir = "/run/zino", "/run/zino-gate"
	// hostUser is the user of the host's daemon.
	hostUser = "zino-daemon"
)

// PublicPath returns the file of the public key of the daemon with a socket.
func PublicPath(socket string) string {
	dir := filepath.Dir(socket)
	if dir == hostDir {
		dir = hostPublicDir
	}
	return filepath.Join(dir, publicName)
}

// Signer signs tokens with the daemon's private key.
type Signer struct{ key ed25519.PrivateKey }

// OpenSigner reads the private key in dir, which it makes if there is none, and writes the
// public key to a file.
func OpenSigner(dir, public string) (*Signer, error) {
	path := filepath.Join(dir, KeyName)
	seed, err := readSeed(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(dir, path); err == nil {
			seed, err = readSeed(path)
		}
	}
	if err != nil {
		return nil, err
	}
	s := &Signer{ed25519.NewKeyFromSeed(seed)}
	line := encodeKey(s.key.Public().(ed25519.PublicKey))
	if old, mode, _, err := readKey(public, ed25519.PublicKeySize); err == nil && mode.Perm() == publicMode && encodeKey(old) == line {
		return s, nil
	}
	return s, durable.ReplacePath(public, publicMode, func(w io.Writer) error {
		_, err := io.WriteString(w, line)
		return err
	})
}

// makeKey makes the private key. A daemon that does so at the same time keeps its own.
func makeKey(dir, path string) error {
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, KeyName+"-*") // mode 0600
	if err != nil {
		return err
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails
	_, err = f.WriteString(encodeKey(seed))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// readSeed reads the private key.
func readSeed(path string) ([]byte, error) {
	seed, mode, _, err := readKey(path, ed25519.SeedSize)
	if err == nil && mode.Perm()&0o077 != 0 {
		err = fmt.Errorf("other users can read %s: chmod 600 it, or remove it for a new key", path)
	}
	return seed, err
}

// Verifier checks tokens with the daemon's public key.
type Verifier struct {
	path   string
	owners []int // uids that may own the file
}

// NewVerifier returns a verifier for the tokens of the daemon with a socket. The file of
// its public key is read at each use.
func NewVerifier(socket string) *Verifier {
	v := &Verifier{PublicPath(socket), []int{os.Geteuid()}}
	if filepath.Dir(v.path) == hostPublicDir {
		if u, err := user.Lookup(hostUser); err == nil {
			if uid, err := strconv.Atoi(u.Uid); err == nil {
				v.owners = append(v.owners, uid)
			}
		}
	}
	return v
}

// read returns the public key. The file must be one that only the daemon can write.
func (v *Verifier) read() (ed25519.PublicKey, error) {
	key, mode, uid, err := readKey(v.path, ed25519.PublicKeySize)
	switch {
	case err != nil:
	case mode.Perm()&0o022 != 0:
		err = errors.New("other users can write to it")
	case !slices.Contains(v.owners, uid):
		err = fmt.Errorf("it belongs to uid %d", uid)
	default:
		return key, nil
	}
	text := "approvals are not available: no key of the daemon at " + v.path
	if !errors.Is(err, fs.ErrNotExist) {
		text += ": " + err.Error()
	}
	return nil, errors.New(text)
}

// readKey reads a key of n bytes from a regular file.
func readKey(path string, n int) (key []byte, mode fs.FileMode, uid int, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, 0, 0, err
	}
	key, err = base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != n || !info.Mode().IsRegular() {
		return nil, 0, 0, fmt.Errorf("%s is not a key: remove it, and start the daemon again", path)
	}
	return key, info.Mode(), int(info.Sys().(*syscall.Stat_t).Uid), nil
}

func encodeKey(key []byte) string { return base64.StdEncoding.EncodeToString(key) + "\n" }
