package proto

import "fmt"

// Code classifies an error for programs. The list only grows.
type Code string

// The codes.
const (
	CodeInvalid     Code = "invalid"     // the request is malformed: change it
	CodeUnknown     Code = "unknown"     // no such message type
	CodeNotFound    Code = "not_found"   // the requested object does not exist
	CodeUnavailable Code = "unavailable" // a service or a resource cannot be reached or is not configured
	CodeTimeout     Code = "timeout"     // no answer in time
	CodeCanceled    Code = "canceled"    // the caller has hung up, or the work was stopped
	CodeDenied      Code = "denied"      // the caller may not do this
	CodeTooLarge    Code = "too_large"   // over a limit: 16 MiB - 1 for a packet
	CodeBusy        Code = "busy"        // try again later
	CodeBudget      Code = "budget"      // a spending limit is reached
	CodeLimit       Code = "limit"       // a provider asks for a long pause; details is its end, in RFC 3339, UTC
	CodeApproval    Code = "approval"    // a person must allow the call first; details is an ApprovalNeeded in JSON
	CodeLoop        Code = "loop"        // the model repeated a call too often
	CodeInternal    Code = "internal"    // the service failed
)

// Error is the packet {"type":"error",…} that ends a failed request, and the
// Go error on both sides of the socket. Two of them match under errors.Is when
// the target has no message and the codes are equal, so that
// errors.Is(err, ErrNotFound) holds across any number of hops.
type Error struct {
	// Message says what failed, where, and what to do.
	Message string `json:"message"`
	// Code classifies the error.
	Code Code `json:"code,omitzero"`
	// Service is where the error arose.
	Service string `json:"service,omitzero"`
	// Kind says what failed. At a provider: "http_status" (Status has the
	// number), "timeout", "parse" (malformed data) or "api_error" (it reports an
	// error, or cannot be reached). A session that cannot be read or stored:
	// "session". An attachment that is not known: "attachment". A service that a turn's
	// run needs and that went away: "transport". An answer that does not match
	// output_schema, or a schema that cannot be used: "schema".
	Kind string `json:"kind,omitzero"`
	// Status is the HTTP status of a provider's answer, where there was one.
	Status int `json:"status,omitzero"`
	// Details is the provider's own text, where it says more than the message.
	Details string `json:"details,omitzero"`
}

// Values of Error.Kind. The last two are printed for people and do not cross
// sockets.
const (
	ErrorKindHTTPStatus = "http_status" // a provider answered with an HTTP error; Status has the number
	ErrorKindTimeout    = "timeout"     // a provider did not answer in time
	ErrorKindParse      = "parse"       // a provider's data is malformed
	ErrorKindAPIError   = "api_error"   // a provider reports an error, or cannot be reached
	ErrorKindSession    = "session"     // a session cannot be read or stored
	ErrorKindTransport  = "transport"   // a service that the agent needs went away: the turn can be resumed
	ErrorKindSchema     = "schema"      // an answer does not match output_schema, or that cannot be used
	ErrorKindUsage      = "usage"       // the command line is wrong
	ErrorKindInternal   = "internal"    // everything else
)

// Errorf returns an error with a code and a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Label returns what is printed of the kind of an error: Kind, or what its code says.
func (e *Error) Label() string {
	switch e.Kind {
	case ErrorKindHTTPStatus, ErrorKindTimeout, ErrorKindParse, ErrorKindAPIError, ErrorKindSession, ErrorKindSchema, ErrorKindUsage:
		return e.Kind
	}
	switch e.Code {
	case CodeInvalid:
		return ErrorKindUsage
	case CodeNotFound:
		return ErrorKindSession
	case CodeTimeout:
		return ErrorKindTimeout
	}
	return ErrorKindInternal
}

// SessionErrorf returns an error of kind session with a code and a formatted
// message.
func SessionErrorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Kind: ErrorKindSession, Message: fmt.Sprintf(format, args...)}
}

// Sentinels for errors.Is, one for each code.
var (
	ErrInvalid     = &Error{Code: CodeInvalid}
	ErrUnknown     = &Error{Code: CodeUnknown}
	ErrNotFound    = &Error{Code: CodeNotFound}
	ErrUnavailable = &Error{Code: CodeUnavailable}
	ErrTimeout     = &Error{Code: CodeTimeout}
	ErrCanceled    = &Error{Code: CodeCanceled}
	ErrDenied      = &Error{Code: CodeDenied}
	ErrTooLarge    = &Error{Code: CodeTooLarge}
	ErrBusy        = &Error{Code: CodeBusy}
	ErrBudget      = &Error{Code: CodeBudget}
	ErrLimit       = &Error{Code: CodeLimit}
	ErrApproval    = &Error{Code: CodeApproval}
	ErrLoop        = &Error{Code: CodeLoop}
	ErrInternal    = &Error{Code: CodeInternal}
)

// Error returns the message, or the code if it is empty.
func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return e.Message
}

// Is reports whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Message == "" && t.Code == e.Code
}
