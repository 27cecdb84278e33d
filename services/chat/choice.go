package chat

import (
	"os"

	"zino/proto"
	"zino/services/chat/input"
)

// choice is a question that one key answers. It takes the place of the editor.
type choice struct {
	text  string
	keys  map[string]func() // by the key's name
	guard *guard            // nil: keys that were typed ahead count
}

func (q *choice) key(c *chat, key input.Key) {
	if do := q.keys[key.Name]; do != nil && (q.guard == nil || q.guard.open) {
		c.choice = nil
		do()
	}
}

// chooseRoot calls then when it is clear in which directory a session goes on: in the present
// one, or in its own if the user says so.
func (c *chat) chooseRoot(s proto.SessionSummary, then func()) {
	if s.Root == "" || c.root == "" || s.Root == c.root || c.start.RootGiven {
		then()
		return
	}
	there := safe(home(s.Root))
	c.say("Session %s is of %s, and this is %s.", safe(shortID(s.SessionID)), there, safe(home(c.root)))
	var ask func()
	ask = func() {
		quit := func() {
			if !c.ready { // else the chat goes on with the session that it has
				c.leave(exitFailed)
			}
		}
		c.choice = &choice{text: "Go on (t)here, (h)ere, or (q)uit? ", keys: map[string]func(){
			"t": func() {
				if info, err := os.Stat(s.Root); err != nil || !info.IsDir() {
					c.say("%s is not there any more.", there)
					ask()
					return
				}
				c.root = s.Root
				then()
			},
			"h": then, "q": quit, "esc": quit, "ctrl+c": quit, "ctrl+d": quit,
		}}
	}
	ask()
}
