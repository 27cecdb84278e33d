// Command http is JSON over HTTP on a Unix socket, with net/http and encoding/json.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"zino/services/constellation/peers/peer"
)

type request struct {
	Type string `json:"type"`
	How  string `json:"how,omitempty"`
}

type chunk struct {
	Type  string `json:"type"`
	Delta string `json:"delta"`
}

func main() { peer.Main(serve, dial) }

func serve(l net.Listener) error {
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req request
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		out := json.NewEncoder(w)
		if req.Type == "ping" {
			out.Encode(peer.Pong) // an error: the client is gone
			return
		}
		for range peer.Chunks {
			out.Encode(chunk{"chunk", peer.Chunk})
			if req.How == peer.Flushed {
				w.(http.Flusher).Flush()
			}
		}
	}))
}

func dial(path string) (peer.Conn, error) {
	var d net.Dialer
	return &conn{http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
	}}}, nil
}

type conn struct{ http.Client }

func (c *conn) Close() error {
	c.CloseIdleConnections()
	return nil
}

func (c *conn) Ping() error {
	return c.post(request{Type: "ping"}, func(d *json.Decoder) error {
		var pong peer.Service
		if err := d.Decode(&pong); err != nil || pong != peer.Pong {
			return fmt.Errorf("%v: %w", pong, err)
		}
		return nil
	})
}

func (c *conn) Stream(how string) (n int, err error) {
	err = c.post(request{"infer", how}, func(d *json.Decoder) error {
		for {
			var part chunk
			if err := d.Decode(&part); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			n += len(part.Delta)
		}
	})
	return n, err
}

func (c *conn) post(req request, read func(*json.Decoder) error) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	res, err := c.Post("http://peer/", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := read(json.NewDecoder(res.Body)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body) // the connection is kept
	return err
}
