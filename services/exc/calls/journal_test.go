package calls

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
)

func TestJournal(t *testing.T) {
	dir := filepath.Join(zinotest.Dir(t), "calls")
	j := open(t, dir)
	info, err := os.Stat(dir)
	zinotest.Must(t, err)
	zinotest.Equal(t, "mode", info.Mode().Perm(), 0o700)
	mustBe(t, j, "s/t/1/a", NotBegun)
	a := Call{Key: "s/t/1/a", Sum: "s1", Before: "b", After: "c"}
	b := Call{Key: "s/t/1/b", Sum: "s2", Job: "j-1"}
	zinotest.Must(t, j.Begin(a))
	zinotest.Must(t, j.Begin(b))
	mustBe(t, j, a.Key, Begun)
	zinotest.Must(t, j.End(b.Key, []byte(`{"ok":true,"text":"ä\u2028"}`)))
	for range 2 { // the second time in a process that starts
		r := find(t, j, b.Key, time.Time{})
		zinotest.Equal(t, "state", r.State, Finished)
		zinotest.Equal(t, "call", r.Call, b)
		zinotest.Equal(t, "result", string(r.Result), `{"ok":true,"text":"ä\u2028"}`)
		zinotest.Equal(t, "open call", find(t, j, a.Key, time.Time{}).Call, a)
		j = open(t, dir)
	}
	a.Before = "d" // it is carried out again, with another plan
	zinotest.Must(t, j.End(a.Key, []byte(`{}`)))
	zinotest.Must(t, j.Begin(a))
	r := find(t, j, a.Key, time.Time{})
	zinotest.Equal(t, "begun again", r.State, Begun)
	zinotest.Equal(t, "call", r.Call, a)
}

// Processes that share the directory see each other's calls.
func TestShared(t *testing.T) {
	dir := zinotest.Dir(t)
	one, two := open(t, dir), open(t, dir)
	zinotest.Must(t, one.Begin(Call{Key: "s/t/1/a", Sum: "s"}))
	mustBe(t, two, "s/t/1/a", Begun)
	zinotest.Must(t, two.End("s/t/1/a", []byte("{}")))
	mustBe(t, one, "s/t/1/a", Finished)
	var wg sync.WaitGroup
	for i, j := range []*Journal{one, two, one, two} {
		wg.Go(func() {
			for n := range 20 {
				key := fmt.Sprintf("s/t/%d/%d", i, n)
				if err := j.Begin(Call{Key: key, Sum: "s"}); err != nil {
					t.Error(err)
				}
				if err := j.End(key, []byte(`{}`)); err != nil {
					t.Error(err)
				}
				if r, err := one.Find(key, time.Time{}); err != nil || r.State != Finished {
					t.Errorf("%s: %v, %v", key, states[r.State], err)
				}
			}
		})
	}
	wg.Wait()
}

// A call without a line counts as not begun only if the journal is complete since the
// call was asked for.
func TestComplete(t *testing.T) {
	now := time.Now().UTC()
	today := now.Format(dayLayout) + ext
	begin := func(at time.Time) string {
		return fmt.Sprintf(`{"key":"s/t/1/other","input_sha256":"s","begin":%q}`+"\n", at.Format(time.RFC3339Nano))
	}
	old := begin(now.Add(-time.Minute))
	for name, test := range map[string]struct {
		file, text string
		since      time.Time
		want       State
	}{
		"older line":            {today, old, now, NotBegun},
		"younger line":          {today, old, now.Add(-time.Hour), Unknown},
		"the line's time":       {today, old, now.Add(-time.Minute), NotBegun},
		"no time":               {today, old, time.Time{}, Unknown},
		"empty":                 {"", "", now.Add(-time.Second), Unknown},
		"started":               {today, fmt.Sprintf(`{"start":%q}`+"\n", now.Add(-time.Minute).Format(time.RFC3339Nano)), now, NotBegun},
		"a later key":           {today, strings.Replace(old, "{", `{"more":{"a":[1]},`, 1), now, NotBegun},
		"not JSON":              {today, old + "}\n" + old, now, Unknown},
		"an array":              {today, old + "[]\n", now, Unknown},
		"an empty object":       {today, old + "{}\n", now, Unknown},
		"no sum":                {today, old + strings.Replace(old, "input_sha256", "sum", 1), now, Unknown},
		"no key":                {today, old + strings.Replace(old, "key", "kee", 1), now, Unknown},
		"bad time":              {today, old + strings.Replace(old, "T", " ", 1), now, Unknown},
		"begin and end":         {today, old + strings.Replace(old, "{", `{"end":"2026-11-22T10:00:00Z",`, 1), now, Unknown},
		"bad UTF-8":             {today, old + strings.Replace(old, "other", "\xff", 1), now, Unknown},
		"torn":                  {today, old + strings.TrimSuffix(old, "}\n"), now, NotBegun},
		"the same second":       {today, fmt.Sprintf(`{"start":%q}`+"\n", now.Truncate(time.Second).Add(time.Second-1).Format(time.RFC3339Nano)), now.Truncate(time.Second), NotBegun},
		"without line break":    {today, old + strings.TrimSuffix(old, "\n"), now, NotBegun},
		"blank lines":           {today, old + "\n\n", now, NotBegun},
		"another file":          {"2026.jsonl", "{", now.Add(-time.Second), Unknown},
		"yesterday's":           {now.AddDate(0, 0, -1).Format(dayLayout) + ext, begin(now.AddDate(0, 0, -1)), now, NotBegun},
		"yesterday's, damaged":  {now.AddDate(0, 0, -1).Format(dayLayout) + ext, begin(now.AddDate(0, 0, -1)) + "x\n", now, Unknown},
		"too old to be kept":    {now.AddDate(0, 0, -9).Format(dayLayout) + ext, begin(now.AddDate(0, 0, -9)), now, NotBegun},
		"before what was kept":  {now.AddDate(0, 0, -9).Format(dayLayout) + ext, begin(now.AddDate(0, 0, -9)), now.Add(-Keep - time.Minute), Unknown},
		"a directory of others": {"other/file", "", now.Add(-time.Second), Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			dir := zinotest.Dir(t)
			if test.file != "" {
				zinotest.Write(t, filepath.Join(dir, test.file), test.text)
			}
			j := open(t, dir)
			zinotest.Equal(t, "a call without a line", states[find(t, j, "s/t/1/c", test.since).State], states[test.want])
			j = open(t, dir) // after a repair
			zinotest.Equal(t, "in the next process", states[find(t, j, "s/t/1/c", test.since).State], states[test.want])
			zinotest.Must(t, j.Begin(Call{Key: "s/t/1/c", Sum: "s"}))
			zinotest.Equal(t, "with one", states[find(t, j, "s/t/1/c", test.since).State], "begun")
		})
	}
}

