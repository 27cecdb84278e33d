package daemon

import (
	"context"
	"errors"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// kindSession marks errors of a session that cannot be read or stored.
const kindSession = "session"

// errGone marks the error of a packet that could not be sent: the caller left.
var errGone = errors.New("the caller is gone")

// sent marks the error of a packet for the caller, unless it is not his doing.
func sent(err error) error {
	if err == nil || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.Join(errGone, err)
}

// ending words the end of a turn that did not come to its end: what is stored
// of it, and what the caller is told.
func ending(ctx context.Context, err error) *proto.Error {
	stopped := errors.Is(ctx.Err(), context.Canceled) // first: the lock may go at any moment
	if lost := lockLost(ctx); lost != nil {
		return lost
	}
	e := worded(err)
	if errors.Is(err, errGone) || stopped || interruption(e) {
		return &proto.Error{Code: proto.CodeCanceled, Message: "The turn was interrupted."}
	}
	return e
}

// interruption reports an end that nothing but a wish to stop has brought about:
// the caller's, the daemon's or the agent's.
func interruption(e *proto.Error) bool {
	return e.Code == proto.CodeCanceled && e.Kind == ""
}

// parting tells a caller who takes events that the turn was interrupted, if so,
// and returns the error that follows.
func (s *Service) parting(ctx context.Context, out *rpc.Out, events bool, e *proto.Error) error {
	if events && interruption(e) {
		if err := out.Event(proto.TypeInterrupted, proto.Interrupted{}); err != nil {
			s.log.Debug("the caller left in the middle of the turn", "error", err, "trace", rpc.Trace(ctx))
		}
	}
	return e
}

// worded is err as a packet. The text stays as it is.
func worded(err error) *proto.Error {
	e := proto.Error{Code: rpc.CodeOf(err)}
	if origin, ok := errors.AsType[*proto.Error](err); ok {
		e = *origin
	}
	e.Message = err.Error()
	return &e
}

// sessionError is err as an error of the session.
func sessionError(err error) *proto.Error {
	e := worded(err)
	e.Kind = kindSession
	return e
}
