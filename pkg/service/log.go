package service

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
)

// Logger returns the log of a program: fields in the journal where w is the
// stream that leads there, else text on w, with the program's name. The level
// is $ZINO_LOG_LEVEL, else the configured one, else INFO.
func Logger(w io.Writer, name, configured string) *slog.Logger {
	return newLogger(w, name, level(configured))
}

func newLogger(w io.Writer, name string, level slog.Leveler) *slog.Logger {
	var handler slog.Handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	if isJournal(w) {
		// Where the journal takes no fields, it takes the text, without the time
		// that it notes itself.
		text := slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})
		handler = newJournal(journalSocket, "zino-"+name, text)
	}
	return slog.New(handler).With("service", name)
}

// isJournal reports whether w is the stream that systemd connected to the
// journal. The variable alone does not say so: whatever such a process starts
// inherits it.
func isJournal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("JOURNAL_STREAM") == "" {
		return false
	}
	var stat syscall.Stat_t
	err := syscall.Fstat(int(f.Fd()), &stat)
	return err == nil && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}

// level is what $ZINO_LOG_LEVEL says, or else the configuration.
func level(configured string) slog.Level {
	if level, ok := levelOf(os.Getenv("ZINO_LOG_LEVEL")); ok {
		return level
	}
	level, _ := levelOf(configured) // INFO where it says nothing
	return level
}

// levelOf reads a level's name, Python's included.
func levelOf(name string) (level slog.Level, ok bool) {
	switch strings.ToUpper(strings.TrimSpace(name)) {
	case "DEBUG":
		return slog.LevelDebug, true
	case "INFO":
		return slog.LevelInfo, true
	case "WARN", "WARNING":
		return slog.LevelWarn, true
	case "ERROR", "CRITICAL":
		return slog.LevelError, true
	}
	return slog.LevelInfo, false
}
