package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"zino/proto"
)

// memoryPage is how many memories are asked for at a time.
const memoryPage = 500

func (a *app) memoryListCommand() *cobra.Command {
	var filter memoryFilter
	var n int
	cmd := &cobra.Command{
		Use: "list", Short: "list memories, the newest first", Long: "List memories, the newest first: their ids, when they were stored, tags, texts.",
		Example: "  zino memory list --tag house -n 20", Args: without, Annotations: printsJSON,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 0 || n == 0 && cmd.Flags().Changed("n") {
				return mistake(cmd, "-n %d is not the number of memories wanted, 1 or more", n)
			}
			if err := filter.settle(cmd); err != nil {
				return err
			}
			req := proto.ListHard{Tag: filter.tag, ChannelID: filter.channel, Since: filter.since, Until: filter.until}
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error {
				return a.memoryList(ctx, d, req, n)
			})
		},
	}
	cmd.Flags().IntVarP(&n, "n", "n", 0, "at most `N` of them (default all)")
	filter.flags(cmd)
	return cmd
}

// memoryList prints at most n memories, or all if n is 0, page by page.
func (a *app) memoryList(ctx context.Context, d *daemon, req proto.ListHard, n int) error {
	shown := 0
	err := memoryPages(ctx, d, req, n, func(page []proto.HardItem) (bool, error) {
		if n > 0 && shown+len(page) > n {
			page = page[:n-shown]
		}
		first := shown == 0
		shown += len(page)
		return n > 0 && shown >= n, a.printMemories(page, first)
	})
	if err == nil && shown == 0 {
		a.say("No memories.")
	}
	return err
}

func (a *app) printMemories(page []proto.HardItem, head bool) error {
	if a.asJSON() {
		return a.print(func(w io.Writer) error { return printAll(w, page) })
	}
	var rows [][]string
	if head {
		rows = [][]string{{"ID", "STORED", "TAG", "TEXT"}}
	}
	for _, item := range page {
		rows = append(rows, []string{strconv.Itoa(item.ID), localTime(item.Created), dash(item.Tag), contents(item.Messages)})
	}
	_, err := io.WriteString(a.out, columns(rows, a.width()))
	return err
}

// memoryPages hands the memories that req chooses to each, the newest first,
// until it has had enough. n is how many are wanted, 0 for all.
func memoryPages(ctx context.Context, d *daemon, req proto.ListHard, n int, each func([]proto.HardItem) (enough bool, err error)) error {
	req.Limit = memoryPage
	if n > 0 {
		req.Limit = min(n, memoryPage)
	}
	for {
		page, err := forward(ctx, d, "mem", proto.MemListHard, req)
		if errors.Is(err, proto.ErrTooLarge) && req.Limit > 1 {
			req.Limit /= 2 // these are long: fewer of them make a packet
			continue
		}
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			if enough, err := each(page.Items); enough || err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		if req.Before != nil && *page.Next >= *req.Before {
			return errors.New("the list of memories does not end: is the daemon of another version? try: zino status")
		}
		req.Before = page.Next
	}
}

func (a *app) memoryShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "show one memory", Annotations: printsJSON, Long: "Show one memory: when it was stored, its tag, where it came from, its text.",
		Example: "  zino memory show 7",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneMemoryID(cmd, args)
			if err != nil {
				return err
			}
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error {
				item, err := forward(ctx, d, "mem", proto.MemGetHard, proto.GetHard{ID: id})
				if err != nil {
					return noMemory(id, err)
				}
				if a.asJSON() {
					return printJSON(a.out, item)
				}
				return a.printMemory(item)
			})
		},
	}
	return cmd
}

func (a *app) printMemory(item proto.HardItem) error {
	rows := [][]string{{"id", strconv.Itoa(item.ID)}, {"stored", localTime(item.Created)}, {"tag", dash(item.Tag)}}
	if item.ChannelID != "" {
		rows = append(rows, []string{"channel", item.ChannelID})
	}
	if item.SessionID != "" {
		rows = append(rows, []string{"session", item.SessionID})
	}
	return a.print(func(w io.Writer) error {
		if _, err := fmt.Fprintln(w, columns(rows, 0)); err != nil {
			return err
		}
		return printMessages(w, item.Messages)
	})
}

func (a *app) memoryRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "delete memories", Long: "Delete memories. Their ids are not given to others.",
		Example: "  zino memory rm 7 9",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return mistake(cmd, "name memories by their ids")
			}
			var ids []int
			for _, arg := range args {
				id, err := memoryID(cmd, arg)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error { return a.memoryRemove(ctx, d, ids) })
		},
	}
}

// memoryRemove deletes memories. One that is not there keeps none of the others.
func (a *app) memoryRemove(ctx context.Context, d *daemon, ids []int) (result error) {
	for _, id := range ids {
		_, err := forward(ctx, d, "mem", proto.MemDeleteHard, proto.DeleteHard{ID: id})
		switch {
		case errors.Is(err, proto.ErrNotFound):
			fmt.Fprint(a.err, errorText(noMemory(id, err)))
			result = errQuiet
		case err != nil:
			return err
		}
	}
	return result
}
