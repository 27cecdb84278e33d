// Package fakedaemon is a daemon for tests of its clients, for what the real services
// cannot be made to do. It answers at a real socket, the test decides what a turn sends
// and when, and every request is recorded.
//
//	d := fakedaemon.New(t)
//	d.Remove("turn_say")                                   // as an older daemon
//	d.Answer("approve", func(r fakedaemon.Request) string { … })
//	… start: zino --socket d.Socket, type a message …
//	turn := d.Turn()                                       // that is followed now
//	turn.Send(`{"type":"assistant_delta","text":"Hel"}`)
//	turn.End("done")
//	sent := d.Request("turn_start")                        // waits for it
package fakedaemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// Request is a request that was received.
type Request struct {
	Type   string // "" for a plain chat request
	Raw    string
	Fields map[string]any
}

// String returns a field of type string; "" if it is absent.
func (r Request) String(field string) string {
	s, _ := r.Fields[field].(string)
	return s
}

// JSON returns the fields without type and meta, sorted by name.
func (r Request) JSON() string {
	fields := maps.Clone(r.Fields)
	delete(fields, "type")
	delete(fields, "meta")
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Daemon is the fake daemon.
type Daemon struct {
	Socket string

	t testing.TB

	mu       sync.Mutex
	version  string
	methods  map[string]func(Request) string // nil: answered by the daemon itself
	order    []string                        // of the methods in describe
	requests []Request
	taken    map[string]int // how many requests of a type Request has returned
	conns    map[net.Conn]bool
	started  int                // turns
	begun    map[string]Request // turn_start by turn

	turns chan *Turn
}

// New serves a daemon with all methods that the chat uses until the test ends.
func New(t testing.TB) *Daemon {
	t.Helper()
	d := &Daemon{
		t: t, version: "0.1.3", methods: map[string]func(Request) string{},
		taken: map[string]int{}, conns: map[net.Conn]bool{}, begun: map[string]Request{}, turns: make(chan *Turn, 64),
	}
	for _, typ := range []string{"ping", "describe", "turn_follow"} {
		d.add(typ, nil)
	}
	d.add("turn_start", d.turnStart)
	d.add("turn_say", func(r Request) string {
		mode := r.String("mode")
		if mode == "" {
			mode = proto.ViaSteer
		}
		return object("type", "said", "session_id", r.String("session_id"), "turn", r.String("turn"), "say", "s-1", "mode", mode, "position", 1)
	})
	d.add("turn_cancel", func(r Request) string {
		return object("type", "turn", "session_id", r.String("session_id"), "turn", r.String("turn"), "state", "interrupted")
	})
	d.add("turn_mode", func(r Request) string {
		return object("type", "turn", "session_id", r.String("session_id"), "turn", r.String("turn"), "state", "running", "mode", r.String("mode"))
	})
	d.add("turns", func(Request) string { return `{"type":"turn_list","turns":[]}` })
	d.add("forward", func(r Request) string { return d.forward(r) })
	d.add("approvals", func(Request) string { return `{"type":"approval_list","approvals":[]}` })
	d.add("approve", func(r Request) string {
		state := "approved"
		if r.String("answer") == "deny" {
			state = "denied"
		}
		return object("type", "approval", "id", r.String("id"), "digest", r.String("digest"), "state", state)
	})
	d.add("grants", func(Request) string { return `{"type":"grant_list","grants":[]}` })
	d.add("revoke_grant", func(Request) string { return `{"type":"grant_list","grants":[]}` })
	l := zinotest.Listen(t, "")
	d.Socket = l.Addr().String()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return // closed
			}
			d.mu.Lock()
			d.conns[nc] = true
			d.mu.Unlock()
			all.Go(func() {
				defer nc.Close()
				d.serve(nc)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		d.HangUp()
		all.Wait()
	})
	return d
}

// object returns a JSON object of keys and values in turn.
func object(pairs ...any) string {
	b := []byte("{")
	for i := 0; i < len(pairs); i += 2 {
		value, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err)
		}
		b = append(fmt.Appendf(b, "%q:", pairs[i]), value...)
		b = append(b, ',')
	}
	b[len(b)-1] = '}'
	return string(b)
}

func (d *Daemon) add(typ string, answer func(Request) string) {
	d.methods[typ] = answer
	d.order = append(d.order, typ)
}

// SetVersion sets the version in the answer to ping.
func (d *Daemon) SetVersion(version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version = version
}

// Remove removes methods: describe does not list them, and they are answered with the
// error unknown.
func (d *Daemon) Remove(types ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, typ := range types {
		delete(d.methods, typ)
	}
	d.order = slices.DeleteFunc(d.order, func(typ string) bool { return slices.Contains(types, typ) })
}

// Answer sets the answer of a method: one packet. "SERVICE.TYPE" is a method that is
// reached through forward.
func (d *Daemon) Answer(typ string, answer func(Request) string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.methods[typ]; !known && !strings.Contains(typ, ".") {
		d.order = append(d.order, typ)
	}
	d.methods[typ] = answer
}

// Error returns the packet of an error.
func Error(code proto.Code, message string) string {
	return object("type", "error", "code", code, "message", message)
}

// Requests returns the requests of a type so far.
func (d *Daemon) Requests(typ string) (list []Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.requests {
		if r.Type == typ {
			list = append(list, r)
		}
	}
	return list
}