// Files of days that are over for 48 hours are removed, at the start and while it
// runs, and the journal still knows that nothing is missing.
func TestRotate(t *testing.T) {
	dir := zinotest.Dir(t)
	j := open(t, dir)
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	j.now = func() time.Time { return now }
	files := func() string {
		t.Helper()
		return strings.ReplaceAll(zinotest.Names(t, dir), ext, "")
	}
	zinotest.Must(t, os.Remove(filepath.Join(dir, j.today+ext)))
	j.today = ""
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "2026-11-22"},
		{24 * time.Hour, "2026-11-22 2026-11-23"},
		{37 * time.Hour, "2026-11-22 2026-11-23 2026-11-24"},
		{time.Hour, "2026-11-23 2026-11-24 2026-11-25"}, // 2026-11-25T00:00, 48 hours after the end of the 22nd
		{240 * time.Hour, "2026-12-05"},
	} {
		now = now.Add(step.after)
		zinotest.Must(t, j.Begin(Call{Key: "s/t/1/" + now.String(), Sum: "s"}))
		zinotest.Equal(t, now.String(), files(), step.want)
		zinotest.Equal(t, "a call that did not begin", states[find(t, j, "s/t/1/c", now).State], "not begun")
	}
	zinotest.Equal(t, "a call of two days ago", states[find(t, j, "s/t/1/c", now.Add(-Keep)).State], "not begun")
	zinotest.Equal(t, "a call of long ago", states[find(t, j, "s/t/1/c", now.Add(-Keep-time.Second)).State], "unknown")
}

// The newest results are kept, the others dropped; calls are known all the same.
func TestTrim(t *testing.T) {
	dir := zinotest.Dir(t)
	j, other := open(t, dir), open(t, dir)
	j.most = 20_000
	result := []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	key := func(n int) string { return fmt.Sprint("s/t/1/", n) }
	for n := range 100 {
		zinotest.Must(t, j.Begin(Call{Key: key(n), Sum: "s"}))
		zinotest.Must(t, j.End(key(n), result))
		mustBe(t, j, key(n), Finished)
		mustBe(t, other, key(n), Finished)
		mustBe(t, j, key(max(0, n-17)), Finished)
	}
	mustBe(t, j, key(50), Dropped)
	mustBe(t, other, key(50), Dropped)
	mustBe(t, open(t, dir), key(99), Finished)
	mustBe(t, j, "s/t/1/none", NotBegun)
	info, err := os.Stat(filepath.Join(dir, time.Now().UTC().Format(dayLayout)+ext))
	zinotest.Must(t, err)
	if info.Size() > 60_000 {
		t.Errorf("the file has %d bytes", info.Size())
	}
}

func TestResultTooLarge(t *testing.T) {
	j := open(t, zinotest.Dir(t))
	zinotest.Must(t, j.Begin(Call{Key: "s/t/1/a", Sum: "s"}))
	zinotest.Must(t, j.End("s/t/1/a", []byte(`{"text":"`+strings.Repeat("x", durable.MaxLine)+`"}`)))
	mustBe(t, j, "s/t/1/a", Dropped)
}

