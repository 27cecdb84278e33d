package constellation_test

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
)

const vectorsFile = "../../proto/testdata/vectors.jsonl"

// vector is one line of the golden vectors; PROTOCOL.md describes it.
type vector struct {
	Name      string           `json:"name"`
	Service   string           `json:"service"`
	Except    []string         `json:"except"`
	Payload   *string          `json:"payload"`
	Payloads  []string         `json:"payloads"`
	BytesHex  *string          `json:"bytes_hex"`
	HalfClose bool             `json:"half_close"`
	Expect    []map[string]any `json:"expect"`
	Stream    bool             `json:"stream"`
	Contains  string           `json:"contains"`
	Closed    bool             `json:"closed"`
	Lenient   bool             `json:"lenient"`
}

// readVectors reads the golden vectors; an unknown key is an error.
func readVectors(t *testing.T) (list []vector) {
	t.Helper()
	f, err := os.Open(vectorsFile)
	zinotest.Must(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.DisallowUnknownFields()
		var v vector
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v: %s", vectorsFile, err, lines.Text())
		}
		list = append(list, v)
	}
	zinotest.Must(t, lines.Err())
	return list
}

// bytes returns what the client sends.
func (v vector) bytes() ([]byte, error) {
	switch {
	case v.BytesHex != nil && v.Payload == nil && v.Payloads == nil:
		return hex.DecodeString(*v.BytesHex)
	case v.Payload != nil && v.BytesHex == nil && v.Payloads == nil:
		return []byte(rpctest.Frame(*v.Payload)), nil
	case len(v.Payloads) > 0 && v.Payload == nil && v.BytesHex == nil:
		var b []byte
		for _, p := range v.Payloads {
			b = append(b, rpctest.Frame(p)...)
		}
		return b, nil
	}
	return nil, errors.New("it must have exactly one of payload, payloads and bytes_hex")
}

// services returns the services that the vector is for.
func (v vector) services() []string {
	if v.Service != "any" {
		return []string{v.Service}
	}
	return slices.DeleteFunc(slices.Clone(config.Services), func(s string) bool { return slices.Contains(v.Except, s) })
}

// TestVectors replays the golden vectors against the real services.
func TestVectors(t *testing.T) {
	cfg := start(t)
	negative := 0
	vectors := readVectors(t)
	for _, v := range vectors {
		if v.negative() {
			negative++
		}
		t.Run(v.Name, func(t *testing.T) {
			for _, name := range v.services() {
				if err := v.replay(rpctest.Dial(t, cfg.Socket(name)).Conn.(*net.UnixConn)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	if 2*negative <= len(vectors) {
		t.Errorf("%d of %d vectors are negative: most should be", negative, len(vectors))
	}
}

// negative reports whether the vector expects an error or a closed connection.
func (v vector) negative() bool {
	return len(v.Expect) == 0 || slices.ContainsFunc(v.Expect, func(e map[string]any) bool { return e["type"] == "error" })
}

// replay sends the vector and compares the answer.
func (v vector) replay(nc *net.UnixConn) error {
	defer nc.Close()
	b, err := v.bytes()
	if err != nil {
		return err
	}
	if _, err := nc.Write(b); err != nil {
		return err
	}
	if v.HalfClose {
		if err := nc.CloseWrite(); err != nil {
			return err
		}
	}
	last := ""
	for i, want := range v.Expect {
		if last, err = v.match(nc, want); err != nil {
			return fmt.Errorf("packet %d: %w", i+1, err)
		}
	}
	if !strings.Contains(last, v.Contains) {
		return fmt.Errorf("%s does not contain %s", last, v.Contains)
	}
	return v.end(nc)
}

// match reads the next packet, with the chunks before it, and compares it with the
// one expected.
func (v vector) match(nc net.Conn, want map[string]any) (packet string, err error) {
	var streamed strings.Builder
	for {
		if packet, err = receive(nc); err != nil {
			return "", err
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(packet), &got); err != nil {
			return "", fmt.Errorf("%q: %w", packet, err)
		}
		if v.Stream && got["type"] == "chunk" {
			delta, _ := got["delta"].(string)
			streamed.WriteString(delta)
			continue
		}
		if got["type"] == "done" && got["full_text"] != streamed.String() {
			return "", fmt.Errorf("the chunks are %q and the end %s", streamed.String(), packet)
		}
		return packet, matchObject(want, got, packet)
	}
}

// receive reads one packet; io.EOF is the end between two.
func receive(nc net.Conn) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(nc, body)
	return string(body), err
}

// matchObject compares the expected keys; a packet may have more.
func matchObject(want, got map[string]any, packet string) error {
	for key, value := range want {
		prefix, cut := "", false
		if text, ok := value.(string); ok {
			prefix, cut = strings.CutSuffix(text, "…")
		}
		text, isText := got[key].(string)
		if same := reflect.DeepEqual(value, got[key]) || cut && isText && strings.HasPrefix(text, prefix); !same {
			return fmt.Errorf("%s: %s is not %v", packet, key, value)
		}
	}
	return nil
}

// end checks that the connection is closed, or that it can be used again.
func (v vector) end(nc net.Conn) error {
	if !v.Closed {
		if _, err := nc.Write([]byte(rpctest.Frame(`{"type":"ping"}`))); err != nil {
			return err
		}
	}
	packet, err := receive(nc)
	switch {
	case v.Closed && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)):
		return nil
	case v.Closed && err == nil:
		return fmt.Errorf("one packet too many: %s", packet)
	case err == nil && !strings.HasPrefix(packet, `{"type":"pong"`):
		return fmt.Errorf("not usable afterwards: %s", packet)
	}
	return err
}
