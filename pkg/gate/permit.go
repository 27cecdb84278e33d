package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/realpath"
	"zino/proto"
)

// Request is a call that a service is about to carry out.
type Request struct {
	Turn Turn
	// Call is what the policy decides about. Mode and requester are those of the turn.
	Call Call
	// Shell is code of a shell that the call runs, whose commands are decided as those of
	// bash; empty: none.
	Shell string

	// What an approval holds for, besides the turn, the tool and its level: see Exact.
	Input     []byte
	Root, Dir string
	Network   bool
	Files     []string // nil: those of Files

	Key   string // SESSION/TURN/STEP/CALL
	Grant string // token of an approval; empty: none
	// Once: this service does not record which keys it has carried out.
	Once bool
	// From is the level of the turn, if the call is to run with less confinement than the
	// turn has; empty: it is not.
	From proto.Level
	// Ask is why a hook demands that a person is asked, also if the policy and the mode do
	// not; empty: it does not.
	Ask string
	// Preview completes what a person is shown of the call, and masks it; nil: nothing to do.
	Preview func(*proto.ApprovalPreview)
}

// Beginnings of refusals.
const (
	Denied      = "denied: "                       // by a rule, or in the mode plan
	NeedsPerson = "Not allowed without a person: " // a person would have to allow the call
)

const (
	approvalMax = 1 << 20 // bytes of a call that a person is asked about
	reasonsMax  = 16
)

// WithoutPerson returns the refusal of a call that no person can be asked about.
func WithoutPerson(tool string, level proto.Level) string {
	return fmt.Sprintf("%s%s at sandbox level %s.", NeedsPerson, tool, level)
}

// Permit returns nil if a call may be carried out. Else the error has the code denied, with
// a message for the model, or the code approval: a person must allow the call first, and
// details says what they are asked.
func (g *Guard) Permit(r *Request) error {
	call := r.Call
	who := g.person(r.Turn.By)
	call.Mode, call.UID, call.User, call.Home = r.Turn.Mode, r.Turn.By, who.name, who.home
	calls := []*Call{&call}
	if r.Shell != "" {
		code := call
		code.Tool, code.Command = "bash", r.Shell
		calls = append(calls, &code)
	}
	var d Decision
	for _, c := range calls {
		one := g.policy.Decide(c)
		d.Action, d.Grantable = max(d.Action, one.Action), min(d.Grantable, one.Grantable)
		d.Parts = append(d.Parts, one.Parts...)
	}
	if r.Ask != "" {
		d.Action, d.Grantable = max(d.Action, Ask), GrantOnce
		d.Parts = append(d.Parts, Part{Action: Ask, Rule: "hook", Reason: r.Ask})
	}
	switch {
	case d.Action == Deny:
		i := slices.IndexFunc(d.Parts, func(p Part) bool { return p.Action == Deny })
		p := d.Parts[i]
		if p.Reason == "" {
			p.Reason = p.Rule
		}
		return refuse(Denied + p.Reason)
	case d.Action != Ask && r.From == "":
		return nil
	case r.From != "" && r.Turn.Mode != Asks && r.Turn.Mode != Auto:
		return refuse(fmt.Sprintf("%sescalate cannot be granted in mode %s: repeat the command without it", Denied, r.Turn.Mode))
	case r.Turn.Session == "" || r.Turn.Turn == "", r.From != "" && !r.Turn.Reachable:
		return refuse(WithoutPerson(call.Tool, call.Sandbox))
	}
	exact := Exact{
		Tool: call.Tool, Input: r.Input, Root: r.Root, Dir: r.Dir, Sandbox: call.Sandbox, Network: r.Network,
		Session: r.Turn.Session, Turn: r.Turn.Turn, UID: r.Turn.By, Files: r.Files,
	}
	for _, c := range calls {
		if r.Files != nil {
			break
		}
		files, err := Files(c)
		if err != nil {
			return unverifiable(err)
		}
		exact.Files = append(exact.Files, files...)
	}
	digest, err := exact.Digest()
	if err != nil {
		return unverifiable(err)
	}
	if r.Grant != "" {
		if err := g.granted(r, &exact, digest); err != nil {
			return refuse(err.Error())
		}
		return nil
	}
	return r.ask(&exact, digest, &d)
}

func unverifiable(err error) error {
	return refuse("the call cannot be approved: " + err.Error())
}

func refuse(message string) error { return proto.Errorf(proto.CodeDenied, "%s", message) }

