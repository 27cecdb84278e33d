// Package approvals implements zino approvals, approve and deny: requests to allow a call
// of a model.
package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/approval"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

const (
	listMax  = 1000                   // requests that are listed
	waitLook = 200 * time.Millisecond // between two looks for a request
	none     = "No approvals are pending."
)

// New returns zino approvals.
func New(env *command.Env) *cobra.Command {
	var all, wait bool
	cmd := &cobra.Command{
		Use: "approvals", Short: "calls of a model that wait for your answer: show, grants, revoke", Annotations: command.PrintsJSON,
		Long: `List the calls that wait for an answer, the oldest first. A turn asks before a call
that its mode or a rule says to ask about: see zino policy and --mode. zino approve and
zino deny answer; the turn waits, for days if it must ([gate] expires).

--all lists those that are closed as well, with their state, and --session those of one
session. With --json each line is an object. --wait waits until there is one.`,
		Example: "  zino approvals\n  zino approvals show ap-k3v9\n  zino approve ap-k3v9",
		Args:    command.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			get := func(ctx context.Context, d *connect.Daemon) ([]proto.Approval, error) {
				req := proto.ListApprovals{Limit: new(listMax)}
				if all {
					req.State = "all"
				}
				if env.Session != "" {
					found, err := connect.Forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: env.Session})
					if err != nil {
						return nil, err
					}
					req.SessionID = found.SessionID
				}
				for {
					list, err := call(ctx, d, proto.DaemonApprovals, req)
					if err != nil || !wait || len(list.Approvals) > 0 {
						return list.Approvals, err
					}
					select {
					case <-time.After(waitLook):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			}
			text := none
			if all {
				text = "No approvals were asked for."
			}
			return command.List(cmd.Context(), env, all || wait, text, get, func(list []proto.Approval) [][]string { return rows(list, all) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list closed ones too, with their state")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until one is pending")
	cmd.AddCommand(newShow(env), newGrants(env), newRevoke(env))
	return cmd
}

// rows returns the table of zino approvals.
func rows(list []proto.Approval, states bool) [][]string {
	rows := [][]string{{"ID", "STATE", "AGE", "BY", "SESSION", "WHY", "CALL"}}
	for _, a := range list {
		rows = append(rows, []string{
			a.ID, a.State, render.Elapsed(a.Created), cmp.Or(a.By.User, approval.Person(a.By)), turn.ShortID(a.SessionID),
			render.Dash(strings.Join(a.Reasons, "; ")), render.ApprovalLine(&a.Call),
		})
	}
	if !states {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
	}
	return rows
}

// call calls a method of a daemon that has approvals.
func call[Req, Rep any](ctx context.Context, d *connect.Daemon, m proto.Method[Req, Rep], req Req) (Rep, error) {
	reply, err := rpc.Call(ctx, d.Client, m, req)
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeUnknown {
		err = turn.NoApprovals(ctx, d)
	}
	return reply, err
}

// find returns the request whose id is word or begins with it: one that is pending, if that
// is one only.
func find(ctx context.Context, cmd *cobra.Command, d *connect.Daemon, words []string) (found proto.Approval, err error) {
	if len(words) == 0 || words[0] == "" {
		return found, command.Mistake(cmd, "name one request by its id, or by the beginning of it: zino approvals lists them")
	}
	word := words[0]
	var matching []proto.Approval
	if id := strings.TrimPrefix(word, "ap-"); id != "" && (len(words) == 1 || id != word) { // else it is a word of a message
		for _, state := range []string{proto.ApprovalPending, "all"} {
			list, err := call(ctx, d, proto.DaemonApprovals, proto.ListApprovals{State: state, Limit: new(listMax)})
			if err != nil {
				return found, err
			}
			for _, a := range list.Approvals {
				if a.ID == "ap-"+id {
					return a, nil
				}
				if strings.HasPrefix(a.ID, "ap-"+id) {
					matching = append(matching, a)
				}
			}
			if len(matching) > 0 {
				break
			}
		}
	}
	switch {
	case len(matching) == 1:
		return matching[0], nil
	case len(matching) > 1:
		var ids []string
		for _, a := range matching {
			ids = append(ids, a.ID)
		}
		return found, command.Mistake(cmd, "several requests begin with %q: %s", word, strings.Join(ids, ", "))
	case len(words) > 1:
		return found, render.Usage("No approval %q. To send this as a message: zino -- %s", word, turn.ShellWords(cmd.Name(), words))
	}
	return found, &proto.Error{Code: proto.CodeNotFound, Message: fmt.Sprintf("no approval %q: zino approvals --all lists them", word)}
}

func newShow(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show a request whole", Annotations: command.PrintsJSON,
		Long: `Show a request: the whole call, the diff of a change, why it is asked, sandbox level,
network and directory, and the digest that an answer holds for. Secrets are masked. With
--json the result is one object.`,
		Example: "  zino approvals show ap-k3v9",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Mistake(cmd, "it takes one request, but was given %q too", args[1])
			}
			return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				a, err := find(ctx, cmd, d, args)
				switch {
				case err != nil:
					return err
				case env.JSON():
					return render.JSON(env.Out, a)
				}
				return env.Print(func(w io.Writer) error {
					_, err := io.WriteString(w, render.Line(a.ID)+": "+render.Approval(&a, "", false)+render.ApprovalDetails(&a))
					return err
				})
			})
		},
	}
}

