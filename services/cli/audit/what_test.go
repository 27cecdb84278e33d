package audit

import (
	"testing"

	"zino/pkg/audit/line"
	"zino/pkg/zinotest"
)

func TestWhat(t *testing.T) {
	for _, c := range []struct{ kind, data, want string }{
		{"start", `{"version":"1.2","lifetime":"own","pid":7}`, "version 1.2, process 7"},
		{"start", `{"signed":3,"version":"1.2"}`, "version 1.2"},
		{"stop", `{"version":"1.2","pid":7}`, "version 1.2, process 7"},
		{"config", `{"files":[{"path":"/a/config.toml","after":"0123456789abcdef"}]}`, "/a/config.toml 0123456789ab"},
		{"policy", `{"files":[{"path":"/etc/p","after":"absent"},{"path":"/a/p","after":"0123456789abcdef"}]}`, "/etc/p absent, /a/p 0123456789ab"},
		{"policy", `{"other":1}`, `{"other":1}`},
	} {
		zinotest.Equal(t, c.kind+" "+c.data, what(&line.Record{Kind: c.kind, Data: []byte(c.data)}), c.want)
	}
}
