package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"zino/proto"
)

const memoryExportLong = `Write all memories as JSON lines, the oldest first, to standard output or to a new
file that only you can read. zino memory import reads them.`

func (a *app) memoryExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export [FILE]", Short: "write all memories as JSON lines", Long: memoryExportLong, Annotations: printsJSON,
		Example: "  zino memory export memories.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return mistake(cmd, "name one file, or none for standard output")
			case len(args) == 0 || args[0] == "-":
				return a.withMem(cmd, func(ctx context.Context, d *daemon) error {
					_, err := exportMemories(ctx, d, a.out)
					return err
				})
			}
			return a.exportTo(cmd, args[0])
		},
	}
}

// exportTo writes to a file that does not exist yet. It stays only if all of it
// is there.
func (a *app) exportTo(cmd *cobra.Command, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already and is not overwritten: name another file", path)
	}
	if err != nil {
		return err
	}
	n := 0
	err = a.withMem(cmd, func(ctx context.Context, d *daemon) (err error) {
		if n, err = exportMemories(ctx, d, f); err == nil {
			err = f.Sync()
		}
		return err
	})
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	a.say("%d memories are in %s", n, path)
	return nil
}

// exportMemories writes all memories, ids ascending, so that they get their
// order again where they are read. The list comes newest first: it is asked for
// in ranges of ids, so that no more than one of them is held.
func exportMemories(ctx context.Context, d *daemon, out io.Writer) (n int, err error) {
	newest := -1
	err = memoryPages(ctx, d, proto.ListHard{}, 1, func(page []proto.HardItem) (bool, error) {
		newest = page[0].ID
		return true, nil
	})
	w := bufio.NewWriter(out)
	for floor := 0; floor <= newest && err == nil; floor += memoryPage {
		var items []proto.HardItem
		items, err = memoryRange(ctx, d, floor, min(floor+memoryPage, newest+1))
		for _, item := range items {
			if err := printJSON(w, item); err != nil {
				return n, err
			}
			n++
		}
	}
	if err != nil {
		return n, err
	}
	return n, w.Flush()
}

// memoryRange returns the memories with ids from floor up to but not including
// top, ascending.
func memoryRange(ctx context.Context, d *daemon, floor, top int) (items []proto.HardItem, err error) {
	err = memoryPages(ctx, d, proto.ListHard{Before: &top}, top-floor, func(page []proto.HardItem) (bool, error) {
		for _, item := range page {
			if item.ID < floor {
				return true, nil
			}
			items = append(items, item)
		}
		return len(items) == top-floor, nil
	})
	slices.Reverse(items)
	return items, err
}
