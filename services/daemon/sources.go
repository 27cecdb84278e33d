package daemon

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/daemon/slash"
	"zino/services/daemon/trust"
)

// sourceTimeout limits the listing of the commands of another service, which may be absent,
// or start for it.
const sourceTimeout = 2 * time.Second

// skillCommands returns the skills that a person may use as commands.
func (s *Service) skillCommands(ctx context.Context, project trust.Project) (list []slash.Command) {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	prompt, err := rpc.Call(ctx, s.sys, proto.SysGet, proto.GetPrompt{Session: true, SystemPrompt: new(""), ProjectSkills: project.Skills})
	if err != nil {
		s.log.Warn("skills are not listed as commands", "error", err, "trace", rpc.Trace(ctx))
		return nil
	}
	for _, skill := range prompt.Skills {
		if !skill.Usable() || skill.ModelOnly || !slash.Name.MatchString(skill.Name) {
			continue
		}
		list = append(list, slash.Command{
			Name: skill.Name, Path: skill.Dir, Description: skill.Description, Hint: skill.ArgumentHint, Source: proto.CommandSkill,
			Text: func(ctx context.Context, arguments string) (string, []proto.FileData, error) {
				got, err := rpc.Call(ctx, s.sys, proto.SysSkill, proto.GetSkill{Name: skill.Name, Arguments: arguments, Command: true, ProjectSkills: project.Skills})
				if err != nil {
					return "", nil, err
				}
				return fmt.Sprintf("Follow the skill %s. Paths in it are relative to its folder, %s.\n\n%s", got.Name, got.Dir, got.Content), nil, nil
			},
		})
	}
	return list
}

// promptCommands returns the prompts of MCP servers that are known, as /mcp__SERVER__PROMPT.
func (s *Service) promptCommands(ctx context.Context, root string, project trust.Project) (list []slash.Command) {
	if !s.servers.Any() && len(project.MCP) == 0 {
		return nil
	}
	listing, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	prompts, err := rpc.Call(listing, s.mcp, proto.MCPPrompts, proto.ListPrompts{Root: root, Project: project.MCP})
	if err != nil { // it runs only where a server is configured
		return nil
	}
	for _, p := range prompts.Prompts {
		var hint []string
		for _, a := range p.Arguments {
			name := text.Clip(text.VisibleLine(a.Name), 40)
			if !a.Required {
				name = "[" + name + "]"
			}
			hint = append(hint, name)
		}
		list = append(list, slash.Command{
			Name: promptName(p.Server, p.Name), Description: text.VisibleLine(text.OneLine(p.Description)), Hint: strings.Join(hint, " "), Source: proto.CommandMCP,
			Text: func(ctx context.Context, arguments string) (string, []proto.FileData, error) {
				values, err := promptArguments(p.Arguments, slash.Words(arguments))
				if err != nil {
					return "", nil, err
				}
				token, err := s.serverToken(ctx, p.Server, root)
				if err != nil {
					return "", nil, err
				}
				got, err := rpc.Call(ctx, s.mcp, proto.MCPPrompt, proto.GetMCPPrompt{Server: p.Server, Name: p.Name, Arguments: values, Root: root, Project: project.MCP, ServerToken: token})
				return got.Text, got.Attachments, err
			},
		})
	}
	return list
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

func promptName(server, prompt string) string {
	return "mcp__" + notInName.ReplaceAllString(server, "_") + "__" + notInName.ReplaceAllString(prompt, "_")
}

// promptArguments gives words to the arguments of a prompt in their order; the last one gets
// the rest.
func promptArguments(list []proto.PromptArgument, words []string) (map[string]string, error) {
	values := map[string]string{}
	for i, a := range list {
		switch {
		case i < len(words) && i == len(list)-1:
			values[a.Name] = strings.Join(words[i:], " ")
		case i < len(words):
			values[a.Name] = words[i]
		case a.Required:
			return nil, proto.Errorf(proto.CodeInvalid, "the argument %s is missing: %s", text.VisibleLine(a.Name), text.VisibleLine(text.OneLine(a.Description)))
		}
	}
	return values, nil
}
