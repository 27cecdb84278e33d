// Package memory implements zino memory.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"zino/pkg/message"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/connect"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// New returns zino memory.
func New(env *command.Env) *cobra.Command {
	return command.Group("memory", "stored memories: add, search, list, edit, export, inbox", `Store, find and edit what Zino remembers.

A memory is a short text. The memories nearest to a message, by their words and, if
[mem] embed names a model, by their meaning, are sent to the model with it. Each has
an id, a number that never changes. The soft memory is one text that is part of every
system prompt. Memories stay until you delete them.

With remember = "propose" in the section [mem] of the configuration, what the model
wants to remember waits in the inbox until you accept it.`,
		newAdd(env), newSearch(env), newList(env), newShow(env), newEdit(env), newRemove(env), newExport(env), newImport(env), newInbox(env), newEmbed(env), newSoft(env))
}

// withDaemon calls do with the running daemon, which may be the host's, or with one
// started for this run.
func withDaemon(env *command.Env, cmd *cobra.Command, do func(context.Context, *connect.Daemon) error) error {
	return env.WithDaemon(cmd, true, connect.StorageRequired, do)
}

func newAdd(env *command.Env) *cobra.Command {
	var tag, replaces string
	cmd := &cobra.Command{
		Use: "add TEXT...", Short: "remember a text", Annotations: command.PrintsJSON,
		Long: `Remember a text, from the command line or, without words there, from standard
input, and print the memory's id. What is remembered already, with the same tag,
is not stored twice: its id is printed. With --replaces an older memory is kept, but
not found any more; if it was replaced before, what replaced it is replaced.`,
		Example: "  zino memory add The spare key hangs behind the clock. --tag house\n  zino memory add The spare key is with Ada. --tag house --replaces 7",
		RunE: func(cmd *cobra.Command, args []string) error {
			req := proto.StoreHard{Tag: tag}
			if cmd.Flags().Changed("replaces") {
				old, err := parseID(cmd, replaces)
				if err != nil {
					return err
				}
				req.Replaces = &old
			}
			content := strings.Join(args, " ")
			piped := len(args) == 0 && !term.IsTerminal(env.In) || content == "-"
			if !piped && strings.TrimSpace(content) == "" {
				return command.Mistake(cmd, "say what is to be remembered, or pass it on standard input")
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) (err error) {
				if piped {
					if content, err = readStdin(ctx, env); err != nil {
						return err
					}
					content = strings.TrimRight(content, "\r\n")
				}
				if !utf8.ValidString(content) || !utf8.ValidString(tag) {
					return command.ErrNotUTF8
				}
				env.NoteShared(d)
				req.Messages = message.Close(message.Append(nil, proto.RoleUser, content))
				stored, err := connect.Forward(ctx, d, "mem", proto.MemStoreHard, req)
				if err != nil && req.Replaces != nil {
					err = explain(*req.Replaces, err)
				}
				if err != nil {
					return err
				}
				if env.JSON() {
					return render.JSON(env.Out, stored)
				}
				_, err = fmt.Fprintln(env.Out, stored.ID)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&tag, "tag", "", "`TAG` by which it can be found, too")
	cmd.Flags().StringVar(&replaces, "replaces", "", "the memory with this `ID` is not found any more")
	return cmd
}

// readStdin reads standard input, which must be text that is not blank.
func readStdin(ctx context.Context, env *command.Env) (string, error) {
	content, err := command.Await(ctx, func() (string, error) {
		data, err := io.ReadAll(io.LimitReader(env.In, wire.MaxPayload))
		return string(data), err
	}, nil)
	switch {
	case err != nil:
		return "", err
	case len(content) == wire.MaxPayload:
		return "", proto.Errorf(proto.CodeTooLarge, "standard input is larger than 16 MiB, and nothing was changed: pass a shorter text")
	case strings.TrimSpace(content) == "":
		return "", proto.Errorf(proto.CodeInvalid, "nothing came on standard input, and nothing was changed")
	case !utf8.ValidString(content):
		return "", command.ErrNotUTF8
	}
	return content, nil
}

// filter selects memories.
type filter struct{ tag, channel, since, until string }

func (f *filter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.tag, "tag", "", "only those with just this `TAG`")
	flags.StringVar(&f.channel, "channel", "", "only those that come from the channel `ID`")
	flags.StringVar(&f.since, "since", "", "only those stored at or after `TIME`: YYYY-MM-DD, or RFC 3339")
	flags.StringVar(&f.until, "until", "", "only those stored before `TIME`")
}

func (f *filter) check(cmd *cobra.Command) error {
	return cmp.Or(command.CheckTime(cmd, "since", &f.since), command.CheckTime(cmd, "until", &f.until))
}

func newSearch(env *command.Env) *cobra.Command {
	var req proto.SearchHard
	var f filter
	var k int
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "find memories by their words", Annotations: command.PrintsJSON,
		Long: `Find the memories nearest to some words, best first. The score is the part of the
query that the memory covers, words weighed by their rarity; 1 would be every word,
many times. A right answer often has 0.3 to 0.7. Scores of different searches do
not compare.

With --explain the words that made the score are shown, those with the largest
share first, and in brackets the word stem that was found in place of one that no
memory has. The exit status is 1 if nothing is found, as with grep.

If [mem] embed names a model, memories are ranked by their meaning as well, and the
score merges both ranks: 1 is the first of both. --explain still explains the words.`,
		Example: "  zino memory search where is the spare key -k 3 --min-score 0.2",
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Query, req.TopK = strings.Join(args, " "), &k
			switch {
			case strings.TrimSpace(req.Query) == "":
				return command.Mistake(cmd, "name the words to look for")
			case k < 1:
				return command.Mistake(cmd, "-k %d is not the number of memories wanted, 1 or more", k)
			case !(req.MinScore >= 0 && req.MinScore <= 1): // true for NaN
				return command.Mistake(cmd, "--min-score %v is not from 0 to 1", req.MinScore)
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			req.Tag, req.ChannelID, req.Since, req.Until = f.tag, f.channel, f.since, f.until
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				found, err := connect.Forward(ctx, d, "mem", proto.MemSearchHard, req)
				if err != nil {
					return err
				}
				if found.Notice != "" {
					env.Say("%s", found.Notice)
				}
				if len(found.Results) == 0 {
					env.Say("No memory matches.")
					return render.ErrReported
				}
				if env.JSON() {
					return env.Print(func(w io.Writer) error { return render.JSONList(w, found.Results) })
				}
				return env.PrintTable(searchRows(found.Results, req.Explain))
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&k, "k", "k", 10, "at most `N` memories")
	f.flags(cmd)
	flags.Float64Var(&req.MinScore, "min-score", 0, "only those with at least this `SCORE`, 0 to 1")
	flags.BoolVar(&req.Explain, "explain", false, "show which words made the score")
	return cmd
}

func searchRows(results []proto.HardMemory, explain bool) [][]string {
	rows := [][]string{{"ID", "SCORE", "TAG", "TEXT"}}
	if explain {
		rows = [][]string{{"ID", "SCORE", "TAG", "WORDS", "TEXT"}}
	}
	for _, m := range results {
		id := "-"
		if m.ID != nil {
			id = strconv.Itoa(*m.ID)
		}
		row := []string{id, fmt.Sprintf("%.4f", m.Score), render.Dash(m.Tag)}
		if explain {
			var shares []string
			for _, w := range m.Words {
				word := w.Word
				if w.As != "" {
					word += " (" + w.As + ")"
				}
				shares = append(shares, fmt.Sprintf("%s %.2f", word, w.Share))
			}
			row = append(row, render.Dash(strings.Join(shares, ", ")))
		}
		rows = append(rows, append(row, render.MessageTexts(m.Messages)))
	}
	return rows
}

func newList(env *command.Env) *cobra.Command {
	var f filter
	var n int
	cmd := &cobra.Command{
		Use: "list", Short: "list memories, the newest first", Long: "List memories, the newest first: their ids, when they were stored, tags, texts.\nThose that were replaced are marked.",
		Example: "  zino memory list --tag house -n 20", Args: command.NoArgs, Annotations: command.PrintsJSON,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckCount(cmd, "n", n, "memories"); err != nil {
				return err
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			req := proto.ListHard{Tag: f.tag, ChannelID: f.channel, Since: f.since, Until: f.until}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error { return list(ctx, env, d, req, n) })
		},
	}
	cmd.Flags().IntVarP(&n, "n", "n", 0, "at most `N` of them (default all)")
	f.flags(cmd)
	return cmd
}

