package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/config"
	"zino/pkg/mention"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/doctor"
	"zino/services/cli/images"
	"zino/services/cli/render"
	"zino/services/cli/turn"
)

// inputTimeout is the timeout for the first byte of standard input: many programs leave
// the standard input of their children open.
const inputTimeout = 3 * time.Second

// execFlags are the flags of zino exec, and of zino -p.
type execFlags struct {
	prompt string
	detach bool
	waits  bool // --wait-approval
	input  string
	schema string   // path of --output-schema
	images []string // --image
}

func (e *execFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&e.prompt, "prompt", "p", "", "the `PROMPT` to run")
	cmd.Flags().StringArrayVar(&e.images, "image", nil, "send the image or PDF `FILE` with the prompt; may be repeated")
	cmd.Flags().BoolVar(&e.detach, "detach", false, "start the turn of a prompt and leave; see zino attach")
	cmd.Flags().BoolVar(&e.waits, "wait-approval", false, "wait for zino approve, without a terminal too, in place of denying what must be asked")
	cmd.Flags().StringVar(&e.schema, "output-schema", "", "the answer is a JSON value that matches the JSON Schema in `FILE`, on one line")
	cmd.Flags().StringVar(&e.input, "input", command.FormatText, "what standard input is: `FORM` text, part of the prompt, or json, commands for the turn")
}

func newExec(env *command.Env) *cobra.Command {
	var e execFlags
	cmd := &cobra.Command{
		Use: "exec [PROMPT]", Short: "run one prompt and leave", Annotations: command.PrintsJSON,
		Long: `Run one prompt: the answer goes to standard output, all else to standard error.

The prompt is the text of -p, or the words of the command. What a pipe or a file
gives on standard input is appended to it, or is the prompt if there is no other.
@path in it, or @"a path", names a file: a text or a list of the directory is appended,
an image or PDF file goes to the model as such, as does that of --image.
The turn is kept as a session, see zino sessions, unless --no-save is given.

Where services keep running (zino up, or units) the turn goes on when the terminal is
closed; zino attach shows it again. Ctrl-C, SIGTERM and a closed standard output
interrupt it. --detach only starts it: the session's id goes to standard output.

A first word such as /fix is a command if there is one of that name: a Markdown file of
.claude/commands or ~/.config/zino/commands, or a skill. Files of the project are used if
you trust them: on a terminal you are asked, see zino trust.

Where the mode or a rule says to ask before a call (--mode, zino policy), you are asked
on the terminal; zino approve answers from elsewhere. Without a terminal such a call is
denied, and a line says how to allow it: if all calls were denied, the exit status is 1.
With --wait-approval the turn waits for zino approve, and so it does with --detach.

With --output-schema FILE the answer is one line of JSON that matches the JSON Schema in
FILE; all other text goes to standard error. An answer that does not match is asked for
again, up to twice; then the exit status is 1.

With --input json --format json each line of standard input is a command for the turn:
{"type":"say","text":"…"} adds a message, {"type":"cancel"} interrupts, and
{"type":"approve","id":"ap-…","answer":"once"} answers a packet approval_requested, also
with session, always or deny. The answers are packets among the events.`,
		Example: "  zino exec 'find the flaky test'\n  zino exec -p 'what does this do?' <main.go\n" +
			"  git diff | zino exec -p 'write a commit message' --no-save\n  zino exec <prompt.txt\n" +
			"  zino exec --output-schema person.schema.json -p 'who wrote this?' <README.md | jq .name",
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, env, args) },
	}
	e.flags(cmd)
	return cmd
}

// run runs the prompt of -p, of the words or of standard input.
func (e *execFlags) run(cmd *cobra.Command, env *command.Env, args []string) error {
	env.Events = true
	prompt := e.prompt
	if len(args) > 0 {
		if cmd.Flags().Changed("prompt") {
			return render.Usage("the prompt is given twice, with -p and as %q: quote all of it, or leave -p out", args[0])
		}
		prompt = strings.Join(args, " ")
	}
	ctx, stop := command.UntilSignal(cmd.Context())
	defer stop()
	command.CatchPipe()
	err := e.runPrompt(ctx, env, prompt)
	if err != nil && ctx.Err() != nil && !errors.Is(err, render.ErrInterrupted) && !errors.Is(err, render.ErrDetached) {
		env.Interrupted()
		return command.Interruption(ctx)
	}
	return err
}

