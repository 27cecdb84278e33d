// Package files carries out the tools read, write and edit.
//
// A call has two steps. The plan resolves the path and has everything that the
// caller needs to decide: the identity of the file, SHA-256 of its present and of
// its planned content, the diff, or the content of a read. Nothing is changed
// until the caller approves the plan. At confined levels both steps take place in
// a helper process (Serve, Helper), in the sandbox that commands run in.
//
// A change replaces a file atomically where that is possible, and a failed change
// loses nothing of the earlier content. Changes of one file follow each other,
// by any name and from any process.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"zino/pkg/mask"
	"zino/pkg/realpath"
	"zino/pkg/wire"
)

// Names of the tools.
const (
	Read  = "read"
	Write = "write"
	Edit  = "edit"
)

// ReadMax is how many bytes of a file read returns at most.
const ReadMax = 51200

// PictureMax is the size in bytes of the largest image or PDF file that read returns. In
// base64 it fits into a packet.
const PictureMax = 10 << 20

// EditMax is the size in bytes of the largest file that edit reads, and writes.
const EditMax = 64 << 20

// attempts is how often a change starts again because another process changed the
// file after the plan.
const attempts = 5

// Call is a call of a tool.
type Call struct {
	Tool  string  // Read, Write or Edit
	Root  string  // where relative paths start, absolute
	Named string  // another name of Root, by symbolic links that the sandbox does not show
	Input []byte  // the arguments, a JSON object
	Text  *string // Read: takes the place of the file's text; nil: that is read
}

// Plan is what a call is about to do.
type Plan struct {
	Path    string `json:"-"` // absolute, without symbolic links
	File    *File  // nil: the file does not exist
	Before  string // SHA-256 of the present content in hex; empty: the file does not exist, or cannot be read
	After   string // of the planned content; empty for read
	Diff    string
	Content *Content // of a read
}

// File identifies an existing file.
type File struct{ Dev, Ino, Links uint64 }

// Reply is the result of a call that succeeded.
type Reply struct {
	// Data is a Content, a Picture, a Written or an Edited.
	Data any
	// Picture is the content of an image or PDF file that was read.
	Picture []byte
	// Diff is the change as a unified diff: empty if nothing changed, or if it
	// cannot be shown.
	Diff string
}

// Content is the result of read.
type Content struct {
	Path      string `json:"path"`            // absolute, without symbolic links
	Content   string `json:"content"`         // the file's text, up to ReadMax bytes of it
	Truncated bool   `json:"truncated"`       // there is more in the file
	Bytes     int64  `json:"bytes"`           // the file's size
	Notice    string `json:"notice,omitzero"` // what was left out and how to read it
}

// Picture is the result of read for an image or a PDF file.
type Picture struct {
	Path      string `json:"path"`           // absolute, without symbolic links
	MediaType string `json:"media_type"`     // by its content
	Bytes     int64  `json:"bytes"`          // the file's size
	Width     int    `json:"width,omitzero"` // of an image, in pixels
	Height    int    `json:"height,omitzero"`
}

// Written is the result of write.
type Written struct {
	Path    string `json:"path"`    // absolute, without symbolic links
	Bytes   int64  `json:"bytes"`   // the size of what was written
	Created bool   `json:"created"` // there was no such file
}

// Edited is the result of edit.
type Edited struct {
	Path         string `json:"path"`         // absolute, without symbolic links
	Replacements int64  `json:"replacements"` // how many
}

// Sandbox says what the process that carries out a call can reach. The kernel
// enforces it; here it serves to explain errors.
type Sandbox struct {
	Root   string   // directory to work in, without symbolic links; empty: none
	Write  bool     // whether Root is writable
	Read   []string // readable beside Root
	Hidden []string // not readable, although below Root or one of Read
}

