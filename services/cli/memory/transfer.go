package memory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

func newExport(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "export [FILE]", Short: "write all memories as JSON lines", Annotations: command.PrintsJSON,
		Long: `Write all memories as JSON lines, the oldest first, to standard output or to a new
file that only you can read. zino memory import reads them.`,
		Example: "  zino memory export memories.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return command.Mistake(cmd, "name one file, or none for standard output")
			case len(args) == 0 || args[0] == "-":
				return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
					_, err := export(ctx, d, env.Out)
					return err
				})
			}
			path := args[0]
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, os.ErrExist) {
				return proto.Errorf(proto.CodeInvalid, "%s exists already and is not overwritten: name another file", path)
			}
			if err != nil {
				return err
			}
			n := 0
			err = withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) (err error) {
				if n, err = export(ctx, d, f); err != nil {
					return err
				}
				return f.Sync()
			})
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
			if err != nil {
				return errors.Join(err, os.Remove(path)) // don't leave an incomplete export
			}
			env.Say("%d memories are in %s", n, path)
			return nil
		},
	}
}

// export writes all memories with ascending ids, so that an import keeps their
// order. mem lists the newest first: ranges of ids limit how many are in memory.
func export(ctx context.Context, d *connect.Daemon, out io.Writer) (n int, err error) {
	last, err := newest(ctx, d)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(out)
	for floor := 0; floor <= last; floor += pageSize {
		top := min(floor+pageSize, last+1)
		var items []proto.HardItem
		err := pages(ctx, d, proto.ListHard{Before: &top}, top-floor, func(page []proto.HardItem) (bool, error) {
			for _, item := range page {
				if item.ID < floor {
					return true, nil
				}
				items = append(items, item)
			}
			return len(items) == top-floor, nil
		})
		if err != nil {
			return n, err
		}
		for _, item := range slices.Backward(items) {
			if err := render.JSON(w, item); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, w.Flush()
}

func newImport(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE|-", Short: "read memories from JSON lines",
		Long: `Read memories as zino memory export writes them, JSON objects with messages and,
where they have one, a tag, a channel_id and a session_id, one a line, from a file
or from standard input (-). What is remembered already is not stored twice. Invalid
lines are reported and skipped; the exit status is then 1. The memories get new ids
and keep their times; those that were replaced stay replaced.`,
		Example: "  zino memory import memories.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Mistake(cmd, "name one file, or - for standard input")
			}
			in := env.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return importAll(ctx, env, d, in) })
		},
	}
}

// importAll stores each line. It reports and skips invalid lines.
func importAll(ctx context.Context, env *command.Env, d *connect.Daemon, in io.Reader) error {
	env.NoteShared(d)
	last, err := newest(ctx, d)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(in, 64<<10)
	var number, added, known, refused int
	ids := map[int]int{}        // from those in the file to the new ones
	replaced := map[int][]int{} // new ids, by the memory in the file that replaced them
	for err == nil {
		number++
		line, readErr := command.Await(ctx, func() (string, error) { return readLine(r, wire.MaxPayload) }, nil)
		if readErr != nil && !errors.Is(readErr, io.EOF) && !errors.Is(readErr, errLongLine) {
			err = readErr
			break
		}
		var req proto.StoreHard
		var id, by *int
		var refusal error
		blank := strings.TrimSpace(line) == ""
		if errors.Is(readErr, errLongLine) {
			refusal = readErr
		} else if !blank {
			req, id, refusal = parseMemory(line)
		}
		if refusal == nil && !blank {
			if by = req.ReplacedBy; by != nil {
				newID, stored := ids[*by]
				if !stored {
					newID = -1
				}
				req.ReplacedBy = &newID
			}
			var stored proto.Stored
			stored, err = connect.Forward(ctx, d, "mem", proto.MemStoreHard, req)
			switch {
			case errors.Is(err, proto.ErrInvalid), errors.Is(err, proto.ErrTooLarge):
				refusal, err = err, nil
			case errors.Is(err, wire.ErrTooLarge):
				refusal, err = errLongLine, nil
			case err != nil:
			case stored.ID > last:
				last = stored.ID
				added++
				if by != nil && *req.ReplacedBy < 0 {
					replaced[*by] = append(replaced[*by], stored.ID)
				}
			default: // the id of an existing memory
				known++
			}
			if id != nil && err == nil && refusal == nil {
				ids[*id] = stored.ID
				for _, old := range replaced[*id] {
					req.Replaces = &old
					if _, err = connect.Forward(ctx, d, "mem", proto.MemStoreHard, req); err != nil {
						break
					}
				}
			}
		}
		if refusal != nil {
			refused++
			env.Say("line %d: %s", number, strings.TrimSpace(render.Line(refusal.Error())))
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
	}
	env.Say("%d added, %d known already, %d refused", added, known, refused)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("the import stopped at line %d: %w; it can be repeated: what is stored is not stored twice", number, err)
	case err == nil && refused > 0:
		return render.ErrReported
	}
	return err
}

// parseMemory decodes a line of an export. The ids, of the memory and of the one that
// replaced it, are those of the exporting store.
func parseMemory(line string) (req proto.StoreHard, id *int, err error) {
	if err := wire.Decode([]byte(line), &req); err != nil {
		return req, nil, err
	}
	req.Proposed, req.Replaces = false, nil
	var item struct {
		ID *int `json:"id,omitzero"`
	}
	if wire.Decode([]byte(line), &item) == nil {
		id = item.ID
	}
	list, err := render.ReadMessages(req.Messages)
	if err == nil && len(list) == 0 {
		err = errors.New("messages is empty")
	}
	return req, id, err
}

var errLongLine = errors.New("it is longer than 16 MiB")

// readLine reads a line, and skips one of more than limit bytes.
func readLine(r *bufio.Reader, limit int) (string, error) {
	var line []byte
	size := 0
	for {
		part, err := r.ReadSlice('\n')
		if size += len(part); size <= limit {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case size > limit && (err == nil || errors.Is(err, io.EOF)):
			return "", errLongLine
		default:
			return string(line), err
		}
	}
}
