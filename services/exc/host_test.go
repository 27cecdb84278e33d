package exc

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/sandbox"
)

// Protected paths and limits come from the environment and the configuration.
func TestNewHost(t *testing.T) {
	dir := zinotest.Dir(t)
	home, link := filepath.Join(dir, "home"), filepath.Join(dir, "link")
	zinotest.Must(t, errors.Join(os.Mkdir(home, 0o700), os.Symlink(home, link)))
	t.Setenv("ZINO_HOME", dir+"/own")
	cfg := config.Default().Exc
	cfg.MemoryMax, cfg.CPUMax = 1<<20, 2
	for env, want := range map[string]string{link: home, home: home, "/": "", "relative": "", "": "", dir + "/gone/": dir + "/gone"} {
		t.Setenv("HOME", env)
		h := newHost(cfg)
		if h.home != want || !slices.Contains(h.protected, dir+"/own") || h.level != proto.LevelOff || h.limits.Memory != 1<<20 || h.limits.CPU != 2 {
			t.Errorf("HOME=%s: %+v", env, h)
		}
		if (h.tree == nil) == (h.noTree == nil) {
			t.Errorf("control groups: %v, %v", h.tree, h.noTree)
		}
		zinotest.Must(t, h.close())
	}
}

// fileInputs are inputs of the tools, with which write and edit make or change the
// file x.
var fileInputs = map[string]in{
	"bash": {"command": "echo x >x"}, "read": {"path": "x"}, "write": {"path": "x", "content": "x"}, "edit": {"path": "x", "old": "intact", "new": "x"},
}

// A host without means refuses every level with the reason: code, tools, analyses,
// and the stats.
func TestHostWithoutMeans(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, analysisTools)
	s.host.unit = s.dir + "/missing"
	s.host.tree, s.host.noTree = nil, errors.New("no groups here")
	s.host.kernel = &sandbox.Kernel{NoNamespaces: errors.New("refused here")}
	root := zinotest.Dir(t)
	zinotest.Write(t, root+"/x", "intact\n")
	for level, why := range map[proto.Level][]string{
		proto.LevelReadOnly: {"refused here", "Landlock"}, proto.LevelWorkspaceWrite: {"refused here", "Landlock"}, proto.LevelUnit: {"missing", "zino-run.socket"},
	} {
		s.host.level = level
		_, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Root: root})
		zinotest.Error(t, err, proto.ErrUnavailable, why...)
		_, err = s.validate(t.Context(), proto.Validate{Executor: "sh", Code: "echo pwned"})
		zinotest.Error(t, err, proto.ErrUnavailable, why...)
		for tool, input := range fileInputs {
			got, err := s.call(t.Context(), call(tool, root, input), nil)
			if err != nil || !strings.Contains(string(got.Result), `"code":"sandbox"`) || !strings.Contains(string(got.Result), why[0]) || got.Confinement != nil {
				t.Errorf("%s at %s: %s, %v", tool, level, got.Result, err)
			}
		}
		st := proto.Stats{Info: map[string]string{}}
		s.stats(&st)
		if st.Info["sandboxes"] != "off" || !strings.Contains(st.Info["no sandbox "+string(level)], why[0]) || st.Info["no control groups"] != "no groups here" || st.Info["limits not enforced"] != "tasks" {
			t.Errorf("info %q", st.Info)
		}
		zinotest.Contains(t, "problems", strings.Join(st.Problems, "\n"), `sandbox = "`+string(level)+`" is not available`)
	}
	if !intact(root + "/x") {
		t.Error("the file was changed")
	}
	r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi", Sandbox: proto.LevelOff})
	if b, _ := json.Marshal(r.Confinement); err != nil || string(b) != `{"sandbox":"off","network":true,"means":[],"unlimited":["tasks"]}` {
		t.Errorf("%s, %v", b, err)
	}
}

