package rpc

import (
	"context"
	"errors"
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// ErrConnect marks errors of a peer that could not be reached at all. It does
// not cross sockets: behind a service that answered, nobody needs to know.
var ErrConnect = errors.New("could not connect")

// connectError is the error of a failed connect.
type connectError struct {
	service string
	cause   error
}

func (e *connectError) Error() string {
	return fmt.Sprintf("Could not connect to %s: %v", e.service, e.cause)
}

// Unwrap lets errors.Is find the sentinel, the code and the cause.
func (e *connectError) Unwrap() []error {
	return []error{ErrConnect, &proto.Error{Code: proto.CodeUnavailable, Message: e.Error()}, e.cause}
}

// packet turns a handler's error into the one that crosses the socket. An
// error that a service worded itself goes out as it stands; any other gets the
// names of the service and the method in front.
func packet(service, typ string, err error) *proto.Error {
	var worded *proto.Error
	if e, ok := err.(*proto.Error); ok {
		worded = e
	} else if e, ok := err.(*connectError); ok {
		worded = &proto.Error{Message: e.Error(), Code: proto.CodeUnavailable}
	} else {
		worded = chain(service, typ, err)
	}
	out := *worded
	if out.Code == "" {
		out.Code = proto.CodeInternal
	}
	if out.Service == "" {
		out.Service = service
	}
	return &out
}

// chain words an error that has no words for users, and keeps the code and the
// origin of the one it wraps.
func chain(service, typ string, err error) *proto.Error {
	name := service
	if typ != "" {
		name += " " + typ
	}
	out := &proto.Error{Message: name + ": " + err.Error(), Code: CodeOf(err)}
	if origin, ok := errors.AsType[*proto.Error](err); ok {
		out.Code, out.Service, out.Kind, out.Status, out.Details = origin.Code, origin.Service, origin.Kind, origin.Status, origin.Details
	}
	return out
}

// CodeOf classifies an error of Go's own.
func CodeOf(err error) proto.Code {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return proto.CodeTimeout
	case errors.Is(err, context.Canceled):
		return proto.CodeCanceled
	case errors.Is(err, wire.ErrTooLarge):
		return proto.CodeTooLarge
	}
	return proto.CodeInternal
}

// invalid is the answer to a request that cannot be read.
func invalid(err error) *proto.Error {
	return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + err.Error()}
}

// unknown is the answer to a type that nobody handles. No handler has read the
// values of such a request: if they are malformed, that is the answer.
func unknown(typ string, payload []byte) *proto.Error {
	if _, err := wire.RequestType(payload); err != nil {
		return invalid(err)
	}
	return &proto.Error{Code: proto.CodeUnknown, Message: "Unknown message type: " + typ}
}
