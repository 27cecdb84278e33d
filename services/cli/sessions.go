package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"zino/pkg/visible"
	"zino/proto"
)

const sessionsLong = `Find, read and continue earlier conversations.

A session is what was said and done in a chat or with zino exec, over one run or
several. Each has an id, which may be shortened to a beginning that no other id
has. Sessions lie as JSON lines below sessions/ beside your configuration.`

func (a *app) sessionsCommand() *cobra.Command {
	cmd := group("sessions", "earlier conversations: list, show, resume, search, export, fork, rm", sessionsLong)
	cmd.AddCommand(
		a.sessionsListCommand(), a.sessionsShowCommand(), a.sessionsResumeCommand(), a.sessionsSearchCommand(),
		a.sessionsExportCommand(), a.sessionsForkCommand(), a.sessionsRemoveCommand(),
	)
	return cmd
}

// withDaemon has do ask the daemon that is running for the user, or one that is
// brought along: sessions outlive both.
func (a *app) withDaemon(cmd *cobra.Command, need storage, do func(context.Context, *daemon) error) error {
	return a.guarded(cmd.Context(), func(ctx context.Context) error {
		cfg, err := a.settings()
		if err != nil {
			return err
		}
		d, err := a.connect(cfg, false, need)
		if err != nil {
			return err
		}
		defer d.close()
		if !d.named {
			a.compare(ctx, d)
		}
		return do(ctx, d)
	})
}

// oneSession reads the id that is a command's only argument.
func oneSession(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 {
		return "", mistake(cmd, "name one session by its id, or by the beginning of it")
	}
	return args[0], checkSession(cmd, args[0])
}

// checkSession refuses what can be no id. Nothing is asked for then.
func checkSession(cmd *cobra.Command, id string) error {
	if !isSessionID(id) {
		return mistake(cmd, "%v", notSession(id))
	}
	return nil
}

func (a *app) sessionsResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume [ID]", Short: "go on with a session in a chat", Annotations: printsJSON,
		Long: `Go on with a session in a chat: the one with that id, or the one of this directory
that changed last. Where there is none of that name it is begun. For a session of
another directory you are asked where to go on; without a terminal --root says so.`,
		Example: "  zino resume\n  zino sessions resume 550e",
		RunE: func(cmd *cobra.Command, args []string) error {
			find := oneSession
			if len(args) == 0 {
				find = a.latestSession
			}
			id, err := find(cmd, args)
			if err != nil {
				return err
			}
			return a.resume(cmd.Context(), id)
		},
	}
}

// latestSession is the id of the session of this directory that changed last. That
// there is none is said before a model is looked for.
func (a *app) latestSession(cmd *cobra.Command, _ []string) (id string, err error) {
	err = a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error {
		found, err := a.latestHere(ctx, d)
		id = found.SessionID
		return err
	})
	return id, err
}

func (a *app) sessionsForkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "fork ID", Short: "copy a session", Annotations: printsJSON, Long: "Copy a session to try something else from where it stands. The copy's id is\nprinted.",
		Example: "  zino sessions resume \"$(zino sessions fork 550e)\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneSession(cmd, args)
			if err != nil {
				return err
			}
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error {
				forked, err := forward(ctx, d, "mem", proto.MemForkSession, proto.ForkSession{SessionID: id})
				if err != nil {
					return err
				}
				return a.printSessionID(forked.SessionID)
			})
		},
	}
}

func (a *app) sessionsRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "delete sessions", Annotations: printsJSON, Long: "Delete sessions, for good. The ids of those that were deleted are printed.",
		Example: "  zino sessions rm 550e 7c1a",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return mistake(cmd, "name sessions by their ids, or by the beginnings of them")
			}
			for _, id := range args {
				if err := checkSession(cmd, id); err != nil {
					return err
				}
			}
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error { return a.sessionsRemove(ctx, d, args) })
		},
	}
}

// sessionsRemove deletes sessions. One that cannot be deleted keeps none of the
// others. What the names mean is settled before the first is gone: a beginning
// that several ids share would name just one of them afterwards.
func (a *app) sessionsRemove(ctx context.Context, d *daemon, names []string) (result error) {
	var ids []string
	named := map[string]bool{}
	for _, name := range names {
		found, err := forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: name})
		if err := a.tellRefusal(err, &result); err != nil {
			return err
		}
		if err == nil && !named[found.SessionID] {
			ids, named[found.SessionID] = append(ids, found.SessionID), true
		}
	}
	for _, id := range ids {
		_, err := forward(ctx, d, "mem", proto.MemRemoveSession, proto.RemoveSession{SessionID: id})
		if err := a.tellRefusal(err, &result); err != nil {
			return err
		}
		if err != nil {
			continue
		}
		if err := a.printSessionID(id); err != nil {
			return err
		}
	}
	return result
}

// tellRefusal tells of an error that concerns one session only, and remembers
// that there was one. It returns any other.
func (a *app) tellRefusal(err error, result *error) error {
	for _, refusal := range []error{proto.ErrNotFound, proto.ErrInvalid, proto.ErrBusy} {
		if errors.Is(err, refusal) {
			fmt.Fprint(a.err, errorText(err))
			*result = errQuiet
			return nil
		}
	}
	return err
}

// printSessionID prints an id, in JSON as the object session_id of proto.
func (a *app) printSessionID(id string) error {
	if a.asJSON() {
		return printJSON(a.out, proto.SessionName{SessionID: id})
	}
	return a.printLine(id)
}

// printLine prints what is one line of output.
func (a *app) printLine(text string) error {
	_, err := a.out.WriteString(visible.Text(text) + "\n")
	return err
}
