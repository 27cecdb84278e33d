package exc

import (
	"context"
	"fmt"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/undo"
)

// redact masks the outputs of jobs that have ended, and finds or deletes what undo keeps
// of files with secrets.
func (s *Service) redact(ctx context.Context, req proto.RedactStore, out *rpc.Out) (done proto.RedactDone, err error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return done, err
	}
	defer leave()
	m, err := s.masker(req.Mask, nil)
	if err != nil {
		return done, err
	}
	if problem := s.masks.Problem(); problem != "" {
		done.Problems = []string{"some configured secrets are not masked: " + problem}
	}
	report := func(r proto.Redacted) error {
		done.Masked += r.Masked
		if err := out.Event(proto.TypeRedacted, r); err != nil {
			return err
		}
		return out.Flush()
	}
	const problemsMax = 20
	problem := func(format string, args ...any) {
		if len(done.Problems) < problemsMax {
			done.Problems = append(done.Problems, fmt.Sprintf(format, args...))
		}
	}
	for _, job := range s.jobs.All() {
		n, err := job.Redact(ctx, m, req.DryRun)
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if err != nil {
			problem("job %s: %v", job.ID(), err)
		}
		if n > 0 {
			if err := report(proto.Redacted{What: proto.RedactedJob, Name: job.ID(), SessionID: job.Record().Session, Masked: n}); err != nil {
				return done, err
			}
		}
	}
	left := "delete what undo keeps with --undo"
	if req.Undo {
		left = ""
	}
	err = s.undo.Secrets(ctx, m, req.Undo && !req.DryRun, func(secret undo.Secret) error {
		return report(proto.Redacted{What: proto.RedactedUndo, Name: secret.Path, SessionID: secret.Session, Turn: secret.Turn, Masked: secret.Count, Left: left})
	})
	if err != nil && ctx.Err() == nil {
		problem("undo: %v", err)
		err = nil
	}
	return done, err
}
