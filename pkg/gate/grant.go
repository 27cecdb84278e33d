package gate

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zino/proto"
)

// GrantLife is how long the token of an approval is valid.
const GrantLife = 10 * time.Minute

// GrantToken is the daemon's statement that a person has approved one call.
type GrantToken struct {
	V        int         `json:"v"`        // 1
	Approval string      `json:"approval"` // the request; empty: a grant allows the call
	Grant    string      `json:"grant"`    // the grant; empty: approved once
	Key      string      `json:"key"`      // SESSION/TURN/STEP/CALL
	Digest   string      `json:"digest"`   // of the call
	Sandbox  proto.Level `json:"sandbox"`  // at which it is to run
	Network  bool        `json:"network"`
	By       int         `json:"by"` // uid of who has approved it
	Expires  time.Time   `json:"expires"`
	Boot     string      `json:"boot"`    // the host's boot
	MonoMS   int64       `json:"mono_ms"` // CLOCK_BOOTTIME when it was signed
}

// Reasons why the token of an approval does not allow a call.
var (
	ErrDigest    = errors.New("the approval does not fit: digest")    // the call is not the approved one
	ErrExpired   = errors.New("the approval does not fit: expired")   // by one of the clocks, or signed before a restart of the host
	ErrSignature = errors.New("the approval does not fit: signature") // not a token that the daemon has signed
	ErrKey       = errors.New("the approval does not fit: key")       // of another call
)

// SignGrant returns the token of an approval, valid for GrantLife from now on. It sets V,
// Expires, Boot and MonoMS.
func (s *Signer) SignGrant(g GrantToken, now time.Time) (string, error) {
	boot, mono, err := uptime()
	if err != nil {
		return "", err
	}
	g.V, g.Expires = 1, now.Add(GrantLife).UTC().Truncate(time.Second)
	g.Boot, g.MonoMS = boot, mono.Milliseconds()
	return s.sign(g)
}

// Content returns the content of the token of an approval without a check, for records of a
// call that was checked. Of what is no token it is empty.
func Content(token string) (g GrantToken) {
	payload, _, _ := strings.Cut(token, ".")
	text, err := encoding.DecodeString(payload)
	if err != nil || json.Unmarshal(text, &g) != nil {
		return GrantToken{}
	}
	return g
}

// VerifyGrant returns the content of the token of an approval, if the daemon has signed it
// in this boot of the host, and if it has not expired.
func (v *Verifier) VerifyGrant(token string, now time.Time) (GrantToken, error) {
	boot, mono, err := uptime()
	if err != nil {
		return GrantToken{}, err
	}
	return v.verifyGrant(token, now, boot, mono)
}

// verifyGrant is VerifyGrant at a time after the start of a boot.
func (v *Verifier) verifyGrant(token string, now time.Time, boot string, mono time.Duration) (GrantToken, error) {
	payload, signature, err := split(token)
	if err != nil {
		return GrantToken{}, ErrSignature
	}
	switch err := v.check(append([]byte(signed), payload...), signature); {
	case errors.Is(err, errSignature):
		return GrantToken{}, ErrSignature
	case err != nil: // no key
		return GrantToken{}, err
	}
	g, err := decodeGrant(payload)
	if err != nil {
		return GrantToken{}, ErrSignature
	}
	age := mono - time.Duration(g.MonoMS)*time.Millisecond
	if !now.Before(g.Expires) || g.Boot != boot || age < 0 || age >= GrantLife {
		return GrantToken{}, ErrExpired
	}
	return g, nil
}

func decodeGrant(payload []byte) (g GrantToken, err error) {
	if err = decode(payload, &g); err == nil &&
		(g.V != 1 || g.Key == "" || g.Digest == "" || g.Boot == "" || !slices.Contains(proto.Levels, g.Sandbox)) {
		err = errForm
	}
	return g, err
}

// bootID names this boot of the host.
var bootID = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		id = []byte(os.Getenv("ZINO_BOOT_ID")) // a unit with ProcSubset=pid has no such file
	}
	boot := strings.ReplaceAll(strings.TrimSpace(string(id)), "-", "")
	if boot != "" {
		err = nil
	}
	return boot, err
})

// uptime returns the boot of the host, and the time since it started, suspended time
// included. No user can set this clock.
func uptime() (boot string, since time.Duration, err error) {
	if boot, err = bootID(); err != nil {
		return "", 0, err
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return "", 0, os.NewSyscallError("clock_gettime", err)
	}
	return boot, time.Duration(ts.Nano()), nil
}