// Do carries out a call. It changes nothing before approve has returned nil for
// the plan; an error of approve is returned. A plan that another process has
// invalidated meanwhile is made again. Where sandbox lets nothing be written, approve
// may give the reason. sandbox is nil for a process that is not
// confined. ctx limits the wait for another change of the file; a change that has
// begun is completed. Errors are of type *Error, except for those of approve.
func Do(ctx context.Context, c Call, sandbox *Sandbox, approve func(Plan) error) (Reply, error) {
	o := &operation{ctx: ctx, root: c.Root, sandbox: sandbox, approve: approve}
	var path string
	var attempt func(path string) (Reply, error)
	var text string // new in the file
	switch c.Tool {
	case Read:
		var input struct {
			Path string `json:"path"`
		}
		if err := Decode(c.Input, &input); err != nil {
			return Reply{}, err
		}
		path, attempt = input.Path, func(path string) (Reply, error) { return o.read(path, c.Text) }
	case Write:
		var input writeInput
		if err := Decode(c.Input, &input); err != nil {
			return Reply{}, err
		}
		path, text, attempt = input.Path, input.Content, func(path string) (Reply, error) { return o.write(path, input.Content) }
	case Edit:
		var input editInput
		if err := Decode(c.Input, &input); err != nil {
			return Reply{}, err
		}
		if err := input.check(); err != nil {
			return Reply{}, err
		}
		path, text, attempt = input.Path, input.New, func(path string) (Reply, error) { return o.edit(path, input) }
	default:
		return Reply{}, fail(InvalidInput, "unknown tool %q: use read, write or edit", c.Tool)
	}
	switch {
	case mask.HasPlaceholder(text):
		return Reply{}, fail(MaskedText, "the text contains a masked value; leave those lines unchanged")
	case path == "":
		return Reply{}, fail(InvalidInput, "The path is empty.")
	case strings.ContainsRune(path, 0):
		return Reply{}, fail(InvalidInput, "The path holds a NUL character.")
	case !filepath.IsAbs(path): // it is not cleaned: behind a symbolic link ".." leads elsewhere
		path = strings.TrimSuffix(c.Root, "/") + "/" + path
	default:
		if rest, ok := strings.CutPrefix(path, c.Named+"/"); ok && c.Named != "" {
			path = c.Root + "/" + rest
		}
	}
	if c.Tool != Read && sandbox != nil && (!sandbox.Write || sandbox.Root == "") {
		if real, _, err := realpath.Follow(path); err == nil && approve != nil {
			if err := approve(Plan{Path: real}); err != nil {
				return Reply{}, err
			}
		}
		return Reply{}, fail(Denied, "%s: the sandbox lets nothing be written.", path)
	}
	for range attempts {
		reply, err := attempt(path)
		if !errors.Is(err, errReplaced) {
			return reply, sandbox.explain(err, c.Tool, path)
		}
	}
	return Reply{}, fail(WriteError, "%s keeps being changed by others: read it again and repeat the change", path)
}

// operation is a call being carried out.
type operation struct {
	ctx     context.Context
	root    string
	sandbox *Sandbox
	approve func(Plan) error
}

// Codes of errors. Where the system refuses, read gives the name of the system's
// error instead, such as ENOENT.
const (
	InvalidInput  = "invalid_input"              // a field is missing or malformed
	PathError     = "path_error"                 // edit: no such file; any tool: no such directory to work in
	ReadError     = "read_error"                 // the file cannot be read
	WriteError    = "write_error"                // the file cannot be written
	MkdirError    = "mkdir_error"                // a parent directory cannot be made
	NotText       = "not_text"                   // read: the file is not UTF-8 text, nor an image or PDF file
	TooLarge      = "too_large"                  // read: an image or PDF file of more than PictureMax bytes
	NotRegular    = "not_regular_file"           // read: a pipe, a socket or a device
	OldNotFound   = "old_not_found"              // edit: the text to replace is not there
	CountMismatch = "replacement_count_mismatch" // edit: it is there another number of times
	Timeout       = "timeout"                    // the file system did not answer in time
	Denied        = "denied"                     // the sandbox does not allow it
	MaskedText    = "masked_text"                // the new text contains the placeholder of a secret
)

// Error says why a call failed, for the model that made it.
type Error struct {
	Code    string // one of the constants above, or the name of a system error
	Message string // what is wrong and what to do, with the path
}

func (e *Error) Error() string { return e.Message }

