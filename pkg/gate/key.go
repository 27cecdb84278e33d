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
	"zino/pkg/keys"
)

const (
	// KeyName is the file of the daemon's private key, in its data directory.
	KeyName = "gate.key"
	// publicName is the file of its public key.
	publicName = "gate.pub"
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

// publicMode is the mode of a file of the public key: other users than the daemon's read
// only that of the host.
func publicMode(path string) fs.FileMode {
	if filepath.Dir(path) == hostPublicDir {
		return 0o644
	}
	return durable.FileMode
}

// OpenSigner reads the private key in dir, which it makes if it is missing, and writes the
// public key beside it and to another file, unless public is empty.
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
	for _, path := range []string{filepath.Join(dir, publicName), public} {
		old, mode, _, err := readKey(path, ed25519.PublicKeySize)
		if path == "" || err == nil && mode.Perm() == publicMode(path) && encodeKey(old) == line {
			continue
		}
		err = durable.ReplacePath(path, publicMode(path), func(w io.Writer) error {
			_, err := io.WriteString(w, line)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
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
	paths  []string // of its file; several where a service may have several daemons
	owners []int    // uids that may own the file
}

// NewVerifier returns a verifier for the tokens of the daemon with a socket, and with a
// data directory that a daemon of the same user has: one that is started for one run has
// its public key only there. The file of the key is read at each use.
func NewVerifier(socket, dataDir string) *Verifier {
	v := &Verifier{[]string{PublicPath(socket), filepath.Join(dataDir, publicName)}, []int{os.Geteuid()}}
	if filepath.Dir(v.paths[0]) == hostPublicDir {
		if u, err := user.Lookup(hostUser); err == nil {
			if uid, err := strconv.Atoi(u.Uid); err == nil {
				v.owners = append(v.owners, uid)
			}
		}
	}
	return v
}

// addUsers adds the daemons of this user: the one that keeps running, and those that are
// started for one run, which have one key in the data directory.
func (v *Verifier) addUsers() {
	if dir, err := keys.RuntimeDir(); err == nil {
		v.paths = append(v.paths, filepath.Join(dir, publicName))
	}
	if base, err := keys.Base(os.Getenv); err == nil {
		v.paths = append(v.paths, filepath.Join(base, "data", "daemon", publicName))
	}
}

var errSignature = errors.New("the signature is not the daemon's")

// check checks a signature.
func (v *Verifier) check(message, signature []byte) (err error) {
	for _, path := range v.paths {
		key, readErr := v.read(path)
		if readErr == nil && ed25519.Verify(key, message, signature) {
			return nil
		}
		switch {
		case readErr == nil:
			err = errSignature
		case err == nil:
			err = readErr
		}
	}
	return err
}

// read returns a public key. Its file must be one that only the daemon can write.
func (v *Verifier) read(path string) (ed25519.PublicKey, error) {
	key, mode, uid, err := readKey(path, ed25519.PublicKeySize)
	switch {
	case err != nil:
	case mode.Perm()&0o022 != 0:
		err = errors.New("other users can write to it")
	case !slices.Contains(v.owners, uid):
		err = fmt.Errorf("it belongs to uid %d", uid)
	default:
		return key, nil
	}
	text := "approvals are not available: no key of the daemon at " + path
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
