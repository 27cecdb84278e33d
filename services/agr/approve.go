package agr

import (
	"errors"
	"fmt"

	"zino/pkg/catalog"
	"zino/pkg/gate"
	"zino/proto"
)

// answered is the result that the caller sends for a call in place of a grant.
type answered struct{ envelope proto.Raw }

func (a answered) Error() string { return "answered: " + string(a.envelope) }

// approved carries out a call with try: without a grant, and again with one if a person has
// to allow it. There is no second question for a call, besides the one for the token with
// which its MCP server starts.
func (t *turn) approved(c *call, try func(grant string) error) error {
	err := try("")
	for asked := map[bool]bool{}; ; { // whether about its server
		needed := gate.Needed(err)
		switch {
		case needed == nil && (len(asked) == 0 || !errors.Is(err, proto.ErrApproval)):
			return err
		case needed == nil || asked[needed.Kind == proto.ApprovalServer]:
			return proto.Errorf(proto.CodeDenied, "%v", gate.ErrDigest)
		}
		asked[needed.Kind == proto.ApprovalServer] = true
		grant, askErr := t.askPerson(c, needed)
		if askErr != nil {
			return askErr
		}
		err = try(grant)
	}
}

// askPerson waits until the caller has a grant or a result for a call. Calls that run side
// by side ask one after the other.
func (t *turn) askPerson(c *call, needed *proto.ApprovalNeeded) (grant string, err error) {
	without := proto.Errorf(proto.CodeDenied, "%s", gate.WithoutPerson(needed.Call.Tool, needed.Call.Sandbox))
	if t.barrier == nil {
		return "", without
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	if t.stopped != nil { // at the question about another call
		return "", t.stopped
	}
	next, err := t.wait(proto.Checkpoint{Turn: t.req.Turn, Step: c.step, Point: proto.PointApproval, Batch: []string{c.id}, Needed: needed})
	if err != nil {
		t.stopped = err
		return "", err
	}
	if grant := next.Grants[c.id]; grant != "" {
		return grant, nil
	}
	if envelope := next.Results[c.id]; isEnvelope(envelope) {
		return "", answered{envelope}
	}
	return "", without
}

// permit returns nil if a tool that agr itself carries out may be used. It asks a person if
// the policy demands it.
func (t *turn) permit(c *call, tool string) error {
	return t.approved(c, func(grant string) error { return t.permitWith(c, tool, grant) })
}

func (t *turn) permitWith(c *call, tool, grant string) error {
	turn, err := t.guard.Turn(t.token())
	root := t.root()
	if err == nil {
		err = turn.Fits(t.req.SessionID, t.req.Turn, root)
	}
	if err != nil {
		return err
	}
	turn.Session, turn.Turn = t.req.SessionID, t.req.Turn // also without a token
	level, network := t.guard.Level(turn)
	root = gate.Root(root)
	r := gate.Request{
		Turn: turn, Call: gate.Call{Tool: tool, Root: root, Sandbox: level},
		Input: c.input, Root: root, Dir: root, Network: network, Key: t.fullKey(c), Grant: grant, Once: true, Ask: c.ask(),
	}
	if tool == catalog.Remember && t.propose {
		r.Call.Action = "propose"
	}
	return t.guard.Permit(&r)
}

// fullKey identifies a call of a turn; empty without a turn.
func (t *turn) fullKey(c *call) string {
	if t.barrier == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s/%d/%s", t.req.SessionID, t.req.Turn, c.step, c.id)
}
