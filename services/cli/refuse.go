package cli

import (
	"net"
	"strings"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// refusalLimit is for how long a client may take to send its request.
const refusalLimit = 2 * time.Second

// refuser answers in the place of a service that does not start: whoever needs
// it hears why at once.
func refuser(name string) func(l net.Listener, why string) {
	return func(l net.Listener, why string) {
		why = "the service " + name + " does not start: " + strings.TrimPrefix(why, "zino-"+name+": ")
		for {
			nc, err := l.Accept()
			if err != nil {
				return // at the end, and where there is no descriptor left: they wait
			}
			go refuse(nc, name, why)
		}
	}
}

// refuse reads a request and answers it with an error. The next one may find
// the service itself.
func refuse(nc net.Conn, name, why string) {
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(refusalLimit))
	if _, err := wire.NewReader(nc).Next(); err != nil {
		return
	}
	b, err := wire.AppendObject(wire.Begin(nil), "error", &proto.Error{Code: proto.CodeUnavailable, Message: why, Service: name})
	if err == nil && wire.End(b, 0) == nil {
		nc.Write(b) // an error: the caller is gone
	}
}
