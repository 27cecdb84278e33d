// Package render formats the output of zino: turns and their events, errors, tables and
// JSON lines.
package render

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"zino/pkg/text"
	"zino/proto"
)

// UsageError is a mistake on the command line: exit status 2.
type UsageError struct{ error }

// Unwrap returns the error and its code.
func (e UsageError) Unwrap() []error {
	return []error{&proto.Error{Code: proto.CodeInvalid, Kind: proto.ErrorKindUsage, Message: e.Error()}, e.error}
}

// Usage returns a mistake on the command line.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

var (
	// ErrInterrupted ends a run that the user interrupted: exit status 130.
	ErrInterrupted = errors.New("interrupted")
	// ErrHangup ends a run that SIGHUP interrupted: exit status 129.
	ErrHangup = fmt.Errorf("hangup: %w", ErrInterrupted)
	// ErrDetached ends a run whose turn goes on without it: exit status 0.
	ErrDetached = errors.New("detached")
	// ErrReported ends a run with exit status 1 whose error was printed already.
	ErrReported = errors.New("")
	// ErrOutputClosed ends a run whose standard output was closed (EPIPE). It is
	// not printed.
	ErrOutputClosed = errors.New("standard output was closed")
)

// IsClosed reports whether err comes from writing to a closed pipe.
func IsClosed(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err) // of a file; a socket has another type
	return ok && errors.Is(err, syscall.EPIPE)
}

// IsHangup reports whether err comes from a terminal that was closed.
func IsHangup(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok && errors.Is(err, syscall.EIO)
}

// OutputError returns the error of writing to standard output.
func OutputError(err error) error {
	if IsClosed(err) {
		return ErrOutputClosed
	}
	return err
}

// labelOf returns the kind of an error as it is printed.
func labelOf(err error) string {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return e.Label()
	}
	return proto.ErrorKindInternal
}

// message returns an error's text without the prefixes of relaying services.
func message(err error) string {
	message := err.Error()
	for _, hop := range []string{"Agentic runtime error: ", "rtr error: "} {
		message = strings.TrimPrefix(message, hop)
	}
	e, ok := errors.AsType[*proto.Error](err)
	if !ok || e.Service == "" {
		return message
	}
	if rest, found := strings.CutPrefix(message, e.Service+" "); found { // "mem list_sessions: …"
		if method, rest, found := strings.Cut(rest, ": "); found && strings.Trim(method, "abcdefghijklmnopqrstuvwxyz_") == "" {
			return rest
		}
	}
	return message
}

// Error formats an error for a person: one line, and the provider's own text below
// it.
func Error(err error) string {
	line := fmt.Sprintf("Error [%s]: %s\n", labelOf(err), strings.TrimSpace(Line(message(err))))
	e, ok := errors.AsType[*proto.Error](err)
	if !ok || strings.TrimSpace(e.Details) == "" {
		return line
	}
	const label = "  Details: "
	details := strings.TrimSpace(text.Visible(e.Details))
	return line + label + strings.ReplaceAll(details, "\n", "\n"+strings.Repeat(" ", len(label))) + "\n"
}

// ErrorPacket returns the JSON packet for an error.
func ErrorPacket(err error) proto.Error {
	packet := proto.Error{Code: proto.CodeInternal}
	if e, ok := errors.AsType[*proto.Error](err); ok {
		packet = *e
	}
	packet.Message = message(err)
	packet.Kind = labelOf(err)
	return packet
}
