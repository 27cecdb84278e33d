// Package auth is zino auth: the keys of model providers.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/keys"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

const long = `Manage the keys of model providers: anthropic, openai, gemini, openrouter.

A key is looked for in [api] key of the configuration, in the unit's systemd
credentials, in [api] key_file, in the environment (such as OPENAI_API_KEY), and
last in your store. Only the store is changed: a directory that only you can read,
encrypted with systemd-creds where that works. The services do not have to run.

With --system it is about the services of the whole host, whose router loads its
keys as systemd credentials: root stores them in /etc/credstore.encrypted, or where
nothing encrypts, in /etc/credstore.`

// longOf returns the help of a subcommand: what it does, and how keys are found.
func longOf(short string) string {
	_, how, _ := strings.Cut(long, "\n\n")
	return strings.ToUpper(short[:1]) + short[1:] + ".\n\n" + how
}

// New returns zino auth.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "auth", Short: "store keys of model providers, and see where they come from", Long: long,
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "name one of: set, list, logout, login"
			if len(args) > 0 { // args[0] may be a key: don't print it
				what = cmp.Or(command.Suggest(cmd, args[0]), "there is no such command; there are: set, list, logout, login")
			}
			return render.Usage("zino auth: %s; try zino auth --help", what)
		},
	}
	cmd.AddCommand(newSet(env), newList(env), newLogout(env), NewLogin(env))
	return cmd
}

// place is where a command stores keys: the user's store, or the credentials of the
// host's services.
type place struct {
	system bool
	root   string // of the files of another host; "": this host
}

func (p *place) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.system, "system", false, "the key of the host's services, for all users of the host (root only)")
	cmd.Flags().StringVar(&p.root, "root-dir", "", "with --system: the root of another host's files")
	cmd.Flags().MarkHidden("root-dir") // cannot fail: the flag exists
}

// check validates the flags before a key is typed.
func (p *place) check(command string, uid int) error {
	switch {
	case p.root != "" && !p.system:
		return render.Usage("%s: --root-dir belongs to --system", command)
	case p.root != "" && !filepath.IsAbs(p.root):
		return render.Usage("%s: --root-dir %q: give an absolute path", command, p.root)
	case p.system && p.root == "" && uid != 0:
		return proto.Errorf(proto.CodeDenied, "%s --system is about /etc/credstore, which is root's: sudo %s --system; without --system it is about your own keys", command, command)
	}
	return nil
}

func (p *place) host() *keys.Host { return keys.OpenHost(p.root) }

// accountCommand returns a command whose only argument is a provider.
func accountCommand(name, short string, run func(context.Context, keys.Account, place) error) *cobra.Command {
	var at place
	cmd := &cobra.Command{
		Use: name + " PROVIDER", Short: short, Long: longOf(short),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := parseAccount(name, args)
			if err != nil {
				return err
			}
			if err := at.check("zino auth "+name+" "+account.Name, os.Geteuid()); err != nil {
				return err
			}
			ctx, stop := command.UntilSignal(cmd.Context())
			defer stop()
			err = run(ctx, account, at)
			if err != nil && ctx.Err() != nil {
				return render.ErrInterrupted
			}
			return err
		},
	}
	at.flags(cmd)
	return cmd
}

// parseAccount returns the provider that the arguments name. Its errors don't contain
// the arguments, because one may be a key.
func parseAccount(name string, args []string) (keys.Account, error) {
	var names []string
	for _, account := range keys.Accounts() {
		names = append(names, account.Name)
	}
	all := strings.Join(names, ", ")
	switch {
	case len(args) == 0:
		return keys.Account{}, render.Usage("zino auth %s: name one provider: %s", name, all)
	case len(args) > 1:
		return keys.Account{}, render.Usage("zino auth %s takes a provider and nothing more: a key goes into the prompt or standard input, never on the command line", name)
	}
	account, ok := keys.Find(args[0])
	if ok {
		return account, nil
	}
	nearest := ""
	if similar := config.Similar(args[0], names); similar != "" {
		nearest = fmt.Sprintf("; the nearest one is %q", similar)
	}
	return account, render.Usage("zino auth %s: there is no such provider%s (there are: %s)", name, nearest, all)
}

