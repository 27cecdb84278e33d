package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zino/pkg/durable"
)

// Host stores the keys of the host's services where systemd looks for the
// credentials of a unit, in a file for each account that only root can read:
//
//	/etc/credstore.encrypted/zino-NAME   encrypted with systemd-creds for this host
//	/etc/credstore/zino.NAME             plain
//
// The names differ because LoadCredentialEncrypted= searches both directories and
// takes any file of that name for an encrypted one.
type Host struct {
	root  string
	seals bool // the files are for this host, so that its systemd-creds can encrypt them
	creds creds
}

// OpenHost returns the credentials of the host below root, which is "" for this
// host. Below another root they are not encrypted, since only this host could
// decrypt them. It does not access the files.
func OpenHost(root string) *Host {
	return &Host{root: filepath.Join("/", root), seals: root == "", creds: creds{timeout: 20 * time.Second}}
}

// form is one of the two forms of a stored key.
type form struct {
	dir, name string
	encrypted bool
}

func forms(account string) (encrypted, plain form) {
	return form{"etc/credstore.encrypted", "zino-" + account, true}, form{"etc/credstore", "zino." + account, false}
}

func (h *Host) path(f form) string { return filepath.Join(h.root, f.dir, f.name) }

// Set stores a key and replaces an earlier one. It returns the place and form, for a
// sentence that begins "the key is kept": "encrypted with systemd-creds in PATH" or
// "in PATH, readable by root only, not encrypted (REASON)".
func (h *Host) Set(ctx context.Context, name, key string) (how string, err error) {
	if key, err = checked(name, key); err != nil {
		return "", err
	}
	kept, other := forms(name)
	how = "encrypted with systemd-creds in " + h.path(kept)
	data, reason := h.seal(ctx, name, key)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if reason != nil {
		kept, other = other, kept
		data, how = []byte(key+"\n"), fmt.Sprintf("in %s, readable by root only, not encrypted (%v)", h.path(kept), reason)
	}
	if err := h.put(kept, data); err != nil {
		return "", err
	}
	if _, err := h.remove(other); err != nil { // systemd would pass on both
		return "", err
	}
	return how, nil
}

func (h *Host) seal(ctx context.Context, name, key string) ([]byte, error) {
	if !h.seals {
		return nil, errors.New("it could be decrypted on this host only")
	}
	return h.creds.seal(ctx, name, key)
}

func (h *Host) put(f form, data []byte) error {
	dir := filepath.Join(h.root, f.dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("cannot make the directory for credentials: %w", err)
	}
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return fmt.Errorf("cannot make the directory for credentials: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cannot open the directory of credentials: %w", err)
	}
	defer root.Close()
	if err := durable.Replace(root, f.name, data); err != nil {
		return fmt.Errorf("cannot write %s: %w", h.path(f), err)
	}
	return nil
}

// Delete removes the key of an account in both forms, and reports whether it found
// any.
func (h *Host) Delete(name string) (found bool, err error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	encrypted, plain := forms(name)
	one, err := h.remove(encrypted)
	other, otherErr := h.remove(plain)
	return one || other, errors.Join(err, otherErr)
}

func (h *Host) remove(f form) (found bool, err error) {
	err = os.Remove(h.path(f))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot remove the credential: %w", err)
	}
	return true, nil
}

// List lists the stored keys in the order of the accounts. It does not read the keys.
func (h *Host) List() (list []Entry, err error) {
	for _, account := range accounts {
		encrypted, plain := forms(account.Name)
		for _, f := range []form{encrypted, plain} {
			info, err := os.Lstat(h.path(f))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("cannot look for credentials: %w", err)
			}
			list = append(list, Entry{account.Name, f.encrypted, h.path(f), info.ModTime()})
		}
	}
	return list, nil
}
