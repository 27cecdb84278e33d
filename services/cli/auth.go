package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	keystore "zino/pkg/keys" // the type keys is the keyboard
)

const authLong = `Manage the keys of model providers: anthropic, openai, gemini, openrouter.

A key is looked for in [api] key of the configuration, in the unit's systemd
credentials, in [api] key_file, in the environment (such as OPENAI_API_KEY), and
last in your store. Only the store is changed: a directory that only you can read,
encrypted with systemd-creds where that works. The services do not have to run.

With --system it is about the services of the whole host, whose router loads its
keys as systemd credentials: root stores them in /etc/credstore.encrypted, or where
nothing encrypts, in /etc/credstore.`

func (a *app) authCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "auth", Short: "store keys of model providers, and see where they come from", Long: authLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "name one of: set, list, logout, login"
			if len(args) > 0 { // the word is not repeated: it may be a key
				what = cmp.Or(meant(cmd, args[0]), "there is no such command; there are: set, list, logout, login")
			}
			return usageError{fmt.Errorf("zino auth: %s; try zino auth --help", what)}
		},
	}
	cmd.AddCommand(
		a.accountCommand("set", "store a key, read from a prompt or from standard input", a.authSet),
		a.authListCommand(),
		a.accountCommand("logout", "remove a stored key", a.authLogout),
		a.authLoginCommand(),
	)
	return cmd
}

// aboutAuth is the help of a command: what it does, and how keys are found.
func aboutAuth(short string) string {
	_, how, _ := strings.Cut(authLong, "\n\n")
	return strings.ToUpper(short[:1]) + short[1:] + ".\n\n" + how
}

// accountCommand is a command with a provider for its only argument.
func (a *app) accountCommand(name, short string, run func(context.Context, keystore.Account, keyPlace) error) *cobra.Command {
	var place keyPlace
	cmd := &cobra.Command{
		Use: name + " PROVIDER", Short: short, Long: aboutAuth(short),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := accountOf(name, args)
			if err != nil {
				return usageError{err}
			}
			if err := place.check("zino auth "+name+" "+account.Name, os.Geteuid()); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err = run(ctx, account, place)
			if err != nil && ctx.Err() != nil {
				return errInterrupted
			}
			return err
		},
	}
	place.flags(cmd)
	return cmd
}

// accountOf finds the provider that the arguments name. What is wrong is not
// repeated: somebody may have put a key there.
func accountOf(command string, args []string) (keystore.Account, error) {
	var names []string
	for _, account := range keystore.Accounts() {
		names = append(names, account.Name)
	}
	all := strings.Join(names, ", ")
	switch {
	case len(args) == 0:
		return keystore.Account{}, fmt.Errorf("zino auth %s: name one provider: %s", command, all)
	case len(args) > 1:
		return keystore.Account{}, fmt.Errorf("zino auth %s takes a provider and nothing more: a key goes into the prompt or standard input, never on the command line", command)
	}
	account, ok := keystore.Find(args[0])
	if !ok {
		nearest := ""
		if name := config.Similar(args[0], names); name != "" {
			nearest = fmt.Sprintf("; the nearest one is %q", name)
		}
		return account, fmt.Errorf("zino auth %s: there is no such provider%s (there are: %s)", command, nearest, all)
	}
	return account, nil
}

// keep puts a key into its place and says how it is kept there.
func (a *app) keep(ctx context.Context, account keystore.Account, key string, place keyPlace) error {
	if place.system {
		return a.keepForHost(ctx, account, key, place.host())
	}
	store, err := keystore.OpenUser(os.Getenv)
	if err != nil {
		return err
	}
	how, err := store.Set(ctx, account.Name, key)
	if err != nil {
		return err
	}
	a.say("The key of %s is kept %s.", account.Name, how)
	if _, from, _ := keystore.Lookup(ctx, account, "", os.Getenv, nil); from.Kind != "" { // an error is about that one
		a.say("Note: the one in %s %s comes before it.", from.Kind, from.Place)
	}
	return nil
}