// keep stores a key and prints where.
func keep(ctx context.Context, env *command.Env, account keys.Account, key string, at place) error {
	if at.system {
		how, err := at.host().Set(ctx, account.Name, key)
		if err != nil {
			return err
		}
		env.Say("The key of %s is kept %s.", account.Name, how)
		env.Say("zino-rtr reads it when it starts. If it runs, restart it: systemctl try-restart zino-rtr.service")
		return nil
	}
	store, err := keys.OpenUser(os.Getenv)
	if err != nil {
		return err
	}
	how, err := store.Set(ctx, account.Name, key)
	if err != nil {
		return err
	}
	env.Say("The key of %s is kept %s.", account.Name, how)
	noteOther(ctx, env, account, "Note: the one in %s comes before it.", false)
	return nil
}

// noteOther prints a note if a key is also configured outside the store. Tokens count
// only if token is set: they are used only without a key in the store.
func noteOther(ctx context.Context, env *command.Env, account keys.Account, format string, token bool) {
	cfg, err := env.Config()
	if err != nil {
		cfg = config.Default() // a key can be stored with an invalid configuration
	}
	search := keys.NewSearch(cfg, os.Getenv)
	search.Store = nil
	if _, from, _ := search.Lookup(ctx, account); from.Kind != "" && (token || !from.Token) { // an error is about that key
		env.Say(format, from)
	}
}

func newLogout(env *command.Env) *cobra.Command {
	return accountCommand("logout", "remove a stored key", func(ctx context.Context, account keys.Account, at place) error {
		if at.system {
			found, err := at.host().Delete(account.Name)
			switch {
			case err != nil:
				return err
			case !found:
				env.Say("There was no key of %s among the host's credentials.", account.Name)
				return nil
			}
			env.Say("The key of %s is removed from the host's credentials. It stays valid until you revoke it: %s", account.Name, account.Page)
			env.Say("A zino-rtr that runs still has it. Restart it: systemctl try-restart zino-rtr.service")
			return nil
		}
		store, err := keys.OpenUser(os.Getenv)
		if err != nil {
			return err
		}
		found, err := store.Delete(account.Name)
		if err != nil {
			return err
		}
		if found {
			env.Say("The key of %s is removed from %s. It stays valid until you revoke it: %s", account.Name, store.Dir(), account.Page)
		} else {
			env.Say("There was no key of %s in %s.", account.Name, store.Dir())
		}
		noteOther(ctx, env, account, "Note: there is still one in %s.", true)
		return nil
	})
}

// NewLogin returns zino auth login. Without a provider it lists how to connect each.
func NewLogin(env *command.Env) *cobra.Command {
	cmd := accountCommand("login", "log in with the browser to get a key (openrouter)", func(ctx context.Context, account keys.Account, at place) error {
		return logIn(ctx, env, account, at)
	})
	cmd.Use = "login [PROVIDER]"
	cmd.Example = "  zino login openrouter"
	login := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return login(cmd, args)
		}
		w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "PROVIDER\tHOW TO CONNECT")
		for _, account := range keys.Accounts() {
			how := "zino auth set " + account.Name + " (a key from " + account.Page + ")"
			if account.Name == "openrouter" {
				how = "zino login openrouter (in the browser), or " + how
			}
			fmt.Fprintf(w, "%s\t%s\n", account.Name, how)
		}
		return w.Flush()
	}
	return cmd
}

func newList(env *command.Env) *cobra.Command {
	const short = "show where each provider's key comes from"
	var at place
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"status"}, Short: short, Long: longOf(short), Annotations: command.PrintsJSON,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 { // args[0] may be a key: don't print it
				return render.Usage("zino auth list takes no arguments; try zino auth --help")
			}
			if err := at.check("zino auth list", os.Geteuid()); err != nil {
				return err
			}
			if at.system {
				return listHost(env, at.host())
			}
			ctx, stop := command.UntilSignal(cmd.Context())
			defer stop()
			err := list(ctx, env)
			if ctx.Err() != nil {
				env.Interrupted()
				return render.ErrInterrupted
			}
			return err
		},
	}
	at.flags(cmd)
	return cmd
}