// On a full disk Begin fails and leaves the file unchanged. The journal works again
// when there is room.
func TestFullDisk(t *testing.T) {
	if zinotest.Alone(t) {
		return
	}
	dir := zinotest.Dir(t)
	lift := zinotest.LimitFileSize(t, 20)
	j := open(t, dir) // it starts without the first line
	err := j.Begin(Call{Key: "s/t/1/a", Sum: "s"})
	if err == nil || !durable.IsFull(err) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	lift()
	mustBe(t, j, "s/t/1/a", Unknown)
	zinotest.Must(t, j.Begin(Call{Key: "s/t/1/b", Sum: "s"}))
	mustBe(t, j, "s/t/1/b", Begun)
	lift = zinotest.LimitFileSize(t, 250)
	zinotest.Error(t, j.End("s/t/1/b", []byte(`{"text":"`+strings.Repeat("x", 1000)+`"}`)), nil, "file too large")
	lift()
	mustBe(t, j, "s/t/1/b", Begun)
	mustBe(t, open(t, dir), "s/t/1/b", Begun)
}

// No acknowledged line is lost when processes that share the journal are killed.
func TestKilledWriters(t *testing.T) {
	dir := zinotest.Dir(t)
	for round := range 10 {
		acknowledged := make([][]string, 2)
		var wg sync.WaitGroup
		for i := range acknowledged {
			cmd := zinotest.Command(t, "writer", dir, fmt.Sprintf("%d-%d", round, i))
			wg.Go(func() { acknowledged[i] = zinotest.KillAfter(t, cmd, 1+rand.IntN(20)) })
		}
		wg.Wait()
		j := open(t, dir)
		for _, lines := range acknowledged {
			if len(lines) == 0 {
				t.Fatal("nothing was acknowledged")
			}
			for i, line := range lines {
				step, key, _ := strings.Cut(line, " ")
				want := Finished
				if step == "begun" && i == len(lines)-1 {
					want = find(t, j, key, time.Time{}).State // its end may be stored
				}
				if got := find(t, j, key, time.Time{}).State; got != want || got < Begun {
					t.Errorf("%s: %s", line, states[got])
				}
			}
		}
		mustBe(t, j, "s/t/1/none", NotBegun)
	}
}

// FuzzJournal reads a file with any content: what is recorded after it is found, and
// damage never makes a call count as not begun.
func FuzzJournal(f *testing.F) {
	begin := `{"key":"s/t/1/a","input_sha256":"s","begin":"2026-11-22T10:00:00Z","before":"b","after":"c"}` + "\n"
	end := `{"key":"s/t/1/a","end":"2026-11-22T10:00:01.5Z","result":{"ok":true}}` + "\n"
	f.Add([]byte(begin + end))
	f.Add([]byte(`{"start":"2026-11-22T10:00:00Z"}` + "\n" + begin))
	f.Add([]byte(begin + "{\n" + end))
	f.Add([]byte("\ufeff" + begin + end[:20]))
	f.Add([]byte(end + begin + "\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := zinotest.Dir(t)
		zinotest.Write(t, filepath.Join(dir, time.Now().UTC().Format(dayLayout)+ext), string(data))
		j := open(t, dir)
		sound := true
		for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
			if !strings.HasSuffix(line, "\n") {
				continue // torn
			}
			line = strings.Trim(line, " \t\r\n\x00")
			if _, _, ok := parse([]byte(line)); !ok && line != "" {
				sound = false
			}
		}
		if got := find(t, j, "s/t/1/none", time.Now()).State; got == NotBegun && !sound {
			t.Errorf("a damaged journal counts as complete")
		}
		before := find(t, j, "s/t/1/a", time.Time{})
		c := Call{Key: "s/t/1/new", Sum: "s"}
		zinotest.Must(t, j.Begin(c))
		zinotest.Must(t, j.End(c.Key, []byte("{}")))
		j = open(t, dir)
		r := find(t, j, c.Key, time.Time{})
		zinotest.Equal(t, "recorded", r.State, Finished)
		zinotest.Equal(t, "call", r.Call, c)
		after := find(t, j, "s/t/1/a", time.Time{})
		zinotest.Equal(t, "earlier", states[after.State], states[before.State])
		zinotest.Equal(t, "its call", after.Call, before.Call)
	})
}

// FuzzParse reads lines: one that is sound keeps its call through the journal.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"key":"s/t/1/a","input_sha256":"s","begin":"2026-11-22T10:00:00Z","before":"b","after":"c","job":"j-1"}`,
		`{"key":"s/t/1/a","end":"2026-11-22T10:00:01.5Z","result":{"ok":true}}`, `{"start":"2026-11-22T10:00:00Z"}`, `{}`, ``,
		`{"key":"a","key":"b","input_sha256":1,"begin":null}`, `{"start":"2026-11-22T10:00:00Z","key":"a","end":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, when, ok := parse(text)
		if !ok {
			return
		}
		again, err := wire.AppendObject(nil, "", l)
		zinotest.Must(t, err)
		back, then, ok := parse(again)
		if !ok || !then.Equal(when) || back.Key != l.Key || back.Before != l.Before || back.After != l.After || string(back.Result) != string(l.Result) {
			t.Errorf("%s: %+v, then %+v", text, l, back)
		}
	})
}
