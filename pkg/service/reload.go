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

// hooks run at SIGHUP.
var hooks struct {
	sync.Mutex
	list []func(*config.Config)
}

// OnReload registers fn to be called with the new configuration after each SIGHUP.
// fn applies what can change while requests run and ignores the rest. Calls come
// from one goroutine. An invalid configuration is logged and changes nothing.
func OnReload(fn func(*config.Config)) {
	hooks.Lock()
	defer hooks.Unlock()
	hooks.list = append(hooks.list, fn)
}

// reloadOnHangup reloads the configuration at SIGHUP, from the file of the flag or
// found as at the start.
func reloadOnHangup(name, flag string, log *slog.Logger) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			wasReady := ready.Load()
			if wasReady { // RELOADING=1 must be followed by READY=1
				notify(log, daemon.SdNotifyReloading+"\n"+strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
			}
			if err := reload(name, flag, log); err != nil {
				log.Error("reload failed, the configuration is unchanged", "error", err)
			}
			if wasReady {
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
	log.Info("reloaded the log level; other keys take effect at the next start", "file", cfg.File)
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