// check refuses flags that exclude each other.
func (e *execFlags) check(env *command.Env) error {
	switch commands := e.input == command.FormatJSON; {
	case !commands && e.input != command.FormatText:
		return render.Usage("--input %q is neither text nor json", e.input)
	case commands && !env.JSON():
		return render.Usage("--input json needs --format json, for the answers")
	case commands && (e.detach || env.NoSave):
		return render.Usage("--input json is for a turn that is stored and followed: leave --detach and --no-save out")
	case e.detach && env.NoSave:
		return render.Usage("a detached turn is stored: leave --no-save or --detach out")
	}
	return nil
}

func (e *execFlags) runPrompt(ctx context.Context, env *command.Env, prompt string) error {
	if err := e.check(env); err != nil {
		return err
	}
	req, err := env.Request()
	if err != nil {
		return err
	}
	if e.schema != "" {
		if req.OutputSchema, err = readSchema(e.schema); err != nil {
			return err
		}
	}
	input := ""
	if e.input == command.FormatText {
		if input, err = readStdin(ctx, env, strings.TrimSpace(prompt) == ""); err != nil {
			return err
		}
	}
	switch req.Message = prompt; {
	case strings.TrimSpace(input) == "":
	case strings.TrimSpace(prompt) == "":
		req.Message = input
	default:
		req.Message = strings.TrimRight(prompt, "\n") + "\n\n" + input
	}
	if strings.TrimSpace(req.Message) == "" {
		return render.Usage("zino exec needs a prompt: zino exec -p TEXT, or a text on standard input; try zino exec --help")
	}
	files, err := e.files(ctx, env, prompt, &req)
	if err != nil {
		return err
	}
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	env.OnHangup = cfg.CLI.OnHangup
	d, err := e.connect(ctx, env, cfg)
	if err != nil {
		return err
	}
	defer d.Close()
	if !d.Named {
		env.Introduce(ctx, d)
		env.CompareVersions(ctx, d)
	}
	req.Reachable, err = turn.Gate(ctx, env, d, e.reachable(env))
	if err != nil {
		return err
	}
	id, known, err := turn.Session(ctx, env, d)
	if err != nil {
		return connect.Explain(err)
	}
	turn.NoteRecall(env, known)
	req.SessionID, req.NoSave = id, env.NoSave
	if err := turn.Trust(ctx, env, d, req.Root); err != nil {
		return err
	}
	if err := images.Add(ctx, d.Client, &req, files); err != nil {
		return connect.Explain(err)
	}
	turn.Slash(ctx, d, &req)
	if e.detach {
		return e.schemaError(detach(ctx, env, d, req))
	}
	turn.NoteLoaded(env, known)
	stored := id
	if env.NoSave {
		stored = ""
	}
	turns := env.Turns()
	if text, ok := turns.(*render.TextTurns); ok && e.schema != "" {
		text.HoldAnswer()
	}
	explained := &schemaTurns{Turns: turns, explain: e.schemaError}
	if err := turns.Begin(stored); err != nil {
		return render.OutputError(err)
	}
	var commands io.Reader
	if e.input == command.FormatJSON {
		commands = env.In
	}
	_, err = turn.RunInput(ctx, env, d, req, explained, commands)
	if _, usage := errors.AsType[render.UsageError](explained.failed); usage && errors.Is(err, render.ErrReported) {
		return command.Status(2)
	}
	return e.schemaError(err)
}

// schemaTurns names the file of --output-schema in the error of a turn.
type schemaTurns struct {
	render.Turns
	explain func(error) error
	failed  error
}

// End renders the end of a turn.
func (s *schemaTurns) End(done render.Done, err error) (reported bool, writing error) {
	s.failed = s.explain(err)
	return s.Turns.End(done, s.failed)
}

// maxSchema is the size of the largest file of --output-schema.
const maxSchema = 256 << 10