// The levels in the stats are those that runs can have, and CPU time is reported if
// there are control groups.
func TestLevelsInStats(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	st := proto.Stats{Info: map[string]string{}}
	a.stats(&st)
	for _, level := range proto.Levels {
		_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Sandbox: level, Root: a.root})
		listed := slices.Contains(strings.Split(st.Info["sandboxes"], ", "), string(level))
		if listed != (err == nil) || listed != (st.Info["no sandbox "+string(level)] == "") {
			t.Errorf("%s: listed %v, %v, %q", level, listed, err, st.Info)
		}
	}
	c := a.run(t, proto.LevelOff, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done").Confinement
	if (a.host.tree == nil) != (c.CPUMS == nil) || c.CPUMS != nil && *c.CPUMS == 0 {
		t.Errorf("%+v", c)
	}
}

// Invalid requests change nothing. The level off cannot keep code from the network:
// a request without network is invalid, a configuration without it is not.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *config.Exc) { c.Network = false }, nil)
	root := zinotest.Dir(t)
	for name, tt := range map[string]struct {
		bad  proto.Execute
		says string
	}{
		"level":                   {proto.Execute{Sandbox: "tight"}, `unknown sandbox "tight": there are off, read-only, workspace-write, unit`},
		"off without network":     {proto.Execute{Sandbox: proto.LevelOff, Network: new(false)}, "ask for one of read-only, workspace-write, unit"},
		"as configured, likewise": {proto.Execute{Network: new(false)}, "ask for one of read-only, workspace-write, unit"},
		"name of a variable":      {proto.Execute{Env: map[string]string{"A=B": "x"}}, "env: "},
		"value of a variable":     {proto.Execute{Env: map[string]string{"A": "x\x00"}}, "env: "},
		"umask":                   {proto.Execute{Umask: new(0o1000)}, "invalid umask 512"},
		"negative umask":          {proto.Execute{Umask: new(-1)}, "invalid umask -1"},
	} {
		bad := tt.bad
		bad.Executor, bad.Root, bad.Code = "bash", root, "echo x >x"
		_, err := s.execute(t.Context(), bad)
		zinotest.Error(t, err, proto.ErrInvalid, tt.says)
		for tool, input := range fileInputs {
			req := call(tool, root, input)
			req.Sandbox, req.Network, req.Env, req.Umask = bad.Sandbox, bad.Network, bad.Env, bad.Umask
			got, err := s.call(t.Context(), req, nil)
			if says, _ := json.Marshal(tt.says); err != nil || !strings.Contains(string(got.Result), `"code":"invalid_input"`) || !strings.Contains(string(got.Result), string(says[1:len(says)-1])) {
				t.Errorf("%s: %s: %s, %v", name, tool, got.Result, err)
			}
		}
	}
	if exists(root + "/x") {
		t.Error("a file was made")
	}
	for _, level := range []proto.Level{proto.LevelOff, ""} {
		r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi", Sandbox: level})
		if err != nil || r.Stdout != "hi\n" || !r.Confinement.Network {
			t.Errorf("%q, as configured: %+v, %v", level, r, err)
		}
	}
}

// putKeys puts the user's keys below the root.
func (a *harness) putKeys(t *testing.T) (key string) {
	t.Helper()
	key = filepath.Join(a.root, "conf/keys/openai")
	zinotest.Write(t, key, secret)
	zinotest.Write(t, filepath.Dir(key)+"/sub/more", secret)
	a.host.secrets = []string{filepath.Dir(key)}
	return key
}

// mustRefuseRoot checks that a root is refused for code and for the file tools.
func (a *harness) mustRefuseRoot(t *testing.T, level proto.Level, root, why string) {
	t.Helper()
	for tool, input := range fileInputs {
		got := a.toolIn(t, a.at(level), root, tool, input)
		if !strings.Contains(got, `"code":"sandbox"`) || !strings.Contains(got, why) {
			t.Errorf("%s in %s: %s", tool, root, got)
		}
	}
}

