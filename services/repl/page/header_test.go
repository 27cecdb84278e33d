package page

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func testOptions() *Options {
	o := Options{Name: "index-7-zen", ID: "1a2b"}.withDefaults()
	return &o
}

func TestRequest(t *testing.T) {
	const full = "index-7-zen-1a2b"
	for line, want := range map[string]string{
		"> **agent** to " + full + " at 22:52:47":                       "agent|" + full + "|22:52:47|true",
		"> **agent** to " + full + " at 22:52:47 \t":                    "agent|" + full + "|22:52:47|true",
		"> **agent** to index-7-zen at 22:52:47":                        "agent|index-7-zen|22:52:47|true",
		"> **agent** to " + full:                                        "agent|" + full + "||false",
		"> **a b** to " + full + " at 22:52:47":                         "a b|" + full + "|22:52:47|false",
		"> ** a ** to x at 22:52:47":                                    "a|x|22:52:47|true",
		"> **a*b** to x":                                                "a*b|x||false",
		"> **\xff** to x":                                               "\xff|x||false",
		"> **agent** to " + full + " at 22:52:47 (17ms)":                "",
		"> **agent** to " + full + " at 22:52":                          "",
		"> **agent** to " + full + " at 2a:52:47":                       "",
		"> **agent** to " + full + " today":                             "",
		"> **agent** to  " + full:                                       "",
		"> **agent** to ":                                               "",
		"> ** ** to x":                                                  "",
		"> **** to x":                                                   "",
		"> **" + full + "** to agent at 22:52:47":                       "",
		"> **Index-7-Zen** to agent at 22:52:47":                        "",
		"> agent to x at 22:52:47":                                      "",
		">**agent** to x":                                               "",
		" > **agent** to x":                                             "",
		"**agent** to x":                                                "",
		"> **agent** background at 22:52:47":                            "",
		"> **" + strings.Repeat("a", nameMax+1) + "** to x":             "",
		"> **agent** to " + strings.Repeat("x", nameMax+1):              "",
		"> **a** to b at 22:52:47 ** to " + full + " at 22:52:47":       "",
		"> **a** to **b** to x":                                         "",
		"> **agent** to " + full + " at 22:52:47\x00":                   "",
		"> **agent** to " + full + " at 22:52:47" + "\u00a0":            "",
		"> **agent\x1b** to " + full + " at 22:52:47":                   "agent\x1b|" + full + "|22:52:47|true",
		"> **" + strings.Repeat("a", nameMax) + "** to x at 00:00:00":   strings.Repeat("a", nameMax) + "|x|00:00:00|true",
		"> **agent** to " + strings.Repeat("x", nameMax) + "  \t ":      "agent|" + strings.Repeat("x", nameMax) + "||false",
		"> **agent** to " + full + " at 99:99:99":                       "agent|" + full + "|99:99:99|true",
		"> **\u202eagent** to " + full + " at 22:52:47":                 "\u202eagent|" + full + "|22:52:47|true",
		"> **agent** to " + full + " at 22:52:47 at 22:52:47":           "",
		"> **agent** to " + full + " **at** 22:52:47":                   "",
		"> **agent** to " + full + " at  22:52:47":                      "",
		"> **index-7-zen-1a2b** to index-7-zen-1a2b at 22:52:47":        "",
		"> **index-7-zen-1a2b ** to index-7-zen-1a2b at 22:52:47":       "",
		"> **index-7-zen-ffff** to index-7-zen-1a2b at 22:52:47":        "index-7-zen-ffff|" + full + "|22:52:47|true",
		"> **agent** to " + full + " at 22:52:47" + "(**ERROR** after)": "",
	} {
		got := ""
		if h, ok := testOptions().request([]byte(line)); ok {
			got = fmt.Sprintf("%s|%s|%s|%v", h.agent, h.page, h.time, h.exact())
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestMark(t *testing.T) {
	for line, want := range map[string]mark{
		"> **index-7-zen-1a2b** to agent at 22:52:47":                         announces,
		"> **index-7-zen-1a2b** to a b at 22:52:47 \t":                        announces,
		"> **index-7-zen-1a2b** to agent at 22:52:47 (17ms)":                  replies,
		"> **index-7-zen-1a2b** to agent at 22:52:47 (**ERROR** after 60.0s)": replies,
		"> **index-7-zen-1a2b** to x (y) at 22:52:47":                         announces,
		"> **index-7-zen-1a2b** background at 22:52:47":                       reports,
		"> **index-7-zen-1a2b** note at 22:52:47":                             reports,
		"> **index-7-zen** to agent at 22:52:47":                              noMark,
		"> **index-7-zen** to agent at 22:52:47 (17ms)":                       replies,
		"> **Index-7-Zen-1A2B** to agent at 22:52:47 (17ms)":                  replies,
		"> **index-7-zen** note at 22:52:47":                                  noMark,
		"> **index-7-zen-ffff** to agent at 22:52:47 (17ms)":                  noMark,
		"> **index-7-zen-1a2b** to agent":                                     noMark,
		"> **index-7-zen-1a2b** to  at 22:52:47":                              noMark,
		"> **index-7-zen-1a2b** said at 22:52:47":                             noMark,
		"> **index-7-zen-1a2b** ":                                             noMark,
		"> **index-7-zen-1a2b** to agent at 22:52:4x":                         noMark,
		"> **agent** to index-7-zen-1a2b at 22:52:47":                         noMark,
		"index-7-zen-1a2b":                                                    noMark,
	} {
		if got, _ := testOptions().mark([]byte(line)); got != want {
			t.Errorf("%q: %d, want %d", line, got, want)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	for line, want := range map[string]string{
		"executing (0s)": "0", "executing (60s)  ": "60", "executing (00001s)": "00001",
		"executing ()": "", "executing (s)": "", "executing (5)": "", "executing (-1s)": "", "Executing (5s)": "", "executing (5s) x": "",
		"executing (1234567890123s)": "", " executing (5s)": "", "executing ...": "",
	} {
		got, ok := placeholder([]byte(line))
		if got = strings.TrimSpace(got); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v", line, got, ok)
		}
	}
}

// FuzzHeader: nothing panics, no line is both a request and the service's, and
// what the service writes for an agent of any name is understood.
func FuzzHeader(f *testing.F) {
	for _, s := range append(phrases, forged...) {
		f.Add(strings.TrimSpace(s))
	}
	f.Add("> **a** to b at 00:00:00 (x) (y)")
	f.Fuzz(func(t *testing.T, line string) {
		o := testOptions()
		h, asked := o.request([]byte(line))
		if kind, _ := o.mark([]byte(line)); asked && kind != noMark {
			t.Fatalf("%q is a request and mark %d", line, kind)
		}
		if asked && (h.agent == "" || h.page == "" || strings.Contains(h.page, " ")) {
			t.Fatalf("%q: %+v", line, h)
		}
		s := &transition{State: New(*o), now: dawn}
		j := &job{agent: o.agent(line), asked: dawn.Format(time.TimeOnly)}
		if h, ok := o.request([]byte(s.headline(j))); !ok || h.page != o.full() || h.time != j.asked {
			t.Fatalf("the service writes %q", s.headline(j))
		}
		announced := s.appendLine(nil, "to "+oneLine(j.agent))
		if kind, agent := o.mark(announced[:len(announced)-1]); kind != announces || agent != oneLine(j.agent) {
			t.Fatalf("the service writes %q: %d %q", announced, kind, agent)
		}
	})
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 0: "0ms", 999 * time.Microsecond: "0ms", 17 * time.Millisecond: "17ms", 2 * time.Second: "2000ms",
		2001 * time.Millisecond: "2.0s", 2050 * time.Millisecond: "2.0s", 2051 * time.Millisecond: "2.1s", time.Minute: "60.0s", time.Hour: "3600.0s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
