package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"zino/pkg/wire"
	"zino/proto"
)

const memoryImportLong = `Read memories as zino memory export writes them, JSON objects with messages and,
where they have one, a tag, a channel_id and a session_id, one a line, from a file
or from standard input (-). What is remembered already is not stored twice. Invalid
lines are reported and skipped; the exit status is then 1. The memories get new ids
and keep their times.`

func (a *app) memoryImportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE|-", Short: "read memories from JSON lines", Long: memoryImportLong,
		Example: "  zino memory import memories.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return mistake(cmd, "name one file, or - for standard input")
			}
			in := a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			return a.withMem(cmd, func(ctx context.Context, d *daemon) error { return a.memoryImport(ctx, d, in) })
		},
	}
}

// importing is an import under way.
type importing struct {
	d                        *daemon
	newest                   int // the highest id of a memory, -1 without any
	line                     int // the number of the line that was read last
	added, duplicate, failed int
}

func (a *app) memoryImport(ctx context.Context, d *daemon, in io.Reader) error {
	a.tellShared(d)
	m := &importing{d: d, newest: -1}
	err := memoryPages(ctx, d, proto.ListHard{}, 1, func(page []proto.HardItem) (bool, error) {
		m.newest = page[0].ID
		return true, nil
	})
	if err != nil {
		return err
	}
	err = a.importLines(ctx, m, in)
	a.say("%d added, %d known already, %d refused", m.added, m.duplicate, m.failed)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("the import stopped at line %d: %w; it can be repeated: what is stored is not stored twice", m.line, err)
	case err == nil && m.failed > 0:
		return errQuiet
	}
	return err
}

// importLines stores line after line. A line that is refused stops no other.
func (a *app) importLines(ctx context.Context, m *importing, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		m.line++
		line, end := await(ctx, func() (string, error) { return limitedLine(r, wire.MaxPayload) }, nil)
		if end != nil && !errors.Is(end, io.EOF) && !errors.Is(end, errLongLine) {
			return end
		}
		refused, err := m.store(ctx, line, end)
		if err != nil {
			return err
		}
		if refused != nil {
			m.failed++
			a.say("line %d: %s", m.line, oneLine(refused))
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
	}
}

// store stores one line. refused says what is wrong with it, err that no line
// can be stored.
func (m *importing) store(ctx context.Context, line string, end error) (refused, err error) {
	if errors.Is(end, errLongLine) {
		return end, nil
	}
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	req, err := parseMemory(line)
	if err != nil {
		return err, nil
	}
	stored, err := forward(ctx, m.d, "mem", proto.MemStoreHard, req)
	switch {
	case errors.Is(err, proto.ErrInvalid), errors.Is(err, proto.ErrTooLarge):
		return err, nil
	case errors.Is(err, wire.ErrTooLarge):
		return errLongLine, nil
	case err != nil:
		return nil, err
	case stored.ID > m.newest:
		m.newest = stored.ID
		m.added++
	default: // an id that was there before: the first one's
		m.duplicate++
	}
	return nil, nil
}

// parseMemory reads a line of an export. Its id belongs to the place that it
// comes from.
func parseMemory(line string) (req proto.StoreHard, err error) {
	if err := wire.Decode([]byte(line), &req); err != nil {
		return req, err
	}
	list, err := readMessages(req.Messages)
	if err == nil && len(list) == 0 {
		err = errors.New("there are no messages in it")
	}
	return req, err
}

var errLongLine = errors.New("it is longer than 16 MiB")

// limitedLine reads a line. One of more than limit bytes is passed over.
func limitedLine(r *bufio.Reader, limit int) (string, error) {
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
