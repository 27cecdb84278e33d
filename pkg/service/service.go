// Package service is the life of a process: flags, log, sockets, readiness,
// callers, watchdog, drain, and the end of one that nobody uses. It knows that
// services exist and nothing of what they do.
package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"

	"zino/pkg/config"
	"zino/pkg/rpc"
)

// Start reads the flags of the service of that short name, which --help lists,
// and its configuration, and opens its log. What cannot go on ends the process:
// status 1 for the configuration, 2 for the flags.
func Start(name string) (*config.Config, *slog.Logger) {
	program := "zino-" + name
	asked = readFlags(program, os.Args[1:])
	cfg, err := load(name, asked.config)
	if err != nil {
		exit(1, program, err)
	}
	return cfg, openLog(name, asked.config, cfg)
}

// openLog opens the log, whose level SIGHUP can change, and logs what is odd
// about the configuration.
func openLog(name, file string, cfg *config.Config) *slog.Logger {
	var current slog.LevelVar
	current.Set(level(cfg.Logging.Level))
	log := newLogger(os.Stderr, name, &current)
	OnReload(func(cfg *config.Config) { current.Set(level(cfg.Logging.Level)) })
	reloadOnHangup(name, file, log)
	if env := os.Getenv("ZINO_LOG_LEVEL"); env != "" {
		if _, ok := levelOf(env); !ok {
			log.Warn("ZINO_LOG_LEVEL is none of DEBUG, INFO, WARN, ERROR: not used", "value", env)
		}
	}
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	return log
}

// exit ends the process with one line on stderr.
func exit(status int, program string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
	os.Exit(status)
}

// Fail ends the process if err is not nil: one line on stderr, status 1.
func Fail(name string, err error) {
	if err != nil {
		exit(1, "zino-"+name, err)
	}
}

// Serve answers requests on the service's socket until SIGTERM or SIGINT, or
// until nobody has used it for as long as --idle-exit says, then drains. The
// socket at path is used unless others were handed over.
func Serve(s *rpc.Server, name, path string, log *slog.Logger) error {
	signals, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	listeners, handed, err := listen(name, path)
	if err != nil {
		return err
	}
	if handed {
		s.KeptOpen()
	}
	callersOf(asked.callers).apply(s, log)
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { served <- s.Serve(l) }()
		log.Info("listening", "socket", l.Addr().String(), "version", rpc.Build)
	}
	ready.Store(true)
	notify(log, daemon.SdNotifyReady)
	dog := newWatchdog(name, listeners[0].Addr().String(), log)
	go dog.watch(signals)
	select {
	case err := <-served: // nil where it accepts no more because it is idle
		if err != nil {
			return err
		}
	case <-whenIdle(signals, s, asked.idleExit, handed, log):
	case <-signals.Done():
	}
	return drain(s, dog, stop, log)
}

// ListenAndServe is Serve in this process without signals, for tests and for
// several services in one process: it returns when the listener fails or the
// server is shut down. Only root and this process's own user may call.
func ListenAndServe(s *rpc.Server, name, path string) (net.Listener, error) {
	listeners, _, err := listen(name, path)
	if err != nil {
		return nil, err
	}
	s.Only(callersOf("").Callers)
	for _, l := range listeners {
		go s.Serve(l)
	}
	return listeners[0], nil
}
