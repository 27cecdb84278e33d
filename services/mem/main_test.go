package mem

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"full": fillDisk, "readonly": readReadOnly, "changer": changeForever, "accepter": acceptForever})
	os.Exit(m.Run())
}

// server is a mem service on its own socket, and a raw client.
type server struct {
	t    testing.TB
	s    *Service
	srv  *rpc.Server
	dir  string // the data directory
	path string // the socket
	nc   net.Conn
	log  *zinotest.Buffer
}

// start serves the data directory; with an empty name it creates one.
func start(t testing.TB, data string) *server {
	t.Helper()
	return startWith(t, data, "", "", nil)
}

// startWith is start with [mem] embed, the socket of rtr, and a function that is called
// before the service answers.
func startWith(t testing.TB, data, model, rtr string, opened func(*Service)) *server {
	t.Helper()
	dir := zinotest.Dir(t)
	if data == "" {
		data = filepath.Join(dir, "data", "mem")
	}
	m := &server{t: t, dir: data, path: filepath.Join(dir, "s"), log: new(zinotest.Buffer)}
	log := m.log.Logger()
	var err error
	m.s, err = Open(config.Mem{DataDir: data, Durability: "os", SessionIndex: true, Embed: model}, log)
	zinotest.Must(t, err)
	m.s.Embed(&rpc.Client{Service: "rtr", Path: rtr})
	if opened != nil {
		opened(m.s)
	}
	srv := rpc.NewServer("mem", log)
	m.srv = srv
	m.s.Register(srv)
	l := zinotest.Listen(t, m.path)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		if m.nc != nil {
			m.nc.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := m.s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return m
}

// ask sends a request and returns the reply's text.
func (m *server) ask(request string) string {
	m.t.Helper()
	if m.nc == nil {
		nc, err := net.Dial("unix", m.path)
		zinotest.Must(m.t, err)
		m.nc = nc
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
	if _, err := m.nc.Write(frame); err != nil {
		m.t.Fatal(err)
	}
	var head [4]byte
	if _, err := io.ReadFull(m.nc, head[:]); err != nil {
		m.t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(m.nc, body); err != nil {
		m.t.Fatal(err)
	}
	return string(body)
}

// want sends a request and compares the reply byte for byte.
func (m *server) want(request, reply string) {
	m.t.Helper()
	if got := m.ask(request); got != reply {
		m.t.Errorf("%.200s\ngot  %.400s\nwant %.400s", request, got, reply)
	}
}

// wantError sends a request and expects an error with the code and with these words
// in its message.
func (m *server) wantError(request, code string, words ...string) {
	m.t.Helper()
	reply := m.ask(request)
	var e struct{ Type, Code, Message string }
	zinotest.Must(m.t, json.Unmarshal([]byte(reply), &e))
	if e.Type != "error" || e.Code != code || strings.Contains(e.Message, "\n") {
		m.t.Errorf("%.200s\ngot %.400s\nwant an error %q", request, reply, code)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			m.t.Errorf("%.200s\nthe message %q lacks %q", request, e.Message, w)
		}
	}
}

func (m *server) file(name string) string { return filepath.Join(m.dir, name) }

func (m *server) read(name string) string {
	m.t.Helper()
	return zinotest.Read(m.t, m.file(name))
}

func (m *server) write(name, text string) {
	m.t.Helper()
	zinotest.Must(m.t, os.WriteFile(m.file(name), []byte(text), 0o644)) // as other programs do
}

// problems returns the problems in stats.
func (m *server) problems() []string {
	m.t.Helper()
	var st struct{ Problems []string }
	zinotest.Must(m.t, json.Unmarshal([]byte(m.ask(`{"type":"stats"}`)), &st))
	return st.Problems
}

const ok = `{"type":"ok"}`

// hist returns the reply to get_history with these messages.
func hist(messages ...string) string {
	return `{"type":"history","messages":[` + strings.Join(messages, ",") + `]}`
}

func msg(content string) string { return `{"role":"user","content":` + quoted(content) + `}` }

// get returns a get_history request, put an append_history request.
func get(id string) string { return fmt.Sprintf(`{"type":"get_history","channel_id":%s}`, quoted(id)) }

func put(id string, messages ...string) string {
	return fmt.Sprintf(`{"type":"append_history","channel_id":%s,"messages":[%s]}`, quoted(id), strings.Join(messages, ","))
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
