package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/text"
	"zino/proto"
)

// sessionsMax is how many sessions a list has.
const sessionsMax = 200

// resume continues another session: the one that is named, or one that the user picks.
func (c *chat) resume(args string) {
	if args == "" {
		c.pickSession("", false)
		return
	}
	forward(c, "mem", proto.MemFindSession, proto.FindSession{SessionID: args}, func(s proto.SessionSummary, err error) {
		switch {
		case errors.Is(err, proto.ErrNotFound):
			c.say("There is no session %s. /resume lists those of this directory.", safe(args))
		case err != nil:
			c.fail(errorOf(err))
		default:
			c.goTo(s)
		}
	})
}

// findSessions lets the user pick a session that contains words.
func (c *chat) findSessions(words string) { c.pickSession(words, false) }

// found are sessions for a list.
type found struct {
	list     []proto.SessionSummary
	excerpts map[string]string // by id
	all      bool              // not only those of the root
}

// pickSession opens the list of sessions, those of this directory or all; with words
// those that contain them.
func (c *chat) pickSession(words string, all bool) {
	await(c, &query{what: "Looking for sessions"}, func(ctx context.Context) (found, error) {
		return c.listSessions(ctx, words, all)
	}, func(f found, err error) {
		switch {
		case err != nil:
			c.fail(errorOf(err))
			return
		case len(f.list) == 0 && words != "":
			c.say("No session has %s.", safe(words))
			return
		case len(f.list) == 0:
			c.say("There are no sessions.")
			return
		}
		of, other := "Sessions in "+safe(home(c.root)), "all directories"
		if f.all {
			of, other = "Sessions", "this directory"
		}
		width, _ := c.screen.Size()
		p := &picker{title: of + " · type to filter · a: " + other + " · Enter · Esc"}
		for _, s := range f.list {
			p.rows = append(p.rows, c.sessionRow(s, f, width))
		}
		p.toggle = func() { c.pickSession(words, !f.all) }
		p.choose = func(i int) { c.goTo(f.list[i]) }
		c.pick(p)
	})
}

// listSessions asks for sessions. If there are none of this directory, it asks for all.
func (c *chat) listSessions(ctx context.Context, words string, all bool) (f found, err error) {
	req := proto.ListSessions{}
	f.all = all
	if words == "" {
		req.Limit = sessionsMax
	}
	if !all {
		req.Root = c.root
	}
	list, err := forwarded(ctx, c, "mem", proto.MemListSessions, req)
	if err != nil {
		return f, err
	}
	f.list = list.Sessions
	if words != "" {
		hits, err := forwarded(ctx, c, "mem", proto.MemSearchSessions, proto.SearchSessions{Query: words, Limit: sessionsMax})
		if err != nil {
			return f, err
		}
		f.excerpts = map[string]string{}
		for _, hit := range hits.Results {
			f.excerpts[hit.SessionID] = hit.Excerpt
		}
		f.list = slices.DeleteFunc(f.list, func(s proto.SessionSummary) bool { return f.excerpts[s.SessionID] == "" })
	}
	if len(f.list) == 0 && !all {
		return c.listSessions(ctx, words, true)
	}
	return f, nil
}

// sessionRow describes a session on a line.
func (c *chat) sessionRow(s proto.SessionSummary, f found, width int) string {
	when := safe(s.Updated)
	if t, err := time.Parse(time.RFC3339, s.Updated); err == nil {
		when = t.Local().Format("2006-01-02 15:04")
	}
	title := cmp.Or(s.Title, s.Text, "(nothing said)")
	if s.Problem != "" {
		title = "(cannot be read: " + s.Problem + ")"
	}
	if excerpt := f.excerpts[s.SessionID]; excerpt != "" {
		title += " · " + excerpt
	}
	if f.all && s.Root != "" {
		title = home(s.Root) + " · " + title
	}
	count := fmt.Sprintf("%s%*s", text.Count(s.Messages, "message"), 1-min(s.Messages, 2)/2, "")
	cost := ""
	if s.CostUSD != nil {
		cost = fmt.Sprintf("$%.2f", *s.CostUSD)
	}
	tail := fmt.Sprintf("  %12s  %5s", count, cost)
	head := fmt.Sprintf("%-8s  %s  ", safe(text.Clip(shortID(s.SessionID), 20)), when)
	room := max(8, width-3-c.widths.Of(head)-c.widths.Of(tail))
	return head + c.widths.Pad(c.widths.Clip(safe(text.OneLine(title)), room), room) + tail
}

func (c *chat) sessionNames() ([]string, bool) {
	return c.list("sessions "+c.root, listTime, func(ctx context.Context) (names []string, err error) {
		f, err := c.listSessions(ctx, "", false)
		for _, s := range f.list {
			names = append(names, shortID(s.SessionID))
		}
		return names, err
	})
}

// goTo goes on with a session that the user has picked.
func (c *chat) goTo(s proto.SessionSummary) {
	if c.busy() {
		c.say("Wait for the turn to end, or press Esc.")
		return
	}
	c.goOn(s)
}

// newSession begins a new session.
func (c *chat) newSession(string) {
	switch {
	case c.session == "":
		c.say("This is a new session.")
	case c.noSave:
		c.say("New session.")
	default:
		c.say("New session. The old one: /resume %s", safe(shortID(c.session)))
	}
	c.session, c.usage = "", usage{}
	c.retitle("")
}

// fork goes on with a copy of the session.
func (c *chat) fork(string) {
	if !c.stored() {
		return
	}
	old := c.session
	forward(c, "mem", proto.MemForkSession, proto.ForkSession{SessionID: old}, func(s proto.SessionPlace, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		c.session = s.SessionID
		c.say("Going on with a copy. The original: /resume %s", safe(shortID(old)))
	})
}

// export writes the session as Markdown into a file, which must not exist.
func (c *chat) export(args string) {
	if !c.stored() {
		return
	}
	path := c.resolve(args)
	if args == "" {
		name := "zino-" + shortID(c.session)
		path = c.resolve(name + ".md")
		for i := 2; exists(path); i++ {
			path = c.resolve(fmt.Sprintf("%s-%d.md", name, i))
		}
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		c.say("%s is a directory: name a file in it.", safe(home(path)))
	case err == nil:
		c.say("%s exists and was not changed: name another file.", safe(home(path)))
	case strings.HasSuffix(args, "/"):
		c.say("%s is the name of a directory: name a file.", safe(args))
	case !exists(filepath.Dir(path)):
		c.say("There is no directory %s.", safe(home(filepath.Dir(path))))
	default:
		c.zino("sessions", "export", c.session, "--format", "md", "--out", path)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
