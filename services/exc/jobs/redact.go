package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"zino/pkg/durable"
	"zino/pkg/mask"
	"zino/proto"
	"zino/services/exc/run"
)

// Redact replaces the secrets in the outputs and in the command of a job that has ended by
// placeholders, and returns their number. With dryRun it only counts them. A running job
// is left alone.
func (job *Job) Redact(ctx context.Context, m *mask.Masker, dryRun bool) (masked int, err error) {
	if !job.Ended() {
		return 0, nil
	}
	command, masked := m.Text([]byte(job.Record().Command))
	if masked > 0 && !dryRun {
		if err := job.change(func(r *Record) { r.Command = string(command) }); err != nil {
			return masked, err
		}
	}
	out, errs, close, err := job.streams(nil)
	if errors.Is(err, os.ErrNotExist) {
		return masked, nil
	}
	if err != nil {
		return masked, err
	}
	defer close()
	state := job.State()
	stdout, n1, err := redact(ctx, out, m, dryRun)
	if err != nil {
		return masked, err
	}
	stderr, n2, err := redact(ctx, errs, m, dryRun)
	if err != nil || dryRun || n1+n2 == 0 {
		return masked + n1 + n2, err
	}
	// After a crash between the files and the state the secrets are gone, and the state
	// has the numbers of bytes before.
	if n1 > 0 {
		state.StdoutBytes, state.StdoutStored = stdout, nil
	}
	if n2 > 0 {
		state.StderrBytes, state.StderrStored = stderr, nil
	}
	return masked + n1 + n2, job.rewriteState(state)
}

// redact replaces a file of output, and returns its new size.
func redact(ctx context.Context, s run.Stored, m *mask.Masker, dryRun bool) (size int64, masked int, err error) {
	var text []byte
	for offset := int64(0); offset < s.Kept; {
		part, next, err := readPart(ctx, s, offset)
		if err != nil {
			return 0, 0, err
		}
		if len(part) == 0 {
			break
		}
		if gap := next - offset - int64(len(part)); gap > 0 {
			text = fmt.Appendf(text, "\n[%d bytes left out]\n", gap)
		}
		clean, n := m.Text(part)
		text, masked, offset = append(text, clean...), masked+n, next
	}
	if masked == 0 || dryRun {
		return 0, masked, nil
	}
	if int64(len(text)) > s.Max { // the file may not be longer
		const cut = "\n[cut]\n"
		text = append(text[:max(0, s.Max-int64(len(cut)))], cut...)[:s.Max]
	}
	err = durable.ReplacePath(s.Path, durable.FileMode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	return int64(len(text)), masked, err
}

// readPart reads the contiguous output from an offset on, or from behind a gap, and
// returns the offset of what follows.
func readPart(ctx context.Context, s run.Stored, offset int64) (part []byte, next int64, err error) {
	buf := make([]byte, 64<<10)
	for next = offset; next < s.Kept; {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		n, skipped, err := s.Read(buf, next)
		if err != nil {
			return nil, 0, err
		}
		if n == 0 || skipped > 0 && len(part) > 0 {
			break
		}
		part, next = append(part, buf[:n]...), next+skipped+int64(n)
	}
	return part, next, nil
}

// rewriteState stores the state of a job that has ended.
func (job *Job) rewriteState(state proto.JobState) error {
	job.mu.Lock()
	defer job.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(job.dir, stateFile), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(writeState(f, state, true), f.Close()); err != nil {
		return err
	}
	job.state = state
	job.read = place{min(job.read.stdout, state.StdoutBytes), min(job.read.stderr, state.StderrBytes)}
	return nil
}
