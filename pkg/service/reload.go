package service

import (
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"

	"zino/pkg/config"
)

// hooks are what SIGHUP runs.
var hooks struct {
	sync.Mutex
	list []func(*config.Config)
}

// OnReload has fn called with the configuration read anew after each SIGHUP.
// fn takes over what is safe to change while requests run, and leaves the rest
// to the next start. It is called from one goroutine, never twice at a time. A
// configuration that cannot be read or understood is logged and changes
// nothing.
func OnReload(fn func(*config.Config)) {
	hooks.Lock()
	defer hooks.Unlock()
	hooks.list = append(hooks.list, fn)
}

// reloadOnHangup keeps SIGHUP from ending the process: it reads the
// configuration again, which the flag named or which is found as at the start.
func reloadOnHangup(name, flag string, log *slog.Logger) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			told := ready.Load()
			if told { // "reloading" is followed by "ready", whatever comes of it
				notify(log, daemon.SdNotifyReloading+"\n"+strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
			}
			if err := reload(name, flag, log); err != nil {
				log.Error("the configuration stays as it was", "error", err)
			}
			if told {
				notify(log, daemon.SdNotifyReady)
			}
		}
	}()
}

func reload(name, flag string, log *slog.Logger) error {
	cfg, err := load(name, flag)
	if err != nil {
		return err
	}
	hooks.Lock()
	defer hooks.Unlock()
	for _, fn := range hooks.list {
		fn(cfg)
	}
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	log.Info("reloaded: the log's level is in force, other keys are from the next start on", "file", cfg.File)
	return nil
}

func load(name, flag string) (*config.Config, error) {
	path, err := config.Find(flag)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, name)
	if err != nil {
		return nil, err
	}
	cfg.Locate(cfg.Dir)
	return cfg, nil
}