// Keys that lie in the root are hidden there, or the root is refused. A directory of
// keys is refused as a root, and a key file of the configuration is a key.
func TestKeysBelowRoot(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	key := a.putKeys(t)
	dir := filepath.Dir(key)
	zinotest.Write(t, a.root+"/my.key", secret)
	a.ProtectConfig(&config.Config{API: config.API{KeyFile: a.root + "/my.key"}})
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		for _, root := range []string{dir, dir + "/sub"} {
			a.mustRefuseRoot(t, level, root, "code must not read")
		}
		if level == levelLandlock {
			a.mustRefuseRoot(t, level, a.root, dir)
			return
		}
		r := a.run(t, level, `cd $ROOT/conf; cat keys/openai keys/sub/more; ls keys; echo x >keys/new; rm -rf keys; mv keys kept && cat kept/openai; mv $ROOT/conf $ROOT/moved && cat $ROOT/moved/keys/openai
cd $ROOT; cat conf/keys/openai conf/kept/openai my.key; echo ran`)
		if r.Stdout != "ran\n" {
			t.Errorf("%+v", r)
		}
		os.Rename(a.root+"/moved", a.root+"/conf")
		if zinotest.Read(t, key) != secret || exists(dir+"/new") {
			t.Error("the keys were changed")
		}
	})
}

// Code can neither read nor write exc's data, and exc makes the directory for itself.
func TestDataDir(t *testing.T) {
	t.Parallel()
	parent := zinotest.Dir(t)
	a := newHarness(t, func(cfg *config.Exc) { cfg.DataDir = parent + "/data/exc" })
	data := a.host.private[0]
	info, err := os.Stat(data)
	zinotest.Must(t, err)
	zinotest.Equal(t, "mode", info.Mode().Perm(), 0o700)
	root := filepath.Dir(filepath.Dir(data))
	zinotest.Write(t, data+"/calls/today", secret)
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		a.mustRefuseRoot(t, level, data+"/calls", "code must not read")
		if level == levelLandlock {
			a.mustRefuseRoot(t, level, root, data)
		} else {
			r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "cd data; cat exc/calls/today; echo x >exc/new; mv exc kept && cat kept/calls/today; echo ran", Sandbox: a.at(level), Root: root})
			zinotest.Must(t, err)
			zinotest.Equal(t, "output", r.Stdout, "ran\n")
		}
		if r := a.run(t, level, "cat "+data+"/calls/today"); r.Stdout != "" {
			t.Errorf("read from another root: %+v", r)
		}
		if zinotest.Read(t, data+"/calls/today") != secret || exists(data+"/new") {
			t.Error("the data was changed")
		}
	})
}

// exc does not start without a directory for its data.
func TestDataDirNotWritable(t *testing.T) {
	file := filepath.Join(zinotest.Dir(t), "file")
	zinotest.Write(t, file, "")
	_, err := newIn(filepath.Dir(file), config.Exc{DataDir: file + "/exc"}, nil, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "[exc] data_dir: ") {
		t.Errorf("got %v", err)
	}
}

// The host's secrets are hidden in the root, too.
func TestSecretsOfHost(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	for _, level := range []proto.Level{proto.LevelReadOnly, levelLandlock} {
		a.at(level) // the request is for read-only at both: nothing in /etc may be written
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "cat shadow", Sandbox: proto.LevelReadOnly, Root: "/etc"})
		if r.Stdout != "" || err == nil && r.Confinement == nil {
			t.Errorf("%s: %d bytes, %v", level, len(r.Stdout), err)
		}
		if got := a.toolIn(t, proto.LevelReadOnly, "/etc", "read", in{"path": "shadow"}); !strings.HasPrefix(got, `{"ok":false`) && !strings.Contains(got, `"content":"","truncated":false,"bytes":0`) { // an empty file hides it
			t.Errorf("%s: the tool read %d bytes", level, len(got))
		}
	}
}
