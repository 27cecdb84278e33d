package bench_test

import (
	"fmt"
	"strings"
	"testing"

	"zino/services/constellation/measure"
)

// remark is what the table cannot measure about a line.
type remark struct {
	before string // the figures of November 2026, before the work on them
	why    string // the reason of a missed goal, from a profile
}

// startOfZino is where the time of a start of zino goes: perf and experiments of November 2026.
const startOfZino = "a Go program that only connects takes 1.4x to 1.7x of C, one that links the packages of zino and only connects 2.4x to 3.3x, depending on what else runs; without auth, doctor and mcp, which link net/http and TLS, zino took 0.24 ms less (median of nine comparisons, -0.1 to 0.4); the own work of zino after that is 0.7 to 1 ms: building all commands 0.3 (a build without subcommands was 7 to 14 % faster), the handlers of os/signal 0.2, the configuration 0.15, the environment of the request 0.1, connection and request the rest; it has 570 page faults, the program that only connects 240"

// remarks by the name of the line.
var remarks = map[string]remark{
	"ping, kept connection":                                       {before: "1.12x"},
	"ping, kept connection, rpc.Call":                             {before: "1.57x"},
	"ping, new connection over a warm ping":                       {before: "3.4x", why: "an echo, which accepts, answers, closes and does nothing else, takes 3.0 of its own warm pings, and a warm ping of zino-exc takes 0.9 of the echo's; of 28 us 16 are connecting, accepting and closing, as for the echo, 7 the ping, and 5 the check of the caller, what the server allocates for a connection, and two task switches: reading a request wakes the client, too"},
	"3 hops, burst of 100k chunks, CPU per chunk in all":          {before: "0.87 us"},
	"3 hops, a chunk a millisecond, p50 per hop":                  {before: "33 us, 1.38x", why: "a chunk is in zino-agr or zino-daemon for 1 to 2 us, in a raw relay for less than one; the rest is the order in which one core runs the processes (tracepoints of the scheduler): the next hop runs 4 to 7 us after the write, mostly only when the writer sleeps again, and 2 to 3 us after that of a raw relay, which the process that it wakes preempts more often; the CPU time, the next line, is less than a raw relay's"},
	"first chunk through 3 cold hops, added":                      {why: "of the time to the first chunk zino-daemon takes 0.55 ms, zino-agr 0.2, the source 0.2 and the client 0.1: 40 page faults of code and of new parts of the heap, 5 connections, the question for the hints of keys, which in a whole constellation overlaps with those to zino-sys and zino-ctx, and three warnings that services are not running; a second message through the same processes adds 0.28 ms"},
	"3 hops, a chunk a millisecond, CPU per hop":                  {before: "46 us, 1.35x"},
	"zino exec, first token from provider to stdout, added":       {before: "0.4 ms", why: "zino-rtr takes 0.1 ms of it, zino-agr, zino-daemon and zino 0.05 ms each: code that has left the caches while the services were at rest"},
	"zino exec, first token from provider to stdout, added, cold": {before: "1.5 ms"},
	"zino MESSAGE, start to first byte on the socket":             {before: "2.7 ms, 3.0x", why: startOfZino},
	"a whole turn, 100 KB history, CPU of all services":           {before: "3.5 ms", why: "no part of the profile is as large as the difference: JSON 21 %, two fifths of it in zino-rtr, which validates the messages; Go's scheduler and epoll 19 %, a dozen of 55 waits only because the kernel wakes the sender of each message when it is read; sockets 12 %; pkg/rpc 10 %; the runtime's monitor thread, which calls of files and TCP wake in zino-mem and zino-rtr, 10 %; allocation and garbage collection 9 %; fdatasync 4 %"},
	"idle constellation with a chat, after a turn, PSS":           {before: "39.8 MB", why: "11 MB are anonymous, the rest pages of seven binaries that a turn has mapped again, 64 KiB at each of about 280 page faults (smaps_rollup); a service unmaps them once, after its start, not after each turn, because the next turn would pay for it; the figure of before was halved by a second constellation that ran during the measurement"},
	"idle constellation with a chat, after a turn, anonymous":     {before: "14.7 MB", why: "seven Go runtimes with 1.3 to 3 MB each; zino-daemon has the most, of it 0.3 MB allocated by package initialization (GODEBUG=inittrace=1), 0.1 MB in zino-ctx"},
	"sh -c true through exc, CPU":                                 {before: "5.1x", why: "of 2.9 ms the shell takes 0.6, the supervisor 1.3 (an empty Go program 0.5, the initialization of packages 0.3, fork, wait and threads 0.3) and zino-exc 0.7 to 1 (its 0.1 to 0.3 for a search of ext4 among inodes removed just before); a supervisor in a small Go program of its own would save 0.5 and still need 3.6 floors"},
	"append_history, not synced, CPU of mem":                      {before: "17 us", why: "a ping takes 3.4 us; of the rest the file takes two fifths (flock twice, stat twice, pwrite), the runtime's monitor thread, which these calls wake, more than a quarter, pkg/rpc a fifth, parsing a tenth"},
	"append_history, synced":                                      {before: "1.7x", why: "write and fdatasync in a Go program alone on one core take 1.2 floors, because the monitor thread hands the only processor on while fdatasync waits; the rest is a ping and the append itself, with cold caches"},
	"append_history, synced, 64 writers at a time":                {before: "7.5x"},
	"search_hard, 5 words, among 100k":                            {before: "0.75 ms"},
	"memory of an open stream, 200 in one rtr":                    {why: "between 62 and 66 KB, depending on when the collector runs last (profile of the heap, runtime.MemStats): 30 KB are the stacks of four goroutines, two of them of net/http, 10 live data (3 the buffer of the connection, 3 net/http), the rest garbage until the next collection and the runtime's own structures"},
	"repl, save to reply":                                         {before: "154 ms"},
	"ping, new connection, rpc.Call over a warm one":              {why: "as the line above, and a client with its buffers for each call"},
	"zino, CPU until zino-chat runs":                              {why: startOfZino},
	"an answer of 3 s, a delta a millisecond, CPU":                {before: "207 ms"},
	"one service, exec to first pong":                             {why: "zino-exc, the slowest, takes 1.6 ms of CPU for its start alone, twice an empty Go program"},
	"the largest service without heavy libraries, PSS":            {why: "1.6 MB of zino-exc are anonymous, 0.3 its modified data, 3 pages of its binary: of Go's scheduler, and of the check for new directories of tools and skills every 1.5 s, which maps 64 KiB for each page; zino-daemon, zino-mem and zino-rtr, which have no such check, take 3.2 MB or less (smaps)"},
	"2,000 turns, growth of a service":                            {before: "within 1 MB"},
}

