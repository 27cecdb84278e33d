package sys

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestOneSoftMemory checks that mem and the prompt have the same soft memory, whether
// it is set through mem or sys, and after restarts.
func TestOneSoftMemory(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.startMem()
	b.start()
	b.want("")
	b.mem.put("from mem")
	b.want("from mem")
	if got, err := b.set("from sys"); got != "from sys" || err != nil {
		t.Errorf("set: %q, %v", got, err)
	}
	if got := b.mem.stored(); got != "from sys" {
		t.Errorf("mem has %q", got)
	}
	b.mem.put("from mem again")
	if got, err := b.reload(); got != "from mem again" || err != nil {
		t.Errorf("reload: %q, %v", got, err)
	}
	b.stop()
	b.start()
	b.want("from mem again")
}

func TestInitialSoftMemory(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.cfg.Sys.SoftMemory = "initial"
	stopMem := b.startMem()
	b.start()
	b.want("initial")
	b.mem.put("stored")
	b.want("stored")
	stopMem()
	b.want("stored")
	b.startMem()
	b.mem.put("")
	b.want("")
	if b.mem.stored() != "" {
		t.Error("the configured text was written to mem")
	}
}

// TestClearedStaysCleared checks that the configured text is used until a soft memory
// is set, and that an empty one counts as set.
func TestClearedStaysCleared(t *testing.T) {
	for _, tt := range []struct {
		name  string
		clear func(b *env)
	}{
		{"by sys", func(b *env) {
			for _, text := range []string{"x", ""} {
				if _, err := b.set(text); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"by mem, before its first request", func(b *env) { b.mem.put("") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newEnv(t, "%%SOFT_MEMORIES%%")
			b.cfg.Sys.SoftMemory = "initial"
			b.startMem()
			b.start()
			b.want("initial")
			tt.clear(b)
			b.want("")
			b.stop()
			b.start()
			b.want("")
		})
	}
}

// TestOlderMem checks that if mem's answer lacks set, an empty text counts as
// not set until another text was seen.
func TestOlderMem(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.cfg.Sys.SoftMemory, b.mem.older = "initial", true
	b.mem.put("")
	b.startMem()
	b.start()
	b.want("initial")
	b.mem.put("stored")
	b.want("stored")
	b.mem.put("")
	b.want("")
}

func TestSetClears(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.cfg.Sys.SoftMemory = "initial"
	b.startMem()
	b.start()
	if got, err := b.set(""); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	b.want("")
}

// TestWrongType checks that the content must be a string. It does not use the typed
// client, which cannot send other types.
func TestWrongType(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.startMem()
	b.start()
	if _, err := b.set("kept"); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{`5`, `["x"]`, `{}`, `true`} {
		type raw struct {
			Content proto.Raw `json:"content"`
		}
		m := proto.Method[raw, proto.SystemPrompt]{Service: "sys", Type: "set_soft_memory", Reply: "system_prompt"}
		_, err := rpc.Call(t.Context(), b.client, m, raw{proto.Raw(content)})
		if e, ok := err.(*proto.Error); !ok || e.Code != proto.CodeInvalid {
			t.Errorf("content %s: %v, want invalid", content, err)
		}
	}
	b.want("kept")
	if b.mem.stored() != "kept" {
		t.Errorf("mem has %q", b.mem.stored())
	}
}

// TestHandOver checks that a text set while mem is not running is used at once, and
// stored when mem runs again, without another request.
func TestHandOver(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.mem.put("one")
	stopMem := b.startMem()
	b.start()
	b.want("one")
	stopMem()
	for _, text := range []string{"two", "three"} {
		if got, err := b.set(text); got != text || err != nil {
			t.Fatalf("set %s: %q, %v", text, got, err)
		}
	}
	b.want("three")
	if got := b.stats().Info["soft_memory"]; got != "to be stored in mem" {
		t.Errorf("state %q", got)
	}
	if wait := b.server.Retire(time.Nanosecond); wait != time.Nanosecond {
		t.Errorf("the server may exit although mem does not have the text: %v", wait)
	}
	b.startMem()
	zinotest.Eventually(t, "storing the text", func() bool { return b.mem.stored() == "three" })
	b.mem.put("four")
	zinotest.Eventually(t, "using mem's text again", func() bool { return b.get() == "four" })
}

func TestHandOverWithNextPrompt(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.start()
	if _, err := b.set("new"); err != nil {
		t.Fatal(err)
	}
	b.startMem()
	zinotest.Eventually(t, "storing the text", func() bool { b.want("new"); return b.mem.stored() == "new" })
}

func TestHandOverWhenClosing(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.start()
	if _, err := b.set("new"); err != nil {
		t.Fatal(err)
	}
	b.startMem()
	zinotest.Must(t, b.service.Close())
	if got := b.mem.stored(); got != "new" {
		t.Errorf("mem has %q", got)
	}
	zinotest.Must(t, b.service.Close())
}

func TestCloseSaysWhatIsLost(t *testing.T) {
	b := newEnv(t, "")
	b.start()
	if _, err := b.set("secret"); err != nil {
		t.Fatal(err)
	}
	err := b.service.Close()
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// TestMemRefuses checks that a mem that answers with an error counts as reachable.
func TestMemRefuses(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.mem.put("old")
	b.mem.refuse = &proto.Error{Code: proto.CodeInternal, Message: "mem set_soft: no space left on device"}
	b.startMem()
	b.start()
	_, err := b.set("new")
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
	b.want("old")
}

// TestMemHangs checks that a mem that does not answer delays a prompt only until the
// timeout.
func TestMemHangs(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	b.mem.put("known")
	b.startMem()
	b.start()
	b.want("known")
	hang := make(chan struct{})
	b.mem.mu.Lock()
	b.mem.hang = hang
	b.mem.mu.Unlock()
	b.mem.put("new")
	b.want("known")
	if got := b.stats().Info["soft_memory"]; got != "as last known: mem cannot be reached" {
		t.Errorf("state %q", got)
	}
	close(hang)
	b.want("new")
}

// TestMemHangsUp checks that a mem that hangs up during its answer counts as
// unreachable.
func TestMemHangsUp(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	l, err := net.Listen("unix", filepath.Join(b.dir, "m"))
	zinotest.Must(t, err)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			nc.Close()
		}
	})
	b.start()
	if got, err := b.set("new"); got != "new" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	zinotest.Must(t, l.Close())
	accepting.Wait()
	b.startMem()
	zinotest.Eventually(t, "storing the text", func() bool { return b.mem.stored() == "new" })
}

