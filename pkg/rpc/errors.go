package rpc

import (
	"context"
	"errors"
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// ErrConnect is wrapped by errors of a service that could not be reached. It is not sent
// over sockets: it is about the called service, not about one behind it.
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

// ErrHungUp is wrapped by errors of a service that closed the connection before its
// answer was complete: it may have carried out the request. It is not sent over
// sockets.
var ErrHungUp = errors.New("hung up")

// hungUpError is the error of an answer that was cut off.
type hungUpError struct{ packet *proto.Error }

func (e *hungUpError) Error() string { return e.packet.Message }

func (e *hungUpError) Unwrap() []error { return []error{ErrHungUp, e.packet} }

// packet returns a handler's error as it crosses the socket. A *proto.Error goes
// out as it is; any other error gets the names of the service and the method in
// front, and keeps code and origin of the one that it wraps.
func packet(service, typ string, err error) *proto.Error {
	var out proto.Error
	switch e := err.(type) {
	case *proto.Error:
		out = *e
	case *hungUpError:
		out = *e.packet
	case *connectError:
		out = proto.Error{Message: e.Error(), Code: proto.CodeUnavailable}
	default:
		if typ != "" {
			typ = " " + typ
		}
		out = proto.Error{Message: service + typ + ": " + err.Error(), Code: CodeOf(err)}
		if origin, ok := errors.AsType[*proto.Error](err); ok {
			out.Code, out.Service, out.Kind, out.Status, out.Details = origin.Code, origin.Service, origin.Kind, origin.Status, origin.Details
		}
	}
	if out.Code == "" {
		out.Code = proto.CodeInternal
	}
	if out.Service == "" {
		out.Service = service
	}
	return &out
}

// CodeOf classifies an error of Go's packages.
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

// invalid returns the answer to a request that cannot be decoded.
func invalid(err error) *proto.Error {
	return proto.Errorf(proto.CodeInvalid, "Invalid request: %v", err)
}