// readSchema reads the file of --output-schema. The daemon checks what it says.
func readSchema(path string) (proto.Raw, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, render.Usage("--output-schema: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSchema+1))
	if err != nil {
		return nil, render.Usage("--output-schema: %w", err)
	}
	if len(b) > maxSchema {
		return nil, render.Usage("--output-schema %s: more than %d bytes", path, maxSchema)
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		place := ""
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			before := b[:min(int(syntax.Offset), len(b))]
			place = fmt.Sprintf(":%d:%d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')-1)
		}
		return nil, render.Usage("--output-schema %s%s: not a JSON object: %w", path, place, err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, b); err != nil {
		return nil, render.Usage("--output-schema %s: %w", path, err)
	}
	return line.Bytes(), nil
}

// schemaError names the file in an error about it.
func (e *execFlags) schemaError(err error) error {
	origin, ok := errors.AsType[*proto.Error](err)
	if !ok || origin.Kind != proto.ErrorKindSchema {
		return err
	}
	if rest, ok := strings.CutPrefix(origin.Message, "output_schema: "); ok && origin.Code == proto.CodeInvalid {
		return render.Usage("--output-schema %s: %s", e.schema, rest)
	}
	named := *origin
	named.Message = strings.Replace(origin.Message, "match the schema", "match "+filepath.Base(e.schema), 1)
	return &named
}

// files returns the images of --image, and those that the prompt names with @. Text files
// that it names are appended to the message.
func (e *execFlags) files(ctx context.Context, env *command.Env, prompt string, req *proto.Chat) ([]proto.FileData, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "~" // no such directory
	}
	var sources []images.Source
	for _, path := range e.images {
		sources = append(sources, images.Source{Path: path})
	}
	read := mention.Files(prompt, req.Root, home)
	for _, note := range read.Notes {
		env.Say("%s", note)
	}
	req.Message += strings.TrimPrefix(read.Text, prompt)
	for _, path := range read.Images {
		sources = append(sources, images.Source{Path: path})
	}
	files, err := images.Prepare(ctx, sources)
	if err != nil {
		return nil, render.Usage("%v", err)
	}
	return files, nil
}

// reachable reports whether a person can be asked during the turn: at this terminal, through
// the program at standard input, or later.
func (e *execFlags) reachable(env *command.Env) bool {
	return e.detach || e.waits || e.input == command.FormatJSON || env.HasPerson()
}

// connect returns a daemon for the turn. A detached turn needs one that stays.
func (e *execFlags) connect(ctx context.Context, env *command.Env, cfg *config.Config) (*connect.Daemon, error) {
	if !e.detach {
		return env.ConnectForTurn(ctx, cfg, connect.StorageOptional)
	}
	d, err := env.Find(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	if d != nil {
		if err := d.Ping(ctx); errors.Is(err, rpc.ErrConnect) {
			d.Close()
			return nil, connect.Explain(err)
		}
	}
	if d == nil || d.Private {
		return nil, proto.Errorf(proto.CodeUnavailable, "--detach needs a running constellation: start zino up, or the service")
	}
	return d, nil
}

// detach starts a turn and prints where to find it.
func detach(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.Chat) error {
	started, err := turn.Start(ctx, d, req)
	if err != nil {
		return connect.Explain(d.ExplainKey(err))
	}
	if env.JSON() {
		turns := render.NewJSONTurns(env.Out)
		err = errors.Join(turns.Begin(started.SessionID), turns.Packet("turn", started))
	} else {
		err = env.PrintLine(started.SessionID)
	}
	env.Say("Turn %s started. Follow it: zino attach %s", started.Turn, turn.ShortID(started.SessionID))
	if d.InUnits() && !doctor.Lingers() {
		env.Say("Note: this turn pauses when you log out: loginctl enable-linger")
	}
	return render.OutputError(err)
}

// readStdin reads standard input if it is a pipe, a socket or a file. If there is a
// prompt already, it gives up after inputTimeout without a byte.
func readStdin(ctx context.Context, env *command.Env, needed bool) (string, error) {
	info, err := env.In.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 || info.IsDir() {
		return "", nil // closed, a terminal, /dev/null
	}
	timeout := time.After(inputTimeout)
	if needed {
		timeout = nil
		notice := time.AfterFunc(inputTimeout, func() { env.Say("Waiting for the prompt on standard input.") })
		defer notice.Stop()
	}
	input, err := command.ReadInput(ctx, env.In, timeout)
	if errors.Is(err, command.ErrSilent) {
		env.Say("Nothing came on standard input within %v: going on without it.", inputTimeout)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return input, nil
}
