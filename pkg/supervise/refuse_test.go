package supervise

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// answerAll sends a reason to every client.
func answerAll(l net.Listener, why string) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(nc, why)
		nc.Close()
	}
}

// TestRefuse checks that clients of a program that fails to start get its last line of
// output.
func TestRefuse(t *testing.T) {
	missing := program("answer", zinotest.Listen(t, ""))
	missing.Path = "/nowhere/zino-mem"
	for want, p := range map[string]Program{
		"the file is wrong":         program("givesup", zinotest.Listen(t, "")),
		"no such file or directory": missing,
	} {
		t.Run(want, func(t *testing.T) {
			p.Refuse = answerAll
			s, _ := run(t, p, new(zinotest.Buffer), time.Hour)
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

// TestNoRefusal checks that clients of a killed program wait for the next process.
func TestNoRefusal(t *testing.T) {
	p := program("answer", zinotest.Listen(t, ""))
	p.Refuse = answerAll
	_, log := run(t, p, new(zinotest.Buffer), time.Hour)
	before, _ := who(t, p.Socket.Addr().String())
	zinotest.Must(t, syscall.Kill(before, 9))
	log.WaitFor(t, "signal: killed")
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
