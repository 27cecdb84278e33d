package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/term"
)

// loginLimit is how long a login may take.
const loginLimit = 10 * time.Minute

func newLogin(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "login NAME", Short: "log in to an MCP server with a URL",
		Long: `Log in to an MCP server with a URL, in a browser. The address to open is printed; the
browser comes back to a port of this host. Where it runs on another one (ssh), paste the
address that it ends at. zino-mcp keeps the tokens, and renews them.`,
		Example: "  zino mcp login github",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckPerson(cmd); err != nil {
				return err
			}
			name, err := one(cmd, args)
			if err != nil {
				return err
			}
			return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				if _, err := find(ctx, env, d, name); err != nil {
					return err
				}
				return login(ctx, env, d, name)
			})
		},
	}
}

func newLogout(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "logout NAME", Short: "forget the tokens of an MCP server", Example: "  zino mcp logout github",
		Long: "Forget the tokens of an MCP server with a URL: the next call needs zino mcp login.",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := one(cmd, args)
			if err != nil {
				return err
			}
			return env.WithDaemon(cmd, false, connect.StorageOptional, func(ctx context.Context, d *connect.Daemon) error {
				if _, err := find(ctx, env, d, name); err != nil {
					return err
				}
				root, err := env.RootDir()
				if err != nil {
					return err
				}
				if _, err := connect.Forward(ctx, d, service, proto.MCPLogout, proto.Logout{Server: name, Root: root}); err != nil {
					return err
				}
				env.Say("The tokens of %s are forgotten.", name)
				return nil
			})
		},
	}
}

// login begins a login, waits for the browser or for a pasted address, and ends it.
func login(ctx context.Context, env *command.Env, d *connect.Daemon, name string) error {
	ctx, cancel := context.WithTimeout(ctx, loginLimit)
	defer cancel()
	root, err := env.RootDir()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("no port on this host for the browser to come back to: %w", err)
	}
	back := make(chan url.Values, 1)
	server := &http.Server{Handler: callback(l.Addr().String(), back), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(l) // until Close
	defer server.Close()
	begun, err := connect.Forward(ctx, d, service, proto.MCPLoginBegin, proto.LoginBegin{Server: name, Root: root, RedirectURL: "http://" + l.Addr().String() + "/callback"})
	if err != nil {
		return err
	}
	env.Say("Open this address in a browser:")
	env.Say("  %s", begun.URL)
	failed := make(chan error, 1)
	if term.IsTerminal(env.In) {
		env.Say("If the browser is on another host, paste the address that it ends at.")
		go paste(env, back, failed)
	}
	var query url.Values
	select {
	case query = <-back:
	case err = <-failed:
	case <-ctx.Done():
		if err = ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			err = proto.Errorf(proto.CodeTimeout, "no login within 10 minutes: run zino mcp login %s again", name)
		}
	}
	if err != nil {
		return err
	}
	if refusal := query.Get("error"); refusal != "" {
		return &proto.Error{Code: proto.CodeDenied, Kind: "api_error", Message: fmt.Sprintf("%s did not authorize: %.200s", name, strings.TrimSpace(refusal+" "+query.Get("error_description")))}
	}
	if _, err := connect.Forward(ctx, d, service, proto.MCPLoginEnd, proto.LoginEnd{Login: begun.Login, Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}); err != nil {
		return err
	}
	env.Say("Logged in to %s.", name)
	return nil
}

// callback receives the browser. Any page can make it send requests here, also with a name
// that resolves to the loopback address; zino-mcp checks the state.
func callback(host string, back chan<- url.Values) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		query := r.URL.Query()
		if r.Host != host || r.URL.Path != "/callback" || query.Get("code") == "" && query.Get("error") == "" {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "Nothing is here.\n")
			return
		}
		io.WriteString(w, "You can close this window.\n")
		select {
		case back <- query:
		default:
		}
	}
}

// paste reads the address that the browser ended at.
func paste(env *command.Env, back chan<- url.Values, failed chan<- error) {
	for {
		line, err := term.ReadLine(env.In)
		if line = strings.TrimSpace(line); line != "" {
			u, parseErr := url.Parse(line)
			if parseErr == nil && (u.Query().Get("code") != "" || u.Query().Get("error") != "") {
				back <- u.Query()
				return
			}
			env.Say("This is not the address that the browser ended at: it has no code.")
		}
		if errors.Is(err, io.EOF) {
			return // the browser may still come
		}
		if err != nil {
			failed <- err
			return
		}
	}
}
