package service

import (
	"io"
	"log/slog"
	"os"
	"strings"
)

// Logger returns the log of a service: text on w, with the service's name. The
// level is $ZINO_LOG_LEVEL, else the configured one, else INFO. Under systemd
// the journal has the time already, so it is left out.
func Logger(w io.Writer, name, configured string) *slog.Logger {
	level := configured
	if env := os.Getenv("ZINO_LOG_LEVEL"); env != "" {
		level = env
	}
	options := &slog.HandlerOptions{Level: levelOf(level)}
	if os.Getenv("JOURNAL_STREAM") != "" {
		options.ReplaceAttr = withoutTime
	}
	return slog.New(slog.NewTextHandler(w, options)).With("service", name)
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}

// levelOf reads a level's name, Python's included; what it does not know is INFO.
func levelOf(name string) slog.Level {
	switch strings.ToUpper(strings.TrimSpace(name)) {
	case "DEBUG":
		return slog.LevelDebug
	case "WARN", "WARNING":
		return slog.LevelWarn
	case "ERROR", "CRITICAL":
		return slog.LevelError
	}
	return slog.LevelInfo
}
