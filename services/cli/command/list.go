package command

import (
	"context"
	"io"

	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// List prints what get returns: rows as a table, or with --json an object a line, or
// none. Without running services it prints none and a hint, unless spawn starts them for this run.
func List[T any](ctx context.Context, env *Env, spawn bool, none string, get func(context.Context, *connect.Daemon) ([]T, error), rows func([]T) [][]string) error {
	return env.Guard(ctx, func(ctx context.Context) error {
		cfg, err := env.Config()
		if err != nil {
			return err
		}
		d, err := env.Find(ctx, cfg, false)
		if d == nil && err == nil && spawn {
			d, err = env.Spawn(ctx, cfg, connect.StorageRequired)
		}
		if err != nil {
			return err
		}
		var list []T
		if d != nil {
			defer d.Close()
			if list, err = get(ctx, d); err != nil {
				return err
			}
		} else {
			// Turns, jobs and requests outlive the services: an empty list alone would mislead.
			env.Say("The services are not running, and what they have stored is not listed. To start them:\n  zino up")
		}
		switch {
		case len(list) > 0 && env.JSON():
			return env.Print(func(w io.Writer) error { return render.JSONList(w, list) })
		case len(list) > 0:
			return env.PrintTable(rows(list))
		case env.JSON():
			env.Say("%s", none)
			return nil
		}
		return env.PrintLine(none)
	})
}
