package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

func TestUnitCallers(t *testing.T) {
	uids := unitCallers().UIDs
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, 4242: false, 65534: !allUsersSeen()} {
		zinotest.Equal(t, fmt.Sprint(uid), slices.Contains(uids, uid), want)
	}
}

// A malformed request is an error, and the unit ends when its caller is gone.
func TestUnitConformance(t *testing.T) {
	t.Parallel()
	socket, errs := unitHost(t)
	rpctest.Conformance(t, socket, []rpctest.Case{
		{Request: `{"type":"run","argv":[],"env":[]}`, Code: "invalid", Message: "argv is empty…"},
		{Request: `{"type":"run","argv":"x"}`, Code: "invalid", Message: "Invalid request: …"},
		{Request: `{"type":"run","env":[]}`, Code: "invalid", Message: "Invalid request: …"},
	})
	for range len(errs) {
		zinotest.Must(t, <-errs)
	}
}

// A unit that cannot run a command says why, and runs no second one.
func TestUnitCannotRun(t *testing.T) {
	t.Parallel()
	socket, _ := unitHost(t)
	for name, tt := range map[string]struct {
		run proto.RunCommand
		end End
	}{
		"no such command":   {proto.RunCommand{Argv: []string{"zino-no-such-command"}, Env: []string{}}, NotStarted},
		"no such directory": {proto.RunCommand{Argv: []string{"true"}, Env: []string{}, Dir: "/gone"}, NotConfined},
		"bad extension":     {proto.RunCommand{Argv: []string{"true"}, Env: []string{}, Script: &proto.RunScript{Text: "x", Extension: "/../../x"}}, NotConfined},
	} {
		c := &rpc.Client{Service: "run", Path: socket}
		end, err := rpc.Call(t.Context(), c, proto.UnitRun, tt.run)
		if err != nil || unitResult(end).End != tt.end {
			t.Errorf("%s: %+v, %v", name, end, err)
		}
		if _, err := rpc.Call(t.Context(), c, proto.UnitRun, tt.run); !errors.Is(err, proto.ErrInvalid) {
			t.Errorf("%s: the second command: %v", name, err)
		}
		c.Close()
	}
}

// A unit that hangs up or violates the protocol is an error. One that does not know
// how its command ended reports that.
func TestUnitBreaksOff(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing": "", "no object": "[]", "malformed": `{"type":"output","stream":1}`, "not base64": `{"type":"output","stream":"stdout","data":"!"}`,
		"unknown verdict": `{"type":"end","verdict":"other"}`,
	} {
		if answer != "" {
			answer = rpctest.Frame(answer)
		}
		p, err := Start(&Cmd{Args: []string{"true"}, Unit: rpctest.Raw(t, "", answer), Output: &Output{}})
		zinotest.Must(t, err)
		r, err := p.Wait(t.Context())
		if unknown := name == "unknown verdict"; unknown != (err == nil) || r.End != Lost || err != nil && !strings.Contains(err.Error(), "broke off") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestTakeUnitFlag(t *testing.T) {
	saved := os.Args
	defer func() { os.Args = saved }()
	for _, tt := range []struct {
		args, left []string
		want       string
	}{
		{[]string{"zino-exc"}, []string{"zino-exc"}, ""},
		{[]string{"--run"}, []string{"--run"}, ""},
		{[]string{"zino-exc", "--run", "--config", "f"}, []string{"zino-exc", "--config", "f"}, "--run"},
		{[]string{"zino-exc", "--pipe"}, []string{"zino-exc"}, "--pipe"},
	} {
		os.Args = slices.Clone(tt.args)
		if got := TakeUnitFlag(); got != tt.want || !slices.Equal(os.Args, tt.left) {
			t.Errorf("%q: %v, left %q", tt.args, got, os.Args)
		}
	}
}

// FuzzReadRun: the files of a request stay in its directory.
func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"type":"run","argv":["sh","-c",":"],"env":[]}`))
	f.Add([]byte(`{"type":"run","argv":["x"],"env":["A=b"],"dir":"/","script":{"text":"y","extension":".sh"},"limits":["memory"]}`))
	f.Add([]byte(`{"type":"run","argv":["x"],"env":[],"home":"` + strings.Repeat("0", 64) + `","home_max":1048576}`))
	f.Add([]byte(`{"type":"run","argv":["x"],"env":[],"home":"../` + strings.Repeat("0", 61) + `","home_max":1048576}`))
	f.Add([]byte(`{"type":"end"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var req proto.RunCommand
		if wire.Decode(payload, &req) != nil {
			return
		}
		dir := t.TempDir()
		homes := filepath.Join(dir, "homes")
		zinotest.Must(t, os.Mkdir(homes, 0o700))
		c, err := UnitCmd(req, dir, homes)
		if err == nil && req.Home != "" && (filepath.Dir(c.Plan.Home) != homes || !IsHome(filepath.Base(c.Plan.Home))) {
			t.Errorf("%q: the home is %s", payload, c.Plan.Home)
		}
		if err == nil && c.Script != nil && filepath.Dir(c.Script.File) != filepath.Join(dir, "code") {
			t.Errorf("%q: the code is in %s", payload, c.Script.File)
		}
	})
}

// FuzzTake: a packet of a unit is written to a stream, or is an error, or ignored.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"type":"output","stream":"stdout","data":"aGk="}`))
	f.Add([]byte(`{"type":"end","verdict":"exit","number":3,"cpu_ms":1}`))
	f.Add([]byte(`{"type":"end","verdict":"confine","why":"no"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		o := &Output{Max: 100}
		o.begin(nil)
		err := o.packet(proto.TypeOutput, payload)
		if written := o.stdout.total + o.stderr.total; err != nil && written > 0 {
			t.Errorf("%q: %d bytes, %v", payload, written, err)
		}
		var end proto.RunEnd
		if wire.DecodeReply(payload, &end) == nil {
			if r := unitResult(end); r.End == Lost && (r.Number != 0 || r.Reason != "") {
				t.Errorf("%q: %+v", payload, r)
			}
		}
	})
}
