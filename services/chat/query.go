package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"zino/proto"
)

// commandState is what commands and completion keep.
type commandState struct {
	typedCommands []func()            // that wait for the services
	queries       []*query            // what commands wait for
	listings      map[string]*listing // for completion
	files         []proto.CommandInfo // commands of files, as last listed
	filesKnown    bool                // they were listed
	awaited       *awaited            // a completion whose choices are being listed; nil: none
	models        []proto.Model       // that can be asked, as far as is known
	changedIn     *turn               // the turn during which the model was changed: it uses the old one
	unlisted      string              // a model that was typed and that no provider lists
}

// query is an answer that a command waits for: a row of the activity shows it, and Esc
// ends it.
type query struct {
	what   string
	began  time.Time
	alone  bool // no turn may begin meanwhile
	cancel context.CancelFunc
}

// queryDelay is how long a query takes before it is shown.
const queryDelay = time.Second

// await runs do in the background, and then in the loop, unless the user has ended it.
func await[T any](c *chat, q *query, do func(ctx context.Context) (T, error), then func(T, error)) {
	ctx, cancel := context.WithCancel(c.ctx)
	q.began, q.cancel = time.Now(), cancel
	c.queries = append(c.queries, q)
	c.tick.Reset(time.Second)
	go func() {
		result, err := do(ctx)
		c.after(func() {
			stopped := ctx.Err() != nil
			cancel()
			c.queries = slices.DeleteFunc(c.queries, func(other *query) bool { return other == q })
			if c.turn == nil && len(c.queries) == 0 {
				c.tick.Stop()
			}
			if stopped {
				c.say("%s: stopped.", q.what)
				return
			}
			then(result, err)
		})
	}()
}

// stopQueries ends what commands wait for. It reports whether there was any.
func (c *chat) stopQueries() bool {
	for _, q := range c.queries {
		q.cancel()
	}
	return len(c.queries) > 0
}

// busy reports whether a turn is open, or about to be.
func (c *chat) busy() bool {
	return c.turn != nil || slices.ContainsFunc(c.queries, func(q *query) bool { return q.alone })
}

// queryRows returns the rows of the activity about queries.
func (c *chat) queryRows(width int) (rows []string) {
	const hint = " · Esc stops"
	for _, q := range c.queries {
		if took := time.Since(q.began); q.alone || took >= queryDelay {
			rows = append(rows, c.dim(c.widths.Clip(q.what+" "+elapsed(took), width-1-len(hint))+hint))
		}
	}
	return rows
}

// zino prints what the command line prints, folded if it is long.
func (c *chat) zino(args ...string) {
	c.zinoThen(c.report, args...)
}

// zinoWhole prints all of what the command line prints.
func (c *chat) zinoWhole(args ...string) {
	c.zinoThen(func(_ string, lines []string) { c.print(kindLine, lines...) }, args...)
}

func (c *chat) zinoThen(show func(title string, lines []string), args ...string) {
	title := "zino " + strings.Join(args, " ")
	await(c, &query{what: title}, func(ctx context.Context) (string, error) {
		return c.runZino(ctx, args...)
	}, func(out string, err error) {
		lines := outputLines(strings.TrimSpace(out))
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0 || len(lines) == 0) {
			lines = append(lines, safe(fmt.Sprintf("%s: %v", title, err)))
		}
		show(title, lines)
	})
}

// runZino returns what the command line prints.
func (c *chat) runZino(ctx context.Context, args ...string) (string, error) {
	options := []string{"--socket", c.start.Socket}
	if c.start.Config != "" {
		options = append(options, "--config", c.start.Config)
	}
	cmd := exec.CommandContext(ctx, c.start.Zino, append(options, args...)...)
	cmd.Dir = c.root
	if info, err := os.Stat(c.root); err != nil || !info.IsDir() {
		cmd.Dir = "/"
	}
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// hang wraps a line whose further rows are indented.
func (c *chat) hang(line string, width int) []string {
	if c.widths.Of(line) <= width {
		return []string{line}
	}
	blanks := len(line) - len(strings.TrimLeft(line, " "))
	indent := strings.Repeat(" ", min(blanks+2, width/2))
	rows := c.widths.Wrap(line[blanks:], width-len(indent))
	for i := range rows {
		rows[i] = indent + rows[i]
	}
	rows[0] = line[:blanks] + strings.TrimLeft(rows[0], " ")
	return rows
}

// reportMax is how many lines of an answer are printed; /show prints the others.
const reportMax = 40

// report prints what a command answers.
func (c *chat) report(title string, lines []string) {
	shown, fold := lines, ""
	if over := len(lines) - reportMax; over > 1 {
		shown = lines[:reportMax]
		fold = c.dim(fmt.Sprintf("… %d more lines · /show %d", over, c.items.add(title, lines)))
	}
	var out []string
	width, _ := c.screen.Size()
	for _, line := range shown {
		line = c.widths.ExpandTabs(line, 0)
		out = append(out, c.hang(line, width-1)...)
	}
	if fold != "" {
		out = append(out, fold)
	}
	c.print(kindLine, out...)
}
