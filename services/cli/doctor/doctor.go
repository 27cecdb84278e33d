// Package doctor is zino doctor: it checks the installation and says how to repair
// it.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/text"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// New returns zino doctor.
func New(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "check the installation, and say how to repair it",
		Long: `Look for what keeps Zino from working: its programs, the configuration, directories
and their permissions, disk space, sockets, the services, tools and skills, the
sandbox levels, keys, the model's provider, the clock. Each result is one line; one
that needs attention is followed by a command that helps.

Services that do not run are started for the time of the checks. No model is asked
for an answer, and no key is printed. A check that does not end in time is reported
and the others go on. The exit status is 1 if a check failed; warnings do not count.`,
		Args: command.AtMost(0), Annotations: command.PrintsJSON,
		Example: "  zino doctor\n  zino doctor --json | jq -r '.checks[] | select(.status == \"failed\") | .remedy'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := command.UntilSignal(cmd.Context())
			defer stop()
			return run(ctx, env)
		},
	}
}

// Results of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
	checkSkipped = "skipped" // a prerequisite failed
)

// finding is one result of a check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitzero"` // a command
}

func passed(format string, args ...any) finding {
	return finding{Status: checkOK, Text: fmt.Sprintf(format, args...)}
}

func warned(remedy, format string, args ...any) finding {
	return finding{Status: checkWarning, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

func failed(remedy, format string, args ...any) finding {
	return finding{Status: checkFailed, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// check is a check of one part. look should return early when ctx is done.
type check struct {
	name  string
	limit time.Duration
	look  func(ctx context.Context) []finding
}

const (
	localLimit = 5 * time.Second
	startLimit = 15 * time.Second // until services answer that are started for the checks
)

// ReachLimit is how long the model's provider may take to answer. Tests shorten it.
var ReachLimit = 8 * time.Second

// doctor is one run of the checks.
type doctor struct {
	*command.Env
	cfg  *config.Config
	base string // empty if it cannot be found

	services func() (*connect.Daemon, error) // connects with the services or starts them, once
	provider func() (*providerAnswer, error) // asks the model's provider, once
}

func run(ctx context.Context, env *command.Env) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	quiet := *env
	quiet.Err = null // the checks report the same problems as the warnings
	d := &doctor{Env: &quiet}
	d.base, _ = connect.BaseDir()            // the check of directories reports the error
	if d.cfg, err = d.Config(); err != nil { // the check of the configuration reports it
		if d.cfg, err = connect.Defaults(d.base); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.services = sync.OnceValues(func() (*connect.Daemon, error) { return d.connectServices(ctx) })
	d.provider = sync.OnceValues(func() (*providerAnswer, error) { return d.askProvider(ctx) })
	findings := examine(ctx, env, []check{
		{"programs", localLimit, d.checkPrograms},
		{"configuration", localLimit, d.checkConfiguration},
		{"directories", localLimit, d.checkDirectories},
		{"disk", localLimit, d.checkDisk},
		{"sockets", localLimit, d.checkSockets},
		{"host", localLimit, d.checkHost},
		{"services", startLimit + localLimit, d.checkServices},
		{"tools", startLimit + localLimit, d.checkTools},
		{"analysers", startLimit + localLimit, d.checkAnalysers},
		{"mcp", startLimit + localLimit, d.checkServers},
		{"sandbox", startLimit + localLimit, d.checkSandbox},
		{"key", startLimit + localLimit, d.checkKey},
		{"provider", startLimit + localLimit + ReachLimit, d.checkProvider},
		{"clock", startLimit + localLimit + ReachLimit, d.checkClock},
	})
	if running, err := d.services(); err == nil {
		running.Close()
	}
	if ctx.Err() != nil {
		env.Interrupted()
		return render.ErrInterrupted
	}
	return conclude(env, findings)
}

// examine runs all checks concurrently and prints the results in order.
func examine(ctx context.Context, env *command.Env, checks []check) (all []finding) {
	results := make([]chan []finding, len(checks))
	for i, c := range checks {
		results[i] = make(chan []finding, 1)
		go func() { results[i] <- c.run(ctx) }()
	}
	for i := range checks {
		findings := <-results[i]
		all = append(all, findings...)
		if env.JSON() {
			continue
		}
		for _, f := range findings {
			status := map[string]string{checkOK: "ok", checkWarning: "warning", checkFailed: "FAILED", checkSkipped: "skipped"}[f.Status]
			fmt.Fprintf(env.Out, "%-8s %-14s %s\n", status, f.Check, render.Line(f.Text))
			if f.Remedy != "" {
				fmt.Fprintf(env.Out, "%24s%s\n", "", render.Line(f.Remedy))
			}
		}
	}
	return all
}

// run calls look, and abandons it at the limit.
func (c check) run(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	done := make(chan []finding, 1)
	go func() { done <- c.look(ctx) }()
	var findings []finding
	select {
	case findings = <-done:
	case <-ctx.Done():
		findings = []finding{{Status: checkFailed, Text: fmt.Sprintf("this check did not end within %v", c.limit), Remedy: "zino status"}}
	}
	for i := range findings {
		findings[i].Check = c.name
	}
	return findings
}

// conclude prints the summary.
func conclude(env *command.Env, findings []finding) error {
	count := map[string]int{}
	for _, f := range findings {
		count[f.Status]++
	}
	if env.JSON() {
		err := env.Print(func(w io.Writer) error {
			return render.JSON(w, struct {
				OK     bool      `json:"ok"`
				Checks []finding `json:"checks"`
			}{count[checkFailed] == 0, findings})
		})
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintf(env.Out, "\n%d failed, %s.\n", count[checkFailed], text.Count(count[checkWarning], "warning"))
	}
	if count[checkFailed] > 0 {
		return render.ErrReported
	}
	return nil
}
