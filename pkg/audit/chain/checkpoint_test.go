package chain

import (
	"strings"
	"testing"
	"time"
)

// FuzzSplit checks that checkpoints are split at their ends, and none is opened with another
// key.
func FuzzSplit(f *testing.F) {
	signer, verifier, err := NewKey("host")
	if err != nil {
		f.Fatal(err)
	}
	signed, err := Sign(Checkpoint{Seq: 3, Time: time.Now()}, signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(append(append(signed, '\n'), signed...), '\n'))
	f.Add([]byte("zino-audit/host\n1000\nAAAA\n2026-11-23T10:31:00.123456Z\n\n— zino-audit/host AAAA\n\nzino-audit"))
	f.Add([]byte("\n\n— \n\n"))
	_, other, err := NewKey("host")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		notes, size := Split(data)
		if size > len(data) {
			t.Fatalf("%d of %d bytes", size, len(data))
		}
		total := 0
		for _, n := range notes {
			total += len(n) + 1
			if _, err := Open(n, other); err == nil {
				t.Errorf("%q is signed by another key", n)
			}
			_, _ = Open(n, verifier)
		}
		if total != size {
			t.Errorf("%d bytes of %d", total, size)
		}
	})
}

func TestMachineName(t *testing.T) {
	for name, want := range map[string]string{"host-1.example.com": "host-1.example.com", "": "localhost", "a+b c": "a-b-c"} {
		if got := MachineName(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
		if _, v, err := NewKey(name); err != nil || !strings.HasPrefix(v, "zino-audit/"+want+"+") {
			t.Errorf("%q: %s, %v", name, v, err)
		}
	}
}
