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
)

// Version is the number of this contract. It counts the lines of Changelog:
// changes only ever add.
const Version = 23

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
// decoding. Whoever reads the content validates it.
type Raw = json.RawMessage

// Method ties together a service, a request type and the types of request and
// reply. Handlers are registered with one, and calls are made with the same.
type Method[Req, Rep any] struct {
	Service string // the service that answers
	Type    string // the request's "type"
	Reply   string // the reply's "type"
}

// Info is a method without its Go types, for description and documentation.
type Info struct {
	Service  string       // the service that answers, "*" for all
	Type     string       // the request's "type"
	Reply    string       // the reply's "type"
	Kind     Kind         // how it answers
	Request  reflect.Type // the request's struct
	Response reflect.Type // the reply's struct
}

var methods []Info

// Methods lists every method of the contract in the order of declaration.
func Methods() []Info { return methods }

// method declares a method that answers with one packet.
func method[Req, Rep any](service, typ, reply string) Method[Req, Rep] {
	return declare[Req, Rep](service, typ, reply, KindCall)
}

// textMethod declares a method that answers with text, whole or streamed.
func textMethod[Req any](service, typ, reply string) Method[Req, Text] {
	return declare[Req, Text](service, typ, reply, KindText)
}

// eventsMethod declares a method that answers with typed packets.
func eventsMethod[Req, Rep any](service, typ, reply string) Method[Req, Rep] {
	return declare[Req, Rep](service, typ, reply, KindEvents)
}

func declare[Req, Rep any](service, typ, reply string, kind Kind) Method[Req, Rep] {
	methods = append(methods, Info{service, typ, reply, kind, reflect.TypeFor[Req](), reflect.TypeFor[Rep]()})
	return Method[Req, Rep]{service, typ, reply}
}
