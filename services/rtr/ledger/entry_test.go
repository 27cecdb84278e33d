package ledger

import (
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

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
		{settledLine, settles, sum{1280, 1_700_000}},
		{reservedLine, reserves, sum{5200, 80_000_000}},
		{unknownLine, ends, sum{5200, 80_000_000}},
		{canceledLine, withdrawal, sum{}},
		{`{"time":"2026-11-21T11:00:00Z","id":"","input_tokens":0,"output_tokens":0,"more":[{}]}`, settles, sum{}},
		{`{"output_tokens":2,"input_tokens":1,"id":"x","time":"2026-11-21T11:00:00.5Z"}`, settles, sum{tokens: 3}},
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
		`{"time":"2026-11-21T11:00:00Z","id":"` + strings.Repeat("x", longestLine) + `","canceled":true}`,
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
	if price.dearest() != 3.75 {
		t.Errorf("the dearest input token is %v", price.dearest())
	}
}

func TestNamed(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"", ""},
		{"gpt\n6 ", "gpt\n6 "},
		{"a\xff\xfeb", "a\uFFFDb"},
		{strings.Repeat("x", 1000), strings.Repeat("x", longestName)},
		{"x" + strings.Repeat("ü", 1000), "x" + strings.Repeat("ü", longestName/2-1)},
	} {
		got := named(test.name)
		if got != test.want || named(got) != got || !utf8.ValidString(got) {
			t.Errorf("%q is written %q, want %q", test.name, got, test.want)
		}
	}
}

func TestSums(t *testing.T) {
	s := sum{math.MaxInt64 - 1, 1}
	s.add(sum{5, nano(1e300)})
	if s.tokens != math.MaxInt64 || s.nano != most+1 {
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
		if err != nil || strings.Count(string(text), "\n") != 1 {
			t.Fatalf("%s\nis written %q, %v", line, text, err)
		}
		again, ok := parse(text[:len(text)-1])
		if len(text) < longestLine && (!ok || again.kind() != e.kind() || again.sum() != e.sum() || !again.at.Equal(e.at) || again.ID != e.ID) {
			t.Fatalf("%s\nwas read as %+v, and is written\n%s", line, e, text)
		}
	})
}

// FuzzBooks reads a file of any bytes, in two pieces and in one: the sums are
// the same, nothing is below zero, and a budget still works on it.
func FuzzBooks(f *testing.F) {
	all := strings.Join([]string{reservedLine, settledLine, unknownLine, canceledLine}, "\n")
	for _, text := range []string{"", "\n\n", all, all + "\n", all + "\n" + all[:300], "x\n" + all + "\r\n", "\xff\n" + reservedLine + "\n" + reservedLine + "\n" + settledLine + "\n"} {
		f.Add(text, uint16(len(text)/2))
	}
	l, dir, c := newLedger(f, Limits{TokensPerDay: 1 << 60})
	f.Fuzz(func(t *testing.T, text string, cut uint16) {
		l.books = newBooks(l.file, l.log)
		pieces := newBooks(l.file, l.log)
		var spent [2]account
		for i, part := range []string{text[:min(int(cut), len(text))], text + "\n"} {
			writeFile(t, dir, part)
			open, err := l.file.open(os.O_RDONLY)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if spent[0], _, err = pieces.accounts(t.Context(), open, c.now(), "s"); err != nil {
				t.Fatalf("piece %d: %v", i, err)
			}
			if spent[1], _, err = newBooks(l.file, l.log).accounts(t.Context(), open, c.now(), "s"); err != nil {
				t.Fatal(err)
			}
			if a := spent[0]; a != spent[1] || min(a.spent.tokens, a.spent.nano, a.reserved.tokens, a.reserved.nano) < 0 {
				t.Fatalf("read in pieces %+v, as one %+v", spent[0], spent[1])
			}
		}
		before := mustReport(t, l, proto.UsageRequest{}).Total.Requests
		if spent[0].spent.tokens+spent[0].reserved.tokens < 1<<59 {
			spend(t, l, Ask{Input: 1, Output: 1}, 1, 1)
			wantBudget(t, l, tokensPerDay, "", float64(spent[0].spent.tokens+2), float64(spent[0].reserved.tokens))
		}
		if after := mustReport(t, l, proto.UsageRequest{}).Total.Requests; after < before || after > before+1 {
			t.Fatalf("%d requests, then %d", before, after)
		}
	})
}
