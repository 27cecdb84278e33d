package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// delta is a chunk's text of 30 bytes.
const delta = "a piece of text of thirty byte"

// source answers infer in the router's place. The last message is the order: "burst N"
// sends N chunks without pauses, "paced N US" one every US microseconds with its time
// as text.
func source() error {
	l, err := listener()
	if err != nil {
		return err
	}
	s := rpc.NewServer("rtr", slog.New(slog.DiscardHandler))
	rpc.HandleText(s, proto.RtrInfer, func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
		n, pause, err := order(req.Messages)
		if err != nil {
			return proto.Text{}, err
		}
		return proto.Text{Content: "all of it"}, send(ctx, out, n, pause)
	})
	return s.Serve(l)
}

func order(messages proto.Raw) (n int, pause time.Duration, err error) {
	var list []struct{ Content string }
	if err := json.Unmarshal(messages, &list); err != nil {
		return 0, 0, err
	}
	word, rest, _ := strings.Cut(list[len(list)-1].Content, " ")
	var us int
	if word == "burst" {
		_, err = fmt.Sscan(rest, &n)
	} else {
		_, err = fmt.Sscan(rest, &n, &us)
	}
	return n, time.Duration(us) * time.Microsecond, err
}

func send(ctx context.Context, out *rpc.Out, n int, pause time.Duration) error {
	if pause == 0 {
		for range n {
			if err := out.Text([]byte(delta)); err != nil {
				return err
			}
		}
		return nil
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := out.Text(fmt.Appendf(nil, "%030d", now())); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}
