package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	messages "zino/pkg/message"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/chat/screen"
)

// showContext prints the parts of what the next turn sends.
func (c *chat) showContext(string) {
	req := proto.Preview{SessionID: c.session, Root: c.root, SystemPrompt: c.request.SystemPrompt, Sandbox: c.request.Sandbox, Network: c.request.Network}
	call(c, proto.DaemonContext, req, func(r proto.ContextReport, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		var lines []string
		for _, part := range r.Parts {
			name := part.Name
			if r.Template != "" && name == "system prompt" {
				name += " (" + home(r.Template) + ")"
			}
			lines = append(lines, fmt.Sprintf("  %9s  %s", grouped(part.Tokens), safe(home(name))))
		}
		total := fmt.Sprintf("  %9s  tokens, estimated", grouped(r.Tokens))
		if window := c.windows[c.model]; window > 0 {
			total += fmt.Sprintf(" · %d %% of %s", r.Tokens*100/window, grouped(window))
		}
		lines = append(lines, total)
		for _, warning := range r.Warnings {
			lines = append(lines, "Warning: "+safe(warning))
		}
		if c.start.Chat.ScreenReader {
			lines = append(lines, screen.Strip(c.status(1000)))
		}
		c.report("/context", lines)
	})
}

// grouped formats a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// showCost prints what session and day have cost, and what is left of the budgets.
func (c *chat) showCost(string) {
	type reports struct{ session, day proto.UsageReport }
	await(c, &query{what: "Asking for the cost"}, func(ctx context.Context) (r reports, err error) {
		if c.session != "" && !c.noSave {
			r.session, err = forwarded(ctx, c, "rtr", proto.RtrUsage, proto.UsageRequest{By: "session", SessionID: c.session})
		}
		if err == nil {
			r.day, err = forwarded(ctx, c, "rtr", proto.RtrUsage, proto.UsageRequest{By: "day", Since: time.Now().Format(time.DateOnly)})
		}
		return r, err
	}, func(r reports, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		lines := []string{usageLine("session", r.session.Total), usageLine("today", r.day.Total)}
		if r.day.PricesOf != "" {
			lines = append(lines, "  estimated with prices of "+safe(r.day.PricesOf))
		}
		budgets := r.day.Budgets
		if r.session.Total.Requests > 0 {
			budgets = r.session.Budgets
		}
		for _, b := range budgets {
			lines = append(lines, c.budgetLine(b))
		}
		c.report("/cost", lines)
	})
}

// usageLine formats a total.
func usageLine(name string, row proto.UsageRow) string {
	u := usage{tokens: row.Usage.InputTokens + row.Usage.OutputTokens, unknown: row.Unpriced > 0}
	if row.Usage.CostUSD != nil {
		u.dollars, u.known = *row.Usage.CostUSD, true
	}
	line := fmt.Sprintf("  %-8s %s · %s tokens", name, text.Count(int(row.Requests), "request"), tokens(u.tokens))
	if u.known || !u.unknown {
		return line + " · " + u.cost()
	}
	return line + " · cost unknown"
}

// budgetLine formats the state of a limit.
func (c *chat) budgetLine(b proto.BudgetState) string {
	amount := func(v float64) string {
		if strings.HasPrefix(b.Name, "usd") {
			return fmt.Sprintf("$%.2f", v)
		}
		return tokens(int64(v))
	}
	line := fmt.Sprintf("  budget   %s: %s of %s", safe(b.Name), amount(b.Spent), amount(b.Limit))
	if b.Reserved > 0 {
		line += ", " + amount(b.Reserved) + " reserved"
	}
	if b.Ends != "" {
		line += ", until " + c.localTime(b.Ends)
	}
	return line
}

