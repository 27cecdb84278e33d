// Package approval keeps the requests to allow a call, in approvals.jsonl, and the grants
// that people have given, in grants.toml. Several daemons of a user may share the files.
package approval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	requestsFile = "approvals.jsonl"
	grantsFile   = "grants.toml"

	pendingMax        = 256                 // requests that wait for an answer
	pendingSessionMax = 16                  // those of a session
	keepClosed        = 30 * 24 * time.Hour // how long a closed request is kept
	approvedLife      = 10 * time.Minute    // how long an approved call may begin
)

// ErrTooMany is the error of Add when too many requests wait.
var ErrTooMany = errors.New("too many pending approvals")

// Store keeps requests and grants in a directory. Its file of requests has a line per
// change; the last line of a request counts.
type Store struct {
	Grants
	dir string
	log *slog.Logger
	now func() time.Time

	// Changed is called with each request that was stored, in its new state; nil: not.
	Changed func(proto.Approval)

	mu      sync.Mutex // guards what follows
	root    *os.Root   // nil: the directory has not been opened yet
	file    *durable.File
	mark    durable.Mark
	version durable.Version
	closed  []proto.Approval // no longer pending, by another daemon
	byID    map[string]*proto.Approval
	ids     []string // in the order of their first lines
}

// New returns the store in a directory, which is opened at the first use. env are patterns
// of the variables that a granted command may set.
func New(dir string, env []string, now func() time.Time, log *slog.Logger) *Store {
	s := &Store{dir: dir, log: log, now: now}
	s.Grants = Grants{dir: dir, env: env, now: now, log: log}
	return s
}

// Close closes the file of requests.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return nil
	}
	s.file.Close()
	return s.root.Close()
}

