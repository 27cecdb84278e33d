package agr

import (
	"log/slog"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/mask"
	"zino/pkg/zinotest"
	"zino/proto"
)

// TestResultsAreMasked checks results that are not exc's.
func TestResultsAreMasked(t *testing.T) {
	secret := "ghp_" + strings.Repeat("aB3dE6gH9", 4)
	b, ask := blockCalls(t)
	b.mem.finds(hit(1, 0.5, "", `[{"content":"the token is `+secret+`"}]`))
	got := ask(`{"name":"recall","arguments":{"query":"x"}}`)
	zinotest.Contains(t, "recall", got, "[1] (score 0.50) the token is [masked:github:")

	tr := &turn{Service: &Service{masks: mask.NewSource(config.Default().Mask, slog.New(slog.DiscardHandler))}}
	for name, r := range map[string]result{
		"data":  {data: success(proto.CommandOutput{Stdout: "a\n" + secret + "\n", Stderr: secret})},
		"error": {err: &toolError{code: proto.ToolPageError, message: "not " + secret + " but " + secret}},
	} {
		envelope := string(tr.masked(r).envelope())
		if strings.Contains(envelope, secret) || !strings.Contains(envelope, `,"masked":2,`) {
			t.Errorf("%s: %s", name, envelope)
		}
	}
	plain := result{text: "token: none"}
	zinotest.Equal(t, "envelope", string(tr.masked(plain).envelope()), `{"ok":true,"data":{"text":"token: none"}}`)
}
