package ledger

import (
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/durable"
	"zino/pkg/zinotest"
	"zino/proto"
)

// Lines of each kind, as they stand in the file.
const (
	head         = `{"time":"2026-11-21T12:00:00+01:00","id":"A","session":"s","provider":"p","model":"m",`
	settledLine  = head + `"input_tokens":1200,"output_tokens":80,"cache_read_tokens":1000,"cost_usd":0.0017}`
	reservedLine = head + `"reserved":{"tokens":5200,"usd":0.08}}`
	unknownLine  = head + `"reserved":{"tokens":5200,"usd":0.08},"unknown":true}`
	canceledLine = head + `"canceled":true}`
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		line string
		kind kind
		sum  sum
	}{
		{settledLine, settled, sum{1280, 1_700_000}},
		{reservedLine, reserved, sum{5200, 80_000_000}},
		{unknownLine, abandoned, sum{5200, 80_000_000}},
		{canceledLine, canceled, sum{}},
		{`{"time":"2026-11-21T11:00:00Z","id":"","input_tokens":0,"output_tokens":0,"more":[{}]}`, settled, sum{}},
		{`{"output_tokens":2,"input_tokens":1,"id":"x","time":"2026-11-21T11:00:00.5Z"}`, settled, sum{tokens: 3}},
	} {
		e, ok := parse([]byte(test.line))
		if !ok || e.kind() != test.kind || e.sum() != test.sum {
			t.Errorf("%s\nis %v %+v, %v", test.line, e.kind(), e.sum(), ok)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{
		``, `{}`, `[]`, `null`, `7`, `{"time":"2026-11-21T11:00:00Z"}`, settledLine + "x", settledLine[:len(settledLine)-1], settledLine[1:], settledLine + settledLine,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":1}`,
		`{"time":"2026-11-21","id":"x","input_tokens":1,"output_tokens":1}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":-1,"output_tokens":1}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":1.5,"output_tokens":1}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":9007199254740993,"output_tokens":1}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":1,"output_tokens":1,"cost_usd":-0.1}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":1,"output_tokens":1,"cost_usd":1e300}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":1,"output_tokens":1,"canceled":true}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":1,"output_tokens":1,"unknown":true}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","input_tokens":1,"output_tokens":1,"reserved":{"tokens":1,"usd":1}}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","unknown":true}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","reserved":{"tokens":-1,"usd":1}}`,
		`{"time":"2026-11-21T11:00:00Z","id":"x","reserved":{"tokens":1,"usd":-1}}`,
		`{"time":"2026-11-21T11:00:00Z","id":"` + strings.Repeat("x", lineMax) + `","canceled":true}`,
	} {
		if e, ok := parse([]byte(line)); ok {
			t.Errorf("%.200s\nis taken for %+v", line, e)
		}
	}
}

// TestCost counts every token once.
func TestCost(t *testing.T) {
	price := Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	for _, test := range []struct {
		usage proto.Usage
		want  float64
	}{
		{proto.Usage{}, 0},
		{proto.Usage{InputTokens: 1_000_000}, 3},
		{proto.Usage{OutputTokens: 1_000_000, ReasoningTokens: 900_000}, 15},
		{proto.Usage{InputTokens: 1_000_000, CacheReadTokens: 1_000_000}, 0.3},
		{proto.Usage{InputTokens: 1_000_000, CacheWriteTokens: 1_000_000}, 3.75},
		{proto.Usage{InputTokens: 1_000_000, CacheReadTokens: 500_000, CacheWriteTokens: 400_000, OutputTokens: 100_000}, 0.3 + 0.15 + 1.5 + 1.5},
		{proto.Usage{InputTokens: 10, CacheReadTokens: 1_000_000}, 0.3}, // a provider that leaves cached ones out
	} {
		if got := price.Cost(test.usage); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%+v costs %v, want %v", test.usage, got, test.want)
		}
	}
	if price.maxInput() != 3.75 {
		t.Errorf("the highest price of an input token is %v", price.maxInput())
	}
}

