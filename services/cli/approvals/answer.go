package approvals

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/approval"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// NewApprove returns zino approve.
func NewApprove(env *command.Env) *cobra.Command {
	var session, always, yes bool
	var pattern string
	cmd := &cobra.Command{
		Use: "approve ID", Short: "allow a call that waits for your answer", Annotations: command.PrintsJSON,
		Long: `Allow a call that a turn asks about: the whole call is printed first, and on a terminal
you confirm it unless --yes is given. What was printed is what is allowed: if the call has
changed since, nothing is, and it is asked anew.

Without a flag this call is allowed, once. --session allows calls like it for the rest of
the session, --always below the same directory, for [gate] grant_days: those that match
the pattern that is printed, or a narrower one of --pattern. See zino approvals grants.

It does not run in a command of a model.`,
		Example: "  zino approve ap-k3v9\n  zino approve ap-k3v9 --always --pattern 'make test *'",
		RunE: func(cmd *cobra.Command, args []string) error {
			req := proto.Approve{Answer: proto.AnswerOnce, Pattern: pattern}
			switch {
			case session && always:
				return command.Mistake(cmd, "--session and --always exclude each other: --always is the wider one")
			case session:
				req.Answer = proto.AnswerSession
			case always:
				req.Answer = proto.AnswerAlways
			case cmd.Flags().Changed("pattern"):
				return command.Mistake(cmd, "--pattern is for --session and --always")
			}
			if cmd.Flags().Changed("pattern") && strings.TrimSpace(pattern) == "" {
				return command.Mistake(cmd, "the pattern is empty: leave it out for the proposed one")
			}
			return answer(cmd, env, args, req, yes)
		},
	}
	cmd.Flags().BoolVar(&session, "session", false, "allow calls like this one for the rest of the session")
	cmd.Flags().BoolVar(&always, "always", false, "allow calls like this one below the same directory")
	cmd.Flags().StringVar(&pattern, "pattern", "", "the `PATTERN` of what --session or --always allows, such as 'make test *'")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// NewDeny returns zino deny.
func NewDeny(env *command.Env) *cobra.Command {
	note := ""
	cmd := &cobra.Command{
		Use: "deny ID [REASON...]", Short: "deny a call that waits for your answer", Annotations: command.PrintsJSON,
		Long: `Deny a call that a turn asks about. The turn goes on: the model reads the reason, the
words behind the id or the text of --note, up to 2000 characters.`,
		Example: "  zino deny ap-k3v9\n  zino deny ap-k3v9 use the staging database",
		RunE: func(cmd *cobra.Command, args []string) error {
			req := proto.Approve{Answer: proto.AnswerDeny, Note: note}
			if len(args) > 1 {
				if cmd.Flags().Changed("note") {
					return command.Mistake(cmd, "the reason is given twice, with --note and as %q: leave one out", args[1])
				}
				req.Note = strings.Join(args[1:], " ")
			}
			return answer(cmd, env, args, req, true)
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "the reason as one `TEXT`")
	return cmd
}

// answer answers the request that args name.
func answer(cmd *cobra.Command, env *command.Env, args []string, req proto.Approve, yes bool) error {
	if err := command.CheckPerson(cmd); err != nil {
		return err
	}
	return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
		a, err := find(ctx, cmd, d, args)
		if err != nil {
			return err
		}
		if len(args) > 1 && req.Answer != proto.AnswerDeny {
			return command.Mistake(cmd, "it takes one request, but was given %q too", args[1])
		}
		if req.Answer != proto.AnswerOnce && req.Answer != proto.AnswerDeny && !approval.Grants(&a, req.Answer) {
			return &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("%s can be allowed for %s at most: a rule says so", a.ID, a.Grantable)}
		}
		io.WriteString(env.Err, render.Line(a.ID)+": "+render.Approval(&a, "", term.IsTerminal(env.Err) && term.Fancy())) // an error on stderr cannot be reported
		if a.State == proto.ApprovalPending && !yes && term.IsTerminal(env.In) {
			if ok, err := env.Confirm(ctx, question(&a, req)); !ok {
				return err
			}
		}
		req.ID, req.Digest = a.ID, a.Digest
		answered, err := call(ctx, d, proto.DaemonApprove, req)
		switch {
		case err != nil:
			return err
		case env.JSON():
			return render.JSON(env.Out, answered)
		}
		line := approval.Answered[req.Answer] + ": " + render.ApprovalLine(&a.Call)
		if answered.Grant != "" {
			line += " (grant " + answered.Grant + ")"
		}
		return env.PrintLine(render.Line(line))
	})
}

// question asks for confirmation of an answer.
func question(a *proto.Approval, req proto.Approve) string {
	pattern := req.Pattern
	if pattern == "" {
		pattern = approval.Pattern(&a.Call)
	}
	what := "calls like this"
	if pattern != "" {
		what = `"` + pattern + `"`
	}
	switch req.Answer {
	case proto.AnswerSession:
		return "Allow " + what + " for this session? [y/n] "
	case proto.AnswerAlways:
		return "Always allow " + what + " below " + render.Home(a.Call.Root) + "? [y/n] "
	}
	return "Allow it once? [y/n] "
}