// list prints at most n memories, or all if n is 0, page by page.
func list(ctx context.Context, env *command.Env, d *connect.Daemon, req proto.ListHard, n int) error {
	shown := 0
	err := pages(ctx, d, req, n, func(page []proto.HardItem) (bool, error) {
		if n > 0 && shown+len(page) > n {
			page = page[:n-shown]
		}
		var rows [][]string
		if shown == 0 {
			rows = [][]string{{"ID", "STORED", "TAG", "TEXT"}}
		}
		shown += len(page)
		done := n > 0 && shown >= n
		if env.JSON() {
			return done, env.Print(func(w io.Writer) error { return render.JSONList(w, page) })
		}
		for _, item := range page {
			rows = append(rows, []string{strconv.Itoa(item.ID), render.LocalTime(item.Created), render.Dash(item.Tag), replacedBy(item) + render.MessageTexts(item.Messages)})
		}
		return done, env.PrintTable(rows)
	})
	if err == nil && shown == 0 {
		env.Say("No memories.")
	}
	return err
}

// replacedBy marks the text of a memory that was replaced.
func replacedBy(item proto.HardItem) string {
	switch by := item.ReplacedBy; {
	case by == nil:
		return ""
	case *by < 0:
		return "(replaced) "
	default:
		return fmt.Sprintf("(replaced by %d) ", *by)
	}
}

