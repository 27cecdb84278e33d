package agr

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

const offerSkill = `,"skill":true,"project_skills":[{"dir":"/p/.claude/skills/pdf","sha256":"aa"}]`

// withSkills starts a sys that has the skill pdf, and records what it is asked.
func (e *env) withSkills() *rpctest.Record[proto.GetSkill] {
	var asked rpctest.Record[proto.GetSkill]
	rpctest.New(e.t, "sys", e.cfg.Sys.Socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.SysSkill, func(_ context.Context, req proto.GetSkill) (proto.SkillContent, error) {
			asked.Add(req)
			if req.Name != "pdf" {
				return proto.SkillContent{}, proto.Errorf(proto.CodeNotFound, "no skill %q; there are: pdf", req.Name)
			}
			return proto.SkillContent{Name: "pdf", Dir: "/p/.claude/skills/pdf", Content: "Fill " + req.Arguments + ".\n", Files: []string{"forms.md"}}, nil
		})
	})
	return &asked
}

const skillResult = `{"ok":true,"data":{"name":"pdf","dir":"/p/.claude/skills/pdf","content":"Fill a.pdf.\n","files":["forms.md"]}}`

func TestSkillTool(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "skill", `{"name":" pdf ","arguments":"a.pdf"}`), native("b", "skill", `{"name":"word"}`), native("c", "skill", `{}`), native("d", "skill", `{"name":1}`)), says("Done."))
	asked := e.withSkills()
	e.ask(request(question, inSession+offerSkill))
	e.checkResults(2, "Fill a.pdf.\n", `not_found: no skill "word"; there are: pdf`, `invalid_input: The field "name" is missing.`, "invalid_input: Malformed tool_call JSON: name must be a string")
	want := []proto.GetSkill{
		{Name: "pdf", Arguments: "a.pdf", ProjectSkills: []proto.ProjectSkill{{Dir: "/p/.claude/skills/pdf", SHA256: "aa"}}},
		{Name: "word", ProjectSkills: []proto.ProjectSkill{{Dir: "/p/.claude/skills/pdf", SHA256: "aa"}}},
	}
	got := asked.All()
	if len(got) == 2 && got[0].Name == "word" { // they run side by side
		got[0], got[1] = got[1], got[0]
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sys was asked %+v", got)
	}
}

// TestSkillToolIsOffered: only turns whose prompt names skills have the tool.
func TestSkillToolIsOffered(t *testing.T) {
	t.Parallel()
	e := newEnv(t, says("1"), says("2"), says("3"))
	for _, more := range []string{"", offerSkill, offerSkill + `,"read_only":true`} {
		e.ask(request(question, inSession+more))
	}
	for i, want := range []bool{false, true, true} {
		if got := strings.Contains(string(e.rtr.asked()[i].Tools), `"name":"skill"`); got != want {
			t.Errorf("turn %d: offered is %v", i+1, got)
		}
	}
	if tools := offer(e.cat.Snapshot(), kit{skill: true}); len(tools)-len(offer(e.cat.Snapshot(), kit{})) > 400 {
		t.Errorf("the tool takes %d bytes", len(tools)-len(offer(e.cat.Snapshot(), kit{})))
	}
}

// TestSkillIsARead: the mode plan allows it.
func TestSkillIsARead(t *testing.T) {
	t.Parallel()
	e, _, more := signedEnv(t, gate.Plan, asks("", native("a", "skill", `{"name":"pdf","arguments":"a.pdf"}`)), says("Done."))
	e.withSkills()
	f := e.follow(question, more+offerSkill)
	for {
		_, at := f.until()
		if at.Point == "" {
			break
		}
		f.ok(at, "")
	}
	if got := toolResults(t, e.rtr.asked()[1]); got[0] != skillResult {
		t.Errorf("the model sees %s", got)
	}
}

// TestSkillRecovers: a call that may have run is repeated, even where skills are no longer
// offered.
func TestSkillRecovers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, says("Done."))
	e.withSkills()
	f := e.follow(question, resumed(open("a", "skill", `{"name":"pdf","arguments":"a.pdf"}`, "recover")))
	packets, at := f.until()
	compare(t, packets, begun("a", "skill"), finished("a", "skill", skillResult), checkpoint(4, "infer"))
	f.ok(at, "")
	f.finish()
}

func TestSkillWithoutSys(t *testing.T) {
	t.Parallel()
	e := newEnv(t, asks("", native("a", "skill", `{"name":"pdf"}`)), says("Done."))
	e.ask(request(question, inSession+offerSkill))
	e.checkResults(2, "unavailable: …")
	zinotest.Equal(t, "inferences", len(e.rtr.asked()), 2)
}
