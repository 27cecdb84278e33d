package supervise

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// sayWhy answers everybody with what it was told.
func sayWhy(l net.Listener, why string) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(nc, why)
		nc.Close()
	}
}

// TestRefuse answers those who wait for a program that gives up at its start
// with its last words, and stops with the set.
func TestRefuse(t *testing.T) {
	missing := program("answer", listener(t))
	missing.Path = "/nowhere/zino-mem"
	for want, p := range map[string]Program{
		"the file is wrong":         program("givesup", listener(t)),
		"no such file or directory": missing,
	} {
		t.Run(want, func(t *testing.T) {
			p.Refuse = sayWhy
			s, _ := run(t, p, &text{}, time.Hour)
			for range 3 { // also after it was started again
				nc, err := net.Dial("unix", p.Socket.Addr().String())
				zinotest.Must(t, err)
				why, err := io.ReadAll(nc)
				nc.Close()
				if err != nil || !strings.HasSuffix(string(why), want) || strings.Contains(string(why), "\n") {
					t.Errorf("answered %q, %v; want %q", why, err, want)
				}
			}
			s.Stop()
		})
	}
}

// TestNoRefusal lets those wait who need a program that was killed.
func TestNoRefusal(t *testing.T) {
	p := program("answer", listener(t))
	p.Refuse = sayWhy
	_, log := run(t, p, &text{}, time.Hour)
	before, _ := who(t, p.Socket.Addr().String())
	kill(t, before, 9)
	log.says(t, "signal: killed")
	if after, _ := who(t, p.Socket.Addr().String()); after == before {
		t.Error("the same process answered")
	}
}

func TestTail(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"one":                   "one",
		"one\ntwo \n\n":         "two",
		"a\n" + long("b") + "c": long("b")[1:] + "c",
	} {
		end := &tail{}
		for _, b := range []byte(text) {
			end.add([]byte{b})
		}
		whole := &tail{}
		if whole.add([]byte(text)); end.line() != want || whole.line() != want {
			t.Errorf("%.20q: got %.20q and %.20q", text, end.line(), whole.line())
		}
	}
}

func long(s string) string { return strings.Repeat(s, tailMax) }
