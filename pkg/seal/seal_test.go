package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"zino/pkg/zinotest"
)

// service is a service for credentials whose encryption is a prefix.
type service struct {
	socket string
	calls  atomic.Int64
	reply  atomic.Pointer[string] // sent in place of any answer; "hang": none
}

// newService starts a service of that host.
func newService(t *testing.T, host string) *service {
	t.Helper()
	s := &service{socket: filepath.Join(zinotest.Dir(t), "credentials")}
	l, err := net.Listen("unix", s.socket)
	zinotest.Must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.serve(c, host)
		}
	}()
	return s
}

func (s *service) serve(c net.Conn, host string) {
	defer c.Close()
	s.calls.Add(1)
	var request []byte
	for b := make([]byte, 1); ; request = append(request, b[0]) {
		if _, err := c.Read(b); err != nil || b[0] == 0 {
			break
		}
	}
	if reply := s.reply.Load(); reply != nil {
		if *reply == "hang" {
			_, _ = c.Read(make([]byte, 1)) // until the caller hangs up
			return
		}
		fmt.Fprint(c, *reply)
		return
	}
	var r struct {
		Method     string
		Parameters struct{ Name, Scope, Data, Blob string }
	}
	err := json.Unmarshal(request, &r)
	data, dataErr := base64.StdEncoding.DecodeString(r.Parameters.Data + r.Parameters.Blob)
	prefix := []byte(host + "/" + r.Parameters.Name + "/")
	switch plain, ok := bytes.CutPrefix(data, prefix); {
	case err != nil || dataErr != nil || r.Parameters.Scope != "user":
		fmt.Fprint(c, `{"error":"org.varlink.service.InvalidParameter","parameters":{}}`+"\x00")
	case r.Method == "io.systemd.Credentials.Encrypt":
		fmt.Fprintf(c, `{"parameters":{"blob":"%s"}}`+"\x00", base64.StdEncoding.EncodeToString(append(prefix, data...)))
	case r.Method == "io.systemd.Credentials.Decrypt" && ok:
		fmt.Fprintf(c, `{"parameters":{"data":"%s"}}`+"\x00", base64.StdEncoding.EncodeToString(plain))
	default:
		fmt.Fprint(c, `{"error":"io.systemd.Credentials.BadFormat","parameters":{}}`+"\x00")
	}
}

func TestSeal(t *testing.T) {
	s := newService(t, "one")
	box := &Box{Socket: s.socket, Name: "zino-test"}
	content := []byte(strings.Repeat("secret ", 30))
	sealed, err := box.Seal(t.Context(), content)
	zinotest.Must(t, err)
	zinotest.Equal(t, "sealed", Sealed(sealed), true)
	zinotest.Equal(t, "content", Sealed(content), false)
	zinotest.Equal(t, "the content can be read", bytes.Contains(sealed, []byte(base64.StdEncoding.EncodeToString([]byte("secret"))[:6])), false)
	zinotest.Equal(t, "requests", s.calls.Load(), 2)
	again, err := box.Seal(t.Context(), content)
	zinotest.Must(t, err)
	zinotest.Equal(t, "the same twice", bytes.Equal(sealed, again), false)
	other := &Box{Socket: s.socket, Name: "zino-test"}
	for range 2 {
		for _, data := range [][]byte{sealed, again} {
			back, err := other.Open(t.Context(), data)
			zinotest.Must(t, err)
			zinotest.Equal(t, "content", string(back), string(content))
		}
	}
	_, err = other.Seal(t.Context(), content)
	zinotest.Must(t, err)
	zinotest.Equal(t, "requests", s.calls.Load(), 3)

	for i := range sealed { // each byte of the file counts
		changed := bytes.Clone(sealed)
		changed[i] ^= 4
		if back, err := box.Open(t.Context(), changed); err == nil && !bytes.Equal(back, content) {
			t.Fatalf("byte %d: other content", i)
		}
	}
	for name, box := range map[string]*Box{
		`refuses it: "io.systemd.Credentials.BadFormat"`: {Socket: newService(t, "two").socket, Name: "zino-test"},
		`refuses it: "io.systemd`:                        {Socket: s.socket, Name: "zino-other"},
		`systemd 256 or later`:                           {Socket: "/none/credentials", Name: "zino-test"},
	} {
		_, err := box.Open(t.Context(), sealed)
		zinotest.Contains(t, "the error", fmt.Sprint(err), name)
	}
}

