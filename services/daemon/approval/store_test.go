package approval

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/mask"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"write": writeForever, "full": fillDisk})
	m.Run()
}

// env is a directory with a clock.
type env struct {
	t   *testing.T
	dir string
	log zinotest.Buffer

	mu  sync.Mutex
	now time.Time
}

func newEnv(t *testing.T) *env {
	return &env{t: t, dir: zinotest.Dir(t), now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)}
}

func (e *env) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *env) pass(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = e.now.Add(d)
}

// open opens the store, as a daemon of its own.
func (e *env) open() *Store {
	s := New(e.dir, []string{"LANG"}, e.clock, e.log.Logger())
	e.t.Cleanup(func() { zinotest.Must(e.t, s.Close()) })
	return s
}

func (e *env) lines() int {
	return strings.Count(zinotest.Read(e.t, filepath.Join(e.dir, requestsFile)), "\n")
}

func request(n int, command string) proto.Approval {
	return proto.Approval{
		Kind: proto.ApprovalCallKind, SessionID: "s", Turn: "t-k3v9q2m7xd4a", Step: 1, CallID: fmt.Sprint("c", n), By: proto.Requester{UID: 1000, User: "ann"},
		Call: proto.AskedCall{
			Tool: "bash", Input: fmt.Appendf(nil, `{"command":%q}`, command), Root: "/home/ann/p", Cwd: "/home/ann/p", Sandbox: proto.LevelOff, Network: true, Files: []string{},
		},
		Digest: fmt.Sprint("sha256:", n), Reasons: []string{"mode ask"}, Grantable: proto.AnswerAlways,
	}
}

func (e *env) add(s *Store, a proto.Approval) proto.Approval {
	e.t.Helper()
	a, err := s.Add(a, 24*time.Hour)
	zinotest.Must(e.t, err)
	return a
}

func anyone(proto.Approval) error { return nil }

func answer(s *Store, a proto.Approval, how, pattern string) (proto.Approval, error) {
	return s.Answer(Answer{proto.Approve{ID: a.ID, Digest: a.Digest, Answer: how, Pattern: pattern}, proto.Requester{UID: 1000, User: "ann"}}, anyone, 30)
}

func state(t *testing.T, s *Store, id string) string {
	t.Helper()
	a, err := s.Get(id)
	zinotest.Must(t, err)
	return a.State
}

func TestRequestsSurvive(t *testing.T) {
	e := newEnv(t)
	first := e.open()
	a, b := e.add(first, request(1, "make")), e.add(first, request(2, "ls"))
	_, err := answer(first, b, proto.AnswerDeny, "")
	zinotest.Must(t, err)
	next := e.open()
	list, err := next.List("all", "")
	zinotest.Must(t, err)
	zinotest.Equal(t, "requests", fmt.Sprint(len(list), list[0].ID == a.ID, list[0].State, " ", list[1].State), "2 truepending denied")
	zinotest.Equal(t, "command", string(list[0].Call.Input), `{"command":"make"}`)
	info, err := os.Stat(filepath.Join(e.dir, requestsFile))
	zinotest.Must(t, err)
	zinotest.Equal(t, "permissions", info.Mode().Perm(), os.FileMode(0o600))
	found, ok := next.Find(Place{"s", a.Turn, 1, "c1"}, a.Digest)
	zinotest.Equal(t, "found", fmt.Sprint(ok, found.ID == a.ID), "true true")
	_, ok = next.Find(Place{"s", a.Turn, 2, "c1"}, a.Digest)
	zinotest.Equal(t, "of another step", ok, false)
}

func TestStoreIsShared(t *testing.T) {
	e := newEnv(t)
	one, other := e.open(), e.open()
	a := e.add(one, request(1, "make"))
	zinotest.Equal(t, "the other daemon's", state(t, other, a.ID), proto.ApprovalPending)
	_, err := answer(other, a, proto.AnswerOnce, "")
	zinotest.Must(t, err)
	closed, more, err := one.Refresh()
	zinotest.Must(t, err)
	zinotest.Equal(t, "closed by the other daemon", fmt.Sprint(len(closed), more), "1 false")
	zinotest.Equal(t, "its state", closed[0].State, proto.ApprovalApproved)
}

