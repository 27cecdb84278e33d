// Package peers_test compares Zino's protocol and its search with others' (make
// bench-peers): the same work, in one run, as ratios. Each peer is a program of its own,
// so that those whose modules cannot be downloaded are left out.
package peers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"zino/services/constellation/measure"
	"zino/services/constellation/peers/peer"
)

var whole = flag.Bool("peers", false, "measure everything and print the tables (make bench-peers)")

// rounds is how often each peer does each task; the tasks of a round alternate.
const rounds = 15

// protocols are the peers in printing order. The first is the floor.
var protocols = []struct{ name, program string }{
	{"raw echo, no protocol", "echo"},
	{"Zino, pkg/rpc", "rpc"},
	{"ttrpc", "ttrpc"},
	{"JSON over HTTP, net/http", "http"},
	{"gRPC", "grpc"},
}

var tasks = []struct {
	peer.Task
	name string
}{
	{peer.Task{Do: "ping", N: 2000}, "ping"},
	{peer.Task{Do: "dial", N: 300}, "new connection"},
	{peer.Task{Do: peer.Flushed, N: 60}, "100 chunks, each sent"},
	{peer.Task{Do: peer.AtOnce, N: 600}, "100 chunks at once"},
}

// running is a client and a server of a peer, and the CPU time of both for one operation
// in each round, by task.
type running struct {
	name           string
	client, server *exec.Cmd
	in             io.WriteCloser
	out            *json.Decoder
	costs          [][]float64
}

// TestPeers prints the tables with -peers. Otherwise it checks that what needs no foreign
// module can be measured.
func TestPeers(t *testing.T) {
	dir, err := os.MkdirTemp("", "zp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	n := rounds
	if !*whole {
		n = 1
	}
	table, err := compareProtocols(dir, n)
	if err != nil {
		t.Fatal(err)
	}
	if !*whole {
		if rows := strings.Count(table, "\n"); rows < 5 {
			t.Errorf("%d lines:\n%s", rows, table)
		}
		return
	}
	found, err := compareSearches(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("## Peers\n\n%s\n\n%s\n%s\n%s\n%s", measure.Run(), table, aboutProtocols, found, aboutSearches)
	fmt.Print(text)
	if err := measure.Section("../../../docs/performance.md", "peers", text); err != nil {
		t.Fatal(err)
	}
}

const aboutProtocols = `The CPU time of client and server for one operation, both on one core: the median of 15 rounds, in
which the peers take turns. The ratios are to a raw echo of Zino's bytes in the same round. A ping
is answered with what a service is (Zino, HTTP: an object in JSON; gRPC, ttrpc: a string in
protobuf). A chunk has 30 bytes of text; "each sent" is how tokens come from a model. gRPC and
ttrpc decide themselves when they write: both columns measure the same there.
`

const aboutSearches = `Wall time, p50 of 50 queries, over that of search_hard. Texts of 40 words with the distribution of
natural language; a result needs any word of the query (OR in FTS5), the ten best are returned with
their text. SQLite is modernc.org/sqlite, in Go; the one in C was not measured. It
runs in the client's process, with a file, WAL, no sync, the stemmer porter and the ranking bm25;
search_hard is asked over its socket. The rankings differ: memories are ranked by TF-IDF with
stems and forms of words, and among equals the latest comes first, so that queries of one
frequent word, with thousands of equals, have other results. Memory is that of the process: with
all texts of the comparison for the index alone. nDCG@10 is that of the texts and grades in
services/mem/index/testdata, which the index was developed with; FTS5 does not split Japanese.
`

// compareProtocols runs all tasks of all peers on one core.
func compareProtocols(dir string, n int) (string, error) {
	var all []*running
	var missing []string
	defer func() {
		for _, p := range all {
			p.stop()
		}
	}()
	for _, p := range protocols {
		program, why := build(dir, p.program)
		if why != "" {
			missing = append(missing, p.name+": "+why)
			continue
		}
		r, err := start(p.name, program)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, r)
	}
	if len(all) == 0 || all[0].name != protocols[0].name {
		return "", errors.New("the floor was not built: " + strings.Join(missing, "; "))
	}
	for round := range n + 1 {
		for i, task := range tasks {
			for _, p := range all {
				cost, err := p.do(task.Task)
				if err != nil {
					return "", fmt.Errorf("%s, %s: %w", p.name, task.name, err)
				}
				if round > 0 { // the first warms up
					p.costs[i] = append(p.costs[i], cost)
				}
			}
		}
	}
	return protocolTable(all, missing), nil
}

// protocolTable shows the CPU time of both ends for one operation, and how many times
// the floor's it is: the median over the rounds.
func protocolTable(all []*running, missing []string) string {
	var b strings.Builder
	b.WriteString("| CPU of both ends |")
	for _, t := range tasks {
		b.WriteString(" " + t.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(tasks)) + "\n")
	for _, p := range all {
		b.WriteString("| " + p.name + " |")
		for i := range tasks {
			var ratios []float64
			for round, cost := range p.costs[i] {
				ratios = append(ratios, cost/all[0].costs[i][round])
			}
			b.WriteString(" " + cell(measure.Percentile(p.costs[i], 50), measure.Percentile(ratios, 50), measure.Spread(all[0].costs[i])) + " |")
		}
		b.WriteString("\n")
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", m)
	}
	return b.String()
}

// cell refuses a ratio to a floor that was disturbed.
func cell(cost, ratio, spread float64) string {
	if spread > measure.Disturbed {
		return fmt.Sprintf("%.1f us (no ratio: the floor's spread is %.0f %%)", cost/1e3, 100*spread)
	}
	return fmt.Sprintf("%.1f us, %.2fx", cost/1e3, ratio)
}

// TestNoRatioWhenDisturbed checks that a disturbed floor gives no ratio.
func TestNoRatioWhenDisturbed(t *testing.T) {
	for spread, want := range map[float64]string{0.1: "2.0 us, 1.50x", 0.5: "2.0 us (no ratio: the floor's spread is 50 %)"} {
		if got := cell(2000, 1.5, spread); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// build builds a program, or says which module is missing.
func build(dir, name string) (program, why string) {
	program = filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", failure(string(out), err)
	}
	return program, ""
}

// failure shortens the output of a failed build to the line that says why.
func failure(out string, err error) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "go: downloading") && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return err.Error()
}