// pageHead explains the table: %s are the run and the sum.
const pageHead = `## What one thing costs

%s

%s.

**Method.** Every process is a real one, built as released. What runs alternately with a
floor is compared with it: the same work by a program that does nothing else, in C or Go,
in the same run. Both ends share one core, because a wake-up across cores costs more than
what is measured. CPU time is that of all processes involved, from their own clocks; wall
time is used where a person waits. A figure is the median of its rounds. When the floor
varies by more than 20 %% between five parts of a run, the run was disturbed: the line
is measured again, at most three times, and then shows no ratio and counts as missed.
*Before* is November 2026, before the work on these goals.

**What the figures mean for you.** A command is at work a few milliseconds after Enter.
What the services add between the model's first token and your terminal is far below the
20 ms that a person notices. A whole turn takes a few milliseconds of CPU time in all
services together. The idle services take less than 35 MB of memory, after a turn and with
a chat less than 100 MB. A search among 100,000 memories takes about a third of a
millisecond, so it can happen in every turn. What is acknowledged as stored costs one sync
of the disk, which many writers share.

`

// writePage writes the section of the table in a page.
func writePage(file string, lines []line, sum string) error {
	return measure.Section(file, "bench", fmt.Sprintf(pageHead, measure.Run(), sum)+markdown(lines))
}

// markdown returns the table, and a sentence for each line that is not met.
func markdown(lines []line) string {
	var table, missed strings.Builder
	table.WriteString("| what | before | measured | floor | ratio | goal | |\n|---|---:|---:|---:|---:|---|---|\n")
	for _, l := range lines {
		c := l.columns()
		before := remarks[l.name].before
		if before == "" {
			before = "-"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | %s |\n", c[0], before, c[1], c[2], c[3], strings.NewReplacer("<=", "≤", ">=", "≥").Replace(fmt.Sprint(c[4])), c[5])
		if l.met() {
			continue
		}
		fmt.Fprintf(&missed, "- **%s**: %s.\n", l.name, c[6])
	}
	text := table.String()
	if missed.Len() > 0 {
		text += "\nMissed, disturbed or not measured:\n\n" + missed.String()
	}
	return text
}

// TestMarkdown checks the table of the page.
func TestMarkdown(t *testing.T) {
	got := markdown([]line{
		{name: "append_history, synced", measured: 2e6, floors: []float64{1e6, 1e6, 1e6}, ratio: 2, goals: []goal{ratioAtMost(1.3)}, note: "wall time"},
		{name: "a disturbed line", measured: 2e6, floors: []float64{1e6, 2e6, 1e6}, ratio: 2, goals: []goal{ratioAtMost(3)}, note: "wall time"},
		{name: "a met line", measured: 2e6, goals: []goal{atMost(3e6)}},
	})
	for _, want := range []string{
		"| append_history, synced | 1.7x | 2 ms | 1 ms | 2.00x | ≤ 1.3x | missed |\n",
		"| a disturbed line | - | 2 ms | 1 ms | - | ≤ 3x | - |\n",
		"| a met line | - | 2 ms | - | - | ≤ 3 ms | met |\n",
		"- **append_history, synced**: wall time",
		"- **a disturbed line**: disturbed: floor spread 100 %; wall time.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "**a met line**") {
		t.Errorf("a reason for a met line in\n%s", got)
	}
}
