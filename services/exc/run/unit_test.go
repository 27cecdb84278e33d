package run

import (
	"bytes"
	"io"
	"net"
	"os"
	"slices"
	"testing"

	"zino/pkg/wire"
)

func TestMayRun(t *testing.T) {
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, 4242: false, 65534: !allUsersSeen()} {
		if got := mayRun(uid); got != want {
			t.Errorf("%d: %v", uid, got)
		}
	}
}

// A request that makes no sense ends the program that got it, and no more.
func TestUnitNonsense(t *testing.T) {
	t.Parallel()
	socket, errs := unitHost(t)
	frame := func(payload string) []byte {
		b, err := wire.AppendFrame(nil, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, request := range map[string][]byte{
		"nothing": nil, "no frame": []byte("GET / HTTP/1.0\r\n\r\n"), "no object": frame("[]"), "another type": frame(`{"type":"ping"}`),
		"no command": frame(`{"type":"run","argv":[],"env":[]}`), "no words": frame(`{"type":"run","argv":"x"}`),
	} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(request)
		conn.(*net.UnixConn).CloseWrite()
		if err := <-errs; err == nil {
			t.Errorf("%s: no error", name)
		}
		conn.Close()
	}
}

// What cannot be run is told.
func TestUnitCannotRun(t *testing.T) {
	t.Parallel()
	socket, _ := unitHost(t)
	for name, tt := range map[string]struct {
		run unitRun
		end End
	}{
		"no such command":   {unitRun{Argv: []string{"zino-no-such-command"}, Env: []string{}}, NotStarted},
		"no such directory": {unitRun{Argv: []string{"true"}, Env: []string{}, Dir: "/gone"}, NotConfined},
		"bad extension":     {unitRun{Argv: []string{"true"}, Env: []string{}, Script: &unitScript{"x", "/../../x"}}, NotConfined},
	} {
		conn, err := dialUnit(t.Context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&packets{w: conn}).send(typeRun, tt.run); err != nil {
			t.Fatal(err)
		}
		payload, err := wire.NewReader(conn).Next()
		var end unitEnd
		if err == nil {
			err = wire.Decode(payload, &end)
		}
		if err != nil || end.result().End != tt.end {
			t.Errorf("%s: %+v, %v", name, end, err)
		}
		conn.Close()
	}
}

func TestTakeUnitFlag(t *testing.T) {
	saved := os.Args
	defer func() { os.Args = saved }()
	for _, tt := range []struct {
		args, left []string
		want       bool
	}{
		{[]string{"zino-exc"}, []string{"zino-exc"}, false},
		{[]string{"--run"}, []string{"--run"}, false},
		{[]string{"zino-exc", "--run", "--config", "f"}, []string{"zino-exc", "--config", "f"}, true},
	} {
		os.Args = slices.Clone(tt.args)
		if got := TakeUnitFlag(); got != tt.want || !slices.Equal(os.Args, tt.left) {
			t.Errorf("%q: %v, left %q", tt.args, got, os.Args)
		}
	}
}

func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"type":"run","argv":["sh","-c",":"],"env":[]}`))
	f.Add([]byte(`{"type":"run","argv":["x"],"env":["A=b"],"dir":"/","script":{"text":"y","extension":".sh"},"limits":["memory"]}`))
	f.Add([]byte(`{"type":"end"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		frame, err := wire.AppendFrame(nil, payload)
		if err != nil {
			return
		}
		if req, err := readRun(bytes.NewReader(frame)); err == nil && len(req.Argv) == 0 {
			t.Errorf("%q: no command", payload)
		}
	})
}

func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"type":"output","stream":"stdout","data":"aGk="}`))
	f.Add([]byte(`{"type":"end","verdict":"exit","number":3,"cpu_ms":1}`))
	f.Add([]byte(`{"type":"end","verdict":"confine","why":"no"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var end ended
		if over, err := take(io.Discard, io.Discard, payload, &end); !over && err == nil && end != (ended{}) {
			t.Errorf("%q: not over, and yet %+v", payload, end)
		}
	})
}