func TestCleanName(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"", ""},
		{"gpt\n6 ", "gpt\n6 "},
		{"a\xff\xfeb", "a\uFFFDb"},
		{strings.Repeat("x", 1000), strings.Repeat("x", nameMax)},
		{"x" + strings.Repeat("ü", 1000), "x" + strings.Repeat("ü", nameMax/2-1)},
	} {
		got := cleanName(test.name)
		if got != test.want || cleanName(got) != got || !utf8.ValidString(got) {
			t.Errorf("%q is written %q, want %q", test.name, got, test.want)
		}
	}
}

func TestSums(t *testing.T) {
	s := sum{math.MaxInt64 - 1, 1}
	s.add(sum{5, nano(1e300)})
	if s.tokens != math.MaxInt64 || s.nano != amountMax+1 {
		t.Errorf("the sum became %+v", s)
	}
	for _, usdValue := range []float64{0, 1e-9, 0.1, 0.3, 1234.567891234, 9e6} {
		if got := usd(nano(usdValue)); got != usdValue {
			t.Errorf("%v became %v", usdValue, got)
		}
	}
}

// FuzzParse: what is taken for a line is one, and stays so when it is written.
func FuzzParse(f *testing.F) {
	for _, line := range []string{settledLine, reservedLine, unknownLine, canceledLine, "", "{}", settledLine[:90]} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := parse(line)
		if !ok {
			return
		}
		if s := e.sum(); s.tokens < 0 || s.nano < 0 {
			t.Fatalf("%s\ncounts for %+v", line, s)
		}
		text, err := e.text()
		if err != nil || strings.Contains(string(text), "\n") {
			t.Fatalf("%s\nis written %q, %v", line, text, err)
		}
		again, ok := parse(text)
		if len(text) < lineMax && (!ok || again.kind() != e.kind() || again.sum() != e.sum() || !again.at.Equal(e.at) || again.ID != e.ID) {
			t.Fatalf("%s\nwas read as %+v, and is written\n%s", line, e, text)
		}
	})
}

// FuzzTotals reads a file of any bytes, in two pieces and in one: the totals are
// the same, nothing is below zero, and a budget still works on it.
func FuzzTotals(f *testing.F) {
	all := strings.Join([]string{reservedLine, settledLine, unknownLine, canceledLine}, "\n")
	for _, text := range []string{"", "\n\n", all, all + "\n", all + "\n" + all[:300], "x\n" + all + "\r\n", "\xff\n" + reservedLine + "\n" + reservedLine + "\n" + settledLine + "\n"} {
		f.Add(text, uint16(len(text)/2))
	}
	l, dir, c := newLedger(f, Limits{TokensPerDay: 1 << 60})
	f.Fuzz(func(t *testing.T, text string, cut uint16) {
		zinotest.Must(t, os.RemoveAll(dir))
		writeFile(t, dir, "")
		pieces := durable.New(openRoot(t, dir), fileName, durable.Options{NoSync: true, KeepOpen: true})
		defer pieces.Close()
		read := func(file *durable.File, t *testing.T, sums *totals) account {
			zinotest.Must(t, file.View(func(tx *durable.Tx) error {
				_, err := sums.update(t.Context(), tx, c.now().Location())
				return err
			}))
			return sums.days[dayOf(c.now())]
		}
		var inPieces totals
		inPieces.clear()
		var at account
		for i, part := range []string{text[:min(int(cut), len(text))], text + "\n"} {
			writeFile(t, dir, part)
			var whole totals
			whole.clear()
			at = read(pieces, t, &inPieces)
			if one := read(durable.New(openRoot(t, dir), fileName, durable.Options{NoSync: true}), t, &whole); at != one || min(at.spent.tokens, at.spent.nano, at.reserved.tokens, at.reserved.nano) < 0 {
				t.Fatalf("piece %d: read in pieces %+v, as one %+v", i, at, one)
			}
		}
		before := mustReport(t, l, proto.UsageRequest{}).Total.Requests
		if at.spent.tokens+at.reserved.tokens < 1<<59 {
			spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
			wantBudget(t, l, tokensPerDay, "", float64(at.spent.tokens+2), float64(at.reserved.tokens))
		}
		if after := mustReport(t, l, proto.UsageRequest{}).Total.Requests; after < before || after > before+1 {
			t.Fatalf("%d requests, then %d", before, after)
		}
	})
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	zinotest.Must(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}
