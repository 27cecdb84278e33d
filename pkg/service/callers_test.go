package service

import (
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestCallersAreParsed(t *testing.T) {
	own := os.Geteuid()
	first, uids := "root", []int{0}
	if own != 0 {
		first, uids = "root, "+userName(own), []int{0, own}
	}
	for _, test := range []struct {
		list     string
		uids     []int
		gids     []int
		text     string
		problems []string
	}{
		{"", nil, nil, "", nil},
		{" , ,", nil, nil, "", nil},
		{"root, 0", nil, nil, "", nil},
		{"4001,4002, 4001", []int{4001, 4002}, nil, ", uid 4001, uid 4002", nil},
		{"group:root,group:4001", nil, []int{0, 4001}, ", group root, group 4001", nil},
		{"group:root,group:0", nil, []int{0}, ", group root", nil},
		{"zino-nobody", nil, nil, "", []string{`--callers: skipped "zino-nobody": user: unknown user zino-nobody`}},
		{"4001=embed+usage,4002=,4003", []int{4003}, nil, ", uid 4001 (embed, usage), uid 4003", []string{`--callers: skipped "4002=": no method after the =`}},
		{"group:zino-none,4001", []int{4001}, nil, ", uid 4001", []string{`--callers: skipped "group:zino-none": group: unknown group zino-none`}},
		{"group:", nil, nil, "", []string{`--callers: skipped "group:": group: unknown group `}},
		{"-1", nil, nil, "", []string{`--callers: skipped "-1": user: unknown user -1`}},
		{"4294967295", nil, nil, "", []string{`--callers: skipped "4294967295": user: unknown user 4294967295`}},
	} {
		c := callersOf(test.list)
		if !slices.Equal(c.UIDs, append(uids[:len(uids):len(uids)], test.uids...)) || !slices.Equal(c.GIDs, test.gids) {
			t.Errorf("%q: users %v, groups %v", test.list, c.UIDs, c.GIDs)
		}
		if c.Text != first+test.text || !slices.Equal(c.problems, test.problems) {
			t.Errorf("%q: %q, %q", test.list, c.Text, c.problems)
		}
	}
}

// TestCallersAreReported checks the callers in the log, in the stats, and in the error
// for a refused user.
func TestCallersAreReported(t *testing.T) {
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Args = append(c.Args, "--callers", "4001,group:4002,zino-nobody")
	c.start().listening()
	const problem = `--callers: skipped "zino-nobody": user: unknown user zino-nobody`
	c.WaitFor(strconv.Quote(problem))
	client := &rpc.Client{Service: "mem", Path: c.socket}
	defer client.Close()
	stats, err := rpc.Call(t.Context(), client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	if !strings.HasSuffix(stats.Info["callers"], ", uid 4001, group 4002") || !slices.Contains(stats.Problems, problem) {
		t.Errorf("callers %q, problems %q", stats.Info["callers"], stats.Problems)
	}
	if os.Geteuid() != 0 {
		return // only root can become another user
	}
	zinotest.Must(t, errors.Join(os.Chmod(filepath.Dir(c.socket), 0o755), os.Chmod(c.socket, 0o666)))
	for uid, want := range map[int]string{4001: `{"type":"pong",`, 4003: `"uid 4003 may not call mem on mem.sock. Those who may: root, uid 4001, group 4002","code":"denied"`} {
		want = strings.ReplaceAll(want, "mem.sock", c.socket)
		if got := pingAs(t, uid, c.socket); !strings.Contains(got, want) {
			t.Errorf("uid %d: %s, want %s", uid, got, want)
		}
	}
	c.WaitFor("caller refused")
}

// pingAs sends a ping from a thread that becomes another user and then ends.
func pingAs(t *testing.T, uid int, socket string) (answer string) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with this goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			done <- errno
			return
		}
		nc, err := net.Dial("unix", socket)
		if err != nil {
			done <- err
			return
		}
		defer nc.Close()
		b := make([]byte, 4096)
		_, writeErr := nc.Write([]byte("\x00\x00\x00\x0f{\"type\":\"ping\"}"))
		n, err := nc.Read(b)
		answer = string(b[:n])
		done <- errors.Join(writeErr, err)
	}()
	zinotest.Must(t, <-done)
	return answer
}

func TestUserNameWithoutEntry(t *testing.T) {
	root, err := user.LookupId("0")
	zinotest.Must(t, err)
	for uid, want := range map[int]string{0: root.Username, 4001999: "uid 4001999"} {
		if got := userName(uid); got != want {
			t.Errorf("userName(%d) = %q, want %q", uid, got, want)
		}
	}
}
