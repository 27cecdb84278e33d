package gate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"zino/proto"
)

// serverKind is the kind of the token of a server.
const serverKind = "server"

// Server is the daemon's statement that the host's configuration has an MCP server. It
// belongs to no turn, and is checked when the server starts.
type Server struct {
	V          int         `json:"v"`          // 1
	Kind       string      `json:"kind"`       // serverKind
	Definition string      `json:"definition"` // of ServerDefinition
	Sandbox    proto.Level `json:"sandbox"`    // at which it is to run
	Network    bool        `json:"network"`
	Expires    time.Time   `json:"expires"`
}

// serverPrefix precedes what ServerDefinition hashes.
const serverPrefix = "zino-server-1\n"

// ServerDefinition returns the identity of a program that exc is to run as a server: its
// arguments, the names of its variables, whose values may be secrets, and its directory.
func ServerDefinition(argv, variables []string, dir string) string {
	h := sha256.New()
	io.WriteString(h, serverPrefix)
	for _, list := range [][]string{argv, slices.Sorted(slices.Values(variables)), {dir}} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(list))))
		for _, field := range list {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field))))
			io.WriteString(h, field)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// SignServer returns the token of a server, valid for Life from now on. It sets V, Kind and
// Expires.
func (s *Signer) SignServer(t Server, now time.Time) (string, error) {
	t.V, t.Kind, t.Expires = 1, serverKind, now.Add(Life).UTC().Truncate(time.Second)
	return s.sign(t)
}

// VerifyServer returns the content of the token of a server that the daemon has signed, and
// that has not expired.
func (v *Verifier) VerifyServer(token string, now time.Time) (t Server, err error) {
	payload, signature, err := split(token)
	if err != nil {
		return t, err
	}
	if err := v.check(append([]byte(signed), payload...), signature); err != nil {
		return t, err
	}
	t, err = decodeServer(payload)
	if err == nil && !now.Before(t.Expires) {
		err = fmt.Errorf("it expired at %s", t.Expires.Format(time.RFC3339))
	}
	return t, err
}

func decodeServer(payload []byte) (t Server, err error) {
	if err = decode(payload, &t); err == nil && (t.V != 1 || t.Kind != serverKind || t.Definition == "" || t.Sandbox == "") {
		err = errForm
	}
	return t, err
}

// IsServer reports whether a token is, by its form, that of a server: zino-mcp gets it as
// the grant of a call, and passes it on to exc.
func IsServer(token string) bool {
	_, ok := ClaimedServer(token)
	return ok
}

// ClaimedServer returns the definition for which a token is, by its form, that of a server.
// Its signature is not verified.
func ClaimedServer(token string) (definition string, ok bool) {
	payload, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	var t struct{ Kind, Definition string }
	ok = err == nil && json.Unmarshal(text, &t) == nil && t.Kind == serverKind
	return t.Definition, ok
}

// Server decides about a program that belongs to no turn, by the token of a server: want is
// what is to run, without V, Kind and Expires. Without a token, where one is required, the
// error has the code approval; call describes the program then.
func (g *Guard) Server(token string, want Server, call proto.AskedCall) error {
	if token == "" && !g.require {
		return nil
	}
	if token == "" {
		call.Files = []string{}
		details, err := json.Marshal(proto.ApprovalNeeded{
			Kind: proto.ApprovalServer, Call: call, Digest: want.Definition, Reasons: []string{"a server of the configuration"}, Grantable: proto.AnswerOnce,
		})
		if err != nil {
			return err
		}
		return &proto.Error{Code: proto.CodeApproval, Message: "the program belongs to no turn: it needs the token of a server", Details: string(details)}
	}
	t, err := g.verifier.VerifyServer(token, time.Now())
	if err == nil {
		switch {
		case t.Definition != want.Definition:
			err = errors.New("it does not fit: definition")
		case t.Sandbox != want.Sandbox:
			err = errors.New("it does not fit: sandbox")
		case want.Network && !t.Network:
			err = errors.New("it does not fit: network")
		}
	}
	if err != nil {
		return proto.Errorf(proto.CodeDenied, "the token of the server is refused: %v", err)
	}
	return nil
}
