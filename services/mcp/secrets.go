package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/oauth2"

	"zino/pkg/durable"
	"zino/pkg/keys"
	"zino/pkg/mask"
	"zino/pkg/seal"
	"zino/proto"
)

const (
	secretsFile    = "secrets.json"
	secretsMax     = 4 << 20
	secretMax      = 64 << 10
	secretsVersion = 1
)

// secrets is the file of secrets and logins. Several processes of a user may use it. It is
// encrypted where systemd does that for this user.
type secrets struct {
	dir string
	box *seal.Box

	mu      sync.Mutex
	form    string // whether the file is encrypted, for people; empty: not known
	problem error  // of the file when it was last read; nil: none
}

// vault is its content.
type vault struct {
	Version int               `json:"version"`
	Secrets map[string]string `json:"secrets"`
	Logins  map[string]login  `json:"logins"`
}

// login is a login at a server, by its name and URL.
type login struct {
	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"`
	AuthStyle    oauth2.AuthStyle `json:"auth_style,omitempty"`
	TokenURL     string           `json:"token_url"`
	Scopes       []string         `json:"scopes,omitempty"`
	Token        *oauth2.Token    `json:"token"`
}

// secretsDir returns the directory of the file.
func secretsDir(personal bool, dataDir string) (string, error) {
	if !personal {
		return cmp.Or(os.Getenv("STATE_DIRECTORY"), dataDir), nil
	}
	base, err := keys.Base(os.Getenv)
	return filepath.Join(base, "mcp"), err
}

// load returns the bytes of the file, nil if the file does not exist.
func (s *secrets) load() ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, secretsFile), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", f.Name())
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s is open to other users: chmod 600 %[1]s", f.Name())
	}
	return io.ReadAll(io.LimitReader(f, 2*secretsMax)) // encrypted it is larger
}

// read returns the content of the file.
func (s *secrets) read() (vault, error) {
	v, err := s.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = err
	return v, err
}

// open is read without a note of the result.
func (s *secrets) open() (vault, error) {
	data, err := s.load()
	if err != nil {
		return vault{}, err
	}
	path := filepath.Join(s.dir, secretsFile)
	if seal.Sealed(data) {
		s.note(encrypted)
		if data, err = s.box.Open(context.Background(), data); err != nil {
			return vault{}, fmt.Errorf("cannot decrypt %s: %w. Only this user can, on the host that wrote it, while systemd-creds.socket listens; else move it away and store the secrets again", path, err)
		}
	}
	v, err := parseVault(data)
	if err != nil { // the content is not part of the message
		return vault{}, fmt.Errorf("%s is damaged: move it away and store the secrets again", path)
	}
	return v, nil
}

// encrypted is the form of a file that systemd's service encrypts.
const encrypted = "encrypted for this host and user by systemd"

// plain is the form of a file that it does not encrypt.
func plain(reason error) string { return "for this user only, not encrypted: " + reason.Error() }

// note keeps the form of the file for people.
func (s *secrets) note(form string) {
	s.mu.Lock()
	s.form = form
	s.mu.Unlock()
}

// protect reads the file, and encrypts one that is not yet, if the service is there.
func (s *secrets) protect(ctx context.Context) error {
	data, err := s.load()
	switch {
	case err != nil || data == nil:
		return err
	case seal.Sealed(data):
		_, err = s.read()
		return err
	}
	if _, err := os.Stat(s.box.Socket); err != nil {
		s.note(plain(err))
		return nil
	}
	return s.update(ctx, func(*vault) error { return nil })
}

// parseVault reads the content of the file.
func parseVault(data []byte) (vault, error) {
	v := vault{Version: secretsVersion}
	if len(data) > secretsMax {
		return vault{}, errors.New("too large")
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &v); err != nil {
			return vault{}, err
		}
	}
	if v.Version != secretsVersion {
		return vault{}, fmt.Errorf("version %d", v.Version)
	}
	if v.Secrets == nil {
		v.Secrets = map[string]string{}
	}
	if v.Logins == nil {
		v.Logins = map[string]login{}
	}
	maps.DeleteFunc(v.Logins, func(_ string, l login) bool { return l.Token == nil || l.TokenURL == "" || l.ClientID == "" })
	return v, nil
}

// update changes the file, under a lock. An error of change leaves it as it was.
func (s *secrets) update(ctx context.Context, change func(*vault) error) error {
	if err := makeDir(s.dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	lock, err := durable.AwaitLockFile(ctx, root, secretsFile+".lock", func() error { return nil })
	if err != nil {
		return err
	}
	defer lock.Unlock()
	v, err := s.read()
	if err == nil {
		err = change(&v)
	}
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	sealed, reason := s.box.Seal(ctx, data)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case reason != nil:
		s.note(plain(reason))
		sealed = append(data, '\n')
	default:
		s.note(encrypted)
	}
	return durable.Replace(root, secretsFile, sealed)
}

var secretName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// SecretSet stores a secret, or removes it.
func (s *Service) SecretSet(ctx context.Context, req proto.SetSecret) (proto.Empty, error) {
	if !secretName.MatchString(req.Name) {
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, `Invalid request: field "name": letters, digits, _, . and -`)
	}
	if len(req.Value) > secretMax {
		return proto.Empty{}, proto.Errorf(proto.CodeTooLarge, "a secret has at most %d bytes", secretMax)
	}
	err := s.secrets.update(ctx, func(v *vault) error {
		if req.Value == "" {
			delete(v.Secrets, req.Name)
		} else {
			v.Secrets[req.Name] = req.Value
		}
		return nil
	})
	if err != nil {
		return proto.Empty{}, fmt.Errorf("cannot store the secret: %w", err)
	}
	s.restart(func(d *definition) bool {
		for _, name := range d.Secrets {
			if name == req.Name {
				return true
			}
		}
		return false
	})
	return proto.Empty{}, nil
}

// restart ends the instances that match after their calls, so that the next call starts them
// anew, and forgets their failures.
func (s *Service) restart(match func(*definition) bool) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, in := range s.pool.instances {
		if match(in.d) {
			go in.endUnused()
		}
	}
	for _, h := range s.pool.history {
		h.failed, h.login, h.failures, h.next = false, false, nil, time.Time{}
	}
}

// secretsOf adds the secrets of a server to variables or headers. hide masks them in what the
// server says: a result must not carry its own token to a model.
func (s *Service) secretsOf(d *definition, to map[string]string) (out map[string]string, hide *mask.Masker, err error) {
	out = maps.Clone(to)
	v, err := s.secrets.read()
	if err != nil {
		return nil, nil, err
	}
	var values []string
	if len(d.Secrets) > 0 && out == nil {
		out = map[string]string{}
	}
	for to, name := range d.Secrets {
		value, ok := v.Secrets[name]
		if !ok {
			return nil, nil, fmt.Errorf("the secret %q is not stored: zino mcp add --secret", name)
		}
		out[to] = value
		values = append(values, append(strings.Fields(value), value)...) // "Bearer TOKEN"
	}
	if l, ok := v.Logins[d.loginKey()]; ok {
		values = append(values, l.Token.AccessToken, l.Token.RefreshToken, l.ClientSecret)
	}
	hide, err = mask.New(mask.Config{Salt: s.salt, Values: values, NoShapes: true})
	return out, hide, err
}
