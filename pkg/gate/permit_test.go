package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// newGuard returns a guard with rules of a user, and the key of its daemon.
func newGuard(t *testing.T, rules string) (*Guard, *Signer) {
	t.Helper()
	s, v := keyPair(t)
	_, started, err := uptime()
	zinotest.Must(t, err)
	return &Guard{
		policy: newPolicy(t, "", rules), verifier: v, level: proto.LevelOff, started: started,
		users: map[int]person{}, used: map[string]time.Time{},
	}, s
}

func asked(change func(*Request)) *Request {
	r := &Request{
		Turn: Turn{Session: "s1", Turn: "t-1", Mode: Auto, By: 1, Reachable: true}, Call: Call{Tool: "bash", Command: "make it", Sandbox: proto.LevelOff},
		Input: []byte(`{"command":"make it"}`), Network: true, Key: "s1/t-1/1/c1",
	}
	if change != nil {
		change(r)
	}
	return r
}

func TestPermit(t *testing.T) {
	g, s := newGuard(t, rule("allow", `command = ["go *"]`)+rule("deny", `command = ["rm *"]; reason = "no"`))
	escalates := func(r *Request) { r.Call.Command, r.From = "go test", proto.LevelWorkspaceWrite }
	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   string
	}{
		{"allowed", func(r *Request) { r.Call.Command = "go test" }, ""},
		{"asked", nil, "bash needs an approval"},
		{"denied", func(r *Request) { r.Call.Command = "make it; rm x" }, "denied: no"},
		{"denied in code of a shell", func(r *Request) { r.Call.Tool, r.Call.Command, r.Shell = "execute_sh", "", "rm x" }, "denied: no"},
		{"of no session", func(r *Request) { r.Turn.Session = "" }, "Not allowed without a person: bash at sandbox level off."},
		{"of no turn", func(r *Request) { r.Turn.Turn = "" }, "Not allowed without a person: bash at sandbox level off."},
		{"with no person", func(r *Request) { r.Turn.Reachable = false }, "bash needs an approval"}, // the daemon may have a grant
		{"escalates, although a rule allows it", escalates, "bash needs an approval"},
		{"escalates with no person", func(r *Request) { escalates(r); r.Turn.Reachable = false }, "Not allowed without a person: bash at sandbox level off."},
		{"escalates in mode yolo", func(r *Request) { escalates(r); r.Turn.Mode = Yolo }, "denied: escalate cannot be granted in mode yolo: repeat the command without it"},
		{"escalates, and is denied", func(r *Request) { escalates(r); r.Call.Command = "rm x" }, "denied: no"},
		{"is not JSON", func(r *Request) { r.Input = []byte(`{`) }, "the call cannot be approved: the input of the call is not valid JSON"},
	} {
		got := ""
		err := g.Permit(asked(tt.change))
		if err != nil {
			got = err.Error()
		}
		zinotest.Equal(t, tt.name, got, tt.want)
		if (Needed(err) != nil) != strings.HasSuffix(got, "needs an approval") || err != nil && Needed(err) == nil && !errors.Is(err, proto.ErrDenied) {
			t.Errorf("%s: the code of the error: %#v", tt.name, err)
		}
	}
	n := Needed(g.Permit(asked(nil)))
	token, err := s.SignGrant(GrantToken{Approval: "ap-1", Key: "s1/t-1/1/c1", Digest: n.Digest, Sandbox: proto.LevelOff, Network: true}, time.Now())
	zinotest.Must(t, err)
	with := func(r *Request) { r.Grant, r.Once = token, true }
	zinotest.Must(t, g.Permit(asked(with)))
	for name, change := range map[string]func(*Request){
		"used":             with,
		"denied meanwhile": func(r *Request) { with(r); r.Call.Command = "rm x" },
		"of another key":   func(r *Request) { with(r); r.Key += "0" },
		"of another user":  func(r *Request) { with(r); r.Turn.By = -1; r.Once = false },
		"escalates with a grant for the call": func(r *Request) {
			with(r)
			r.Call.Sandbox = proto.LevelWorkspaceWrite
			r.From = r.Call.Sandbox
			r.Once = false
		},
		"with a file that was not there before": func(r *Request) { with(r); r.Files = []string{"x"}; r.Once = false },
	} {
		if err := g.Permit(asked(change)); !errors.Is(err, proto.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// a process that has started since may have been preceded by one that used it
	g.used = map[string]time.Time{}
	g.started += time.Minute
	if err := g.Permit(asked(with)); !errors.Is(err, proto.ErrDenied) {
		t.Errorf("signed before the start: %v", err)
	}
}

func TestEscalationLevel(t *testing.T) {
	g := &Guard{}
	for _, tt := range []struct {
		level   proto.Level
		network bool
		reason  string
		to      []proto.Level
		want    proto.Level
		online  bool
		denied  bool
	}{
		{proto.LevelWorkspaceWrite, false, "git commit", nil, proto.LevelOff, false, false},
		{proto.LevelWorkspaceWrite, false, " Network: go mod download", nil, proto.LevelWorkspaceWrite, true, false},
		{proto.LevelReadOnly, false, "network", nil, proto.LevelReadOnly, true, false},
		{proto.LevelWorkspaceWrite, true, "network", nil, proto.LevelOff, false, false},
		{proto.LevelUnit, false, "network", nil, "", false, true},
		{proto.LevelUnit, false, "network", []proto.Level{proto.LevelWorkspaceWrite, proto.LevelOff}, proto.LevelWorkspaceWrite, false, false},
	} {
		g.escalateTo = tt.to
		level, network, err := g.Escalate(tt.level, tt.network, tt.reason)
		if level != tt.want || (network != nil && *network) != tt.online || (err != nil) != tt.denied {
			t.Errorf("%s, network %v, %q: %s, %v, %v", tt.level, tt.network, tt.reason, level, network, err)
		}
	}
}
