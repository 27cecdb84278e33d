// Package jobs implements zino jobs.
package jobs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

const (
	commandWidth = 200                    // characters of a command in the list
	followPause  = 200 * time.Millisecond // between two looks at the output of a job that runs
)

// New returns zino jobs.
func New(env *command.Env) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "jobs", Short: "commands of sessions that run in the background: list, output, stop, keep", Annotations: command.PrintsJSON,
		Long: `List the commands of sessions that are running, with their age, CPU time and memory.
A command of a session is a job: it goes on in the background after [exc]
session_timeout, or when the model starts it there. --all lists those that have ended
as well. With --json each line is an object.

A job is stopped when its session has had no open turn and no viewer for [exc]
job_linger, unless it is kept: see zino jobs keep.`,
		Example: "  zino jobs\n  zino jobs output j-k3v9q2mx -f\n  zino jobs stop j-k3v9q2mx",
		Args:    command.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := func(ctx context.Context, d *connect.Daemon) ([]proto.JobInfo, error) { return list(ctx, d, all) }
			return command.List(cmd.Context(), env, all, "No jobs are running.", list, rows)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list jobs that have ended too")
	cmd.AddCommand(newOutput(env), newStop(env), newKeep(env))
	return cmd
}

// list returns the jobs that are running, with all those that have ended too.
func list(ctx context.Context, d *connect.Daemon, all bool) ([]proto.JobInfo, error) {
	reply, err := connect.Forward(ctx, d, "exc", proto.ExcJobs, proto.ListJobs{})
	if !all {
		reply.Jobs = slices.DeleteFunc(reply.Jobs, func(j proto.JobInfo) bool { return j.State != proto.JobRunning })
	}
	return reply.Jobs, err
}

// rows returns the table of zino jobs.
func rows(jobs []proto.JobInfo) [][]string {
	rows := [][]string{{"JOB", "SESSION", "STATE", "AGE", "CPU", "MEM", "COMMAND"}}
	for _, j := range jobs {
		rows = append(rows, []string{
			j.ID, turn.ShortID(j.SessionID), j.State, render.Elapsed(j.Started), cpu(j.CPUMS), memory(j.MemoryBytes),
			text.Clip(text.OneLine(j.Command), commandWidth),
		})
	}
	return rows
}

// cpu is a CPU time.
func cpu(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// memory is a number of bytes in MiB.
func memory(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return fmt.Sprintf("%.1fM", float64(*bytes)/(1<<20))
}

// one is the only argument of a command: the id of a job.
func one(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 || args[0] == "" {
		return "", command.Mistake(cmd, "name one job by its id: zino jobs lists them")
	}
	return args[0], nil
}

func newOutput(env *command.Env) *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use: "output ID", Short: "print the output of a job",
		Long: `Print what a job has written so far: its standard output to standard output, its
standard error to standard error. A line says where output is missing: of a long one
[exc] job_output_max bytes are kept. With -f it goes on until the job has ended.`,
		Example: "  zino jobs output j-k3v9q2mx",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := one(cmd, args)
			if err != nil {
				return err
			}
			return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				return output(ctx, env, d, id, follow)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print what comes, until the job has ended")
	return cmd
}

// output prints the output of a job from its beginning.
func output(ctx context.Context, env *command.Env, d *connect.Daemon, id string, follow bool) error {
	for from := "0"; ; {
		piece, err := connect.Forward(ctx, d, "exc", proto.ExcJobOutput, proto.ReadJob{Job: id, From: from})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(env.Out, piece.Stdout); err != nil {
			return err
		}
		if _, err := io.WriteString(env.Err, piece.Stderr); err != nil {
			return err
		}
		from = piece.Next
		switch {
		case piece.More:
		case !follow || !piece.Running:
			return nil
		default:
			select {
			case <-time.After(followPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func newStop(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "stop ID...", Short: "stop jobs", Annotations: command.PrintsJSON,
		Long: `Stop jobs with all that they started: SIGTERM, and SIGKILL 100 ms later. A job that
has ended stays as it is. With --json each line is an object.`,
		Example: "  zino jobs stop j-k3v9q2mx",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Mistake(cmd, "name the jobs by their ids: zino jobs lists them")
			}
			return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				for _, id := range args {
					j, err := connect.Forward(ctx, d, "exc", proto.ExcJobStop, proto.JobID{Job: id})
					if err != nil {
						return err
					}
					if err := show(env, j, j.ID+": "+ended(j)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// ended describes the end of a job.
func ended(j proto.JobInfo) string {
	switch {
	case j.Stopped:
		return "stopped."
	case j.ExitCode != nil:
		return fmt.Sprintf("had ended: exit %d.", *j.ExitCode)
	}
	return "had ended: " + j.State + "."
}

func newKeep(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "keep ID", Short: "let a job run on when its session is left", Annotations: command.PrintsJSON,
		Long: `Let a job run until its end, or for [exc] job_max_age, also when its session has no
open turn and no viewer any more. It ends with its services all the same.`,
		Example: "  zino jobs keep j-k3v9q2mx",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := one(cmd, args)
			if err != nil {
				return err
			}
			return env.WithDaemon(cmd, false, connect.StorageRequired, func(ctx context.Context, d *connect.Daemon) error {
				j, err := connect.Forward(ctx, d, "exc", proto.ExcJobKeep, proto.JobID{Job: id})
				if err != nil {
					return err
				}
				return show(env, j, j.ID+" is kept.")
			})
		},
	}
}

// show prints a job as an object, or a line.
func show(env *command.Env, j proto.JobInfo, line string) error {
	if env.JSON() {
		return render.JSON(env.Out, j)
	}
	return env.PrintLine(line)
}
