package chat

import (
	"slices"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
)

// trustChoice is what a person can answer about the files of a project.
const trustChoice = "(y)es, (n)o, (s)how? "

// trust asks about the files of the project that are new or have changed, and then starts
// the turn t. Esc gives its message back.
func (c *chat) trust(t *turn, m message, start func()) {
	if c.root == "" || !c.can(proto.DaemonTrust.Type) {
		start()
		return
	}
	insist(c, proto.DaemonTrust, proto.TrustRequest{Root: c.root}, func(report proto.TrustReport, err error) {
		switch {
		case c.turn != t:
		case err != nil:
			c.warn("no file of the project is used: " + err.Error())
			start()
		case report.Question == "" || t.canceled:
			start()
		default:
			c.askTrust(t, m, report, start)
		}
	})
}

func (c *chat) askTrust(t *turn, m message, report proto.TrustReport, start func()) {
	c.say("%s", safe(report.Question))
	files := slices.DeleteFunc(report.Files, func(f proto.TrustFile) bool {
		return f.SHA256 == "" || f.State != proto.TrustNew && f.State != proto.TrustChanged
	})
	answer := func(trusted bool) func() {
		return func() {
			go func() {
				var err error
				for _, f := range files {
					if _, err = rpc.Call(c.ctx, c.client, proto.DaemonSetTrust, proto.SetTrust{Path: f.Path, SHA256: f.SHA256, Trusted: &trusted}); err != nil {
						break
					}
				}
				c.after(func() {
					switch {
					case c.turn != t:
					case err != nil && rpc.CodeOf(err) == proto.CodeInvalid: // it has changed since it was shown
						c.say("%s", safe(err.Error()))
						c.trust(t, m, start)
					case err != nil:
						c.warn(err.Error())
						start()
					default:
						start()
					}
				})
			}()
		}
	}
	leave := func() {
		if c.turn == t {
			c.turnOver(true, nil)
			c.returnToEditor([]*queued{{message: m}})
		}
	}
	var ask func()
	ask = func() {
		c.choice = &choice{text: trustChoice, guard: &guard{}, keys: map[string]func(){
			"y": answer(true), "n": answer(false), "esc": leave, "ctrl+c": leave, "ctrl+d": leave,
			"s": func() {
				for _, f := range files {
					c.say("%s: %s", safe(home(f.Path)), safe(f.Summary))
					if f.Details != "" {
						c.print(kindLine, c.quoteDetails(f.Details)...)
					}
				}
				ask()
			},
		}}
	}
	ask()
}

// quoteDetails returns the lines of a file's details, indented.
func (c *chat) quoteDetails(details string) (rows []string) {
	for _, row := range c.widths.Wrap(text.Visible(details), max(20, c.proseWidth()-4)) {
		rows = append(rows, "    "+row)
	}
	return rows
}