// start starts the server and the client of a peer on the last core.
func start(name, program string) (*running, error) {
	path := program + ".sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	socket, err := l.(*net.UnixListener).File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	r := &running{name: name, server: pinned(program), client: pinned(program, path), costs: make([][]float64, len(tasks))}
	r.server.ExtraFiles = []*os.File{socket}
	if err := r.server.Start(); err != nil {
		return nil, err
	}
	if r.in, err = r.client.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.client.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = json.NewDecoder(out)
	return r, r.client.Start()
}

// pinned runs a program on the last core: a wake-up across cores costs several times one
// on the same core.
func pinned(args ...string) *exec.Cmd {
	cmd := exec.Command("taskset", append([]string{"-c", strconv.Itoa(lastCore())}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// lastCore returns the last core that this process may use.
func lastCore() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("Cpus_allowed_list:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	last := bytes.FieldsFunc(line, func(r rune) bool { return r == '-' || r == ',' })
	core, err := strconv.Atoi(string(bytes.TrimSpace(last[len(last)-1])))
	if err != nil {
		return 0
	}
	return core
}

// do does a task and returns the CPU time of client and server for one operation.
func (r *running) do(t peer.Task) (float64, error) {
	if !*whole {
		t.N = 1
	}
	before := peer.CPU(r.server.Process.Pid)
	if err := json.NewEncoder(r.in).Encode(t); err != nil {
		return 0, err
	}
	var cost peer.Cost
	if err := r.out.Decode(&cost); err != nil {
		return 0, err
	}
	return (cost.CPU + peer.CPU(r.server.Process.Pid) - before) / float64(t.N), nil
}

func (r *running) stop() {
	r.in.Close()
	r.client.Wait()
	r.server.Process.Kill()
	r.server.Wait()
}
