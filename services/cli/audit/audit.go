// Package audit implements zino audit: what the services have recorded of their work, and
// whether the record is whole.
package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zino/pkg/audit"
	"zino/pkg/audit/chain"
	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
)

// hostFile is the configuration of the host's services, and hostDir where their zino-audit
// keeps its records unless that says otherwise.
const (
	hostFile = config.HostFile
	hostDir  = "/var/lib/zino-audit"
)

// New returns zino audit.
func New(env *command.Env) *cobra.Command {
	return command.Group("audit", "what the services have done: show, why, verify, key", `The services record what they do: turns, requests to models, calls of tools with the
hashes of the files that they changed, approvals and grants, denials, changes of the
configuration and of the rules. Contents of files, answers of models and messages are not
recorded; of the input of a call there are the first 512 bytes, with secrets masked.

On a host the records are kept by the service zino-audit, which no code that a model has
run can reach. Its lines form a chain: each has the hash of the line before, and at least
every 1,000 records a checkpoint is signed. So a line that was altered, removed or inserted
is found: zino audit verify. Who has the key, root in particular, can write the whole log
anew and sign it: only checkpoints that were copied to another host ([audit] mirror, the
journal for example) prove something against root.

A user's own services write a plain log, log/audit.jsonl in $ZINO_HOME, else in
$XDG_CONFIG_HOME/zino, else in ~/.config/zino. It has the same records, but any program of
the user can alter it. With --host the commands read the host's records; [audit] readers
may do that.`,
		newShow(env), newWhy(env), newVerify(env), newKey(env))
}

// source is where the records are.
type source struct {
	plain  string // the path of a plain log; empty: zino-audit keeps them
	socket string
	dir    string
	mirror string
}

// describe says where the records are.
func (s source) describe() string {
	if s.plain != "" {
		return "plain log " + s.plain
	}
	return "zino-audit, records in " + s.dir
}

// find returns the user's plain log, or with --host, or where there is no plain log but a
// zino-audit of the host, the host's records.
func find(env *command.Env) (s source, err error) {
	cfg, err := env.Config()
	if err != nil {
		return s, err
	}
	return sourceOf(cfg, env.Host)
}

func sourceOf(cfg *config.Config, host bool) (s source, err error) {
	if cfg.IsSet("audit.socket") && cfg.Audit.Socket != "" && !host {
		return source{socket: cfg.Audit.Socket, dir: cfg.Audit.DataDir, mirror: cfg.Audit.Mirror}, nil
	}
	s.plain, err = audit.PlainPath()
	if err != nil && !host {
		return s, err
	}
	defaults := config.Default().Audit
	if _, statErr := os.Stat(s.plain); !host && (statErr == nil || !exists(defaults.Socket)) {
		return s, nil
	}
	s = source{socket: defaults.Socket, dir: hostDir, mirror: defaults.Mirror}
	if of, err := config.Load(hostFile, "cli"); err == nil {
		s.socket, s.mirror = of.Audit.Socket, of.Audit.Mirror
		if of.IsSet("audit.data_dir") {
			s.dir = of.Audit.DataDir
		}
	}
	return s, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Kind describes the audit of the services of a configuration, for zino status.
func Kind(cfg *config.Config, host bool) string {
	s, err := sourceOf(cfg, host)
	if err != nil {
		return "none"
	}
	if s.plain != "" && !exists(s.plain) {
		return s.describe() + " (not written yet)"
	}
	return s.describe()
}

// records calls each with the records that a request selects, the oldest first.
func (s source) records(ctx context.Context, req proto.ReadAudit, each func(r line.Record, text []byte) error) error {
	if s.plain != "" {
		if err := inFile(audit.OldPlain(s.plain), req, each); err != nil {
			return err
		}
		return inFile(s.plain, req, each)
	}
	client := &rpc.Client{Service: "audit", Path: s.socket}
	defer client.Close()
	for {
		reply, err := rpc.Call(ctx, client, proto.AuditRead, req)
		if errors.Is(err, rpc.ErrConnect) {
			return s.inFiles(req, each, err)
		}
		if err != nil {
			return err
		}
		for _, l := range reply.Lines {
			r, err := line.Parse([]byte(l))
			if err != nil {
				return err
			}
			if err := each(r, []byte(l)); err != nil {
				return err
			}
		}
		if req.From = reply.Next; reply.Next == 0 {
			return nil
		}
	}
}

// inFiles reads the records of a service that does not answer.
func (s source) inFiles(req proto.ReadAudit, each func(line.Record, []byte) error, cause error) error {
	paths, err := chain.Files(s.dir)
	if err != nil {
		return cause
	}
	for _, path := range paths {
		if err := inFile(path, req, each); err != nil {
			return err
		}
	}
	return nil
}

// inFile reads the records in a file.
func inFile(path string, req proto.ReadAudit, each func(line.Record, []byte) error) error {
	since, _ := time.Parse(time.RFC3339, req.Since)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, line.MaxLine)
	for {
		l, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		r, parseErr := line.Parse(l)
		if parseErr != nil || r.Seq < req.From || !strings.HasPrefix(r.Session, req.Session) || req.Turn != "" && r.Turn != req.Turn ||
			req.Kind != "" && r.Kind != req.Kind || r.Time().Before(since) {
			continue
		}
		if err := each(r, bytes.TrimSuffix(l, []byte("\n"))); err != nil {
			return err
		}
	}
}

