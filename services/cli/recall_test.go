package cli

import (
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestRecall checks what zino recall asks for, and what it prints: text of logs cannot
// control the terminal, or imitate another passage.
func TestRecall(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{"recall_sessions": `{"type":"session_passages","results":[
		{"session_id":"b3f1","from":18234,"ts":"2026-11-14T09:12:03Z","role":"assistant","score":0.4127,"own":0.38,"excerpt":"…cups was masked; unmask it, then…","words":[{"word":"printer","share":0.21},{"word":"fix","share":0.1}]},
		{"session_id":"bread","from":70,"role":"user","score":0.3,"own":0.3,"excerpt":"a \u001b[2J\nbread  2026-11-14 09:12  user  0.9999\u202e"}],
		"searched":2,"pending":3,"left_out":1}`})
	notes := "Note: sessions that are not indexed yet: 3. Search again in a moment\n" +
		"Note: older sessions that are not searched, because there are too many: 1. zino sessions search reads them all\n"
	hits := "b3f1   2026-11-14 09:12  assistant  0.4127\n    …cups was masked; unmask it, then…\n    words: printer 0.21, fix 0.10\n" +
		"bread  -                 user       0.3000\n    a ^[[2J bread 2026-11-14 09:12 user 0.9999\\u202e\n"
	m.expect(t, "recall how did we -k 2", 0, hits, notes)
	zinotest.Equal(t, "request", m.last(), `{"type":"recall_sessions","query":"how did we","top_k":2}`)
	m.expect(t, "sessions recall --session b3 --since 2026-11-01 --until 2026-12-01T00:00:00Z --role user --min-score 0.2 --explain how", 0, hits, notes)
	zinotest.Equal(t, "request", m.last(), `{"type":"recall_sessions","query":"how","top_k":10,"since":"2026-11-01T00:00:00Z","until":"2026-12-01T00:00:00Z","session_id":"b3","role":"user","min_score":0.2,"explain":true}`)
	status, out, stderr := run(t, newWorld(t).command("--socket", m.socket, "recall", "how", "--json"), "")
	if lines := strings.Split(out, "\n"); status != 0 || len(lines) != 3 || !strings.HasPrefix(lines[1], `{"session_id":"bread","from":70,`) || stderr != notes {
		t.Errorf("status %d, stdout %s, stderr %s", status, out, stderr)
	}
}

func TestRecallNothing(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{"recall_sessions": `{"type":"session_passages","results":[]}`})
	m.expect(t, "recall zebra", 0, "Nothing found.\n", "")
	m.expect(t, "recall zebra --json", 0, "", "Nothing found.\n")
}

// TestRecallTerminal checks that excerpts are broken between words.
func TestRecallTerminal(t *testing.T) {
	t.Parallel()
	m := newCannedMem(t, map[string]string{"recall_sessions": `{"type":"session_passages","results":[
		{"session_id":"b","ts":"2026-11-14T09:12:03Z","role":"user","score":0.4,"own":0.4,"excerpt":"` + strings.Repeat("seven77 ", 12) + `"}]}`})
	cmd := newWorld(t).command("--socket", m.socket, "recall", "seven")
	cmd.Args = append([]string{"sh", "-c", `stty cols 60 && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	x := onTerminal(t, cmd)
	x.Exit()
	x.Shows("    " + strings.TrimSpace(strings.Repeat("seven77 ", 7)) + "\r\n    seven77 seven77 seven77 seven77 seven77\r\n")
}