// open opens the directory. mu is locked.
func (s *Store) open() error {
	if s.root != nil {
		return nil
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	s.root = root
	s.file = durable.New(root, requestsFile, durable.Options{KeepOpen: true, Report: func(e durable.Event) {
		s.log.Warn("the file of approvals was repaired", "event", e.String())
	}})
	return nil
}

// Start drops closed requests that are older than keepClosed.
func (s *Store) Start() error {
	return s.update(func(tx *durable.Tx) ([]proto.Approval, error) {
		var kept []proto.Approval
		for _, id := range s.ids {
			a := s.byID[id]
			at, err := time.Parse(time.RFC3339, a.Created)
			if a.State == proto.ApprovalPending || err == nil && s.now().Sub(at) < keepClosed {
				kept = append(kept, *a)
			}
		}
		if len(kept) == len(s.ids) {
			return nil, nil
		}
		return nil, durable.ReplaceWith(s.root, requestsFile, durable.FileMode, func(w io.Writer) error {
			for _, a := range kept {
				line, err := lineOf(a)
				if err != nil {
					return err
				}
				if _, err := w.Write(append(line, '\n')); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// update locks the file, reads what has been added, and stores the requests that fn
// returns. s.byID has the new ones only if it succeeds.
func (s *Store) update(fn func(tx *durable.Tx) ([]proto.Approval, error)) error {
	var stored []proto.Approval
	err := s.commit(func(tx *durable.Tx) (list []proto.Approval, err error) {
		list, err = fn(tx)
		stored = list
		return list, err
	})
	if err == nil && s.Changed != nil {
		for _, a := range stored {
			s.Changed(a)
		}
	}
	return err
}

func (s *Store) commit(fn func(tx *durable.Tx) ([]proto.Approval, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	return s.file.Update(context.Background(), true, func(tx *durable.Tx) error {
		if err := s.read(tx); err != nil {
			return err
		}
		list, err := fn(tx)
		if err != nil || len(list) == 0 {
			return err
		}
		var lines [][]byte
		for _, a := range list {
			line, err := lineOf(a)
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
		if err := tx.Append(lines); err != nil {
			return err
		}
		others := s.closed
		err = s.read(tx)
		s.closed = others
		return err
	})
}

// refresh reads what has been added to the file. mu is locked.
func (s *Store) refresh() error {
	if err := s.open(); err != nil {
		return err
	}
	if s.file.Unchanged(s.version) {
		return nil
	}
	return s.file.View(s.read)
}

// read reads the lines behind the mark.
func (s *Store) read(tx *durable.Tx) error {
	span, err := tx.Span(s.mark)
	if err != nil {
		return err
	}
	before := s.byID
	if span.All || s.byID == nil {
		s.byID, s.ids = map[string]*proto.Approval{}, nil
	}
	for line, err := range durable.ReadLines(tx, span.From, span.To) {
		if err != nil {
			return err
		}
		a, err := parse(line.Text)
		if err != nil {
			s.log.Warn("a line of the file of approvals is ignored", "offset", line.Start, "error", err)
			continue
		}
		if s.byID[a.ID] == nil {
			s.ids = append(s.ids, a.ID)
		}
		if known := before[a.ID]; known != nil && known.State == proto.ApprovalPending && a.State != known.State {
			s.closed = append(s.closed, a)
		}
		s.byID[a.ID] = &a
	}
	s.mark, s.version = span.Next, span.Version
	return nil
}

// States are those of a request.
var States = []string{
	proto.ApprovalPending, proto.ApprovalApproved, proto.ApprovalDenied, proto.ApprovalUsed, proto.ApprovalStale, proto.ApprovalExpired, proto.ApprovalCanceled,
}

// parse reads a line.
func parse(line []byte) (a proto.Approval, err error) {
	if err := wire.DecodeReply(bytes.Clone(line), &a); err != nil {
		return a, err
	}
	_, createdErr := time.Parse(time.RFC3339, a.Created)
	_, expiresErr := time.Parse(time.RFC3339, a.Expires)
	switch {
	case !strings.HasPrefix(a.ID, "ap-"):
		return a, fmt.Errorf("%.40q is not the id of a request", a.ID)
	case !slices.Contains(States, a.State):
		return a, fmt.Errorf("%.40q is not a state", a.State)
	case a.SessionID == "" || a.Turn == "" || a.CallID == "" || a.Digest == "" || a.Call.Tool == "":
		return a, errors.New("the call is not complete")
	case !wire.Valid(a.Call.Input):
		return a, errors.New("the input is not JSON")
	}
	return a, errors.Join(createdErr, expiresErr)
}

func lineOf(a proto.Approval) ([]byte, error) { return wire.AppendObject(nil, "", a) }

// Place is where a call stands.
type Place struct {
	Session, Turn string
	Step          int
	Call          string
}

func (p Place) of(a *proto.Approval) bool {
	return a.SessionID == p.Session && a.Turn == p.Turn && a.Step == p.Step && a.CallID == p.Call
}

// Find returns the last request of a call with a digest.
func (s *Store) Find(p Place, digest string) (proto.Approval, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		s.log.Error("the approvals cannot be read", "error", err)
		return proto.Approval{}, false
	}
	for _, id := range slices.Backward(s.ids) {
		if a := s.byID[id]; p.of(a) && a.Digest == digest {
			return *a, true
		}
	}
	return proto.Approval{}, false
}

// Known returns a request as it was when the file was last read.
func (s *Store) Known(id string) (proto.Approval, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.byID[id]; a != nil {
		return *a, true
	}
	return proto.Approval{}, false
}

// Waiting returns the pending requests of a session and of its sub-agents, as they were when
// the file was last read.
func (s *Store) Waiting(session string) (list []proto.Approval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.ids {
		if a := s.byID[id]; a.State == proto.ApprovalPending && (a.SessionID == session || a.Parent != nil && a.Parent.SessionID == session) {
			list = append(list, *a)
		}
	}
	return list
}

// Get returns a request by its id, or by a prefix that no other has.
func (s *Store) Get(id string) (proto.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return proto.Approval{}, err
	}
	a, err := s.get(id)
	if err != nil {
		return proto.Approval{}, err
	}
	return *a, nil
}

func (s *Store) get(id string) (*proto.Approval, error) {
	if a := s.byID[id]; a != nil {
		return a, nil
	}
	var found *proto.Approval
	for _, known := range s.ids {
		switch {
		case id == "" || !strings.HasPrefix(known, id) && !strings.HasPrefix(known, "ap-"+id):
		case found != nil:
			return nil, proto.Errorf(proto.CodeInvalid, "%s is the beginning of several approvals: use more of its id", id)
		default:
			found = s.byID[known]
		}
	}
	if found == nil {
		return nil, proto.Errorf(proto.CodeNotFound, "no approval %q", id)
	}
	return found, nil
}

// List returns the requests in a state, or in all for "all", the oldest first.
func (s *Store) List(state, session string) (list []proto.Approval, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return nil, err
	}
	for _, id := range s.ids {
		if a := s.byID[id]; (state == "all" || a.State == state) && (session == "" || a.SessionID == session) {
			list = append(list, *a)
		}
	}
	return list, nil
}

// Add stores a new request, which waits for an answer for a time. It sets id, state and times.
func (s *Store) Add(a proto.Approval, wait time.Duration) (proto.Approval, error) {
	now := s.now().UTC()
	a.ID, a.State = proto.NewApprovalID(), proto.ApprovalPending
	a.Created, a.Expires = now.Format(time.RFC3339), now.Add(wait).Format(time.RFC3339)
	err := s.update(func(*durable.Tx) ([]proto.Approval, error) {
		all, own := 0, 0
		for _, other := range s.byID {
			if other.State != proto.ApprovalPending {
				continue
			}
			all++
			if other.SessionID == a.SessionID {
				own++
			}
		}
		if all >= pendingMax || own >= pendingSessionMax {
			return nil, ErrTooMany
		}
		return []proto.Approval{a}, nil
	})
	if err != nil && !errors.Is(err, ErrTooMany) {
		err = fmt.Errorf("cannot store the approval: %w", cause(err))
	}
	return a, err
}

// cause returns the error of the system in err, if there is one.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// Set moves a request from one
// of the states before to another one, and reports whether it was in one of them.
func (s *Store) Set(id, to string, before ...string) (a proto.Approval, changed bool, err error) {
	err = s.update(func(*durable.Tx) ([]proto.Approval, error) {
		known := s.byID[id]
		if known == nil || !slices.Contains(before, known.State) {
			return nil, nil
		}
		a, changed = *known, true
		a.State = to
		return []proto.Approval{a}, nil
	})
	return a, changed && err == nil, err
}

// Cancel cancels the pending requests of a turn.
func (s *Store) Cancel(session, turn string) (canceled []proto.Approval, err error) {
	s.mu.Lock()
	some := false
	for _, a := range s.byID {
		some = some || a.State == proto.ApprovalPending && a.SessionID == session && a.Turn == turn
	}
	s.mu.Unlock()
	if !some { // its own daemon has added it
		return nil, nil
	}
	err = s.update(func(*durable.Tx) ([]proto.Approval, error) {
		canceled = nil
		for _, id := range s.ids {
			if a := *s.byID[id]; a.State == proto.ApprovalPending && a.SessionID == session && a.Turn == turn {
				a.State = proto.ApprovalCanceled
				canceled = append(canceled, a)
			}
		}
		return canceled, nil
	})
	if err != nil {
		return nil, err
	}
	return canceled, nil
}

// Expire closes the pending requests whose time is over.
func (s *Store) Expire() (expired []proto.Approval, err error) {
	now := s.now()
	s.mu.Lock()
	err = s.refresh()
	due := slices.ContainsFunc(s.ids, func(id string) bool { return isDue(s.byID[id], now) })
	s.mu.Unlock()
	if err != nil || !due {
		return nil, err
	}
	err = s.update(func(*durable.Tx) ([]proto.Approval, error) {
		expired = nil
		for _, id := range s.ids {
			if a := *s.byID[id]; isDue(&a, now) {
				a.State = proto.ApprovalExpired
				expired = append(expired, a)
			}
		}
		return expired, nil
	})
	if err != nil {
		return nil, err
	}
	return expired, nil
}

func isDue(a *proto.Approval, now time.Time) bool {
	return a.State == proto.ApprovalPending && isOver(a, now)
}

func isOver(a *proto.Approval, now time.Time) bool {
	at, err := time.Parse(time.RFC3339, a.Expires)
	return err != nil || !now.Before(at)
}

// Approved returns the approved requests of a turn by their calls, as they were when the
// file was last read.
func (s *Store) Approved(session, turn string) (ids map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.ids {
		if a := s.byID[id]; a.State == proto.ApprovalApproved && a.SessionID == session && a.Turn == turn {
			if ids == nil {
				ids = map[string]string{}
			}
			ids[a.CallID] = id
		}
	}
	return ids
}

// Valid reports whether an approved call may begin.
func (s *Store) Valid(a proto.Approval) bool {
	return a.State == proto.ApprovalApproved && !isOver(&a, s.now())
}

// Refresh reads the file and returns the requests that were pending before and no longer
// are: another daemon has closed them. more is false if none is pending.
func (s *Store) Refresh() (closed []proto.Approval, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return nil, true, err
	}
	closed, s.closed = s.closed, nil
	for _, a := range s.byID {
		more = more || a.State == proto.ApprovalPending
	}
	return closed, more, nil
}

// Answer is an answer to a request.
type Answer struct {
	proto.Approve
	By proto.Requester
}

// Answer stores an answer, and the grant that it makes. The first one counts.
func (s *Store) Answer(ans Answer, allowed func(proto.Approval) error, days int) (a proto.Approval, err error) {
	made := ""
	err = s.update(func(*durable.Tx) ([]proto.Approval, error) {
		known, err := s.get(ans.ID)
		if err != nil {
			return nil, err
		}
		a = *known
		if err := allowed(a); err != nil {
			return nil, err
		}
		if err := s.check(&a, ans.Approve); err != nil {
			return nil, err
		}
		now := s.now()
		a.Answer, a.Note, a.Answered, a.AnsweredAt = ans.Answer, ans.Note, &ans.By, now.UTC().Format(time.RFC3339)
		if ans.Answer == proto.AnswerDeny {
			a.State = proto.ApprovalDenied
			return []proto.Approval{a}, nil
		}
		a.State, a.Expires = proto.ApprovalApproved, now.Add(approvedLife).UTC().Format(time.RFC3339)
		if ans.Answer != proto.AnswerOnce {
			g, err := s.newGrant(&a, ans.Pattern, days)
			if err != nil {
				return nil, err
			}
			if err := s.Grants.add(g); err != nil {
				return nil, fmt.Errorf("cannot store the grant: %w", cause(err))
			}
			made, a.Grant = g.ID, g.ID
		}
		return []proto.Approval{a}, nil
	})
	if err == nil {
		return a, nil
	}
	if made != "" {
		if _, err := s.Revoke(func(g proto.Grant) bool { return g.ID == made }); err != nil {
			s.log.Error("a grant whose answer could not be stored remains", "grant", made, "error", err)
		}
	}
	if _, ok := errors.AsType[*proto.Error](err); !ok {
		err = fmt.Errorf("cannot store the answer: %w", cause(err))
	}
	return a, err
}

// widths are the answers from the narrowest.
var widths = []string{proto.AnswerOnce, proto.AnswerSession, proto.AnswerAlways}

// check returns why an answer is not accepted.
func (s *Store) check(a *proto.Approval, req proto.Approve) error {
	width := slices.Index(widths, req.Answer)
	switch {
	case a.State != proto.ApprovalPending:
		return proto.Errorf(proto.CodeInvalid, "%s", closedText(a))
	case isOver(a, s.now()):
		return proto.Errorf(proto.CodeInvalid, "%s expired at %s", a.ID, clock(a.Expires))
	case req.Digest != a.Digest:
		return proto.Errorf(proto.CodeInvalid, "request %s has digest %s; show it again", a.ID, a.Digest)
	case req.Answer != proto.AnswerDeny && width < 0:
		return proto.Errorf(proto.CodeInvalid, "invalid answer %.40q: use once, session, always or deny", req.Answer)
	case width > slices.Index(widths, a.Grantable):
		return proto.Errorf(proto.CodeInvalid, "%s can be allowed at most for: %s", a.ID, a.Grantable)
	case len([]rune(req.Note)) > noteMax:
		return proto.Errorf(proto.CodeInvalid, "the note has more than %d characters", noteMax)
	case req.Pattern != "" && width < 1:
		return proto.Errorf(proto.CodeInvalid, "a pattern belongs to the answers session and always")
	}
	return nil
}

// noteMax limits the characters of a note.
const noteMax = 2000

// closedText says what has become of a request.
func closedText(a *proto.Approval) string {
	switch {
	case a.State == proto.ApprovalExpired:
		return fmt.Sprintf("%s expired at %s", a.ID, clock(a.Expires))
	case a.State == proto.ApprovalCanceled || a.Answered == nil:
		return fmt.Sprintf("%s was %s: its turn has ended", a.ID, a.State)
	case a.State == proto.ApprovalDenied:
		return fmt.Sprintf("%s was denied by %s at %s", a.ID, nameOf(*a.Answered), clock(a.AnsweredAt))
	}
	return fmt.Sprintf("%s was approved by %s at %s", a.ID, nameOf(*a.Answered), clock(a.AnsweredAt))
}

// nameOf returns a user's name and uid, "uid 1003" for one without a name.
func nameOf(r proto.Requester) string {
	if r.User == "" {
		return fmt.Sprintf("uid %d", r.UID)
	}
	return fmt.Sprintf("%s (uid %d)", r.User, r.UID)
}

// clock returns the time of day here of a timestamp.
func clock(timestamp string) string {
	at, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return timestamp
	}
	return at.Local().Format("15:04")
}