func newShow(env *command.Env) *cobra.Command {
	var req proto.ReadAudit
	cmd := &cobra.Command{
		Use: "show", Short: "print the records, the oldest first", Args: command.NoArgs, Annotations: command.PrintsJSON,
		Long: `Print the records, the oldest first. With --json each line is a record as it stands in
the log.`,
		Example: "  zino audit show --since 2026-11-23 --kind denied\n  zino audit show --session 5b0c --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckTime(cmd, "since", &req.Since); err != nil {
				return err
			}
			s, err := find(env)
			if err != nil {
				return err
			}
			rows := [][]string{{"TIME", "FROM", "KIND", "SESSION", "TURN", "WHAT"}}
			err = env.Guard(cmd.Context(), func(ctx context.Context) error {
				return env.Print(func(w io.Writer) error {
					return s.records(ctx, req, func(r line.Record, l []byte) error {
						if env.JSON() {
							_, err := fmt.Fprintf(w, "%s\n", text.VisibleJSON(string(l)))
							return err
						}
						rows = append(rows, []string{clock(&r), r.Src, r.Kind, dash(head(r.Session, 8)), dash(r.Turn), what(&r)})
						return nil
					})
				})
			})
			switch {
			case err != nil || env.JSON():
				return err
			case len(rows) == 1:
				return env.PrintLine("There are no such records.")
			}
			return env.PrintTable(rows)
		},
	}
	cmd.Flags().StringVar(&req.Session, "session", "", "only records of the session with this `ID`, or the beginning of it")
	cmd.Flags().StringVar(&req.Turn, "turn", "", "only records of the turn with this `ID`")
	cmd.Flags().StringVar(&req.Kind, "kind", "", "only records of this `KIND`, such as call, denied or approval")
	cmd.Flags().StringVar(&req.Since, "since", "", "only records from this `TIME` on, a day or RFC 3339")
	return cmd
}

// clock returns the time of a record for people.
func clock(r *line.Record) string { return r.Time().Local().Format("2006-01-02 15:04:05") }

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func head(s string, n int) string { return s[:min(len(s), n)] }

