package turnlog

import (
	"fmt"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestJobs checks which jobs are known to run, with wake, after each kind of event.
func TestJobs(t *testing.T) {
	const (
		woken   = `{"type":"tool_use","id":"c1","name":"bash","input":{"command":"make","wake":true},"turn":"t-1","step":1}`
		quiet   = `{"type":"tool_use","id":"c1","name":"bash","input":{"command":"make wake","wake":false},"turn":"t-1","step":1}`
		waits   = `{"type":"tool_use","id":"c2","name":"job","input":{"action":"wait","job":"j-1"},"turn":"t-1","step":2}`
		message = `{"type":"message","role":"user","text":"[job j-1 ended: exit 0]","say":"s-1","via":"job","turn":"t-1"}`
	)
	result := func(id, output string) string { // c1 is of the first inference, c2 of the second
		return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"output":%s,"ok":true,"turn":"t-1","step":%s}`, id, output, id[1:])
	}
	runs := result("c1", `{"ok":true,"data":{"job":"j-1","running":true,"stdout":""}}`)
	for _, tt := range []struct {
		name, want string
		lines      []string
	}{
		{"it goes on", "j-1", []string{woken, runs}},
		{"without wake", "", []string{quiet, runs}},
		{"it has ended", "", []string{woken, result("c1", `{"ok":true,"data":{"job":"j-1","exit_code":0}}`)}},
		{"no result", "", []string{woken, lost}},
		{"a result that is not an object", "", []string{woken, result("c1", `"j-1"`)}},
		{"an input that is not one", "", []string{strings.Replace(woken, `"wake":true`, `"wake":"x"`, 1), runs}},
		{"another tool", "", []string{strings.Replace(woken, "bash", "page_eval", 1), runs}},
		{"waited for, and it runs on", "j-1", []string{woken, runs, waits, result("c2", `{"ok":true,"data":{"job":"j-1","state":"running","running":true}}`)}},
		{"waited for", "", []string{woken, runs, waits, result("c2", `{"ok":true,"data":{"job":"j-1","state":"exited"}}`)}},
		{"waiting fails", "j-1", []string{woken, runs, waits, result("c2", `{"ok":false,"error":{"code":"not_found","message":"no job j-1"}}`)}},
		{"another one has ended", "j-1", []string{woken, runs, waits, result("c2", `{"ok":true,"data":{"job":"j-2","state":"exited"}}`)}},
		{"reported", "", []string{woken, runs, `{"type":"say","say":"s-1","turn":"t-1","mode":"job","job":"j-1","text":"[job j-1 ended: exit 0]"}`, message}},
		{"queued as a turn", "", []string{woken, runs, strings.Replace(queued2, `"say":"s-2"`, `"job":"j-1"`, 1)}},
	} {
		log := logOf(append([]string{meta, started, asked}, tt.lines...)...)
		zinotest.Equal(t, tt.name, strings.Join(log.read().Jobs, " "), tt.want)
		if err := Check("s", log.events()); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	l := logOf(meta, started, asked, final, done1).read()
	zinotest.Equal(t, "the last request", string(l.Request), `{"root":"/p","model":"m"}`)
}
