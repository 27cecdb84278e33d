package rtr

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"zino/pkg/environ"
	"zino/pkg/keys"
	"zino/pkg/mask"
	"zino/proto"
)

// hints are the last answer of mask_hints, and the stamp of the user's keys at that time.
type hints struct {
	sync.Mutex
	answer *proto.MaskHints
	stamp  string
}

// maskHints returns hints for the secrets of this process. They are made again when the
// user's keys have changed.
func (s *Service) maskHints(ctx context.Context, _ proto.MaskHintsRequest) (proto.MaskHints, error) {
	s.hints.Lock()
	defer s.hints.Unlock()
	stamp := ""
	if s.set.keys.Store != nil {
		stamp = s.set.keys.Store.Stamp()
	}
	if s.hints.answer == nil || s.hints.stamp != stamp {
		answer := mask.NewHints(s.secrets(ctx))
		if err := ctx.Err(); err != nil {
			return proto.MaskHints{}, err // keys may be missing
		}
		s.hints.answer, s.hints.stamp = &answer, stamp
	}
	return *s.hints.answer, nil
}

// secrets returns the secrets of this process. A key that cannot be read cannot be
// sent either, and is left out.
func (s *Service) secrets(ctx context.Context) []string {
	secrets := []string{s.set.keys.Key}
	for _, account := range keys.Accounts() {
		for _, first := range []bool{false, true} {
			if key, _, err := s.credential(account, first); err == nil {
				secrets = append(secrets, key)
			}
		}
		if s.set.keys.Store == nil {
			continue
		}
		// The store's key is a secret also where another one comes first.
		if key, err := s.set.keys.Store.Get(ctx, account.Name); err == nil {
			secrets = append(secrets, key)
		}
	}
	for name, value := range environ.Map(os.Environ()) {
		path := strings.HasPrefix(value, "/")
		if environ.Secret(name, "") && name != headersVariable && !path && !strings.Contains(value, "://") {
			secrets = append(secrets, strings.TrimSpace(value))
		}
	}
	for _, values := range s.set.headers {
		secrets = append(secrets, values...)
	}
	secrets = append(secrets, password(s.set.base))
	for _, base := range s.set.bases {
		secrets = append(secrets, password(base))
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// password returns the password in a URL, or "".
func password(u *url.URL) string {
	if u == nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}
