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
		Use: "show ID", Short: "show what was said and done in a session", Annotations: printsJSON,
		Long: `Show a session: what was said, the tools that were called and what they gave,
interruptions, errors, and what it took of models. Long results are shortened;
zino sessions export has all of them. With --json each line is an event
as it is stored.`,
		Example: "  zino sessions show 550e | less",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneSession(cmd, args)
			if err != nil {
				return err
			}
			return a.withDaemon(cmd, storageRequired, func(ctx context.Context, d *daemon) error { return a.sessionsShow(ctx, d, id) })
		},
	}
}

// sessionsShow prints a session piece by piece, as it is read.
func (a *app) sessionsShow(ctx context.Context, d *daemon, id string) error {
	w := bufio.NewWriter(a.out)
	t := &transcript{w: w, calls: map[string]string{}, unknown: map[string]int{}}
	summary, err := forward(ctx, d, "mem", proto.MemFindSession, proto.FindSession{SessionID: id})
	if err != nil {
		return err
	}
	skipped, end := 0, int64(0)
	err = sessionPieces(ctx, d, summary.SessionID, func(piece proto.SessionEvents) error {
		skipped, end = skipped+piece.Skipped, piece.Next
		if a.asJSON() {
			return printItems(w, piece.Events)
		}
		if err := t.head(piece.SessionID); err != nil {
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
	if err != nil {
		return err
	}
	a.remark(t, summary.SessionID, skipped, summary.Bytes-end)
	return nil
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
		req.From = piece.Next
	}
}

// remark tells what of a session was not shown: lines that are no events, and
// bytes of a last line that is not whole, as a crash leaves it.
func (a *app) remark(t *transcript, id string, skipped int, torn int64) {
	if skipped > 0 {
		a.say("Warning: lines of the file that are no events were left out: %d", skipped)
	}
	if torn > 1 { // one byte is an empty line
		a.say("Warning: the last line of the file is not whole and was left out: %d bytes", torn)
	}
	if t.broken > 0 {
		a.say("Warning: events that lack something were left out: %d; zino sessions show %s --json prints them", t.broken, id)
	}
	if t.strange > 0 {
		a.say("Warning: messages whose role is neither user nor assistant, which no model is sent: %d", t.strange)
	}
	if len(t.unknown) == 0 {
		return
	}
	var types []string
	for _, typ := range slices.Sorted(maps.Keys(t.unknown)) {
		types = append(types, fmt.Sprintf("%s (%d)", cut(inLine(typ), cellMax), t.unknown[typ]))
	}
	a.say("Warning: events of types that are not known here were left out: %s", strings.Join(types, ", "))
}