func TestFirstAnswerCounts(t *testing.T) {
	e := newEnv(t)
	a := e.add(e.open(), request(1, "make"))
	results := make(chan error, 8)
	for i := range 8 {
		s := e.open()
		how := []string{proto.AnswerOnce, proto.AnswerDeny}[i%2]
		go func() {
			_, err := answer(s, a, how, "")
			results <- err
		}()
	}
	won := 0
	for range 8 {
		if err := <-results; err == nil {
			won++
		} else if text := err.Error(); !strings.HasPrefix(text, a.ID+" was ") || !strings.Contains(text, " by ann (uid 1000) at ") {
			t.Errorf("error %q", text)
		}
	}
	zinotest.Equal(t, "answers that counted", won, 1)
	zinotest.Equal(t, "lines", e.lines(), 2)
}

func TestAnswerRefusals(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	a := request(1, "make")
	a.Grantable = proto.AnswerOnce
	a = e.add(s, a)
	for _, test := range []struct {
		req  proto.Approve
		want string
	}{
		{proto.Approve{ID: a.ID, Digest: "sha256:other", Answer: "once"}, "request " + a.ID + " has digest sha256:1; show it again"},
		{proto.Approve{ID: a.ID, Digest: a.Digest, Answer: "yes"}, `invalid answer "yes": use once, session, always or deny`},
		{proto.Approve{ID: a.ID, Digest: a.Digest, Answer: "always"}, a.ID + " can be allowed at most for: once"},
		{proto.Approve{ID: a.ID, Digest: a.Digest, Answer: "deny", Note: strings.Repeat("ü", 2001)}, "the note has more than 2000 characters"},
		{proto.Approve{ID: "ap-zzzzzzzz", Digest: a.Digest, Answer: "once"}, `no approval "ap-zzzzzzzz"`},
	} {
		_, err := s.Answer(Answer{test.req, proto.Requester{UID: 1003}}, anyone, 30)
		zinotest.Equal(t, "error", fmt.Sprint(err), test.want)
	}
	_, err := s.Answer(Answer{proto.Approve{ID: a.ID[:6], Digest: a.Digest, Answer: "deny", Note: strings.Repeat("ü", 2000)}, proto.Requester{UID: 1003}}, anyone, 30)
	zinotest.Must(t, err)
	_, err = answer(s, a, "once", "")
	at := e.now.Local().Format("15:04")
	zinotest.Equal(t, "error", fmt.Sprint(err), a.ID+" was denied by uid 1003 at "+at)
}

func TestLimits(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	for i := range pendingMax {
		a := request(i, "make")
		a.SessionID = fmt.Sprint("s", i/pendingSessionMax)
		e.add(s, a)
		if i == pendingSessionMax-1 {
			_, err := s.Add(a, time.Hour)
			zinotest.Equal(t, "error of a session", err, ErrTooMany)
		}
	}
	_, err := s.Add(request(0, "make"), time.Hour)
	zinotest.Equal(t, "error", fmt.Sprint(err), "too many pending approvals")
}

func TestExpiry(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	a := e.add(s, request(1, "make"))
	e.pass(24*time.Hour - time.Second)
	expired, err := s.Expire()
	zinotest.Must(t, err)
	zinotest.Equal(t, "expired", len(expired), 0)
	e.pass(time.Second)
	_, err = answer(s, a, "once", "")
	zinotest.Equal(t, "error", strings.HasPrefix(fmt.Sprint(err), a.ID+" expired at "), true)
	expired, err = e.open().Expire()
	zinotest.Must(t, err)
	zinotest.Equal(t, "expired", len(expired), 1)
	zinotest.Equal(t, "state", state(t, s, a.ID), proto.ApprovalExpired)
}

func TestApprovedFor10Minutes(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	a, err := answer(s, e.add(s, request(1, "make")), "once", "")
	zinotest.Must(t, err)
	e.pass(10*time.Minute - time.Second)
	zinotest.Equal(t, "valid", s.Valid(a), true)
	e.pass(time.Second)
	zinotest.Equal(t, "valid", s.Valid(a), false)
}

