package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/proto"
)

const memoryLong = `Store, find and edit what Zino remembers.

A memory is a short text. The memories nearest to a message, by their words, are
sent to the model with it. Each has an id, a number that never changes. The soft
memory is one text that is part of every system prompt. Memories stay until you
delete them.`

func (a *app) memoryCommand() *cobra.Command {
	cmd := group("memory", "stored memories: add, search, list, edit, export", memoryLong)
	cmd.AddCommand(
		a.memoryAddCommand(), a.memorySearchCommand(), a.memoryListCommand(), a.memoryShowCommand(),
		a.memoryEditCommand(), a.memoryRemoveCommand(), a.memoryExportCommand(), a.memoryImportCommand(),
		a.softCommand(),
	)
	return cmd
}

// group is a command that only holds others.
func group(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long,
		RunE: func(cmd *cobra.Command, args []string) error {
			names := strings.Join(subcommands(cmd), ", ")
			if len(args) == 0 {
				return mistake(cmd, "name one of: %s", names)
			}
			return mistake(cmd, "there is no command %q: %s", args[0], cmp.Or(meant(cmd, args[0]), "there are "+names))
		},
	}
}

// mistake is an error on a subcommand's line: status 2.
func mistake(cmd *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Errorf("%s: %s; try %[1]s --help", cmd.CommandPath(), fmt.Sprintf(format, args...))}
}

// without refuses arguments.
func without(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return mistake(cmd, "it takes no arguments, but was given %q", args[0])
	}
	return nil
}

// withMem has do ask mem, through the daemon that is running or one that is
// brought along: what is remembered outlives both.
func (a *app) withMem(cmd *cobra.Command, do func(context.Context, *daemon) error) error {
	return a.guarded(cmd.Context(), func(ctx context.Context) error {
		d, err := a.openMem(ctx)
		if err != nil {
			return err
		}
		defer d.close()
		return do(ctx, d)
	})
}

// guarded runs do until a signal ends it, and words its error.
func (a *app) guarded(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		a.interrupted()
		return errInterrupted
	}
	return unreachable(err)
}

// openMem connects with a daemon.
func (a *app) openMem(ctx context.Context) (*daemon, error) {
	cfg, err := a.settings()
	if err != nil {
		return nil, err
	}
	d, err := a.connect(cfg, true, storageRequired)
	if err != nil {
		return nil, err
	}
	if !d.named {
		a.compare(ctx, d)
	}
	return d, nil
}

// tellShared says that what is about to be stored can be read by others.
func (a *app) tellShared(d *daemon) {
	if d.client.Path == hostSocket {
		a.say("Note: this is the host's memory, shared by all who may use it. For one of your own: zino up")
	}
}

// memoryFilter chooses memories by what is known of them.
type memoryFilter struct{ tag, channel, since, until string }

func (f *memoryFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.tag, "tag", "", "only those with just this `TAG`")
	flags.StringVar(&f.channel, "channel", "", "only those that come from the channel `ID`")
	flags.StringVar(&f.since, "since", "", "only those stored at or after `TIME`: YYYY-MM-DD, or RFC 3339")
	flags.StringVar(&f.until, "until", "", "only those stored before `TIME`")
}

// settle turns days into times: they are the caller's days, not the service's.
func (f *memoryFilter) settle(cmd *cobra.Command) error {
	for name, text := range map[string]*string{"since": &f.since, "until": &f.until} {
		day, err := time.ParseInLocation(time.DateOnly, *text, time.Local)
		if err == nil {
			*text = day.Format(time.RFC3339)
		}
		if _, err := time.Parse(time.RFC3339, *text); err != nil && *text != "" {
			return mistake(cmd, "--%s %q is not a time, such as 2026-11-21 or 2026-11-21T14:03:07Z", name, *text)
		}
	}
	return nil
}

// memoryID reads an id.
func memoryID(cmd *cobra.Command, text string) (int, error) {
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 {
		return 0, mistake(cmd, "%q is not the id of a memory, which is a number", text)
	}
	return id, nil
}

// oneMemoryID reads the id that is a command's only argument.
func oneMemoryID(cmd *cobra.Command, args []string) (int, error) {
	if len(args) != 1 {
		return 0, mistake(cmd, "name one memory by its id")
	}
	return memoryID(cmd, args[0])
}

// noMemory words the error of a request about one memory.
func noMemory(id int, err error) error {
	if errors.Is(err, proto.ErrNotFound) {
		return fmt.Errorf("there is no memory %d; zino memory list shows those there are", id)
	}
	return err
}