func newGrants(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "grants", Short: "list what you allowed for a session or for always", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `List the grants: calls that run without asking because you answered a request with
session or always. A grant never allows what a rule denies. With --json each line is an
object. zino approvals revoke removes one; it holds for the next call.`,
		Example: "  zino approvals grants",
		RunE: func(cmd *cobra.Command, _ []string) error {
			get := func(ctx context.Context, d *connect.Daemon) ([]proto.Grant, error) {
				list, err := call(ctx, d, proto.DaemonGrants, proto.ListGrants{})
				for _, problem := range list.Problems {
					env.Say("Warning: %s", problem)
				}
				return list.Grants, err
			}
			return command.List(cmd.Context(), env, true, "Nothing is allowed for a session or for always.", get, grantRows)
		},
	}
}

// grantRows returns the table of zino approvals grants.
func grantRows(list []proto.Grant) [][]string {
	rows := [][]string{{"ID", "UNTIL", "USES", "LAST", "ALLOWS"}}
	for _, g := range list {
		last := "-"
		if g.LastUse != "" {
			last = render.Elapsed(g.LastUse)
		}
		allows := approval.Granted(&g, render.Home)
		if g.Scope == proto.AnswerSession {
			allows += " " + turn.ShortID(g.Session)
		}
		rows = append(rows, []string{g.ID, render.LocalTime(g.Expires), strconv.Itoa(g.Uses), last, allows})
	}
	return rows
}

func newRevoke(env *command.Env) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "revoke ID | --all", Short: "take back a grant", Annotations: command.PrintsJSON,
		Long: `Remove a grant by its id, or the beginning of it, or with --all all of yours. The next
call that it allowed is asked about again. With --json each line is a removed grant.`,
		Example: "  zino approvals revoke g-7d2m\n  zino approvals revoke --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || all != (len(args) == 0) {
				return command.Mistake(cmd, "name one grant by its id, or give --all: zino approvals grants lists them")
			}
			if err := command.CheckPerson(cmd); err != nil {
				return err
			}
			req := proto.RevokeGrant{All: all}
			if !all {
				req.ID = args[0]
			}
			return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				list, err := call(ctx, d, proto.DaemonRevokeGrant, req)
				switch {
				case err != nil:
					return err
				case env.JSON():
					return env.Print(func(w io.Writer) error { return render.JSONList(w, list.Grants) })
				case len(list.Grants) == 0:
					return env.PrintLine("There was nothing to take back.")
				}
				for _, g := range list.Grants {
					if err := env.PrintLine(render.Line("Taken back: " + g.ID + "  " + approval.Granted(&g, render.Home))); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all of yours")
	return cmd
}