func fail(code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// explain replaces an error of the system by Denied where the path is not
// accessible in the sandbox: there it may just seem to be absent.
func (s *Sandbox) explain(err error, tool, path string) error {
	e, ok := errors.AsType[*Error](err)
	if s == nil || !ok || slices.Contains([]string{InvalidInput, OldNotFound, CountMismatch, Timeout, Denied, NotText, TooLarge}, e.Code) {
		return err
	}
	real, _, walkErr := realpath.Follow(path)
	if walkErr != nil {
		real = filepath.Clean(path)
	}
	below := func(dirs ...string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && within(real, dir) })
	}
	switch {
	case tool != Read && !below(s.Root):
		return s.Outside(path)
	case below(s.Hidden...) || !below(append([]string{s.Root}, s.Read...)...):
		return fail(Denied, "%s: the sandbox lets only files below the directory to work in and those of the system be read.", path)
	}
	return err
}

// Outside is the error for a path to write that is not below the root.
func (s *Sandbox) Outside(path string) error {
	return fail(Denied, "%s lies outside of %s, and the sandbox lets nothing else be written.", path, s.Root)
}

// within reports whether path is dir or below it. Both are clean.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// errnoNames are the system errors that reading meets.
var errnoNames = map[syscall.Errno]string{
	syscall.ENOENT: "ENOENT", syscall.EACCES: "EACCES", syscall.EPERM: "EPERM", syscall.ENOTDIR: "ENOTDIR",
	syscall.EISDIR: "EISDIR", syscall.ELOOP: "ELOOP", syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.EIO: "EIO",
	syscall.EMFILE: "EMFILE", syscall.ENFILE: "ENFILE", syscall.ENOMEM: "ENOMEM", syscall.ESTALE: "ESTALE",
	syscall.ENXIO: "ENXIO", syscall.ENODEV: "ENODEV", syscall.EAGAIN: "EAGAIN", syscall.ETIMEDOUT: "ETIMEDOUT",
}

// asError makes an *Error of an error of the system. An *Error and errReplaced
// are returned as they are.
func asError(err error, code, path string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, errReplaced) {
		return err
	}
	return fail(code, "%s", describe(err, path))
}

// describe formats an error of the system about path.
func describe(err error, path string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "File not found: " + path
	}
	return fmt.Sprintf("%s: %v", path, reason(err))
}

// reason is an error of the system without the operation and the paths, which may
// be those of temporary files.
func reason(err error) error {
	switch e := err.(type) {
	case realpath.DirError:
		return reason(e.Err)
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
	var malformed struct {
		Text string `json:"_malformed"`
	}
	if len(input) == 0 || wire.Decode(input, &malformed) == nil {
		return fail(InvalidInput, "The arguments are not a JSON object.")
	}
	return fail(InvalidInput, "The arguments cannot be used: %v.", err)
}

// PathOf returns the path in the input of a call.
func PathOf(input []byte) (string, error) {
	var in struct {
		Path string `json:"path"`
	}
	err := Decode(input, &in)
	return in.Path, err
}

// Looks is the input of a write to the file of another call: its plan says what the
// file has now.
func Looks(input []byte) []byte {
	var in struct {
		Path string `json:"path"`
	}
	_ = wire.DecodeReply(input, &in) // a plan was made of it: it has a path
	b := wire.AppendString([]byte(`{"path":`), in.Path)
	return append(b, `,"content":""}`...)
}

// Made is the result of a change of the file at path that an earlier call with that
// input made. before is the content before, nil if it is not known: then the result has
// no diff. Input that no call could have had is an error.
func Made(call Call, path string, created bool, before []byte) (Reply, error) {
	old := former{text: string(before), absent: created, known: created || before != nil && len(before) <= compareMax}
	if call.Tool == Write {
		var in writeInput
		err := Decode(call.Input, &in)
		return Reply{Data: Written{path, int64(len(in.Content)), created}, Diff: compare(label(call.Root, path), old, in.Content)}, err
	}
	var in editInput
	if err := Decode(call.Input, &in); err != nil {
		return Reply{}, err
	}
	if err := in.check(); err != nil {
		return Reply{}, err
	}
	r := Reply{Data: Edited{path, *in.Expected}}
	if strings.Contains(old.text, in.Old) {
		r.Diff = compareEdit(label(call.Root, path), old.text, in)
	}
	return r, nil
}
