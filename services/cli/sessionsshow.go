package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
	"zino/proto"
)

func (a *app) sessionsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show what was said and done in a session",
		Long: `Show a session: what was said, the tools that were called and what they gave,
interruptions, errors, and what it took of models. Long results are shortened;
zino sessions export has all of them. With --format json each line is an event
as it is stored.`,
		Example: "  zino sessions show 550e | less",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneSession(cmd, args)
			if err != nil {
				return err
			}
			return a.withDaemon(cmd, func(ctx context.Context, d *daemon) error { return a.sessionsShow(ctx, d, id) })
		},
	}
}

// sessionsShow prints a session piece by piece, as it is read.
func (a *app) sessionsShow(ctx context.Context, d *daemon, id string) error {
	w := bufio.NewWriter(a.out)
	t := &transcript{w: w, calls: map[string]string{}, unknown: map[string]int{}}
	skipped := 0
	err := sessionPieces(ctx, d, id, func(piece proto.SessionEvents) error {
		id, skipped = piece.SessionID, skipped+piece.Skipped
		if a.format == formatJSON {
			return printItems(w, piece.Events)
		}
		if err := t.head(id); err != nil {
			return err
		}
		for event := range wire.Items(piece.Events) {
			if err := t.event(event); err != nil {
				return err
			}
		}
		return nil
	})
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	a.remark(t, id, skipped)
	return err
}

// sessionPieces hands a session's events to each, a piece at a time.
func sessionPieces(ctx context.Context, d *daemon, id string, each func(proto.SessionEvents) error) error {
	req := proto.ReadSession{SessionID: id}
	for {
		piece, err := forward(ctx, d, "mem", proto.MemReadSession, req)
		if err != nil {
			return err
		}
		if err := each(piece); err != nil || !piece.More {
			return err
		}
		if piece.Next <= req.From {
			return errors.New("the session does not end: is the daemon of another version? try: zino status")
		}
		req.SessionID, req.From = piece.SessionID, piece.Next
	}
}

// remark tells what of a session was not shown.
func (a *app) remark(t *transcript, id string, skipped int) {
	if skipped > 0 {
		a.say("Warning: %d of the file's lines are no events, and were left out", skipped)
	}
	if t.broken > 0 {
		a.say("Warning: %d events lack something, and were left out: zino sessions show %s --format json prints all", t.broken, id)
	}
	if len(t.unknown) > 0 {
		var types []string
		for _, typ := range slices.Sorted(maps.Keys(t.unknown)) {
			types = append(types, fmt.Sprintf("%s (%d)", cut(visible(typ), cellMax), t.unknown[typ]))
		}
		a.say("Warning: events of unknown types were left out: %s", strings.Join(types, ", "))
	}
}
