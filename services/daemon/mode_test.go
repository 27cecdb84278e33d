package daemon

import (
	"testing"
	"time"

	"zino/pkg/gate"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestModeIsSigned checks the mode that a turn gets, and the token of its run.
func TestModeIsSigned(t *testing.T) {
	b := newEnv(t, all())
	for _, tt := range []struct {
		more string
		want gate.Mode
	}{
		{``, gate.Yolo},
		{`,"mode":"ask"`, gate.Asks},
		{`,"mode":"derived"`, gate.Yolo},
		{`,"mode":"derived","sandbox":"workspace-write"`, gate.Auto},
	} {
		b.ask(`{"message":"hi","root":"/r"` + tt.more + `}`)
		runs := b.runs.All()
		turn, err := gate.NewVerifier(b.cfg.Daemon.Socket, b.cfg.Daemon.DataDir).Verify(runs[len(runs)-1].Token, time.Now())
		zinotest.Must(t, err)
		zinotest.Equal(t, "the mode with "+tt.more, turn.Mode, tt.want)
		zinotest.Equal(t, "the root", turn.Root, "/r")
	}
	if e := b.call(`{"type":"turn_start","message":"hi","mode":"root"}`, new(proto.TurnStarted)); e == nil || e.Code != proto.CodeInvalid {
		t.Errorf("an unknown mode: %v", e)
	}
}
