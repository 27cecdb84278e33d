package turnlog

import (
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestCheckAcceptsLegalLogs(t *testing.T) {
	for name, w := range map[string]*written{
		"empty":                  logOf(),
		"without turns":          logOf(meta, `{"type":"message","role":"user","text":"a"}`, `{"type":"tool_use","id":"a","name":"read","input":{}}`),
		"a turn":                 logOf(meta, started, asked, said, used, used2, usage, result, result2, steer, given, final, usage2, done1),
		"interrupted":            logOf(started, asked, steer, queued2, said, used, lost, partial, stopped, ended1, back1, ended2),
		"failed, then a new one": logOf(started, asked, failure, failed1, queued2, start2, asked2),
		"parked":                 logOf(started, asked, said, used, used2, usage, result, parked, resumed, result2, cont1),
		"crashed twice":          logOf(started, asked, resumed, resumed, said, usage),
		"another session":        logOf(foreign, foreign, started, asked),
	} {
		if err := Check("s", w.events()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckReportsIllegalEvents(t *testing.T) {
	for _, c := range []struct {
		want  string
		lines []string
	}{
		{`turn t-1 goes from "" to "done"`, []string{done1}},
		{`turn t-1 goes from "done" to "resumed"`, []string{started, asked, done1, resumed}},
		{`turn t-1 goes from "queued" to "done"`, []string{strings.Replace(started, "running", "queued", 1), done1}},
		{`turn t-1 goes from "running" to "running"`, []string{started, started}},
		{`turn t-2 starts while t-1 is running`, []string{started, asked, queued2, start2}},
		{"message of turn t-1, which is done", []string{started, asked, done1, final}},
		{"message of turn t-1, which is parked", []string{started, asked, limited, final}},
		{"tool_use of turn t-2, which is queued", []string{queued2, strings.Replace(used, "t-1", "t-2", 1)}},
		{"message before the result of call c1", []string{started, asked, used, final}},
		{"turn t-1 ends without a result of call c1", []string{started, asked, used, ended1}},
		{"two calls c1 without result", []string{started, asked, used, used}},
		{"result of c1, which is not an open call", []string{started, asked, used, result, result}},
		{"result of step 1 for call c1 of step 2", []string{started, asked, strings.Replace(used, `"step":1`, `"step":2`, 1), result}},
		{"step 1 of turn t-1 is used again", []string{started, asked, used, result, said}},
		{"step 1 of turn t-1 is used again", []string{started, asked, final, said}},
		{"say s-1 is delivered, but it is not waiting", []string{started, asked, given}},
		{"say s-1 is delivered, but it is not waiting", []string{started, asked, steer, given, given}},
		{"say s-1 is stored twice", []string{started, asked, steer, steer}},
		{"say s-1 of turn t-1, which is done", []string{started, asked, done1, steer}},
		{"turn t-1 is done, but s-1 was not delivered", []string{started, asked, steer, final, done1}},
		{"not withdrawn: s-1", []string{started, asked, steer, ended1}},
		{"turn t-2 starts before these are withdrawn: s-1", []string{started, asked, steer, ended1, queued2, start2, back1}},
		{"turn t-1 is parked with the pending call c2, which is not open", []string{started, asked, parked}},
		{"turn event: field", []string{`{"type":"turn","turn":{}}`}},
		{"say event: field", []string{`{"type":"say","say":{}}`}},
	} {
		err := Check("s", logOf(c.lines...).events())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check of %s:\n%v, want %s", strings.Join(c.lines, "\n"), err, c.want)
		}
	}
	err := Check("s", logOf(meta, done1).events())
	zinotest.Equal(t, "the offset", err.Error(), `75: turn t-1 goes from "" to "done"`)
}
