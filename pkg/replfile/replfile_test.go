package replfile

import (
	"strings"
	"testing"
)

func TestIsRegistry(t *testing.T) {
	for text, want := range map[string]bool{
		Head:                                   true,
		Head + "* [a](debug/a.md) x\n":         true,
		strings.ReplaceAll(Head, "\n", "\r\n"): true,
		"\ufeff" + Head:                        true,
		title + guide:                          true,
		"":                                     false,
		title:                                  false,
		"# Connected pages:\nmy own notes\n":   false,
		"# Debug notes\n" + Head:               false,
	} {
		if IsRegistry([]byte(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
	if len(Head) > HeadMax {
		t.Errorf("HeadMax is less than the %d bytes of Head", len(Head))
	}
}

func TestIsForeign(t *testing.T) {
	for text, want := range map[string]bool{
		Head: false, "\ufeff" + Head: false, title + "> An earlier guide.\n": false, strings.ReplaceAll(Head, "\n", "\r\n"): false,
		"": false, " \n\n": false, "# Debug notes\n": true, "x": true,
	} {
		if IsForeign([]byte(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
