package mem

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

func TestSoft(t *testing.T) {
	m := start(t, "")
	reply := func(text string) string { return `{"type":"soft_memory","content":` + text + `,"set":true}` }
	m.want(`{"type":"get_soft"}`, `{"type":"soft_memory","content":""}`)
	for text, content := range map[string]string{
		`"a\r\nb\n"`:             "a\r\nb\n",
		`" <b>&\u0000 ü \"q\" "`: " <b>&\x00 ü \"q\" ",
		`"\ud800"`:               "\ufffd",
		`""`:                     "",
	} {
		m.want(`{"type":"set_soft","content":`+text+`}`, ok)
		zinotest.Equal(t, text, m.read(softFile), content)
	}
	m.want(`{"type":"set_soft","content":"kept"}`, ok)
	m.wantError(`{"type":"set_soft","content":7}`, "invalid", "content")
	m.wantError(`{"type":"set_soft","content":["x"]}`, "invalid", "content")
	m.want(`{"type":"get_soft"}`, reply(`"kept"`))
	start(t, m.dir).want(`{"type":"get_soft"}`, reply(`"kept"`))
	for _, none := range []string{`{"type":"set_soft"}`, `{"type":"set_soft","content":null}`} {
		m.want(`{"type":"set_soft","content":"x"}`, ok)
		m.want(none, ok)
		m.want(`{"type":"get_soft"}`, reply(`""`))
	}
	m.write(softFile, "by hand\xff\n")
	m.want(`{"type":"get_soft"}`, reply("\"by hand\ufffd\\n\""))
	m.write(softFile, strings.Repeat("x", 1<<24))
	m.wantError(`{"type":"get_soft"}`, "too_large")
	zinotest.Must(t, os.Remove(m.file(softFile)))
	zinotest.Must(t, os.Mkdir(m.file(softFile), 0o700))
	m.wantError(`{"type":"get_soft"}`, "internal", softFile)
	m.wantError(`{"type":"set_soft","content":"x"}`, "internal", softFile)
}

func TestOpen(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if _, err := Open(config.Mem{DataDir: zinotest.Dir(t), Durability: "maybe"}, log); err == nil || !strings.Contains(err.Error(), "durability") {
		t.Errorf("an unknown durability: %v", err)
	}
	dir := zinotest.Dir(t)
	zinotest.Must(t, os.WriteFile(dir+"/file", nil, 0o600))
	if _, err := Open(config.Mem{DataDir: dir + "/file", Durability: "os"}, log); err == nil || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("a file as data_dir: %v", err)
	}
	zinotest.Must(t, os.WriteFile(dir+"/channels", nil, 0o600))
	if _, err := Open(config.Mem{DataDir: dir, Durability: "fsync"}, log); err == nil || !strings.Contains(err.Error(), "channels") {
		t.Errorf("a file as channels: %v", err)
	}
	old := zinotest.Dir(t)
	zinotest.Must(t, os.Mkdir(old+"/channels", 0o755))
	s, err := Open(config.Mem{DataDir: old, Durability: "fsync"}, log)
	zinotest.Must(t, err)
	defer s.Close()
	if fi, err := os.Stat(old + "/channels"); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("an open channels directory: %v, %v", fi.Mode(), err)
	}
}