// keyObject is the JSON output of zino auth list for a provider. It contains no part
// of the key.
type keyObject struct {
	Provider string      `json:"provider"`
	Source   string      `json:"source,omitzero"` // "[api] key", credential, key_file, environment or store; absent: no key
	Place    string      `json:"place,omitzero"`  // a path, or the variable's name
	Usable   bool        `json:"usable"`
	Stored   []storedKey `json:"stored"`
}

// storedKey is a file that contains a key.
type storedKey struct {
	Path      string `json:"path"`
	Encrypted bool   `json:"encrypted"`
}

// list prints where keys come from. Keys that cannot be used are reported below.
func list(ctx context.Context, env *command.Env) error {
	store, err := keys.OpenUser(os.Getenv)
	if err != nil {
		return err
	}
	var problems []error
	cfg, err := env.Config()
	if err != nil {
		cfg, problems = config.Default(), append(problems, err)
	}
	search := keys.NewSearch(cfg, os.Getenv)
	entries, err := store.List()
	if err != nil {
		search.Store, problems = nil, append(problems, err) // once, not for each account
	}
	rows := [][]string{{"PROVIDER", "KEY FROM", "STORED"}}
	var objects []keyObject
	for _, account := range keys.Accounts() {
		_, from, err := search.Lookup(ctx, account)
		if err != nil {
			problems = append(problems, err)
		}
		stored, description := storedKeys(entries, account)
		rows = append(rows, []string{account.Name, connect.DescribeSource(from, err), description})
		objects = append(objects, keyObject{account.Name, from.Kind, from.Place, from.Kind != "" && err == nil, stored})
	}
	if err := printKeys(env, rows, objects); err != nil {
		return err
	}
	if cfg.API.BaseURL != "" && !env.JSON() {
		env.Say("Requests of the provider %s go to [api] base_url of %s: %s", search.First, cfg.File, connect.WithoutPassword(cfg.API.BaseURL))
	}
	for _, problem := range problems {
		env.PrintError(problem)
	}
	if len(problems) > 0 {
		return render.ErrReported
	}
	return nil
}

// listHost prints which keys the host's services have.
func listHost(env *command.Env, host *keys.Host) error {
	entries, err := host.List()
	if err != nil {
		return err
	}
	rows := [][]string{{"PROVIDER", "CREDENTIAL OF THE HOST"}}
	var objects []keyObject
	for _, account := range keys.Accounts() {
		stored, description := storedKeys(entries, account)
		object := keyObject{Provider: account.Name, Stored: stored}
		if len(stored) > 0 {
			object.Source, object.Place, object.Usable = "credential", stored[0].Path, true
		}
		rows, objects = append(rows, []string{account.Name, description}), append(objects, object)
	}
	return printKeys(env, rows, objects)
}

// storedKeys returns the files with keys of an account, and their description.
func storedKeys(entries []keys.Entry, account keys.Account) ([]storedKey, string) {
	list, texts := []storedKey{}, []string{}
	for _, e := range entries {
		if e.Name != account.Name {
			continue
		}
		list = append(list, storedKey{e.Path, e.Encrypted})
		form := "not encrypted, "
		if e.Encrypted {
			form = "encrypted, "
		}
		texts = append(texts, form+e.Path)
	}
	return list, render.Dash(strings.Join(texts, "; "))
}

func printKeys(env *command.Env, rows [][]string, objects []keyObject) error {
	if env.JSON() {
		return render.JSONList(env.Out, objects)
	}
	_, err := io.WriteString(env.Out, render.Columns(rows, 0))
	return err
}

// readMax is how many bytes of a line are read for a key or a code.
const readMax = 64 << 10

var errNoCode = errors.New("this is neither a code nor an address")