func (a *app) authLogout(ctx context.Context, account keystore.Account, place keyPlace) error {
	if place.system {
		return a.removeFromHost(account, place.host())
	}
	store, err := keystore.OpenUser(os.Getenv)
	if err != nil {
		return err
	}
	found, err := store.Delete(account.Name)
	if err != nil {
		return err
	}
	if found {
		a.say("The key of %s is removed from %s. It stays valid until you revoke it: %s", account.Name, store.Dir(), account.Page)
	} else {
		a.say("There was no key of %s in %s.", account.Name, store.Dir())
	}
	if _, from, _ := keystore.Lookup(ctx, account, "", os.Getenv, nil); from.Kind != "" { // an error is about that one
		a.say("Note: there is still one in %s %s.", from.Kind, from.Place)
	}
	return nil
}

func (a *app) authListCommand() *cobra.Command {
	var place keyPlace
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"status"}, Short: "show where each provider's key comes from", Long: aboutAuth("show where each provider's key comes from"), Annotations: printsJSON,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{errors.New("zino auth list takes no arguments; try zino auth --help")}
			}
			if err := place.check("zino auth list", os.Geteuid()); err != nil {
				return err
			}
			if place.system {
				return a.listHost(place.host())
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err := a.authList(ctx)
			if ctx.Err() != nil {
				a.interrupted()
				return errInterrupted
			}
			return err
		},
	}
	place.flags(cmd)
	return cmd
}

// authList prints a table without any part of a key. Keys that cannot be used
// are told of below it.
func (a *app) authList(ctx context.Context) error {
	store, err := keystore.OpenUser(os.Getenv)
	if err != nil {
		return err
	}
	var problems []error
	cfg, err := a.settings()
	if err != nil {
		cfg, problems = config.Default(), append(problems, err)
	}
	entries, err := store.List()
	if err != nil {
		store, problems = nil, append(problems, err) // once, not for each account
	}
	rows := [][]string{{"PROVIDER", "KEY FROM", "STORED"}}
	var objects []keyObject
	for _, account := range keystore.Accounts() {
		from, err := keySource(ctx, cfg, account, store)
		if err != nil {
			problems = append(problems, err)
		}
		stored := storedKeys(entries, account)
		rows = append(rows, []string{account.Name, origin(from, err), describeStored(stored)})
		objects = append(objects, keyObject{account.Name, from.Kind, from.Place, from.Kind != "" && err == nil, stored})
	}
	if err := a.printKeys(rows, objects); err != nil {
		return err
	}
	if cfg.API.BaseURL != "" && !a.asJSON() {
		a.say("Requests of the provider %s go to [api] base_url of %s: %s", firstProvider(cfg), cfg.File, withoutSecrets("", cfg.API.BaseURL))
	}
	for _, problem := range problems {
		fmt.Fprint(a.err, errorText(problem))
	}
	if len(problems) > 0 {
		return errQuiet
	}
	return nil
}

// keyObject is what zino auth list prints of a provider in JSON: no part of the
// key.
type keyObject struct {
	Provider string      `json:"provider"`
	Source   string      `json:"source,omitzero"` // "[api] key", credential, key_file, environment or store; absent: no key
	Place    string      `json:"place,omitzero"`  // a path, or the variable's name
	Usable   bool        `json:"usable"`
	Stored   []storedKey `json:"stored"`
}

// storedKey is a file that holds a key.
type storedKey struct {
	Path      string `json:"path"`
	Encrypted bool   `json:"encrypted"`
}

func storedKeys(entries []keystore.Entry, account keystore.Account) []storedKey {
	list := []storedKey{}
	for _, e := range entries {
		if e.Name == account.Name {
			list = append(list, storedKey{e.Path, e.Encrypted})
		}
	}
	return list
}

func describeStored(list []storedKey) string {
	var texts []string
	for _, key := range list {
		form := "not encrypted, "
		if key.Encrypted {
			form = "encrypted, "
		}
		texts = append(texts, form+key.Path)
	}
	return dash(strings.Join(texts, "; "))
}

// printKeys prints the objects, a line each, or the rows as a table.
func (a *app) printKeys(rows [][]string, objects []keyObject) error {
	if a.asJSON() {
		return printAll(a.out, objects)
	}
	_, err := io.WriteString(a.out, columns(rows, 0))
	return err
}

// origin words where a key comes from.
func origin(from keystore.Source, err error) string {
	text := "none"
	switch from.Kind {
	case "":
	case "store":
		text = "store"
	default:
		text = from.Kind + " " + from.Place
	}
	if err != nil {
		return "unusable: " + text
	}
	return text
}