func TestStartDropsOldRequests(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	old := e.add(s, request(1, "make"))
	_, err := answer(s, old, "deny", "")
	zinotest.Must(t, err)
	open := e.add(s, request(2, "make"))
	e.pass(keepClosed)
	recent := e.add(s, request(3, "make"))
	_, err = answer(s, recent, "deny", "")
	zinotest.Must(t, err)
	next := e.open()
	zinotest.Must(t, next.Start())
	zinotest.Equal(t, "lines", e.lines(), 2)
	for _, daemon := range []*Store{s, next, e.open()} {
		list, err := daemon.List("all", "")
		zinotest.Must(t, err)
		zinotest.Equal(t, "requests", fmt.Sprint(len(list), list[0].ID == open.ID, list[1].ID == recent.ID), "2 true true")
	}
	e.add(s, request(4, "make"))
	zinotest.Equal(t, "lines", e.lines(), 3)
}

// TestTornLines cuts the last line at each byte: its change is lost, no other one is.
func TestTornLines(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	a := e.add(s, request(1, "make"))
	before := len(zinotest.Read(t, filepath.Join(e.dir, requestsFile)))
	_, err := answer(s, a, "deny", "")
	zinotest.Must(t, err)
	whole := zinotest.Read(t, filepath.Join(e.dir, requestsFile))
	for end := before; end < len(whole); end += 7 {
		torn := newEnv(t)
		zinotest.Write(t, filepath.Join(torn.dir, requestsFile), whole[:end])
		next := torn.open()
		want := proto.ApprovalPending
		if end == len(whole)-1 { // only the line break is missing
			want = proto.ApprovalDenied
		}
		zinotest.Equal(t, fmt.Sprintf("state with %d of %d bytes", end, len(whole)), state(t, next, a.ID), want)
		torn.add(next, request(2, "ls"))
		zinotest.Equal(t, "lines", torn.lines(), 2)
	}
}

func TestDamagedLinesAreIgnored(t *testing.T) {
	e := newEnv(t)
	a := e.add(e.open(), request(1, "make"))
	path := filepath.Join(e.dir, requestsFile)
	zinotest.Write(t, path, "{\"id\":\"ap-x\"}\nnot JSON\n"+zinotest.Read(t, path)+"{\"id\":\""+a.ID+"\",\"state\":\"approved\"}\n")
	zinotest.Equal(t, "state", state(t, e.open(), a.ID), proto.ApprovalPending)
}

func TestDiskFull(t *testing.T) { zinotest.SmallDisk(t, zinotest.Command(t, "full", t.TempDir())) }

// fillDisk adds and answers requests on a small disk until it is full.
func fillDisk(args []string) error {
	if err := zinotest.Mount(args[0], "size=64k", 0); err != nil {
		return err
	}
	var log zinotest.Buffer
	s := New(args[0], nil, time.Now, log.Logger())
	var last proto.Approval
	var err error
	for n := 0; err == nil; n++ {
		a := request(n, strings.Repeat("x", 5000))
		a.SessionID = fmt.Sprint("s", n)
		if a, err = s.Add(a, time.Hour); err == nil {
			last = a
		}
	}
	if err.Error() != "cannot store the approval: no space left on device" {
		return err
	}
	for { // an answer needs the space that is left
		if _, err = s.Add(request(0, "x"), time.Hour); err != nil {
			break
		}
	}
	_, err = answer(s, last, "always", "")
	if err == nil || !strings.HasSuffix(err.Error(), ": no space left on device") {
		return fmt.Errorf("the answer: %w", err)
	}
	next := New(args[0], nil, time.Now, log.Logger())
	if a, err := next.Get(last.ID); err != nil || a.State != proto.ApprovalPending {
		return fmt.Errorf("behind the error: %s, %w", a.State, err)
	}
	if grants, problems := next.Grants.Grants(); len(grants)+len(problems) > 0 {
		return fmt.Errorf("a grant is left: %v %v", grants, problems)
	}
	return nil
}

