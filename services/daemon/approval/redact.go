package approval

import (
	"errors"
	"io"
	"io/fs"

	"zino/pkg/durable"
	"zino/pkg/mask"
	"zino/proto"
)

// Redact masks the secrets in requests that are closed, and calls found for each request
// with secrets. One that is open is left alone, as its digest is computed from the call;
// nor is a grant changed, which must match calls. With dryRun nothing is changed.
func (s *Store) Redact(m *mask.Masker, dryRun bool, found func(what, id string, secrets int, left string)) error {
	type place struct {
		id   string
		n    int
		left string
	}
	var places []place
	err := s.update(func(*durable.Tx) ([]proto.Approval, error) {
		var lines [][]byte
		changed := false
		for _, id := range s.ids {
			a := s.byID[id]
			line, err := lineOf(*a)
			if err != nil {
				return nil, err
			}
			masked, n := m.JSON(line)
			p := place{id, n, ""}
			switch {
			case n == 0:
			case a.State == proto.ApprovalPending || a.State == proto.ApprovalApproved:
				p.left = "it is open: answer it first"
			default:
				line, changed = masked, true
			}
			if n > 0 {
				places = append(places, p)
			}
			lines = append(lines, line)
		}
		if !changed || dryRun {
			return nil, nil
		}
		// Earlier lines of a request have its call as well: only the last ones are written.
		return nil, durable.ReplaceWith(s.root, requestsFile, durable.FileMode, func(w io.Writer) error {
			for _, line := range lines {
				if _, err := w.Write(append(line, '\n')); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, p := range places {
		found(proto.RedactedApproval, p.id, p.n, p.left)
	}
	grants, _ := s.Grants.Grants()
	for _, g := range grants {
		n := 0
		for _, text := range []string{g.Command, g.Path, g.Input} {
			_, some := m.Text([]byte(text))
			n += some
		}
		if n > 0 {
			found(proto.RedactedGrant, g.ID, n, "revoke it: zino approvals revoke "+g.ID)
		}
	}
	return nil
}