// Request waits for the next request of a type.
func (d *Daemon) Request(typ string) (r Request) {
	d.t.Helper()
	zinotest.Eventually(d.t, "a request of type "+typ, func() bool {
		list := d.Requests(typ)
		d.mu.Lock()
		defer d.mu.Unlock()
		n := d.taken[typ]
		if n >= len(list) {
			return false
		}
		d.taken[typ], r = n+1, list[n]
		return true
	})
	return r
}

// Turn waits for the next turn_follow or plain chat request.
func (d *Daemon) Turn() *Turn {
	d.t.Helper()
	return zinotest.Receive(d.t, "a turn that is followed", d.turns)
}

// HangUp closes all connections.
func (d *Daemon) HangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for nc := range d.conns {
		nc.Close()
	}
}

// serve answers the requests of a connection, one after the other, until the client
// hangs up.
func (d *Daemon) serve(nc net.Conn) {
	c := rpctest.NewConn(nil, nc)
	nc.SetDeadline(time.Time{}) // the test has a limit of its own
	hungUp := make(chan struct{})
	payloads := make(chan string)
	go func() {
		defer close(hungUp)
		for payload := c.Receive(); payload != ""; payload = c.Receive() {
			payloads <- payload
		}
	}()
	defer func() {
		d.mu.Lock()
		delete(d.conns, nc)
		d.mu.Unlock()
		nc.Close()
		for { // a request that gets no answer
			select {
			case <-payloads:
			case <-hungUp:
				return
			}
		}
	}()
	for {
		select {
		case payload := <-payloads:
			if !d.handle(c, payload, hungUp) {
				return
			}
		case <-hungUp:
			return
		}
	}
}

// handle answers a request. It reports whether the connection goes on.
func (d *Daemon) handle(c *rpctest.Conn, payload string, hungUp <-chan struct{}) bool {
	r := Request{Raw: payload}
	if err := json.Unmarshal([]byte(payload), &r.Fields); err != nil {
		d.t.Errorf("not a request: %s", payload)
		return false
	}
	r.Type = r.String("type")
	d.mu.Lock()
	d.requests = append(d.requests, r)
	answer, known := d.methods[r.Type]
	version := d.version
	start := d.begun[r.String("turn")]
	d.mu.Unlock()
	switch {
	case r.Type == "":
		return d.follow(newTurn(c, r, r), hungUp)
	case !known:
		c.Send(Error(proto.CodeUnknown, "Unknown message type: "+r.Type))
	case r.Type == "ping":
		c.Send(object("type", "pong", "service", "daemon", "version", version, "proto", proto.Version, "lifetime", proto.LifetimePersistent, "uptime_s", 1))
	case r.Type == "describe":
		c.Send(d.description())
	case r.Type == "turn_follow":
		return d.follow(newTurn(c, r, start), hungUp)
	default:
		c.Send(answer(r))
	}
	return true
}

// follow gives a turn to the test, and returns when it has ended or the client has hung
// up.
func (d *Daemon) follow(turn *Turn, hungUp <-chan struct{}) bool {
	d.turns <- turn
	select {
	case <-turn.ended:
		return !turn.broken
	case <-hungUp:
		close(turn.Gone)
		return false
	}
}

func (d *Daemon) description() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var methods []proto.MethodDescription
	for _, typ := range d.order {
		request := "{}"
		if typ == proto.DaemonTurnStart.Type {
			request = `{"properties":{"mode":{}}}`
		}
		methods = append(methods, proto.MethodDescription{Type: typ, Reply: "x", Kind: "call", Request: proto.Raw(request), Response: proto.Raw("{}")})
	}
	return object("type", "description", "service", "daemon", "proto", proto.Version, "methods", methods)
}

// turnStart starts a turn.
func (d *Daemon) turnStart(r Request) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started++
	id, session := fmt.Sprintf("t-%d", d.started), r.String("session_id")
	if session == "" {
		session = "6467336c-1f30-429b-8d2f-0123456789ab"
	}
	d.begun[id] = r
	mode := r.String("mode")
	if mode == "derived" {
		mode = "auto"
		if r.String("sandbox") == string(proto.LevelOff) {
			mode = "yolo"
		}
	}
	if mode != "" {
		return object("type", "turn", "session_id", session, "turn", id, "state", "running", "next", 100*d.started, "mode", mode)
	}
	return object("type", "turn", "session_id", session, "turn", id, "state", "running", "next", 100*d.started)
}

// forward answers for the other services.
func (d *Daemon) forward(r Request) string {
	service := r.String("service")
	inner, ok := r.Fields["request"].(map[string]any)
	if !ok {
		return Error(proto.CodeInvalid, "no request")
	}
	asked := Request{Raw: r.Raw, Fields: inner}
	asked.Type = service + "." + asked.String("type")
	d.mu.Lock()
	d.requests = append(d.requests, asked)
	answer := d.methods[asked.Type]
	d.mu.Unlock()
	if answer != nil {
		return answer(asked)
	}
	switch asked.Type {
	case "rtr.capabilities":
		return `{"type":"capabilities","provider":"anthropic","model":"claude-sonnet-5-5","fallback":false,"found":false,"tools":true,"streaming":true}`
	case "exc.capabilities":
		return `{"type":"capabilities","executors":{},"timeout":30,"sandbox":"workspace-write","sandboxes":["off","read-only","workspace-write"]}`
	case "mem.find_session":
		return Error(proto.CodeNotFound, "no such session")
	case "mem.list_sessions":
		return `{"type":"session_list","sessions":[]}`
	case "mem.read_session":
		return `{"type":"session_events","events":[]}`
	}
	return Error(proto.CodeUnavailable, "the fake daemon has no "+asked.Type)
}