// TestKilledWriters kills processes that add and answer requests: what they have reported
// is in the file, and every line of it is a change.
func TestKilledWriters(t *testing.T) {
	e := newEnv(t)
	for range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		answered := map[string]bool{}
		for range 2 {
			wg.Go(func() {
				lines := zinotest.KillAfter(t, zinotest.Command(t, "write", e.dir), 3)
				mu.Lock()
				defer mu.Unlock()
				for _, id := range lines {
					answered[id] = true
				}
			})
		}
		wg.Wait()
		s := e.open()
		list, err := s.List("all", "")
		zinotest.Must(t, err)
		grants, problems := s.Grants.Grants()
		zinotest.Equal(t, "problems", fmt.Sprint(problems), "[]")
		for _, a := range list {
			switch {
			case answered[a.ID] && a.State == proto.ApprovalPending:
				t.Errorf("the answer to %s is lost", a.ID)
			case a.Grant != "" && !slices.ContainsFunc(grants, func(g proto.Grant) bool { return g.ID == a.Grant }):
				t.Errorf("the grant of %s is lost", a.ID)
			}
			delete(answered, a.ID)
			if a.State == proto.ApprovalPending { // of a process that was killed before it answered
				_, err := answer(s, a, "deny", "")
				zinotest.Must(t, err)
			}
		}
		zinotest.Equal(t, "lost requests", len(answered), 0)
	}
	if log := e.log.String(); strings.Contains(log, "ignored") {
		t.Errorf("the log has %s", log)
	}
}

// writeForever adds and answers requests until it is killed. It prints each that is stored.
func writeForever(args []string) error {
	var log zinotest.Buffer
	s := New(args[0], nil, time.Now, log.Logger())
	for i := 0; ; i++ {
		a, err := s.Add(request(i, "make"), time.Hour)
		if err != nil {
			return err
		}
		if _, err := answer(s, a, []string{"once", "deny", "always"}[i%3], ""); err != nil {
			return err
		}
		fmt.Println(a.ID)
	}
}

// TestRedact masks closed requests, also in the lines before their last one, and leaves
// open ones and grants alone.
func TestRedact(t *testing.T) {
	e := newEnv(t)
	s := e.open()
	secret := "gh" + "p_" + zinotest.Random(1, 36, zinotest.Letters)
	closed, err := s.Add(request(1, "curl -u "+secret), time.Hour)
	zinotest.Must(t, err)
	_, _, err = s.Set(closed.ID, proto.ApprovalDenied, proto.ApprovalPending)
	zinotest.Must(t, err)
	plain, err := s.Add(request(2, "make"), time.Hour)
	zinotest.Must(t, err)
	m, err := mask.New(mask.Config{Salt: []byte("salt")})
	zinotest.Must(t, err)
	redact := func(dryRun bool) (list []string) {
		t.Helper()
		zinotest.Must(t, s.Redact(m, dryRun, func(what, id string, n int, left string) {
			list = append(list, strings.TrimSpace(strings.Join([]string{what, id, fmt.Sprint(n), left}, " ")))
		}))
		return list
	}
	before := zinotest.Read(t, filepath.Join(e.dir, requestsFile))
	found := redact(true)
	zinotest.Equal(t, "found", len(found), 1)
	zinotest.Contains(t, "found", found[0], "approval "+closed.ID)
	zinotest.Equal(t, "the file after a dry run", zinotest.Read(t, filepath.Join(e.dir, requestsFile)), before)
	redact(false)
	if text := zinotest.Read(t, filepath.Join(e.dir, requestsFile)); strings.Contains(text, secret) || !strings.Contains(text, "[masked:github:") {
		t.Errorf("the file: %s", text)
	}
	open, err := s.Add(request(3, "curl -u "+secret), time.Hour)
	zinotest.Must(t, err)
	zinotest.Equal(t, "an open request", strings.Join(redact(false), "\n"), "approval "+open.ID+" 1 it is open: answer it first")
	for _, id := range []string{closed.ID, plain.ID, open.ID} {
		for _, store := range []*Store{s, e.open()} {
			a, err := store.Get(id)
			zinotest.Must(t, err)
			zinotest.Equal(t, "masked", strings.Contains(string(a.Call.Input), "[masked:"), id == closed.ID)
		}
	}
}
