package bench_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"zino/services/repl/browsertest"
)

// benchReplPages measures the memory of a service with 200 pages, and memory and CPU
// time at rest with 60.
func benchReplPages(b *bench) ([]line, error) {
	type use struct{ pss, rss, idle float64 }
	measure := func(n int) (u use, err error) {
		w, err := b.repl()
		if err != nil {
			return u, err
		}
		defer w.stop()
		if _, err := w.attach(n); err != nil {
			return u, err
		}
		if u.idle, err = idleCPU(w); err != nil {
			return u, err
		}
		if u.pss, err = pss(w.p.pid()); err != nil {
			return u, err
		}
		u.rss, err = rss(w.p.pid())
		return u, err
	}
	many, err := measure(200)
	if err != nil {
		return nil, err
	}
	some, err := measure(60)
	return []line{
		{name: "repl, 200 pages, PSS", unit: megabytes, measured: many.pss, goals: []goal{atMost(40e6)}, note: "over repl.sock"},
		{name: "repl, 60 pages, RSS", unit: megabytes, measured: some.rss, goals: []goal{atMost(25e6)}, note: "over repl.sock"},
		{name: "repl, 60 pages, idle for 5 s, CPU a second", measured: some.idle, goals: []goal{atMost(2e6)}, note: "over repl.sock"},
	}, err
}

// rss returns the resident set of a process in bytes.
func rss(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm is %q", text)
	}
	n, err := strconv.ParseFloat(fields[1], 64)
	return n * float64(os.Getpagesize()), err
}

// benchReplEval measures zino eval as a process. Its floor is a process of zino that
// asks no service.
func benchReplEval(b *bench) ([]line, error) {
	zino, err := b.binary("zino")
	if err != nil {
		return nil, err
	}
	w, err := b.repl()
	if err != nil {
		return nil, err
	}
	defer w.stop()
	if _, err := w.attach(1); err != nil {
		return nil, err
	}
	timed := func(want string, args ...string) (float64, error) {
		begin := time.Now()
		out, err := exec.Command(zino, append([]string{"--config", w.config}, args...)...).Output()
		took := float64(time.Since(begin))
		if err == nil && !strings.HasPrefix(string(out), want) {
			err = fmt.Errorf("zino %s: %q", args[0], out)
		}
		return took, err
	}
	var evals, starts []float64
	for range 40 {
		start, err := timed("zino ", "version")
		if err != nil {
			return nil, err
		}
		eval, err := timed("2", "eval", "page-0", "1+1")
		if err != nil {
			return nil, err
		}
		evals, starts = append(evals, eval), append(starts, start)
	}
	return []line{line{
		name: "zino eval, a process", goals: []goal{atMost(15e6)}, note: "wall time until it has ended; floor: zino version",
	}.over(evals, starts)}, nil
}

// benchReplConsole measures, in Chromium, what the page script adds to console.log of
// an array of 300 small objects.
func benchReplConsole(b *bench) ([]line, error) {
	w, err := b.repl()
	if err != nil {
		return nil, err
	}
	defer w.stop()
	b.t.Cleanup(browsertest.Stop)
	const measure = `(() => {
		const list = Array.from({length: 300}, (_, i) => ({id: i, name: "product " + i, price: i / 100, tags: ["a", "b"]}));
		const times = [];
		for (let i = 0; i < 60; i++) {
			const begin = performance.now();
			console.log(list);
			times.push(performance.now() - begin);
		}
		return times.sort((a, b) => a - b)[30];
	})()`
	in := func(address string) (float64, error) {
		tab := browsertest.Open(b.t, address)
		defer tab.Close()
		if strings.HasPrefix(address, w.http) && strings.Contains(browsertest.JS[string](tab, "console.log.toString()"), "[native code]") {
			return 0, errors.New("the page script does not capture the console")
		}
		return browsertest.JS[float64](tab, measure) * 1e6, nil
	}
	var with, without []float64
	for range 3 {
		for address, times := range map[string]*[]float64{"data:text/html,<title>page</title>": &without, w.http + "/page.html": &with} {
			took, err := in(address)
			if err != nil {
				return nil, err
			}
			*times = append(*times, took)
		}
	}
	return []line{{
		name: "repl, console.log of 300 objects, added", measured: max(median(with)-median(without), 1),
		goals: []goal{atMost(1e6)}, note: fmt.Sprintf("in Chromium; %s without the script", nanoseconds.text(median(without))),
	}}, nil
}

// benchReplScript measures the size of the page script.
func benchReplScript(b *bench) ([]line, error) {
	w, err := b.repl()
	if err != nil {
		return nil, err
	}
	defer w.stop()
	reply, err := http.Get(w.http + "/zino.js")
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, errors.New(reply.Status)
	}
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return []line{{
		name: "repl, the page script, gzip", unit: kilobytes, measured: float64(packed.Len()), goals: []goal{atMost(16 << 10)},
		note: fmt.Sprintf("%d bytes before", len(text)),
	}}, err
}
