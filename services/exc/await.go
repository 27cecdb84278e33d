package exc

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"zino/services/exc/files"
	"zino/services/exc/run"
)

// answer is the result of an operation on the file system.
type answer[T any] struct {
	value T
	err   error
	panic string
}

// await runs an operation on the file system, which may never return: a dead network
// disk cannot be interrupted. At the time limit of tools await returns without it.
// When ctx is done, which is then the error, the operation has StopLimit to finish.
func await[T any](ctx context.Context, limit time.Duration, op func(context.Context) (T, error)) (value T, err error) {
	within, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		within, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	done := make(chan answer[T], 1)
	go func() { done <- attempt(within, op) }()
	select {
	case a := <-done:
		return a.result(ctx)
	case <-within.Done():
	}
	grace := time.Duration(0)
	if ctx.Err() != nil {
		grace = run.StopLimit
	}
	select {
	case a := <-done:
		return a.result(ctx)
	case <-time.After(grace):
	}
	if ctx.Err() != nil {
		return value, ctx.Err()
	}
	return value, noAnswer(limit)
}

// noAnswer is the error of an operation that has exceeded its limit.
func noAnswer(limit time.Duration) error {
	return &files.Error{Code: files.Timeout, Message: fmt.Sprintf("The file system did not answer within %v. What was to be done may still be done later: look before you try again.", limit)}
}

// attempt runs op. A panic is passed on to the goroutine that waits.
func attempt[T any](ctx context.Context, op func(context.Context) (T, error)) (a answer[T]) {
	defer func() {
		if p := recover(); p != nil {
			a.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	a.value, a.err = op(ctx)
	return a
}

// result is what op returned, unless ctx is done.
func (a answer[T]) result(ctx context.Context) (T, error) {
	if a.panic != "" {
		panic(a.panic)
	}
	if a.err != nil && ctx.Err() != nil {
		return a.value, ctx.Err()
	}
	return a.value, a.err
}
