// Package proto is the contract between Zino's services: every message that
// crosses a socket, and one variable for every method. It holds no behaviour
// and imports nothing but the standard library.
//
// A field without the omitzero option is required in a request. The comments
// on types and fields are the reference: PROTOCOL.md and schema.json are
// generated from them (go test ./proto -update).
package proto

import (
	"encoding/json"
	"reflect"
	"slices"
)

// Version is the number of this contract: the number of lines of Changelog.
const Version = len(Changelog)

// Kind says how a method answers.
type Kind string

// The three kinds of method.
const (
	KindCall   Kind = "call"   // one reply packet
	KindText   Kind = "text"   // one reply packet, or chunks and done when the request has stream: true
	KindEvents Kind = "events" // typed packets until the connection closes
)

// Raw is JSON that passes through a process as it came: lists of messages are
// carried this way, so that relaying a long conversation costs a copy and no
// decoding. The service that reads the content validates it.
type Raw = json.RawMessage

// Method is a method of a service with the types of its request and reply.
// Servers register handlers with it, and clients make calls with it.
type Method[Req, Rep any] struct {
	Service string // the service that answers
	Type    string // the request's "type"
	Reply   string // the reply's "type"
	Public  bool   // clients may reach it through the daemon's forward
}

// Info is a method without its Go types, for description and documentation.
type Info struct {
	Service  string       // the service that answers, "*" for all
	Type     string       // the request's "type"
	Reply    string       // the reply's "type"
	Kind     Kind         // how it answers
	Public   bool         // clients may reach it through the daemon's forward
	Request  reflect.Type // the request's struct
	Response reflect.Type // the reply's struct
}

var methods = make([]Info, 0, 200) // more than there are: growing would copy at each start

// Methods lists every method of the contract in the order of declaration.
func Methods() []Info { return methods }

// IsPublic reports whether clients may send a request of that type to that
// service through the daemon's forward.
func IsPublic(service, typ string) bool {
	return slices.ContainsFunc(methods, func(m Info) bool {
		return m.Public && m.Type == typ && (m.Service == service || m.Service == "*")
	})
}

// access says who may send a request of a method.
type access bool

// public marks a method that clients may reach through forward. All others are
// for services.
const public access = true

// method declares a method that answers with one packet.
func method[Req, Rep any](service, typ, reply string, a ...access) Method[Req, Rep] {
	return declare[Req, Rep](service, typ, reply, KindCall, a)
}

// textMethod declares a method that answers with text, whole or streamed.
func textMethod[Req any](service, typ, reply string, a ...access) Method[Req, Text] {
	return declare[Req, Text](service, typ, reply, KindText, a)
}

// eventsMethod declares a method that answers with typed packets.
func eventsMethod[Req, Rep any](service, typ, reply string, a ...access) Method[Req, Rep] {
	return declare[Req, Rep](service, typ, reply, KindEvents, a)
}

func declare[Req, Rep any](service, typ, reply string, kind Kind, a []access) Method[Req, Rep] {
	open := slices.Contains(a, public)
	methods = append(methods, Info{service, typ, reply, kind, open, reflect.TypeFor[Req](), reflect.TypeFor[Rep]()})
	return Method[Req, Rep]{service, typ, reply, open}
}
