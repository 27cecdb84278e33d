package chat

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/approval"
	"zino/proto"
	"zino/services/chat/input"
)

// Modes decide which calls of a turn a person is asked about.
const (
	modePlan    = "plan"
	modeAsk     = "ask"
	modeAuto    = "auto"
	modeYolo    = "yolo"
	modeDerived = "derived" // the daemon takes auto or yolo, by the sandbox level
)

// modes are the modes in the order of Shift-Tab.
var modes = []string{modePlan, modeAsk, modeAuto, modeYolo}

// modeMeans says what happens in a mode.
var modeMeans = map[string]string{
	modePlan: "nothing is changed, the answer is a plan. /go carries it out",
	modeAsk:  "you are asked before each command and each change",
	modeAuto: "you are asked before what the sandbox does not confine",
	modeYolo: "you are not asked",
}

// modeDenies says what is denied in a mode as long as the daemon cannot ask.
var modeDenies = map[string]string{
	modeAsk:  "commands and changes are denied",
	modeAuto: "what the sandbox does not confine is denied",
}

// modeState is the mode of the next turns.
type modeState struct {
	chosen  string // by the user; "": derived
	choices int    // how often one was chosen
	before  string // chosen before plan
	first   bool   // this is the user's first chat
	open    string // the mode of the open turn
	taken   taken
	choice  *guard // of the choice at the end of a plan; nil: it is not shown
}

// taken is what the daemon has made of a turn's options.
type taken struct {
	chosen, sandbox string // the options
	mode            string // "": the daemon named none
}

func newModeState(start *proto.ChatStart) modeState {
	_, err := os.Stat(filepath.Join(start.Base, "chat_history"))
	return modeState{chosen: start.Mode, first: errors.Is(err, fs.ErrNotExist)}
}

// hasApprovals reports whether the daemon can ask a person about a call.
func (c *chat) hasApprovals() bool { return c.can(proto.DaemonApprove.Type) }

// needModes reports whether turns have modes, for a command or key. Without them it says so.
func (c *chat) needModes() bool {
	if !c.modes && c.methods != nil { // else the daemon is not known yet: see learnMode
		c.unavailable("approvals")
		return false
	}
	return true
}

// unavailable says that the daemon lacks what a command needs.
func (c *chat) unavailable(what string) {
	c.say("Not available: this daemon has no %s (version %s).", what, cmp.Or(safe(c.version), "unknown"))
}

// gate returns what a request says about approvals: the mode, and that a person can be
// asked.
func (c *chat) gate() (mode string, reachable bool) {
	if !c.modes {
		return "", false
	}
	return cmp.Or(c.mode.chosen, modeDerived), c.hasApprovals()
}

// options returns what a turn's mode follows from.
func (c *chat) options() taken {
	return taken{chosen: c.mode.chosen, sandbox: string(c.request.Sandbox)}
}

// took records the mode that the daemon has taken for a turn.
func (c *chat) took(options taken, mode string) {
	if mode != "" {
		options.mode = mode
		c.mode.taken, c.mode.open = options, mode
	}
}

// currentMode returns the mode of the next turn; "": there are no modes, or the level that
// derives it is not known.
func (c *chat) currentMode() string {
	m := &c.mode
	last := m.taken
	last.mode = ""
	switch {
	case !c.modes:
		return ""
	case m.taken.mode != "" && last == c.options():
		return m.taken.mode
	case m.chosen != "":
		return m.chosen
	case c.sandbox == "":
		return ""
	case c.sandbox == string(proto.LevelOff):
		return modeYolo
	}
	return modeAuto
}

// modeSign returns what the status line begins with; "": nothing.
func (c *chat) modeSign() string {
	if mode := c.currentMode(); mode != modeAuto {
		return strings.ToUpper(safe(mode))
	}
	return ""
}

// learnMode drops a chosen mode that the daemon does not know, now that the daemon is
// known. In a user's first chat it says how to change the mode.
func (c *chat) learnMode() {
	if c.modes {
		c.introduceMode()
		return
	}
	if c.mode.chosen != "" && c.mode.chosen != modeYolo {
		c.unavailable("approvals")
	}
	c.mode.chosen = ""
}

// introduceMode says how to be asked, or how to have nothing changed, once.
func (c *chat) introduceMode() {
	if !c.mode.first {
		return
	}
	c.mode.first = false
	how := "To be asked first: /mode ask, or Shift-Tab."
	if !c.hasApprovals() {
		how = "To have nothing changed: /plan, or Shift-Tab."
	}
	if c.currentMode() == modeYolo {
		c.say("Commands run without asking (mode yolo). %s", how)
	}
}

// chooseMode sets the mode of the next turns.
func (c *chat) chooseMode(mode string) {
	m := &c.mode
	if mode == modePlan && m.chosen != modePlan {
		m.before = m.chosen
	}
	m.chosen, m.choice = mode, nil
	m.choices++
}

// changeMode has the open turn go on in the chosen mode, from its next step on.
func (c *chat) changeMode() {
	t := c.turn
	if !c.changesMode() || t.id == "" { // it is not started yet: see begin
		return
	}
	before := c.mode.open
	c.mode.open = c.mode.chosen
	call(c, proto.DaemonTurnMode, proto.TurnMode{SessionID: t.session, Turn: t.id, Mode: c.mode.chosen}, func(now proto.TurnStarted, err error) {
		switch {
		case c.turn != t: // it has ended: the mode is that of the next one
		case err != nil:
			c.mode.open = before
			c.fail(errorOf(err))
		case now.Mode != "":
			c.mode.open = now.Mode
		}
	})
}

// changesMode reports whether the mode of the open turn can change.
func (c *chat) changesMode() bool {
	return c.turn != nil && !c.turn.command && !c.isPlain() && c.can(proto.DaemonTurnMode.Type)
}

