package rtr

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"time"
	"unicode/utf8"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/rtr/ledger"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

const (
	maxTexts    = 64
	maxTextSize = 8000 // in characters
)

// embed asks a model for the vectors of texts: with the retries, limits and the ledger
// of infer, and without its fallbacks.
func (s *Service) embed(ctx context.Context, in proto.Embed) (proto.Embeddings, error) {
	var none proto.Embeddings
	if err := checkEmbed(in); err != nil {
		return none, err
	}
	t, err := s.target(ctx, selector{provider: in.Provider, model: in.Model})
	if err != nil {
		return none, err
	}
	v, known := vendorOf(t.caps.Provider)
	switch {
	case t.caps.Problem != "" && !(known && v.embed == nil): // a key would not help such a provider
		return none, &proto.Error{Code: proto.CodeUnavailable, Message: t.caps.Problem}
	case v.embed == nil:
		return none, proto.Errorf(proto.CodeUnavailable, "%s has no embeddings: name another provider", t.caps.Provider)
	case s.noLedger != nil:
		return none, s.noLedger
	}
	backoff := retry.NewBackoff(nil)
	for attempt := 1; ; attempt++ {
		vectors, err := s.embedOnce(ctx, t, v.embed, in)
		if err == nil {
			return answerOf(t, vectors), nil
		}
		f, failed := errors.AsType[*wire.Fault](err)
		if !failed || f.Class != wire.Retry || ctx.Err() != nil {
			return none, err
		}
		wait, more := backoff.Next(f.Wait)
		if until, limited := ctx.Deadline(); !more || limited && time.Until(until) < wait { // the caller is gone after the pause
			return none, givenUp(f, wait, attempt)
		}
		s.log.Info("asking for embeddings again", "error", firstLine(f), "wait", wait, "attempt", attempt, "trace", rpc.Trace(ctx))
		if err := s.pause(ctx, wait); err != nil {
			return none, err
		}
	}
}

// checkEmbed validates a request.
func checkEmbed(in proto.Embed) error {
	invalid := func(format string, args ...any) error {
		return proto.Errorf(proto.CodeInvalid, "Invalid request: field "+format, args...)
	}
	switch {
	case len(in.Texts) == 0 || len(in.Texts) > maxTexts:
		return invalid(`"texts": expected 1 to %d texts`, maxTexts)
	case in.Model == "":
		return invalid(`"model": expected the name of a model for embeddings`)
	case !isProvider(in.Provider):
		return &proto.Error{Code: proto.CodeInvalid, Message: unknownProvider(in.Provider)}
	}
	for i, text := range in.Texts {
		if n := utf8.RuneCountInString(text); n == 0 || n > maxTextSize {
			return invalid(`"texts": text %d has %d characters, expected 1 to %d`, i, n, maxTextSize)
		}
	}
	return nil
}

// embedOnce asks a target once.
func (s *Service) embedOnce(ctx context.Context, t *target, embed wire.Embedder, in proto.Embed) (wire.Vectors, error) {
	if pause := t.limiter.Paused(); pause > longestPause {
		return wire.Vectors{}, t.busy(pause)
	}
	release, err := t.limiter.Acquire(ctx, nil)
	if err != nil {
		return wire.Vectors{}, err
	}
	defer release()
	size := 0
	for _, text := range in.Texts {
		size += len(text)
	}
	reserved, err := s.ledger.Reserve(ctx, ledger.Ask{
		Session: in.SessionID, Provider: t.caps.Provider, Model: t.caps.Model, Price: t.price, ReportsCost: t.caps.Provider == "openrouter",
		Input: int64(size/bytesPerToken + len(in.Texts)), Output: 1, // without a bound the rest of the budget would be reserved
	})
	if err != nil {
		return wire.Vectors{}, err
	}
	vectors, err := embed(ctx, t.ep, t.caps.Model, in.Texts)
	f, failed := errors.AsType[*wire.Fault](err)
	// The ledger logs its own errors.
	switch {
	case failed && (f.Unsent || f.Header != nil):
		_ = reserved.Cancel()
	case err != nil && vectors.Usage == nil:
		_ = reserved.Abandon(0)
	default:
		_ = reserved.Settle(vectors.Usage)
	}
	if failed && f.Class == wire.Retry {
		t.limiter.Pause(f.Wait)
	}
	return vectors, err
}

// answerOf encodes vectors.
func answerOf(t *target, vectors wire.Vectors) proto.Embeddings {
	e := proto.Embeddings{Provider: t.caps.Provider, Model: t.caps.Model, Dimensions: len(vectors.List[0]), Usage: vectors.Usage}
	var raw []byte
	for _, vector := range vectors.List {
		raw = raw[:0]
		for _, x := range vector {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		e.Vectors = append(e.Vectors, base64.StdEncoding.EncodeToString(raw))
	}
	return e
}
