package index

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestFunctionWords checks that the lists contain folded words, which a query can have,
// and each word once.
func TestFunctionWords(t *testing.T) {
	for i, list := range []string{englishWords, germanWords, spanishWords, frenchWords} {
		want := strings.Fields(list)
		if got := folded(list); !slices.Equal(got, want) {
			t.Errorf("list %d: %q", i, got)
		}
		slices.Sort(want)
		if distinct := slices.Compact(slices.Clone(want)); len(distinct) != len(want) || len(want) < 100 {
			t.Errorf("list %d: %d words, %d distinct", i, len(want), len(distinct))
		}
		for _, w := range want {
			if functionWords()[w]&(1<<i) == 0 {
				t.Errorf("list %d: %q is not found", i, w)
			}
		}
	}
}

func TestParseQuery(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"?!":                             "",
		"Where is the Spare key":         "Where=0.2 is=0.2 the=0.2 Spare key",
		"tell me, please: PRINTERS!":     "tell=0.2 me=0.2 please=0.2 PRINTERS",
		"tell me what you know":          "tell me what you know",
		"the":                            "the",
		"key KEY keys":                   "key keys",
		"Cafe\u0301 cafe x86 東京タワー":      "Cafe\u0301 x86 東京 京タ タワ ワー",
		"der Drucker":                    "der Drucker",
		"wo ist der Drucker":             "wo=0.2 ist=0.2 der=0.2 Drucker",
		"für über weiß Drucker":          "für=0.2 über=0.2 weiß=0.2 Drucker",
		"der der der Drucker":            "der Drucker",
		"où est l'imprimante":            "où=0.2 est=0.2 l=0.2 imprimante",
		"dónde está mi llave":            "dónde=0.2 está=0.2 mi=0.2 llave",
		"in was war die Tür":             "in=0.2 was=0.2 war=0.2 die=0.2 Tür",
		"in was drucker":                 "in=0.2 was=0.2 drucker", // English wins the tie
		"der was the drucker":            "der was=0.2 the=0.2 drucker",
		"con la casa on the hill in may": "con la casa on=0.2 the=0.2 hill in=0.2 may=0.2",
		"es la printer":                  "es=0.2 la=0.2 printer",
	} {
		var got []string
		for _, w := range ParseQuery(text) {
			s := w.Text
			if w.Weight != 1 {
				s += fmt.Sprintf("=%v", w.Weight)
			}
			got = append(got, s)
		}
		zinotest.Equal(t, text, strings.Join(got, " "), want)
	}
}

func TestQueryTerms(t *testing.T) {
	var got []string
	for _, w := range ParseQuery("Preferences 404s naïveté 東京 ox") {
		got = append(got, w.Stem+"/"+w.Form+"/"+strings.Join(slices.Collect(w.Prefixes()), ","))
	}
	zinotest.Equal(t, "terms", strings.Join(got, " "), "prefer/=preferences/prefe,pref 404s// naivet/=naivete/naive,naiv 東京// ox/=ox/")
}

func TestFormula(t *testing.T) {
	for _, c := range []struct{ got, want float64 }{
		{IDF(1, 1), math.Log(1 + 0.5/1.5)},
		{IDF(10, 0), math.Log(22)},
		{IDF(10, 4), math.Log(1 + 6.5/4.5)},
		{Saturation(3, 20, 20), 3 / 3.9},
		{Saturation(1, 40, 20), 1 / (1 + 0.9*(0.6+0.8))},
		{QueryWord{Form: "=x", Weight: 0.2}.Part(2, 3), 0.2 * (1.6 + 0.6)},
		{QueryWord{Weight: 0.2}.Part(2, 3), 0.4},
		{Round(0.25), 0.25},
		{Round(1e-20), 0x1p-40},
		{Round(0.3), math.Round(0.3*0x1p40) / 0x1p40},
	} {
		if math.Abs(c.got-c.want) > 1e-15 {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}
