// Package service implements the process of a service: flags, log, sockets, readiness,
// callers, watchdog, reload, drain and idle exit. It does not depend on what services
// do.
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
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"zino/pkg/config"
	"zino/pkg/rpc"
)

// Start reads the flags and the configuration of the service called name, such as
// "mem", and opens its log. It exits with status 2 on invalid flags, 1 on an invalid
// configuration. --help lists the flags, with the service's own ones.
func Start(name string, own ...Flags) (*config.Config, *slog.Logger) {
	program := "zino-" + name
	flags = readFlags(program, os.Args[1:], own...)
	cfg, err := load(name, flags.config)
	if err != nil {
		exit(1, program, err)
	}
	return cfg, openLog(name, flags.config, cfg)
}

// openLog opens the log, whose level SIGHUP can change, and logs the warnings of
// the configuration.
func openLog(name, file string, cfg *config.Config) *slog.Logger {
	var current slog.LevelVar
	current.Set(level(cfg.Logging.Level))
	log := newLogger(os.Stderr, name, &current)
	OnReload(func(cfg *config.Config) { current.Set(level(cfg.Logging.Level)) })
	reloadOnHangup(name, file, log)
	if env := os.Getenv("ZINO_LOG_LEVEL"); env != "" {
		if _, ok := levelOf(env); !ok {
			log.Warn("ignored ZINO_LOG_LEVEL: want DEBUG, INFO, WARN or ERROR", "value", env)
		}
	}
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	return log
}

// exit prints one line on stderr and ends the process.
func exit(status int, program string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
	os.Exit(status)
}

// Fail prints err, if not nil, on stderr and exits with status 1.
func Fail(name string, err error) {
	if err != nil {
		exit(1, "zino-"+name, err)
	}
}

// Serve answers requests on the service's socket until SIGTERM or SIGINT, or until
// it was idle for --idle-exit, then drains. It listens on the inherited sockets, or
// opens one at path.
func Serve(s *rpc.Server, name, path string, log *slog.Logger) error {
	signals := make(chan os.Signal, 2) // the second one counts while the first is handled
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	running, stop := context.WithCancel(context.Background())
	defer stop()
	listeners, handed, err := listen(name, path)
	if err != nil {
		return err
	}
	if handed {
		s.KeptOpen()
	}
	callersOf(flags.callers).apply(s, log)
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { served <- s.Serve(l) }()
		log.Info("listening", "socket", l.Addr().String(), "version", rpc.Build)
	}
	ready.Store(true)
	notify(log, daemon.SdNotifyReady)
	dog := newWatchdog(name, listeners[0].Addr().String(), log)
	go dog.watch(running)
	time.AfterFunc(startTime, func() { unmapStartPages(log) })
	if limit := flags.idleExit; limit > 0 && !handed { // no other process would accept the next connection
		log.Info("--idle-exit has no effect: the socket was not handed over")
	} else if limit > 0 {
		go retireWhenIdle(running, s, limit)
	}
	select {
	case err := <-served:
		if err != nil {
			return err
		}
		log.Info("idle: exiting, the next connection starts the service again", "idle_exit", flags.idleExit.String())
	case <-signals:
	}
	stop()
	return drain(s, dog, signals, log)
}

// ListenAndServe starts serving without signals, watchdog and drain, for tests and
// for several services in one process. Only root and the process's own user may
// call.
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

// drainLimit is the time that requests in flight get after SIGTERM.
const drainLimit = 20 * time.Second

// drain waits for requests in flight until drainLimit or the next signal, then cancels
// them. A further signal kills the process.
func drain(s *rpc.Server, dog watchdog, signals chan os.Signal, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	draining, drained := context.WithCancel(context.Background())
	defer drained()
	go func() {
		select {
		case <-signals:
			signal.Stop(signals) // the next one has its default effect
			log.Warn("stopping now: cancelled the requests in flight, another signal kills")
			cancel()
		case <-draining.Done():
		}
	}()
	notify(log, daemon.SdNotifyStopping)
	go dog.repeat(draining, func() { notify(log, daemon.SdNotifyWatchdog) }) // the drain ends by itself
	if err := s.Shutdown(ctx); err != nil && ctx.Err() == context.DeadlineExceeded {
		log.Warn("cancelled requests at the end of the drain", "limit", drainLimit.String())
	}
	log.Info("stopped")
	return nil
}

// retireWhenIdle makes s stop accepting, so that its Serve returns nil, once s was unused
// for limit.
func retireWhenIdle(ctx context.Context, s *rpc.Server, limit time.Duration) {
	for wait := limit; wait > 0; wait = s.Retire(limit) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
