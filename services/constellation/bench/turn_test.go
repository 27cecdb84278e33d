package bench_test

import (
	"context"
	"fmt"
	"strings"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// benchTurn measures a turn through all services in a channel with a history of
// 100 KB, with a provider that answers at once.
func benchTurn(b *bench) ([]line, error) {
	provider := fakellm.New(fakellm.Turn{Text: strings.Repeat("The bread is in the oven. ", 8), Size: 30, Times: fakellm.Forever})
	defer provider.Close()
	c, err := b.constellation(true, func(cfg *config.Config) {
		cfg.Provider, cfg.API.BaseURL, cfg.Service.Model, cfg.Ctx.HistoryLimit = "openai", provider.URL, "fake-model", 50
	}, nil, config.Services...)
	defer c.stop()
	if err != nil {
		return nil, err
	}
	if err := fillChannel(c); err != nil {
		return nil, err
	}
	return b.turns(c)
}

// fillChannel stores 50 messages of 2 KB.
func fillChannel(c *constellation) error {
	client := &rpc.Client{Service: "mem", Path: c.cfg.Mem.Socket}
	defer client.Close()
	_, err := rpc.Call(context.Background(), client, proto.MemAppendHistory, proto.AppendHistory{ChannelID: "kitchen", Messages: conversation(100 << 10)})
	return err
}

// turns measures turns one by one and refills the channel before each, because a turn
// stores two short messages.
func (b *bench) turns(c *constellation) ([]line, error) {
	client := &rpc.Client{Service: "daemon", Path: c.cfg.Daemon.Socket}
	defer client.Close()
	var sums []float64
	shares := map[string][]float64{}
	for range 40 {
		if err := fillChannel(c); err != nil {
			return nil, err
		}
		before, err := c.clocks()
		if err != nil {
			return nil, err
		}
		if _, err := rpc.CallText(context.Background(), client, proto.DaemonChat, proto.Chat{Message: "Where is the bread?", ChannelID: "kitchen"}, nil); err != nil {
			return nil, err
		}
		after, err := c.clocks()
		if err != nil {
			return nil, err
		}
		sum := 0.0
		for name := range after {
			shares[name] = append(shares[name], after[name]-before[name])
			sum += after[name] - before[name]
		}
		sums = append(sums, sum)
	}
	var parts []string
	for _, name := range config.Services {
		parts = append(parts, fmt.Sprintf("%s %.0f", name, median(shares[name])/1e3))
	}
	return []line{{name: "a whole turn, 100 KB history, CPU of all services", measured: median(sums), goals: []goal{atMost(1.2e6)}, note: strings.Join(parts, ", ") + " us"}}, nil
}

// clocks returns the CPU time of each service.
func (c *constellation) clocks() (map[string]float64, error) {
	times := map[string]float64{}
	for name, p := range c.processes {
		cpu, err := cpuOf(p.pid())
		if err != nil {
			return nil, err
		}
		times[name] = cpu
	}
	return times, nil
}