// memory finds or adds a memory.
func (c *chat) memory(args string) {
	word, rest, _ := strings.Cut(args, " ")
	switch rest = strings.TrimSpace(rest); {
	case word == "add" && rest == "":
		c.say("/memory add takes the text to remember.")
	case word == "add":
		req := proto.StoreHard{Messages: messages.Close(messages.Append(nil, proto.RoleUser, rest)), SessionID: c.session}
		if c.noSave {
			req.SessionID = ""
		}
		forward(c, "mem", proto.MemStoreHard, req, func(s proto.Stored, err error) {
			if err != nil {
				c.fail(errorOf(err))
				return
			}
			c.say("Remembered as %d.", s.ID)
		})
	case args == "":
		forward(c, "mem", proto.MemListHard, proto.ListHard{Limit: 200}, func(list proto.HardList, err error) {
			if err != nil {
				c.fail(errorOf(err))
				return
			}
			var lines []string
			for _, m := range list.Items {
				line := memoryLine(&m.ID, m.Tag, m.Messages)
				if m.ReplacedBy != nil {
					line += " (replaced)"
				}
				lines = append(lines, line)
			}
			c.memories(lines)
		})
	default:
		most := 20
		forward(c, "mem", proto.MemSearchHard, proto.SearchHard{Query: args, TopK: &most}, func(found proto.HardMemories, err error) {
			if err != nil {
				c.fail(errorOf(err))
				return
			}
			var lines []string
			for _, m := range found.Results {
				lines = append(lines, memoryLine(m.ID, m.Tag, m.Messages))
			}
			c.memories(lines)
		})
	}
}

func (c *chat) memories(lines []string) {
	if len(lines) == 0 {
		c.say("No memory matches.")
		return
	}
	c.report("/memory", lines)
}

// memoryLine formats a memory on a line.
func memoryLine(id *int, tag string, messages proto.Raw) string {
	line := "     -  "
	if id != nil {
		line = fmt.Sprintf("  %4d  ", *id)
	}
	if tag != "" {
		line += "[" + safe(tag) + "] "
	}
	var texts []string
	elements, err := wire.Elements(messages)
	for _, raw := range elements {
		var m struct {
			Content string `json:"content"`
		}
		if err = cmp.Or(err, wire.DecodeReply(raw, &m)); err == nil {
			texts = append(texts, m.Content)
		}
	}
	if err != nil {
		return line + "(cannot be read: " + safe(err.Error()) + ")"
	}
	return line + safe(text.Clip(text.OneLine(strings.Join(texts, " ")), 400))
}

// showTools lists what the model may call in the next turn.
func (c *chat) showTools(string) {
	c.listTools("/tools", "The agent has no tools.", func(_ []proto.Skill, functions string) []string { return toolLines(functions) })
}

// showSkills lists the skills of the tools skill and task.
func (c *chat) showSkills(string) {
	c.listTools("/skills", "The agent has no skills.", func(skills []proto.Skill, functions string) []string {
		return append(folderLines(skills), skillLines(functions)...)
	})
}

// listTools prints what lines returns for the skills and the tools of the next turn.
func (c *chat) listTools(title, none string, lines func(skills []proto.Skill, functions string) []string) {
	req := proto.Preview{SessionID: c.session, Root: c.root, Sandbox: c.request.Sandbox, Network: c.request.Network}
	call(c, proto.DaemonContext, req, func(r proto.ContextReport, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		var list []string
		for _, part := range r.Parts {
			if part.Name == "tools" {
				list = append(list, lines(r.Skills, part.Content)...)
			}
		}
		if len(list) == 0 {
			list = []string{none}
		}
		c.report(title, list)
	})
}

// tool is a function that a model may call.
type tool struct {
	Function struct {
		Name, Description string
		Parameters        struct {
			Properties struct {
				Skill struct { // of the tool task
					Description string
					Enum        []string
				}
			}
		}
	}
}

// toolLines formats the functions that a model may call: name and first sentence.
func toolLines(functions string) []string {
	var list []tool
	if json.Unmarshal([]byte(functions), &list) != nil {
		return outputLines(functions) // tools that are described as text
	}
	var rows [][2]string
	for _, t := range list {
		rows = append(rows, [2]string{t.Function.Name, t.Function.Description})
	}
	return described(rows)
}

