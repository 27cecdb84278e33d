package agr

import (
	"errors"
	"strings"

	"zino/pkg/rpc"
	"zino/proto"
)

// skillTool returns the instructions of a skill that the prompt names.
var skillTool = tool{
	function: function{
		"skill", "Returns a skill's instructions, and the files beside them in dir: read shows those, bash runs scripts.",
		encode(texts("name", "The skill.").with("arguments", property{Type: "string", Description: "What it is to work on."})),
	},
	required: []string{"name"}, reads: true, recover: repeat, gate: "skill", call: (*turn).useSkill,
}

func (t *turn) useSkill(_ *call, f fields) result {
	name, err := f.text("name")
	arguments, argumentsErr := f.text("arguments")
	if err := errors.Join(err, argumentsErr); err != nil {
		return malformedCall(err)
	}
	content, err := rpc.Call(t.ctx, t.sys, proto.SysSkill, proto.GetSkill{
		Name: strings.TrimSpace(name), Arguments: arguments, ProjectSkills: t.req.ProjectSkills,
	})
	if err != nil {
		return failed(err)
	}
	return result{data: success(content)}
}
