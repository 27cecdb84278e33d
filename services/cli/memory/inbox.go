package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newInbox(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "inbox", Short: "memories that the model proposes", Annotations: command.PrintsJSON,
		Long: `List the memories that wait for your decision: id, time, session and tag, then the
text and what it would replace. Until you accept one, no search finds it and no prompt
has it. It is removed after 90 days.

With remember = "propose" in the section [mem] of the configuration the model proposes
memories; else it stores them.`,
		Example: "  zino memory inbox",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.Mistake(cmd, "there is no command %q; there are: accept, reject", args[0])
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return listInbox(ctx, env, d) })
		},
	}
	cmd.AddCommand(newAccept(env), newReject(env))
	return cmd
}

// listInbox prints all proposals, page by page.
func listInbox(ctx context.Context, env *command.Env, d *connect.Daemon) error {
	after, shown := 0, 0
	for {
		page, err := connect.Forward(ctx, d, "mem", proto.MemListProposals, proto.ListProposals{After: after})
		if err != nil {
			return err
		}
		shown += len(page.Items)
		err = env.Print(func(w io.Writer) error {
			if env.JSON() {
				return render.JSONList(w, page.Items)
			}
			for _, p := range page.Items {
				if err := printProposal(w, p); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if page.Next == nil || *page.Next <= after {
			break
		}
		after = *page.Next
	}
	if shown == 0 {
		env.Say("No memories are proposed.")
	}
	return nil
}

func printProposal(w io.Writer, p proto.Proposal) error {
	head := []string{strconv.Itoa(p.ID), render.LocalTime(p.Created), render.Dash(p.SessionID)}
	if p.Tag != "" {
		head = append(head, "tag "+p.Tag)
	}
	body := whole(p.Messages)
	if p.Replaces != nil {
		body += fmt.Sprintf("\nreplaces %d: %s", p.Replaces.ID, whole(p.Replaces.Messages))
	}
	_, err := fmt.Fprintf(w, "%s\n    %s\n", render.Line(strings.Join(head, "  ")), strings.ReplaceAll(body, "\n", "\n    "))
	return err
}

// whole returns all of a memory's text: that of a single message without its role.
func whole(messages proto.Raw) string {
	list, err := render.ReadMessages(messages)
	if err == nil && len(list) == 1 {
		return text.Visible(strings.TrimRight(list[0].Content, "\n"))
	}
	var b strings.Builder
	if err == nil {
		err = render.Messages(&b, messages)
	}
	if err != nil {
		return "(cannot be read: " + text.Visible(err.Error()) + ")"
	}
	return strings.TrimRight(b.String(), "\n")
}

func newAccept(env *command.Env) *cobra.Command {
	var edit bool
	cmd := &cobra.Command{
		Use: "accept ID...", Short: "store proposed memories", Annotations: command.PrintsJSON,
		Long: `Store proposed memories, and print the ids of the memories. With --edit the text is
changed first, in an editor: $VISUAL, $EDITOR, or vi. The proposal stays as it is if the
text stays as it was or is emptied.`,
		Example: "  zino memory inbox accept 3\n  zino memory inbox accept 3 --edit",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := proposalIDs(cmd, args)
			switch {
			case err != nil:
				return err
			case edit && len(ids) > 1:
				return command.Mistake(cmd, "with --edit name one proposal")
			case edit:
				return editProposal(cmd.Context(), env, ids[0])
			}
			return decide(env, cmd, ids, func(ctx context.Context, d *connect.Daemon, id int) error {
				return acceptProposal(ctx, env, d, proto.AcceptProposal{ID: id})
			})
		},
	}
	cmd.Flags().BoolVar(&edit, "edit", false, "change the text in an editor first")
	return cmd
}

func acceptProposal(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.AcceptProposal) error {
	stored, err := connect.Forward(ctx, d, "mem", proto.MemAcceptProposal, req)
	switch {
	case err != nil:
		return err
	case env.JSON():
		return render.JSON(env.Out, stored)
	}
	_, err = fmt.Fprintln(env.Out, stored.ID)
	return err
}

func editProposal(ctx context.Context, env *command.Env, id int) error {
	var messages proto.Raw
	return withEditor(ctx, env, func(ctx context.Context, d *connect.Daemon) (content, name string, err error) {
		page, err := connect.Forward(ctx, d, "mem", proto.MemListProposals, proto.ListProposals{After: id - 1})
		if err != nil {
			return "", "", err
		}
		if len(page.Items) == 0 || page.Items[0].ID != id {
			return "", "", explainProposal(proto.Errorf(proto.CodeNotFound, "there is no proposal %d", id))
		}
		messages = page.Items[0].Messages
		return editable(messages)
	}, func(ctx context.Context, d *connect.Daemon, changed string) error {
		changedMessages, err := edited(messages, changed)
		if err != nil {
			return fmt.Errorf("%w; nothing was stored", err)
		}
		return explainProposal(acceptProposal(ctx, env, d, proto.AcceptProposal{ID: id, Messages: changedMessages}))
	})
}

func newReject(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "reject ID...", Short: "remove proposed memories", Long: "Remove proposed memories. Their texts are deleted.",
		Example: "  zino memory inbox reject 4 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := proposalIDs(cmd, args)
			if err != nil {
				return err
			}
			return decide(env, cmd, ids, func(ctx context.Context, d *connect.Daemon, id int) error {
				_, err := connect.Forward(ctx, d, "mem", proto.MemRejectProposal, proto.RejectProposal{ID: id})
				return err
			})
		},
	}
}

// decide calls do for each proposal. Unknown ones are reported.
func decide(env *command.Env, cmd *cobra.Command, ids []int, do func(ctx context.Context, d *connect.Daemon, id int) error) error {
	return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) (result error) {
		env.NoteShared(d)
		for _, id := range ids {
			err := do(ctx, d, id)
			switch {
			case errors.Is(err, proto.ErrNotFound) && len(ids) > 1:
				env.PrintError(explainProposal(err))
				result = render.ErrReported
			case err != nil:
				return explainProposal(err)
			}
		}
		return result
	})
}

func proposalIDs(cmd *cobra.Command, args []string) (ids []int, err error) {
	if len(args) == 0 {
		return nil, command.Mistake(cmd, "name proposals by their ids; zino memory inbox shows them")
	}
	for _, arg := range args {
		id, err := strconv.Atoi(arg)
		if err != nil || id < 1 {
			return nil, command.Mistake(cmd, "%q is not the id of a proposal, which is a number from 1", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// explainProposal adds to the error of an unknown proposal where to find the others.
func explainProposal(err error) error {
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeNotFound {
		return proto.Errorf(proto.CodeInvalid, "%s; zino memory inbox shows those that wait", e.Message)
	}
	return err
}
