package exc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"zino/pkg/wire"
)

// unitSocket is where the host starts a command in a unit of its own.
const unitSocket = "/run/zino-run/run.sock"

// unitDialLimit is how long the host may take to answer there.
const unitDialLimit = 5 * time.Second

// remote is a command in a unit.
type remote struct {
	*process
	conn           *net.UnixConn
	stdout, stderr io.Writer
}

// dialUnit connects to the socket for units, which must be root's or this
// user's: the code is nobody else's business.
func dialUnit(ctx context.Context, socket string) (*net.UnixConn, error) {
	dialer := net.Dialer{Timeout: unitDialLimit}
	c, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: zino-run.socket of a system installation listens there", err)
	}
	conn := c.(*net.UnixConn)
	uid, err := peerUID(conn)
	if err == nil && uid != 0 && uid != os.Geteuid() {
		err = fmt.Errorf("%s is a socket of user %d: it must be root's", socket, uid)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// startUnit starts j in a unit.
func (s *Service) startUnit(j job, a *arrangement) (*process, error) {
	conn, err := dialUnit(s.ctx, s.sandbox.unit)
	if err != nil {
		return nil, &refusal{levelUnit, err}
	}
	req := unitRun{Argv: j.argv, Env: unitEnviron(j.env), Dir: j.dir, Limits: s.sandbox.limits.Names()}
	if j.script != nil {
		req.Script = &unitScript{j.script.text, j.script.extension}
	}
	if err := (&packets{w: conn}).send(typeRun, req); err != nil {
		return nil, &refusal{levelUnit, errors.Join(err, conn.Close())}
	}
	j.floodMax = s.floodMax
	a.means = append(a.means, "unit")
	r := &remote{process: newProcess(j), conn: conn}
	r.process.stop = r.stop
	r.stdout, r.stderr = r.writers(j)
	go r.follow()
	return r.process, nil
}

// unitEnviron is env for another user: nothing that leads to this one's files.
func unitEnviron(env []string) []string {
	return slices.DeleteFunc(confinedEnviron(env, ""), func(entry string) bool {
		return entry == "HOME=" || entry == "TMPDIR=" || hasName(entry, "USER", "LOGNAME", "PWD", "MAIL", "SHELL")
	})
}

// errSilent says that a unit did not tell what became of its command.
var errSilent = errors.New("the unit of the run broke off, or does not answer: what ran there may go on until the host ends it (systemctl list-units 'zino-run@*')")

// stop asks the unit to end the command. A unit that does not is left to the
// host, which ends it when it has lasted too long (RuntimeMaxSec).
func (r *remote) stop() {
	_ = r.conn.CloseWrite()
	_ = r.conn.SetReadDeadline(time.Now().Add(stopLimit - time.Second))
}

// follow takes what comes from the unit until the end, or until nothing comes
// any more.
func (r *remote) follow() {
	end := report{err: errSilent}
	packets := wire.NewReader(r.conn)
	for {
		payload, err := packets.Next()
		if err != nil {
			break // the unit was ended by the host: the report is lost
		}
		over, err := r.take(payload, &end)
		if err != nil || over {
			break
		}
	}
	_ = r.conn.Close()
	r.done <- end
}

// take takes a packet. The error is that of a unit that speaks nonsense.
func (r *remote) take(payload []byte, end *report) (over bool, err error) {
	typ, err := wire.ReplyType(payload)
	switch {
	case err != nil:
	case typ == typeOutput:
		var o unitOutput
		if err = wire.Decode(payload, &o); err == nil {
			err = r.put(o)
		}
	case typ == typeEnd:
		var e unitEnd
		err = wire.Decode(payload, &e)
		*end, over = e.report(), true
	}
	return over, err
}

// put passes output on.
func (r *remote) put(o unitOutput) error {
	data, err := base64.StdEncoding.DecodeString(o.Data)
	if err != nil {
		return err
	}
	switch o.Stream {
	case "stdout":
		_, err = r.stdout.Write(data)
	case "stderr":
		_, err = r.stderr.Write(data)
	}
	return err
}