// modeDelay is how long Shift-Tab rests before the open turn gets the mode: on the way from
// auto to plan it must not go through yolo.
const modeDelay = 700 * time.Millisecond

// nextMode is Shift-Tab.
func (c *chat) nextMode() {
	if !c.needModes() {
		return
	}
	i := slices.Index(modes, cmp.Or(c.mode.chosen, c.currentMode()))
	c.chooseMode(modes[(i+1)%len(modes)])
	if n := c.mode.choices; c.changesMode() {
		time.AfterFunc(modeDelay, func() {
			c.after(func() {
				if c.mode.choices == n {
					c.changeMode()
				}
			})
		})
	}
	if c.start.Chat.ScreenReader || c.mode.chosen == modeAsk && !c.hasApprovals() { // it has no status line, or that does not say enough
		c.sayMode()
	}
}

func (c *chat) sayMode() {
	mode := cmp.Or(c.currentMode(), c.mode.chosen)
	means := modeMeans[mode]
	if denied := modeDenies[mode]; denied != "" && !c.hasApprovals() {
		means = denied + ": this daemon cannot ask you yet"
	}
	if means == "" {
		c.say("The mode follows from the sandbox level.")
		return
	}
	when := ""
	switch {
	case c.changesMode():
		when = " from the next step on"
	case c.turn != nil:
		when = " from the next turn on"
	}
	c.say("Mode %s%s: %s.", mode, when, means)
}

// setMode is /mode.
func (c *chat) setMode(args string) {
	if !c.needModes() {
		return
	}
	if args != "" && !slices.Contains(modes, args) {
		c.refuse("unknown mode %q: use %s", args, strings.Join(modes, ", "))
		return
	}
	if args != "" {
		c.chooseMode(args)
		c.changeMode()
	}
	c.sayMode()
}

// plan is /plan.
func (c *chat) plan(string) { c.setMode(modePlan) }

// carryOut is the message that follows a plan.
const carryOut = "Carry out the plan."

// carryOutPlan is /go: it leaves plan mode and has the plan carried out. During a turn it
// waits here: what waits at the daemon has the options of the open turn.
func (c *chat) carryOutPlan(string) {
	if !c.needModes() {
		return
	}
	if c.currentMode() != modePlan {
		c.refuse("There is no plan to carry out: /plan begins one.")
		return
	}
	c.chooseMode(c.mode.before)
	if c.turn != nil {
		c.queued = append(c.queued, &queued{message: c.messageOf(carryOut), mode: proto.ViaQueue})
		return
	}
	c.send(carryOut)
}

// planned is called when a turn has ended: one in plan mode ends with the choice what to do
// with the plan.
func (c *chat) planned() {
	if c.turn != nil || c.mode.open != modePlan || c.currentMode() != modePlan {
		return // with a turn: the next one, which waited
	}
	c.mode.choice = &guard{}
	if c.start.Chat.ScreenReader {
		c.say("%s", strings.Join(planChoices, ", "))
	}
}

var planChoices = []string{"1 carry it out", "2 keep planning"}

// planRows returns the rows of the choice, which stands in the place of the editor.
func (c *chat) planRows(width, _ int) (rows []string, row, column int) {
	wait := guardTime
	if c.editor.Empty() {
		wait = 0
	}
	c.appeared(c.mode.choice, wait)
	if c.start.Chat.ScreenReader {
		return []string{"Answer: "}, 0, len("Answer: ")
	}
	rows = c.choiceRows(planChoices, width-1)
	return rows, len(rows) - 1, 0
}

// planKey handles a key while the choice is shown. It reports whether the key was an
// answer: any other one goes on with the editor.
func (c *chat) planKey(key input.Key) bool {
	open := c.mode.choice.open
	c.mode.choice = nil
	switch {
	case open && key.Name == "1":
		c.carryOutPlan("")
	case open && (key.Name == "2" || key.Name == "esc"):
	default:
		return false
	}
	return true
}

// showApprovals is /approvals.
func (c *chat) showApprovals(string) {
	if !c.hasApprovals() {
		c.unavailable("approvals")
		return
	}
	call(c, proto.DaemonApprovals, proto.ListApprovals{}, func(list proto.ApprovalList, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		lines := []string{"No approvals are pending."}
		if len(list.Approvals) > 0 {
			lines = nil
		}
		for _, a := range list.Approvals {
			line := "  " + safe(a.ID) + "  " + askedLine(&a.Call)
			if len(a.Reasons) > 0 {
				line += "  (" + safe(strings.Join(a.Reasons, "; ")) + ")"
			}
			if a.SessionID != "" && a.SessionID != c.session {
				line += "  session " + safe(shortID(a.SessionID))
			}
			lines = append(lines, c.wrap(line)...)
		}
		c.print(kindLine, lines...)
		c.showGrants()
	})
}

// showGrants prints what is allowed for a session or for always.
func (c *chat) showGrants() {
	if !c.can(proto.DaemonGrants.Type) {
		return
	}
	call(c, proto.DaemonGrants, proto.ListGrants{}, func(list proto.GrantList, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		lines := []string{"Nothing is allowed for a session or for always."}
		if len(list.Grants) > 0 {
			lines = []string{"Allowed without asking (zino approvals revoke ID takes it back):"}
		}
		for _, g := range list.Grants {
			line := safe("  " + g.ID + "  " + approval.Granted(&g, home))
			if g.Scope == proto.AnswerSession && g.Session != c.session {
				line += "  session " + safe(shortID(g.Session))
			}
			lines = append(lines, c.wrap(line)...)
		}
		c.print(kindLine, lines...)
	})
}
