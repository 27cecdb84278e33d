package mem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/smalldisk"
	"zino/proto"
)

// children are what the test binary does in the place of another process, in
// the directory that it is given.
var children = map[string]func(dir string) error{"full": fillDisk, "changer": changeForEver}

// TestDiskFull runs fillDisk in a mount namespace of its own, where it can
// have a small disk that goes away with it.
func TestDiskFull(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "MEM_CHILD=full", "MEM_DIR="+newDir(t))
	smalldisk.Run(t, cmd)
}

func fillDisk(dir string) error {
	if err := smalldisk.Mount(dir, "size=128k", 0); err != nil {
		return err
	}
	s, err := Open(config.Mem{DataDir: dir, Durability: "fsync"}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer s.Close()
	big := proto.Raw("[" + msg(strings.Repeat("x", 20_000)) + "]")
	for _, store := range []func() error{
		func() error {
			_, err := s.appendHistory(context.Background(), proto.AppendHistory{ChannelID: "kitchen", Messages: big})
			return err
		},
		func() error {
			_, err := s.storeHard(context.Background(), proto.StoreHard{Messages: big})
			return err
		},
		func() error {
			_, err := s.setSoft(context.Background(), proto.SetSoft{Content: strings.Repeat("s", 100_000)})
			return err
		},
	} {
		for range 20 {
			if err = store(); err != nil {
				break
			}
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left on device") || strings.Contains(err.Error(), "\n") {
			return fmt.Errorf("on a full disk: %w", err)
		}
		fmt.Println(err)
	}
	h, err := s.getHistory(context.Background(), proto.GetHistory{ChannelID: "kitchen"})
	if n := strings.Count(string(h.Messages), "role"); err != nil || n < 3 {
		return fmt.Errorf("%d messages, %w", n, err)
	}
	if _, err := s.clearHistory(context.Background(), proto.ClearHistory{ChannelID: "kitchen"}); err != nil {
		return err
	}
	_, err = s.appendHistory(context.Background(), proto.AppendHistory{ChannelID: "kitchen", Messages: big})
	return err
}
