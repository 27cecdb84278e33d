package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"zino/pkg/config"
)

func (a *app) configEditCommand() *cobra.Command {
	return &cobra.Command{
		Use: "edit", Short: "open your configuration in an editor, and check it", Args: without,
		Long: `Open your configuration, or the file that --config or $ZINO_CONFIG names, in an
editor: $VISUAL, $EDITOR, or vi. A file that does not exist is written first, as
zino config init does. Afterwards it is checked as with zino config check.`,
		Example: "  EDITOR=nano zino config edit",
		RunE: func(*cobra.Command, []string) error {
			path, err := a.ownFile()
			if err == nil {
				err = newFile(path, configText(config.Default()))
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			interrupts := make(chan os.Signal, 1)
			signal.Notify(interrupts, os.Interrupt) // Ctrl-C is the editor's
			defer signal.Stop(interrupts)
			if err := a.runEditor(ctx, path); err != nil {
				return err
			}
			return a.configCheck(path)
		},
	}
}

// ownFile is the configuration that the user named, or the user's own, which
// need not exist.
func (a *app) ownFile() (string, error) {
	if a.named() {
		return config.Find(a.config)
	}
	return configPath()
}