// pageSize is how many memories are requested at a time.
const pageSize = 500

// pages calls each with pages of the memories that req selects, newest first, until
// each returns done. n is the expected number, 0 for all.
func pages(ctx context.Context, d *connect.Daemon, req proto.ListHard, n int, each func([]proto.HardItem) (done bool, err error)) error {
	req.Limit = pageSize
	if n > 0 {
		req.Limit = min(n, pageSize)
	}
	for {
		page, err := connect.Forward(ctx, d, "mem", proto.MemListHard, req)
		if errors.Is(err, proto.ErrTooLarge) && req.Limit > 1 {
			req.Limit /= 2 // fewer long memories fit into a packet
			continue
		}
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			if done, err := each(page.Items); done || err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		if req.Before != nil && *page.Next >= *req.Before {
			return errors.New("the list of memories does not end: is the daemon of another version? try: zino status")
		}
		req.Before = page.Next
	}
}

// newest returns the highest id of a memory, -1 if there are none.
func newest(ctx context.Context, d *connect.Daemon) (id int, err error) {
	id = -1
	err = pages(ctx, d, proto.ListHard{}, 1, func(page []proto.HardItem) (bool, error) {
		id = page[0].ID
		return true, nil
	})
	return id, err
}

func newShow(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show one memory", Annotations: command.PrintsJSON, Long: "Show one memory: when it was stored, its tag, where it came from, its text.",
		Example: "  zino memory show 7",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneID(cmd, args)
			if err != nil {
				return err
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) error {
				item, err := connect.Forward(ctx, d, "mem", proto.MemGetHard, proto.GetHard{ID: id})
				if err != nil {
					return explain(id, err)
				}
				if env.JSON() {
					return render.JSON(env.Out, item)
				}
				rows := [][]string{{"id", strconv.Itoa(item.ID)}, {"stored", render.LocalTime(item.Created)}, {"tag", render.Dash(item.Tag)}}
				if item.ChannelID != "" {
					rows = append(rows, []string{"channel", item.ChannelID})
				}
				if item.SessionID != "" {
					rows = append(rows, []string{"session", item.SessionID})
				}
				if by := item.ReplacedBy; by != nil && *by >= 0 {
					rows = append(rows, []string{"replaced by", strconv.Itoa(*by)})
				} else if by != nil {
					rows = append(rows, []string{"replaced", "yes"})
				}
				return env.Print(func(w io.Writer) error {
					if _, err := fmt.Fprintln(w, render.Columns(rows, 0)); err != nil {
						return err
					}
					return render.Messages(w, item.Messages)
				})
			})
		},
	}
}

func newRemove(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "delete memories", Long: "Delete memories. Their ids are not given to others.",
		Example: "  zino memory rm 7 9",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Mistake(cmd, "name memories by their ids")
			}
			var ids []int
			for _, arg := range args {
				id, err := parseID(cmd, arg)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return withDaemon(env, cmd, func(ctx context.Context, d *connect.Daemon) (result error) {
				for _, id := range ids {
					_, err := connect.Forward(ctx, d, "mem", proto.MemDeleteHard, proto.DeleteHard{ID: id})
					switch {
					case errors.Is(err, proto.ErrNotFound): // the others are still deleted
						env.PrintError(explain(id, err))
						result = render.ErrReported
					case err != nil:
						return err
					}
				}
				return result
			})
		},
	}
}

// oneID parses the id that is a command's only argument.
func oneID(cmd *cobra.Command, args []string) (int, error) {
	if len(args) != 1 {
		return 0, command.Mistake(cmd, "name one memory by its id")
	}
	return parseID(cmd, args[0])
}

func parseID(cmd *cobra.Command, arg string) (int, error) {
	id, err := strconv.Atoi(arg)
	if err != nil || id < 0 {
		return 0, command.Mistake(cmd, "%q is not the id of a memory, which is a number", arg)
	}
	return id, nil
}

// explain rewords the error of a request about one memory.
func explain(id int, err error) error {
	if errors.Is(err, proto.ErrNotFound) {
		return proto.Errorf(proto.CodeInvalid, "there is no memory %d; zino memory list shows those there are", id)
	}
	return err
}
