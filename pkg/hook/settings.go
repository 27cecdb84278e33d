package hook

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"zino/pkg/text"
	"zino/proto"
)

// settingsMax limits the bytes of a settings file.
const settingsMax = 1 << 20

// settings are the hooks of a settings file; all else in it is ignored.
type settings struct {
	Hooks map[string][]struct {
		Matcher string `json:"matcher"`
		Hooks   []struct {
			Type      string   `json:"type"`
			Command   string   `json:"command"`
			Timeout   *float64 `json:"timeout"`
			OnFailure string   `json:"onFailure"`
		} `json:"hooks"`
	} `json:"hooks"`
}

// ParseSettings returns the hooks of a settings file such as .claude/settings.json, in the
// order of the events and of the file. problems names what is not used; a file that cannot
// be read has no hooks and one problem.
func ParseSettings(content []byte, file, source string) (list []proto.Hook, problems []string) {
	file = text.VisibleLine(file)
	if len(content) > settingsMax {
		return nil, []string{fmt.Sprintf("%s: its hooks are not used: it has more than %d bytes", file, settingsMax)}
	}
	var s settings
	if err := json.Unmarshal(content, &s); err != nil {
		return nil, []string{text.VisibleLine(fmt.Sprintf("%s: its hooks are not used: %v", file, err))}
	}
	var foreign []string // what Zino has no use for
	skip := func(what string) {
		if what = text.VisibleLine(text.Clip(what, nameMax)); !slices.Contains(foreign, what) {
			foreign = append(foreign, what)
		}
	}
	for event := range s.Hooks {
		if !slices.Contains(proto.HookEvents, event) {
			skip("event " + event)
		}
	}
	for _, event := range proto.HookEvents {
		for _, group := range s.Hooks[event] {
			for _, h := range group.Hooks {
				switch {
				case h.Type != "command":
					skip("type " + h.Type)
					continue
				case strings.TrimSpace(h.Command) == "" || strings.ContainsRune(h.Command, 0):
					skip("a hook without a command")
					continue
				case len(list) == hooksMax:
					skip("more than 1000 hooks")
					continue
				}
				one := proto.Hook{
					Event: event, Matcher: group.Matcher, Command: h.Command, TimeoutMS: TimeoutDefault, OnFailure: proto.HookAllow,
					Source: source, File: file,
				}
				if h.OnFailure == proto.HookBlock {
					one.OnFailure = proto.HookBlock
				}
				if h.Timeout != nil && *h.Timeout > 0 {
					one.TimeoutMS = int64(math.Min(math.Max(*h.Timeout*1000, TimeoutMin), TimeoutMax))
				}
				list = append(list, one)
			}
		}
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		problems = append(problems, text.Clip(file+": not used: "+strings.Join(foreign, ", "), 500))
	}
	return list, problems
}
