package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/visible"
)

const doctorLong = `Look for what keeps Zino from working: its programs, the configuration, directories
and their permissions, disk space, sockets, the services, tools and skills, the
sandbox levels, keys, the model's provider, the clock. Each result is one line; one
that needs attention is followed by a command that helps.

Services that do not run are started for the time of the checks. No model is asked
for an answer, and no key is printed. A check that does not end in time is reported
and the others go on. The exit status is 1 if a check failed; warnings do not count.`

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "check the installation, and say how to repair it", Long: doctorLong,
		Args: atMost(0), Annotations: printsJSON,
		Example: "  zino doctor\n  zino doctor --json | jq -r '.checks[] | select(.status == \"failed\") | .remedy'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return a.doctor(ctx)
		},
	}
}

// Results of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
	checkSkipped = "skipped" // something that the check needs has failed
)

// finding is one result of a check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitzero"` // a command
}

// check is one thing to look at. look returns early when ctx ends if it can.
type check struct {
	name  string
	limit time.Duration
	look  func(ctx context.Context) []finding
}

// Time limits of checks. Those that ask services wait for these to start.
var (
	localLimit = 5 * time.Second
	startLimit = 15 * time.Second
	reachLimit = 8 * time.Second
)

// doctor is one run of the checks.
type doctor struct {
	*app
	cfg  *config.Config
	base string // empty if it cannot be found

	services func() (*daemon, error)         // connects with the services or starts them, once
	provider func() (*providerAnswer, error) // asks the model's provider, once
}

func (a *app) doctor(ctx context.Context) error {
	quiet, err := a.silent()
	if err != nil {
		return err
	}
	defer quiet.err.Close()
	d := &doctor{app: quiet}
	d.base, _ = baseDir()                          // an error is what the check of directories reports
	if d.cfg, err = quiet.settings(); err != nil { // the check of the configuration reports it
		if d.cfg, err = config.Load("", "cli"); err != nil {
			return err
		}
		quiet.settle(d.cfg, d.base)
		settleRepl(d.cfg)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.services = sync.OnceValues(func() (*daemon, error) { return d.connectServices(ctx) })
	d.provider = sync.OnceValues(func() (*providerAnswer, error) { return d.askProvider(ctx) })
	findings := a.examine(ctx, []check{
		{"programs", localLimit, d.checkPrograms},
		{"configuration", localLimit, d.checkConfiguration},
		{"directories", localLimit, d.checkDirectories},
		{"disk", localLimit, d.checkDisk},
		{"sockets", localLimit, d.checkSockets},
		{"host", localLimit, d.checkHost},
		{"services", startLimit + localLimit, d.checkServices},
		{"tools", startLimit + localLimit, d.checkTools},
		{"analysers", startLimit + localLimit, d.checkAnalysers},
		{"sandbox", startLimit + localLimit, d.checkSandbox},
		{"key", startLimit + localLimit, d.checkKey},
		{"provider", startLimit + localLimit + reachLimit, d.checkProvider},
		{"clock", startLimit + localLimit + reachLimit, d.checkClock},
	})
	if running, err := d.services(); err == nil {
		running.close()
	}
	if ctx.Err() != nil {
		a.interrupted()
		return errInterrupted
	}
	return a.concludeDoctor(findings)
}

// silent is the app without its warnings: the checks report what they are about.
func (a *app) silent() (*app, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	quiet := *a
	quiet.err = null
	return &quiet, err
}

// examine runs all checks side by side and prints each result in its turn.
func (a *app) examine(ctx context.Context, checks []check) (all []finding) {
	results := make([]chan []finding, len(checks))
	for i, c := range checks {
		results[i] = make(chan []finding, 1)
		go func() { results[i] <- c.run(ctx) }()
	}
	for i := range checks {
		findings := <-results[i]
		all = append(all, findings...)
		if a.asJSON() {
			continue
		}
		for _, f := range findings {
			a.printFinding(f)
		}
	}
	return all
}

// run looks, for as long as the limit allows. A check that hangs is left behind.
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

func (a *app) printFinding(f finding) {
	status := map[string]string{checkOK: "ok", checkWarning: "warning", checkFailed: "FAILED", checkSkipped: "skipped"}[f.Status]
	fmt.Fprintf(a.out, "%-8s %-14s %s\n", status, f.Check, inLine(visible.Text(f.Text)))
	if f.Remedy != "" {
		fmt.Fprintf(a.out, "%24s%s\n", "", inLine(visible.Text(f.Remedy)))
	}
}

// concludeDoctor prints how many checks failed.
func (a *app) concludeDoctor(findings []finding) error {
	count := map[string]int{}
	for _, f := range findings {
		count[f.Status]++
	}
	if a.asJSON() {
		err := a.print(func(w io.Writer) error {
			return printJSON(w, struct {
				OK     bool      `json:"ok"`
				Checks []finding `json:"checks"`
			}{count[checkFailed] == 0, findings})
		})
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "\n%d failed, %s.\n", count[checkFailed], plural(count[checkWarning], "warning"))
	}
	if count[checkFailed] > 0 {
		return errQuiet
	}
	return nil
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
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
