package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
	"zino/services/constellation/measure"
)

// remark is what the table cannot measure about a line.
type remark struct {
	before string // the figures of November 2026, before the work on them
	why    string // the reason of a missed goal, from a profile
}

// remarks by the name of the line.
var remarks = map[string]remark{
	"ping, kept connection":                                   {before: "1.12x"},
	"ping, kept connection, rpc.Call":                         {before: "1.57x"},
	"ping, new connection over a warm ping":                   {before: "3.4x"},
	"3 hops, burst of 100k chunks, CPU per chunk in all":      {before: "0.87 us"},
	"3 hops, a chunk a millisecond, p50 per hop":              {before: "33 us, 1.38x"},
	"3 hops, a chunk a millisecond, CPU per hop":              {before: "46 us, 1.35x"},
	"zino exec, first token from provider to stdout, added":   {before: "0.4 ms"},
	"first chunk through 3 cold hops, added":                  {before: "1.5 ms"},
	"zino MESSAGE, start to first byte on the socket":         {before: "2.7 ms, 3.0x"},
	"a whole turn, 100 KB history, CPU of all services":       {before: "3.5 ms"},
	"idle constellation with a chat, after a turn, PSS":       {before: "39.8 MB"},
	"idle constellation with a chat, after a turn, anonymous": {before: "14.7 MB"},
	"sh -c true through exc, CPU":                             {before: "5.1x"},
	"append_history, not synced, CPU of mem":                  {before: "17 us"},
	"append_history, synced":                                  {before: "1.7x"},
	"append_history, synced, 64 writers at a time":            {before: "7.5x"},
	"search_hard, 5 words, among 100k":                        {before: "0.75 ms"},
	"repl, save to reply":                                     {before: "154 ms"},
	"2,000 turns, growth of a service":                        {before: "within 1 MB"},
}

// pageHead explains the table: %s are machine, commit and date, and the sum.
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
20 ms that a person notices, and below one per cent of the time of the model's first token.
The CPU time of a whole turn is that of reading one page of the web, so a laptop's battery
does not notice it. An idle constellation with a chat needs less memory than a tab of a
browser. A search among 100,000 memories is over before the request to the model is
written, and so it happens in every turn. What is acknowledged as stored costs one sync of
the disk, which many writers share.

`

// writePage writes the section of the table in a page.
func writePage(file string, lines []line, sum string) error {
	where, err := machine()
	if err != nil {
		return err
	}
	return measure.Section(file, "bench", fmt.Sprintf(pageHead, where, sum)+markdown(lines))
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

// machine describes where and what is measured.
func machine() (string, error) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(info), "model name") // absent on some architectures
	model, _, _ := strings.Cut(rest, "\n")
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	commit, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12").Output()
	if err != nil {
		return "", fmt.Errorf("git describe: %w", err)
	}
	return fmt.Sprintf("%s, %d cores, Linux %s, %s; commit %s, %s", strings.Trim(model, "\t :"), runtime.NumCPU(),
		unix.ByteSliceToString(name.Release[:]), runtime.Version(), strings.TrimSpace(string(commit)), time.Now().UTC().Format("2 January 2006")), nil
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

// TestMachine checks that the page names the machine and the commit.
func TestMachine(t *testing.T) {
	where, err := machine()
	zinotest.Must(t, err)
	if !strings.Contains(where, runtime.Version()) {
		t.Error(where)
	}
}
