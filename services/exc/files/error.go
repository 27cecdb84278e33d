package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"zino/pkg/wire"
)

// Codes of errors. Where the system refuses, read gives the name of the
// system's error instead, such as ENOENT.
const (
	InvalidInput  = "invalid_input"              // a field is missing or malformed
	PathError     = "path_error"                 // edit: no such file; any tool: no such directory to work in
	ReadError     = "read_error"                 // the file cannot be read
	WriteError    = "write_error"                // the file cannot be written
	MkdirError    = "mkdir_error"                // a parent directory cannot be made
	NotText       = "not_text"                   // read: the file is not UTF-8 text
	NotRegular    = "not_regular_file"           // read: a pipe, a socket or a device
	OldNotFound   = "old_not_found"              // edit: the text to replace is not there
	CountMismatch = "replacement_count_mismatch" // edit: it is there another number of times
	Timeout       = "timeout"                    // the file system did not answer in time
	Denied        = "denied"                     // it lies outside of the bounds
)

// Error says why a call failed, for the model that made it.
type Error struct {
	Code    string // one of the constants above, or the name of a system error
	Message string // what is wrong and what to do, with the path
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

func fail(code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// errnoNames are the system errors that reading meets.
var errnoNames = map[syscall.Errno]string{
	syscall.ENOENT: "ENOENT", syscall.EACCES: "EACCES", syscall.EPERM: "EPERM", syscall.ENOTDIR: "ENOTDIR",
	syscall.EISDIR: "EISDIR", syscall.ELOOP: "ELOOP", syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.EIO: "EIO",
	syscall.EMFILE: "EMFILE", syscall.ENFILE: "ENFILE", syscall.ENOMEM: "ENOMEM", syscall.ESTALE: "ESTALE",
	syscall.ENXIO: "ENXIO", syscall.ENODEV: "ENODEV", syscall.EAGAIN: "EAGAIN", syscall.ETIMEDOUT: "ETIMEDOUT",
}

// unreadable is the error of read for what the system said about path.
func unreadable(err error, path string) error {
	code := ReadError
	if errors.Is(err, os.ErrDeadlineExceeded) {
		code = Timeout
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errnoNames[errno] != "" {
		code = errnoNames[errno]
	}
	return fail(code, "%s", describe(err, path))
}

// describe words what the system said about path.
func describe(err error, path string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "File not found: " + path
	}
	return fmt.Sprintf("%s: %v", path, reason(err))
}

// reason is an error of the system without the operation and the paths, which
// may be those of temporary files.
func reason(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	case *os.SyscallError:
		return e.Err
	}
	return err
}

// Decode reads a call's input into the struct that v points to, as wire.Decode
// does. The error is an *Error of code invalid_input.
func Decode(input []byte, v any) error {
	err := wire.Decode(input, v)
	if err == nil {
		return nil
	}
	var broken struct {
		Text string `json:"_malformed"`
	}
	if len(input) == 0 || wire.Decode(input, &broken) == nil {
		return fail(InvalidInput, "The arguments are not a JSON object.")
	}
	return fail(InvalidInput, "The arguments cannot be used: %v.", err)
}
