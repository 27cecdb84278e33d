package daemon

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/proto"
)

const (
	saltSize    = 32
	hintTimeout = 2 * time.Second
)

// masking is what the other services mask secrets with.
type masking struct {
	mu    sync.Mutex
	salt  []byte
	hints proto.MaskHints // the last answer of rtr
}

// refreshHints asks rtr for the hints of its keys. If it does not answer, the last ones
// count.
func (s *Service) refreshHints(ctx context.Context) {
	err := s.askHints(ctx)
	if err != nil && !errors.Is(err, rpc.ErrConnect) && !errors.Is(err, context.Canceled) { // without rtr there is no turn
		s.log.Warn("the keys of providers may not be masked in results", "error", err)
	}
}

// askHints asks rtr for the hints of its keys, which it keeps ready.
func (s *Service) askHints(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	hints, err := rpc.Call(ctx, s.rtr, proto.RtrMaskHints, proto.MaskHintsRequest{})
	if err != nil {
		return err
	}
	s.masks.mu.Lock()
	s.masks.hints = hints
	s.masks.mu.Unlock()
	return nil
}

// masking returns the salt of this constellation and the last hints.
func (s *Service) masking() *proto.Masking {
	s.masks.mu.Lock()
	defer s.masks.mu.Unlock()
	if s.masks.salt == nil {
		salt, err := openSalt(filepath.Join(s.cfg.Daemon.DataDir, "mask.salt"))
		if err != nil {
			s.log.Warn("placeholders of secrets will change when the daemon starts again", "error", err)
		}
		s.masks.salt = salt
	}
	return &proto.Masking{Salt: base64.StdEncoding.EncodeToString(s.masks.salt), Hints: s.masks.hints}
}

// openSalt reads the key of placeholders, or makes it. With an error it returns a key
// that is not stored.
func openSalt(path string) ([]byte, error) {
	salt, err := os.ReadFile(path)
	if err == nil && len(salt) == saltSize {
		return salt, nil
	}
	unread := err
	salt = make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	if unread != nil && !errors.Is(unread, fs.ErrNotExist) {
		return salt, fmt.Errorf("cannot read the key of placeholders: %w", unread)
	}
	err = os.MkdirAll(filepath.Dir(path), durable.DirMode)
	if err == nil {
		err = durable.ReplacePath(path, durable.FileMode, func(w io.Writer) error {
			_, err := w.Write(salt)
			return err
		})
	}
	if err != nil {
		return salt, fmt.Errorf("cannot store the key of placeholders: %w", err)
	}
	return salt, nil
}
