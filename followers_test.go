package zino_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

const (
	followerCount = 100
	followedText  = 300_000  // bytes: more than the queue of a follower
	followersRSS  = 32 << 20 // bytes that they may cost the daemon: a copy of the text each would be more
	slowRead      = 1 << 10  // bytes that the slow follower reads at a time
)

// throttled reads a little for each tick.
type throttled struct {
	net.Conn
	tick <-chan struct{} // closed at the end
}

func (c throttled) Read(p []byte) (int, error) {
	<-c.tick
	return c.Conn.Read(p[:min(len(p), slowRead)])
}

// stored collects the offsets of the stored packets of turn_follow.
type stored struct{ offsets []int64 }

func (s *stored) add(payload []byte) (typ string, err error) {
	var p struct {
		Type string
		Next int64
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return "", err
	}
	if p.Next > 0 && p.Type != proto.TypeLive && p.Type != "followed" {
		s.offsets = append(s.offsets, p.Next)
	}
	return p.Type, nil
}

// TestManyFollowers has 100 followers on a turn, one process that is stopped, and one
// follower that reads a kilobyte at a time. All must get the same stored packets in
// order, and the daemon must not keep a copy for each.
func TestManyFollowers(t *testing.T) {
	text := strings.Repeat("0123456789", followedText/10)
	provider := fakellm.New(
		fakellm.Turn{Match: "one", Wait: "one", Text: text, Size: 100},
		fakellm.Turn{Match: "many", Wait: "many", Text: text, Size: 100},
	)
	defer provider.Close()
	f := startFleet(t, fmt.Sprintf("provider = \"anthropic\"\nanthropic_base_url = %q\n", provider.Host), "ANTHROPIC_API_KEY=test")
	daemon := &rpc.Client{Service: "daemon", Path: f.socket("daemon")}
	defer daemon.Close()
	root := filepath.Join(f.dir, "work")
	zinotest.Must(t, os.Mkdir(root, 0o700))

	// run carries out a turn with followers and returns the offsets that each has got.
	run := func(message string, count int, ready func(session string)) [][]int64 {
		session := message + "-session"
		_, err := rpc.Call(t.Context(), daemon, proto.DaemonTurnStart, proto.TurnStart{Message: message, SessionID: session, Root: root})
		zinotest.Must(t, err)
		all := make([]stored, count)
		var live, ended sync.WaitGroup
		live.Add(count)
		for i := range all {
			ended.Go(func() {
				once := sync.OnceFunc(live.Done)
				defer once()
				_, err := rpc.CallEvents(t.Context(), daemon, proto.DaemonTurnFollow, proto.TurnFollow{SessionID: session}, func(typ string, payload []byte) error {
					if typ == proto.TypeLive {
						once()
					}
					_, err := all[i].add(payload)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		live.Wait()
		ready(session)
		provider.Open(message)
		ended.Wait()
		var offsets [][]int64
		for _, s := range all {
			offsets = append(offsets, s.offsets)
		}
		return offsets
	}
	run("one", 1, func(string) {})
	before := f.rss("daemon")

	tick := make(chan struct{})
	var attached *zinotest.Process
	slow := make(chan []int64, 1)
	all := run("many", followerCount, func(session string) {
		attached = zinotest.Start(t, program(f.env, "zino", "--socket", f.socket("daemon"), "attach", session))
		attached.Eventually("zino attach shows the message", func() bool { return strings.Contains(attached.Out.String()+attached.Err.String(), "many") })
		attached.Signal(syscall.SIGSTOP)
		nc, err := net.Dial("unix", f.socket("daemon"))
		zinotest.Must(t, err)
		t.Cleanup(func() { nc.Close() })
		request, err := wire.AppendFrame(nil, []byte(`{"type":"turn_follow","session_id":"`+session+`"}`))
		zinotest.Must(t, err)
		_, err = nc.Write(request)
		zinotest.Must(t, err)
		go func() {
			var s stored
			in := wire.NewReader(throttled{nc, tick})
			for typ := ""; typ != "followed"; {
				payload, err := in.Next()
				if err == nil {
					typ, err = s.add(payload)
				}
				if err != nil {
					t.Error(err)
					break
				}
			}
			slow <- s.offsets
		}()
		tick <- struct{}{}
	})
	after := f.rss("daemon")
	t.Logf("RSS of the daemon: %d KiB, then %d KiB", before>>10, after>>10)
	if after > before+followersRSS {
		t.Errorf("the followers cost the daemon %d bytes", after-before)
	}
	close(tick)
	all = append(all, zinotest.Receive(t, "the slow follower", slow))
	for i, offsets := range all {
		if len(offsets) == 0 || !slices.Equal(offsets, all[0]) {
			t.Errorf("follower %d got %v, the first one %v", i, offsets, all[0])
		}
	}
	attached.Signal(syscall.SIGCONT)
	zinotest.Equal(t, "the status of zino attach", attached.Exit(), 0)
	if !strings.Contains(attached.Out.String(), text) {
		t.Errorf("zino attach shows %d bytes, want the whole text", len(attached.Out.String()))
	}
}

// rss returns the resident memory of a service in bytes.
func (f *fleet) rss(name string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := zinotest.Read(f.t, fmt.Sprintf("/proc/%d/status", f.running[name].Process.Pid))
	_, after, _ := strings.Cut(status, "VmRSS:")
	var kib int64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		f.t.Fatal(err)
	}
	return kib << 10
}