// TestBadService: a service that answers nonsense, or not at all, is an error, which
// contains nothing of the answer but the name of its error.
func TestBadService(t *testing.T) {
	s := newService(t, "one")
	box := &Box{Socket: s.socket, Name: "zino-test"}
	for reply, want := range map[string]string{
		"":                                   "sends no valid reply",
		"\x00":                               "sends no valid reply",
		"canary\x00":                         "sends no valid reply",
		`{"parameters":{"blob":"canary"}}`:   "sends no valid reply",
		`{"parameters":{"blob":7}}` + "\x00": "sends no valid reply",
		`{"parameters":{"data":"canary!"}}` + "\x00":                      "sends no valid reply",
		`{"parameters":{"data":"AAAA"}}` + "\x00":                         "does not give back",
		`{"error":"a\u001b[2J` + strings.Repeat("b", 200) + `"}` + "\x00": `refuses it: "a\x1b[2Jbb`,
		strings.Repeat("x", replyMax+1) + "\x00":                          "sends no valid reply",
	} {
		s.reply.Store(&reply)
		_, err := box.Seal(t.Context(), []byte("x"))
		zinotest.Contains(t, "the error", fmt.Sprint(err), want)
		if text := fmt.Sprint(err); strings.Contains(text, "canary") || len(text) > 250 || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("the error is %q", text)
		}
	}
	s.reply.Store(new("hang"))
	ctx, cancel := context.WithCancel(t.Context())
	calls := s.calls.Load()
	failed := make(chan error, 1)
	go func() {
		_, err := box.Seal(ctx, []byte("x"))
		failed <- err
	}()
	zinotest.Eventually(t, "it is asked", func() bool { return s.calls.Load() > calls })
	cancel()
	zinotest.Error(t, zinotest.Receive(t, "the error", failed), context.Canceled)
}

// TestHostService seals with the service of this host, if it has one.
func TestHostService(t *testing.T) {
	box := &Box{Socket: Socket, Name: "zino-test"}
	sealed, err := box.Seal(t.Context(), []byte("content"))
	if _, missing := os.Stat(Socket); errors.Is(missing, os.ErrNotExist) {
		zinotest.Error(t, err, os.ErrNotExist, "systemd 256")
		return
	}
	if err != nil {
		zinotest.NotTested(t, "%v", err)
		return
	}
	content, err := (&Box{Socket: Socket, Name: "zino-test"}).Open(t.Context(), sealed)
	if err != nil || string(content) != "content" {
		t.Errorf("got %q, %v", content, err)
	}
}

// FuzzParse: any file is opened, or refused.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":2,"key":"AAAA","data":"AAAA"}`))
	f.Add([]byte(`{"version":1,"secrets":{"a":"b"}}`))
	f.Add([]byte(`{"version":2,"key":"a\u0000b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		box := &Box{Socket: "/none/credentials"}
		if content, err := box.Open(t.Context(), data); err == nil {
			t.Errorf("%q is opened: %q", data, content)
		}
		if parsed, ok := parse(data); ok { // with its key at hand
			box.key, box.blob = make([]byte, keySize), parsed.Key
			if content, err := box.Open(t.Context(), data); err == nil {
				t.Errorf("%q is opened: %q", data, content)
			}
		}
	})
}

// FuzzReply: any reply is a value or an error without control characters.
func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"parameters":{"blob":"AAAA"}}`))
	f.Add([]byte(`{"parameters":{"data":"AAAA"},"continues":true}`))
	f.Add([]byte(`{"error":"io.systemd.Credentials.BadFormat","parameters":{}}`))
	f.Add([]byte(`{"error":"\u0000\u001b"}`))
	f.Fuzz(func(t *testing.T, reply []byte) {
		value, err := parseReply(reply)
		if (value == "") != (err != nil) || err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%q: %q, %v", reply, value, err)
		}
	})
}