// TestStaleAnswer checks that the answer to a request from before the last set is
// ignored.
func TestStaleAnswer(t *testing.T) {
	s := &softMemory{}
	s.asked = 2
	s.apply(2, proto.SoftMemory{Content: "newer"})
	s.apply(1, proto.SoftMemory{Content: "older"})
	if s.text() != "newer" {
		t.Errorf("got %q", s.text())
	}
	s.supersede()
	s.apply(2, proto.SoftMemory{Content: "asked before a store"})
	if s.text() != "newer" {
		t.Errorf("got %q", s.text())
	}
	s.pending = true
	s.apply(9, proto.SoftMemory{Content: "while one waits"})
	if s.text() != "newer" {
		t.Errorf("got %q", s.text())
	}
}

// TestManySetters checks that after concurrent changes prompt and mem have the
// same text.
func TestManySetters(t *testing.T) {
	b := newEnv(t, "%%SOFT_MEMORIES%%")
	stopMem := b.startMem()
	b.start()
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for j := range 20 {
				if _, err := b.set(fmt.Sprint(i, j)); err != nil {
					t.Error(err)
				}
				if b.get() == "" {
					t.Error("an empty prompt")
				}
			}
		})
	}
	stopMem()
	b.startMem()
	callers.Wait()
	zinotest.Eventually(t, "agreement", func() bool { return b.mem.stored() != "" && b.mem.stored() == b.get() })
}