// granted checks the token of the approval of a call.
func (g *Guard) granted(r *Request, exact *Exact, digest string) error {
	now := time.Now()
	t, err := g.verifier.VerifyGrant(r.Grant, now)
	switch {
	case err != nil:
		return err
	case r.Key == "" || t.Key != r.Key:
		return ErrKey
	case t.Digest != digest || t.Sandbox != exact.Sandbox || t.Network != exact.Network:
		return ErrDigest
	case !r.Once:
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, at := range g.used {
		if now.Sub(at) > GrantLife {
			delete(g.used, key)
		}
	}
	if _, used := g.used[r.Key]; used || t.MonoMS < g.started.Milliseconds() {
		return ErrKey // used, or perhaps used by the process before this one
	}
	g.used[r.Key] = now
	return nil
}

// ask returns the error with the code approval.
func (r *Request) ask(exact *Exact, digest string, d *Decision) error {
	needed := proto.ApprovalNeeded{
		Kind: proto.ApprovalCallKind, Digest: digest, Reasons: d.reasons(r.From == ""), Grantable: d.Grantable.String(), From: r.From,
		Call: proto.AskedCall{
			Tool: exact.Tool, Input: exact.Input, Root: exact.Root, Cwd: exact.Dir, Sandbox: exact.Sandbox, Network: exact.Network, Files: exact.Files,
		},
	}
	if needed.Call.Files == nil {
		needed.Call.Files = []string{}
	}
	if r.From != "" {
		needed.Kind, needed.Grantable = proto.ApprovalEscalation, proto.AnswerOnce
		reason := "less confinement"
		if r.From == exact.Sandbox {
			reason = "network"
		}
		needed.Reasons = append([]string{reason}, needed.Reasons...)
	}
	if r.Call.Tool == "bash" || r.Shell != "" {
		for _, p := range d.Parts {
			if p.Command != "" && !slices.Contains(needed.Preview.Commands, p.Command) {
				needed.Preview.Commands = append(needed.Preview.Commands, p.Command)
			}
		}
	}
	if r.Preview != nil {
		r.Preview(&needed.Preview)
	}
	details, err := json.Marshal(needed)
	if err == nil && len(details) > approvalMax {
		err = fmt.Errorf("it has more than %d bytes", approvalMax)
	}
	if err != nil {
		return unverifiable(err)
	}
	return &proto.Error{Code: proto.CodeApproval, Message: exact.Tool + " needs an approval", Details: string(details)}
}

// reasons returns why a person is asked. byMode: also what the mode asks about.
func (d *Decision) reasons(byMode bool) (list []string) {
	for _, p := range d.Parts {
		reason := p.Rule
		switch {
		case p.Action != Ask || len(list) == reasonsMax || p.about != "" && !byMode:
			continue
		case p.about != "":
			reason += ": " + p.about
		case p.Reason != "":
			reason += ": " + p.Reason
		}
		if !slices.Contains(list, reason) {
			list = append(list, reason)
		}
	}
	return list
}

// Escalate returns the level at which a command is to run that asks for less confinement
// than it has, and whether it is to have the network; nil: as the configuration has it. The
// reason is the model's: one that starts with "network" asks for no more than that. The
// error has the code denied.
func (g *Guard) Escalate(level proto.Level, network bool, reason string) (to proto.Level, withNetwork *bool, err error) {
	wantsNetwork := strings.HasPrefix(strings.ToLower(strings.TrimSpace(reason)), "network")
	switch {
	case level == proto.LevelUnit && len(g.escalateTo) == 0:
		return "", nil, refuse(Denied + "escalate is not allowed at sandbox level unit: [gate] escalate_to lists no level")
	case level == proto.LevelUnit:
		return g.escalateTo[0], nil, nil
	case wantsNetwork && !network:
		return level, new(true), nil
	}
	return proto.LevelOff, nil, nil
}

// Needed returns what a person is asked about a call, of the error of Permit; nil: nothing.
func Needed(err error) *proto.ApprovalNeeded {
	e, ok := errors.AsType[*proto.Error](err)
	if !ok || e.Code != proto.CodeApproval {
		return nil
	}
	var n proto.ApprovalNeeded
	if json.Unmarshal([]byte(e.Details), &n) != nil {
		return nil
	}
	return &n
}

// Root returns the root of a turn without symbolic links, as far as this process can see
// them; empty for a path that is not absolute.
func Root(path string) string {
	real, _, err := realpath.Follow(path)
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	return real
}
