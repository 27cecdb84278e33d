package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	keystore "zino/pkg/keys" // the type keys is the keyboard
)

// keyPlace is where a command keeps keys: the user's store, or the credentials
// of the host's services.
type keyPlace struct {
	system bool
	root   string // of another host's files; "": this host
}

// flags adds the flags that choose the place.
func (p *keyPlace) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.system, "system", false, "the key of the host's services, for all users of the host (root only)")
	cmd.Flags().StringVar(&p.root, "root-dir", "", "with --system: the root of another host's files")
	cmd.Flags().MarkHidden("root-dir") // cannot fail: the flag exists
}

// check refuses early what cannot go well: before somebody types a key.
func (p *keyPlace) check(command string, uid int) error {
	switch {
	case p.root != "" && !p.system:
		return usageError{fmt.Errorf("%s: --root-dir belongs to --system", command)}
	case p.system && p.root == "" && uid != 0:
		return fmt.Errorf("%s --system is about /etc/credstore, which is root's: sudo %s --system; without --system it is about your own keys", command, command)
	}
	return nil
}

func (p *keyPlace) host() *keystore.Host { return keystore.OpenHost(p.root) }

// keepForHost puts a key where the host's services load it from.
func (a *app) keepForHost(ctx context.Context, account keystore.Account, key string, host *keystore.Host) error {
	how, err := host.Set(ctx, account.Name, key)
	if err != nil {
		return err
	}
	a.say("The key of %s is kept %s.", account.Name, how)
	a.say("zino-rtr reads it when it starts. If it runs, restart it: systemctl try-restart zino-rtr.service")
	return nil
}

// removeFromHost removes a key of the host's services.
func (a *app) removeFromHost(account keystore.Account, host *keystore.Host) error {
	found, err := host.Delete(account.Name)
	switch {
	case err != nil:
		return err
	case !found:
		a.say("There was no key of %s among the host's credentials.", account.Name)
		return nil
	}
	a.say("The key of %s is removed from the host's credentials. It stays valid until you revoke it: %s", account.Name, account.Page)
	a.say("A zino-rtr that runs still has it. Restart it: systemctl try-restart zino-rtr.service")
	return nil
}

// listHost prints which keys the host's services have, and no part of one.
func (a *app) listHost(host *keystore.Host) error {
	entries, err := host.List()
	if err != nil {
		return err
	}
	rows := [][]string{{"PROVIDER", "CREDENTIAL OF THE HOST"}}
	var objects []keyObject
	for _, account := range keystore.Accounts() {
		object := keyObject{Provider: account.Name, Stored: storedKeys(entries, account)}
		if len(object.Stored) > 0 {
			object.Source, object.Place, object.Usable = "credential", object.Stored[0].Path, true
		}
		rows, objects = append(rows, []string{account.Name, describeStored(object.Stored)}), append(objects, object)
	}
	return a.printKeys(rows, objects)
}
