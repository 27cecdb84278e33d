package exc

import (
	"fmt"
	"path/filepath"

	"zino/services/exc/confine"
)

// hidden are what lies in dirs, all real paths, and is nobody's to read: the
// secrets of the host, and the user's keys.
func (b *sandbox) hidden(dirs []string) []string {
	return confine.Secrets(dirs, b.ownSecrets()...)
}

// ownSecrets are the real paths of the user's keys, as far as they are there.
func (b *sandbox) ownSecrets() (list []string) {
	for _, path := range b.secrets {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			list = append(list, real)
		}
	}
	return list
}

// secretRoot is the error for a directory to work in that lies in a secret.
func (b *sandbox) secretRoot(root string) error {
	if secret := confine.SecretOver(root, b.ownSecrets()...); secret != "" {
		return fmt.Errorf("%s holds what nobody is to read: work in a directory of the project's own", secret)
	}
	return nil
}

// hide takes from the run what it is not to read of what it was given. Landlock
// gives a root whole, or not at all.
func (a *arrangement) hide() error {
	given, root := a.plan.Read, a.plan.Root
	if root != "" {
		given = append([]string{root}, given...)
	}
	a.plan.Hidden = a.s.sandbox.hidden(given)
	if a.plan.Namespaces || root == "" {
		return nil
	}
	for _, path := range a.plan.Hidden {
		if confine.Within(path, root) {
			return fmt.Errorf("%s holds %s, which nobody is to read, and without namespaces that cannot be hidden: work in a directory of the project's own", root, path)
		}
	}
	return nil
}
