package mem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

func TestDiskFull(t *testing.T) {
	zinotest.SmallDisk(t, zinotest.Command(t, "full", zinotest.Dir(t)))
}

func TestReadOnlyDisk(t *testing.T) {
	zinotest.SmallDisk(t, zinotest.Command(t, "readonly", zinotest.Dir(t)))
}

// readReadOnly reads all kinds of data on a read-only file system, and stores data
// after it was remounted writable.
func readReadOnly(args []string) error {
	dir := args[0]
	if err := zinotest.Mount(dir, "size=128k", 0); err != nil {
		return err
	}
	cfg, ctx := config.Mem{DataDir: dir, Durability: "fsync"}, context.Background()
	one := proto.Raw("[" + msg("spare key") + "]")
	store := func(s *Service) error {
		_, historyErr := s.appendHistory(ctx, proto.AppendHistory{ChannelID: "kitchen", Messages: one})
		_, hardErr := s.storeHard(ctx, proto.StoreHard{Messages: one})
		_, softErr := s.setSoft(ctx, proto.SetSoft{Content: "soft"})
		return errors.Join(historyErr, hardErr, softErr)
	}
	first, err := Open(cfg, slog.New(slog.DiscardHandler))
	if err == nil {
		err = errors.Join(store(first), first.Close(), os.Chmod(filepath.Join(dir, "channels"), 0o755))
	}
	if err != nil {
		return err
	}
	if err := zinotest.Remount(dir, syscall.MS_RDONLY); err != nil {
		return err
	}
	s, err := Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer s.Close()
	history, historyErr := s.getHistory(ctx, proto.GetHistory{ChannelID: "kitchen"})
	channels, channelsErr := s.listChannels(ctx, proto.ListChannels{})
	found, foundErr := s.searchHard(ctx, proto.SearchHard{Query: "key", TopK: new(1)})
	soft, softErr := s.getSoft(ctx, proto.GetSoft{})
	if err := errors.Join(historyErr, channelsErr, foundErr, softErr); err != nil || !strings.Contains(string(history.Messages), "spare key") ||
		len(channels.Channels) != 1 || len(found.Results) != 1 || soft.Content != "soft" {
		return fmt.Errorf("%s, %+v, %+v, %+v: %w", history.Messages, channels, found, soft, err)
	}
	_, err = s.appendHistory(ctx, proto.AppendHistory{ChannelID: "kitchen", Messages: one})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), filepath.Join(dir, "channels", "kitchen.json")+": read-only file system; ") {
		return fmt.Errorf("append on a read-only disk: %w", err)
	}
	if problems := strings.Join(s.problems.list(), "\n"); !strings.Contains(problems, filepath.Join(dir, "channels")) {
		return fmt.Errorf("the open directory is not reported: %s", problems)
	}
	return errors.Join(zinotest.Remount(dir, 0), store(s))
}

func fillDisk(args []string) error {
	dir := args[0]
	if err := zinotest.Mount(dir, "size=128k", 0); err != nil {
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
