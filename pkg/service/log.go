package service

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
)

// Logger returns the log of a program: fields in the journal if w is connected to
// it, else text on w, with the program's name. The level is $ZINO_LOG_LEVEL, else
// the configured one, else INFO.
func Logger(w io.Writer, name, configured string) *slog.Logger {
	return newLogger(w, name, level(configured))
}

func newLogger(w io.Writer, name string, level slog.Leveler) *slog.Logger {
	var handler slog.Handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	if isJournal(w) {
		// The fallback is text without time, which the journal adds itself.
		text := slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})
		handler = newJournal(journalSocket, "zino-"+name, text)
	}
	return slog.New(handler).With("service", name)
}

// isJournal reports whether systemd connected w to the journal. JOURNAL_STREAM
// alone does not show it: child processes inherit the variable.
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

// level returns the level of $ZINO_LOG_LEVEL, else the configured one.
func level(configured string) slog.Level {
	if level, ok := levelOf(os.Getenv("ZINO_LOG_LEVEL")); ok {
		return level
	}
	level, _ := levelOf(configured) // INFO if empty
	return level
}

// levelOf parses the name of a level; Python's names are accepted, too.
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
