package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"zino/pkg/rpc"
	"zino/proto"
)

// streamTask is a request for a stream of chunks to the daemon or to the source.
type streamTask struct {
	Path    string
	Daemon  bool
	Warm    string // sent first to open all connections; may be empty
	Message string
	PIDs    []int // the processes whose CPU time counts
}

// streamResult is the result. CPU is this process's CPU time, Others that of PIDs.
type streamResult struct {
	Chunks      int
	CPU         float64
	Others      []float64
	First, Wall float64 // nanoseconds until the first chunk, and in all
	Latency     float64 // median of paced chunks, in nanoseconds
}

func stream() error {
	var t streamTask
	if err := task(&t); err != nil {
		return err
	}
	c := &rpc.Client{Service: "peer", Path: t.Path}
	defer c.Close()
	if t.Warm != "" {
		if err := t.ask(c, t.Warm, &sink{}); err != nil {
			return err
		}
	}
	s := &sink{paced: t.Message[0] == 'p', began: now()}
	client, others, err := t.clocks()
	if err != nil {
		return err
	}
	if err := t.ask(c, t.Message, s); err != nil {
		return err
	}
	wall := float64(now() - s.began)
	client2, others2, err := t.clocks()
	if err != nil {
		return err
	}
	for i := range others {
		others[i] = others2[i] - others[i]
	}
	return found(streamResult{
		Chunks: s.chunks, CPU: client2 - client, Others: others,
		First: float64(s.first - s.began), Wall: wall, Latency: s.latency(),
	})
}

// ask sends one request and reads its stream.
func (t streamTask) ask(c *rpc.Client, message string, s *sink) error {
	var err error
	if t.Daemon {
		_, err = rpc.CallText(context.Background(), c, proto.DaemonChat, proto.Chat{Message: message, Stream: true}, s)
		return err
	}
	messages, err := json.Marshal([]map[string]string{{"role": "user", "content": message}})
	if err != nil {
		return err
	}
	_, err = rpc.CallText(context.Background(), c, proto.RtrInfer, proto.Infer{Messages: messages, Stream: true}, s)
	return err
}

func (t streamTask) clocks() (own float64, others []float64, err error) {
	for _, pid := range t.PIDs {
		cpu, err := cpuOf(pid)
		if err != nil {
			return 0, nil, err
		}
		others = append(others, cpu)
	}
	own, err = ownCPU()
	return own, others, err
}

// sink counts chunks and records the delays of paced ones.
type sink struct {
	paced        bool
	chunks       int
	began, first int64
	delays       []float64
}

// Text receives a chunk.
func (s *sink) Text(delta []byte) error {
	if s.chunks++; s.chunks == 1 {
		s.first = now()
	}
	if !s.paced {
		return nil
	}
	sent, err := strconv.ParseInt(string(delta), 10, 64)
	if err != nil {
		return fmt.Errorf("a chunk without its time: %w", err)
	}
	s.delays = append(s.delays, float64(now()-sent))
	return nil
}

// Flush does nothing.
func (s *sink) Flush() error { return nil }

func (s *sink) latency() float64 {
	if len(s.delays) == 0 {
		return 0
	}
	return median(s.delays)
}
