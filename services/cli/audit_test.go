package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/audit"
	"zino/pkg/audit/chain"
	"zino/pkg/audit/line"
	"zino/pkg/zinotest"
	"zino/proto"
)

// auditTime is when the records of the tests were written.
var auditTime = time.Date(2026, 11, 23, 10, 31, 0, 0, time.UTC)

// auditLine returns a record of a call.
func auditLine(t *testing.T, seq int64, prev string, kind, data string) []byte {
	t.Helper()
	l, err := line.Append(nil, seq, auditTime, line.Source{UID: 1000, PID: 811, Src: "exc"},
		proto.AuditEntry{Kind: kind, Session: session, Turn: "t-1", Call: "c1", Data: proto.Raw(data)}, prev)
	zinotest.Must(t, err)
	return l
}

// TestAuditOfPlainLog reads the log that a user's services have written.
func TestAuditOfPlainLog(t *testing.T) {
	w := newWorld(t)
	base := filepath.Join(w.home, ".config", "zino")
	zinotest.Must(t, os.MkdirAll(filepath.Join(base, "log"), 0o700))
	zinotest.Must(t, os.MkdirAll(filepath.Join(base, "sessions"), 0o700))
	expect(t, w.command("audit", "show"), "", 0, "There are no such records.\n", "")
	expect(t, w.command("audit", "why", "a"), "", 0, "no recorded change\n", "")
	cwd, err := filepath.EvalSymlinks(w.cwd)
	zinotest.Must(t, err)
	file := filepath.Join(cwd, "a")
	zinotest.Write(t, file, "now\n")
	sum := strings.TrimPrefix(audit.Digest([]byte("now\n")), "sha256:")
	first := auditLine(t, 0, "", "call", `{"tool":"write","ok":true,"input":"{\"path\":\"a\u001b[2J\"}","files":[{"path":"`+file+`","after":"`+strings.Repeat("ab", 32)+`"}]}`)
	second := auditLine(t, 0, "", "call", `{"tool":"bash","ok":true,"exit":0,"approval":"ap-k3v9q2mx","files":[{"path":"`+file+`","before":"`+strings.Repeat("ab", 32)+`","after":"`+sum+`"}]}`)
	denied := auditLine(t, 0, "", "denied", `{"tool":"bash","ok":false,"code":"denied","reason":"no"}`)
	zinotest.Must(t, os.WriteFile(filepath.Join(base, "log", line.PlainFile), bytes.Join([][]byte{first, second, denied}, nil), 0o600))
	zinotest.Write(t, filepath.Join(base, "sessions", session+".jsonl"), `{"type":"message","role":"user","text":"Please change\nthe file a","turn":"t-1"}`+"\n")
	clock := auditTime.Local().Format("2006-01-02 15:04:05")
	expect(t, w.command("audit", "show", "--kind", "denied"), "", 0, ""+
		"TIME                 FROM  KIND    SESSION   TURN  WHAT\n"+
		clock+"  exc   denied  "+session[:8]+"  t-1   bash denied no\n", "")
	_, out, _ := run(t, w.command("audit", "show", "--session", session[:4], "--turn", "t-1", "--since", "2026-11-23"), "")
	if strings.Count(out, "\n") != 4 || strings.Contains(out, "\x1b") || !strings.Contains(out, "write ok") || !strings.Contains(out, "1 file changed") {
		t.Errorf("show: %q", out)
	}
	_, out, _ = run(t, w.command("audit", "show", "--json", "--kind", "denied"), "")
	zinotest.Equal(t, "json", out, string(denied))
	expect(t, w.command("audit", "show", "--since", "2030-01-01"), "", 0, "There are no such records.\n", "")
	expect(t, w.command("audit", "why", "a"), "", 0, ""+
		"TIME                 SESSION   TURN  TOOL   APPROVAL     CHANGE                        NOW      MESSAGE\n"+
		clock+"  "+session[:8]+"  t-1   bash   ap-k3v9q2mx  abababababab -> "+sum[:12]+"  same     Please change the file a\n"+
		clock+"  "+session[:8]+"  t-1   write  -            none -> abababababab          changed  Please change the file a\n", "")
	zinotest.Must(t, os.Remove(file))
	_, out, _ = run(t, w.command("audit", "why", "a", "--json"), "")
	if strings.Count(out, `"now":"gone"`) != 2 {
		t.Errorf("why: %q", out)
	}
	expect(t, w.command("audit", "verify"), "", 1, "this is a plain log: nothing to verify\n", "")
	status, _, stderr := run(t, w.command("audit", "key"), "")
	if status != 1 || !strings.Contains(stderr, "this is a plain log: it has no key") {
		t.Errorf("key: %d %q", status, stderr)
	}
}

// TestAuditVerify verifies a copy of a chain, and one that was altered.
func TestAuditVerify(t *testing.T) {
	w := newWorld(t)
	dir := zinotest.Dir(t)
	signer, verifier, err := chain.NewKey("host")
	zinotest.Must(t, err)
	var log []byte
	prev, last := "", line.Hash{}
	for seq := int64(1); seq <= 1042; seq++ {
		l := auditLine(t, seq, prev, "call", `{"tool":"bash","ok":true}`)
		log, last = append(log, l...), line.Sum(l)
		prev = last.String()
		if seq == 500 || seq == 1000 {
			note, err := chain.Sign(chain.Checkpoint{Seq: seq, Hash: last, Time: auditTime}, signer)
			zinotest.Must(t, err)
			f, err := os.OpenFile(filepath.Join(dir, chain.CheckpointsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			zinotest.Must(t, err)
			_, err = f.Write(append(note, '\n'))
			zinotest.Must(t, err)
			zinotest.Must(t, f.Close())
		}
	}
	path := filepath.Join(dir, line.FileName(1))
	zinotest.Must(t, os.WriteFile(path, log, 0o600))
	status, _, stderr := run(t, w.command("audit", "verify", "--from", dir), "")
	if status != 1 || !strings.Contains(stderr, "there is no verifier key, name it with --key") {
		t.Errorf("without a key: %d %q", status, stderr)
	}
	whole := "1042 records, 2 checkpoints, verified up to 1000; last 42 not yet signed\n"
	expect(t, w.command("audit", "verify", "--from", dir, "--key", verifier), "", 0, whole, "")
	expect(t, w.command("audit", "verify", "--from", path, "--key", verifier), "", 0, whole, "")
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, chain.VerifierFile), []byte(verifier+"\n"), 0o600))
	expect(t, w.command("audit", "verify", "--from", dir), "", 0, whole, "")
	at := bytes.Index(log, []byte(`"seq":516,`))
	log[at+bytes.Index(log[at:], []byte("bash"))] ^= 1
	zinotest.Must(t, os.WriteFile(path, log, 0o600))
	expect(t, w.command("audit", "verify", "--from", dir), "", 1, "record 517: hash of 516 does not match\n", "")
	expect(t, w.command("audit", "verify", "--from", filepath.Join(dir, "audit.jsonl")), "", 1, "", "Error [internal]: stat "+filepath.Join(dir, "audit.jsonl")+": no such file or directory\n")
}