func newVerify(env *command.Env) *cobra.Command {
	key, from := "", ""
	cmd := &cobra.Command{
		Use: "verify", Short: "check that no record was altered or removed", Args: command.NoArgs,
		Long: `Check the chain of hashes, the signatures of the checkpoints, and the checkpoints that
[audit] mirror has copied. The services need not run. The exit status is 1 if something is
wrong; then the first record that is not as it was written is printed. Records behind the
last checkpoint could have been removed without a trace.

The key is the one that --key names, as zino audit key prints it, else the file key.pub
beside the log: keep a copy of it elsewhere, because who can write the log can replace that
file, too. On a host the log can be read by root only; --from names a copy.`,
		Example: "  sudo zino audit verify --host\n  zino audit verify --from copy --key 'zino-audit/host+1a2b3c4d+AZ…'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := source{dir: from, mirror: config.MirrorNone}
			var err error
			if from == "" {
				if s, err = find(env); err != nil {
					return err
				}
			}
			if s.plain == "" {
				err = verify(cmd.Context(), env, s, key)
			}
			if s.plain != "" || errors.Is(err, chain.ErrPlain) {
				err = cmp.Or(env.PrintLine(chain.ErrPlain.Error()), render.ErrReported)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the verifier key `K`")
	cmd.Flags().StringVar(&from, "from", "", "verify the log in this `FILE` or directory")
	return cmd
}

func verify(ctx context.Context, env *command.Env, s source, key string) error {
	info, err := os.Stat(s.dir)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: run it as root, or with --from on a copy", err)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if line.FileNumber(filepath.Base(s.dir)) == 0 {
			return chain.ErrPlain
		}
		s.dir = filepath.Dir(s.dir) // a file of a chain says nothing without the others
	}
	if exists(filepath.Join(s.dir, line.PlainFile)) {
		return chain.ErrPlain
	}
	if key == "" {
		if key, err = s.key(); err != nil {
			return fmt.Errorf("there is no verifier key, name it with --key: %w", err)
		}
	}
	mirror, err := s.mirrored(ctx)
	if err != nil {
		env.Say("Warning: the mirror of the checkpoints was not read: %v", err)
	}
	r, err := chain.Verify(s.dir, strings.TrimSpace(key), mirror)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: run it as root, or with --from on a copy", err)
	}
	if p, ok := errors.AsType[*chain.Problem](err); ok {
		if err := env.PrintLine(p.Error()); err != nil {
			return err
		}
		return render.ErrReported
	}
	if err != nil {
		return err
	}
	return env.PrintLine(r.String())
}

// key returns the verifier key beside a log.
func (s source) key() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, chain.VerifierFile))
	return strings.TrimSpace(string(data)), err
}

func newKey(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "print the key that checkpoints are verified with", Args: command.NoArgs,
		Long: `Print the public key of the checkpoints, for zino audit verify --key. Keep it on another
host.`,
		Example: "  sudo zino audit key --host",
		RunE: func(*cobra.Command, []string) error {
			s, err := find(env)
			if err != nil {
				return err
			}
			if s.plain != "" {
				return errors.New("this is a plain log: it has no key")
			}
			key, err := s.key()
			if errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("%w: run it as root", err)
			}
			if err != nil {
				return err
			}
			return env.PrintLine(key)
		},
	}
}

// messages finds the user's messages of turns.
type messages struct {
	env   *command.Env
	cfg   *config.Config
	d     *connect.Daemon
	known map[string]map[string]string // by session and turn
}

// of returns the first words of the message of a turn, empty if the session is gone.
func (m *messages) of(ctx context.Context, session, turn string) string {
	if session == "" {
		return ""
	}
	turns, ok := m.known[session]
	if !ok {
		turns = m.read(ctx, session)
		m.known[session] = turns
	}
	return turns[turn]
}

func newMessages(ctx context.Context, env *command.Env) (*messages, error) {
	cfg, err := env.Config()
	if err != nil {
		return nil, err
	}
	m := &messages{env: env, cfg: cfg, known: map[string]map[string]string{}}
	if m.d, err = env.Find(ctx, cfg, false); err != nil {
		m.d = nil // the sessions of services that do not run are files
	}
	return m, nil
}

func (m *messages) close() {
	if m.d != nil {
		m.d.Close()
	}
}
