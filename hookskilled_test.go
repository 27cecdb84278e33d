package zino_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/proto"
)

// hookVictims are the services whose end ends the hooks of an event.
var hookVictims = map[string][]string{
	proto.HookSessionStart: {"daemon", "exc"},
	proto.HookUserPrompt:   {"daemon", "exc"},
	proto.HookPreTool:      {"daemon", "agr", "exc"},
	proto.HookPostTool:     {"daemon", "agr", "exc"},
	proto.HookStop:         {"daemon", "exc"},
}

// TestKilledHooks kills a service while a hook of each event of a turn runs. No process of
// the hook is left, the turn is done, and its call has run once.
func TestKilledHooks(t *testing.T) {
	provider := fakellm.New(
		fakellm.Turn{Match: "begin", Times: fakellm.Forever, Calls: []fakellm.Call{{Name: "bash", Args: `{"command":"echo once >>ran"}`}}},
		fakellm.Turn{Match: `"ok":`, Times: fakellm.Forever, Text: "That was it."},
	)
	defer provider.Close()
	dir := zinotest.Dir(t)
	mark := "hooks of " + filepath.Base(dir)
	zinotest.WriteFiles(t, dir, map[string]string{
		"hook.sh": fmt.Sprintf("cd \"$ZINO_ROOT\"\necho $1 >>events\nmv block-$1 blocked 2>/dev/null || exit 0\nexport KILLED=\"%s $ZINO_SESSION_ID\"\nexec sh %s/hold.sh\n", mark, dir),
		"hold.sh": escape + ": >held\nsleep 10009\n",
	})
	var settings strings.Builder
	settings.WriteString(fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host))
	for event := range hookVictims {
		settings.WriteString(fmt.Sprintf("[[hooks.%s]]\ncommand = \"sh %s/hook.sh %[1]s\"\ntimeout = 600\n", event, dir))
	}
	k := &killedServers{dir: dir, fleet: startFleet(t, settings.String(), "ANTHROPIC_API_KEY=test")}
	for event, victims := range hookVictims {
		for _, victim := range victims {
			t.Run(event+" "+victim, func(t *testing.T) {
				session := strings.ToLower(event + "-" + victim)
				k.root = filepath.Join(dir, session)
				zinotest.Must(t, os.Mkdir(k.root, 0o700))
				zinotest.Write(t, filepath.Join(k.root, "block-"+event), "")
				started := make(chan struct{})
				go func() { // it is answered when the message is stored, behind the first hooks
					defer close(started)
					k.start(t, session, "begin "+session)
				}()
				var hook []int
				zinotest.Eventually(t, "the hook and what it started run", func() bool {
					hook = having(mark + " " + session)
					return exists(filepath.Join(k.root, "held")) && len(hook) >= 4
				})
				k.fleet.kill(victim)
				zinotest.Eventually(t, "no process of the hook is left", func() bool {
					return !slices.ContainsFunc(hook, func(pid int) bool { return !zinotest.Gone(pid) })
				})
				<-started
				k.finish(t, session)
				zinotest.Equal(t, "runs of the call", zinotest.Read(t, filepath.Join(k.root, "ran")), "once\n")
				zinotest.Equal(t, "the result was recorded", k.lastResult(t, session).OK, true)
				runs := strings.Fields(zinotest.Read(t, filepath.Join(k.root, "events")))
				if n := len(slices.DeleteFunc(slices.Clone(runs), func(run string) bool { return run != event })); n > 2 {
					t.Errorf("the hook ran %d times: %v", n, runs)
				}
			})
		}
	}
	for i, r := range provider.Requests() {
		if err := r.Legal(); err != nil {
			t.Errorf("request %d was not legal: %v\n%s", i, err, r.Body)
		}
	}
}