// folderLines formats the skills that are folders: name and first sentence.
func folderLines(skills []proto.Skill) []string {
	var rows [][2]string
	for _, s := range skills {
		if s.Usable() {
			rows = append(rows, [2]string{s.Name, s.Description})
		}
	}
	return described(rows)
}

// skillLines formats the skills of the tool task: name and first sentence. The tool's
// description has a line "NAME: TEXT" for each skill that has a description.
func skillLines(functions string) []string {
	var list []tool
	if json.Unmarshal([]byte(functions), &list) != nil {
		return nil
	}
	var rows [][2]string
	for _, t := range list {
		if t.Function.Name != proto.TaskTool {
			continue
		}
		skill := t.Function.Parameters.Properties.Skill
		texts := map[string]string{}
		for line := range strings.Lines(skill.Description) {
			name, about, _ := strings.Cut(line, ": ")
			texts[name] = about
		}
		for _, name := range skill.Enum {
			rows = append(rows, [2]string{name, texts[name]})
		}
	}
	return described(rows)
}

// described formats names with the first sentence of their descriptions.
func described(rows [][2]string) (lines []string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		does, _, _ := strings.Cut(text.OneLine(row[1]), ". ")
		line := fmt.Sprintf("  %-*s  %s", min(width, 30), safe(row[0]), safe(strings.TrimSuffix(does, ".")))
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// show prints an item whole, or the session.
func (c *chat) show(args string) {
	if args == "history" {
		if c.stored() {
			c.zinoWhole("sessions", "show", c.session)
		}
		return
	}
	n, err := strconv.Atoi(args)
	if err != nil {
		c.say("/show takes the number of an item, or history.")
		return
	}
	it, ok, gone := c.items.get(n)
	switch {
	case gone:
		c.say("Item %d is no longer kept: see /export", n)
		return
	case !ok:
		c.say("There is no item %d.", n)
		return
	}
	lines := []string{c.paint(screen.Style{Bold: true}, it.title)}
	for _, line := range it.lines {
		lines = append(lines, "    "+line)
	}
	c.print(kindLine, lines...)
}

// pageTurn shows the last turn in the pager, with nothing folded.
func (c *chat) pageTurn() {
	whole := c.unfolded.String()
	if whole == "" {
		c.say("There is nothing to show yet.")
		return
	}
	c.page(whole)
}

// showServers prints the MCP servers that a turn here can use.
func (c *chat) showServers(string) {
	forward(c, "mcp", proto.MCPServers, proto.ListServers{Root: c.root}, func(list proto.ServerList, err error) {
		switch {
		case errors.Is(err, proto.ErrNotFound), errors.Is(err, proto.ErrDenied):
			c.unavailable("mcp")
		case err != nil:
			c.fail(errorOf(err))
		default:
			c.report("/mcp", serverLines(list))
		}
	})
}

// serverLines lists MCP servers as zino mcp list does, with their problems below.
func serverLines(list proto.ServerList) (lines []string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range list.Servers {
		row := []string{"  " + safe(s.Name), s.Source, s.Transport, s.State}
		if s.Tools > 0 || s.Protocol != "" {
			row = append(row, text.Count(s.Tools, "tool"), safe(s.Protocol))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // to a Builder
	rows := strings.Split(b.String(), "\n")
	for i, s := range list.Servers {
		lines = append(lines, rows[i])
		if s.Problem != "" {
			lines = append(lines, "    "+safe(text.OneLine(s.Problem)))
		}
	}
	if lines == nil {
		lines = []string{"No MCP servers. Add one: zino mcp add NAME -- COMMAND"}
	}
	for _, notice := range list.Notices {
		lines = append(lines, safe(notice))
	}
	return lines
}
