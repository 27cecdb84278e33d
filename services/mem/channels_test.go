package mem

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

// channels returns the ids of list_channels.
func (m *server) channels() (ids []string) {
	m.t.Helper()
	var rep struct {
		Channels []struct {
			ChannelID string `json:"channel_id"`
			Bytes     int64
			Updated   time.Time
		}
	}
	zinotest.Must(m.t, json.Unmarshal([]byte(m.ask(`{"type":"list_channels"}`)), &rep))
	for i, c := range rep.Channels {
		ids = append(ids, c.ChannelID)
		if c.Bytes <= 0 || c.Updated.IsZero() || i > 0 && c.Updated.After(rep.Channels[i-1].Updated) {
			m.t.Errorf("channel %+v", c)
		}
	}
	return ids
}

func TestListChannels(t *testing.T) {
	m := start(t, "")
	m.want(`{"type":"list_channels"}`, `{"type":"channels","channels":[]}`)
	want := []string{"kitchen", "#home/../x", "% 41", "%41", "ä☎", strings.Repeat("long ", 200), strings.Repeat("x", 250), ".", "a.json", "\x00"}
	for i, id := range want {
		m.want(put(id, msg("a")), ok)
		f, err := fileOf(m.s.channels, id)
		zinotest.Must(t, err)
		at := time.Date(2026, 1, 1, 0, 0, 0, len(want)-i, time.UTC) // the first is the newest
		zinotest.Must(t, os.Chtimes(m.file("channels/"+f.name), at, at))
	}
	if got := m.channels(); !slices.Equal(got, want) {
		t.Errorf("channels %q,\nwant %q", got, want)
	}
	m.want(`{"type":"clear_history","channel_id":"kitchen"}`, ok)
	if got := m.channels(); !slices.Equal(got, want[1:]) {
		t.Errorf("after clear_history: %q", got)
	}
}

// TestListForeignChannels lists a directory with files that are not histories.
func TestListForeignChannels(t *testing.T) {
	m := start(t, "")
	history := "[\n" + msg("a") + "\n]"
	for name, text := range map[string]string{
		"#old style.json":  history, // from the earlier layout, which does not escape
		"100%.json":        history,
		"empty.json":       "[]",
		"none.json":        "",
		"x.json.damaged-1": history,
		"notes.txt":        "x",
		".json":            history,
		"%FF.json":         history, // not valid UTF-8
		"%~0123.json":      history, // a long id without its .id file
		"both ways.json":   history,
		"both%20ways.json": history,
		"%ZZ.json":         history,
	} {
		m.write("channels/"+name, text)
	}
	zinotest.Must(t, os.Mkdir(m.file("channels/dir.json"), 0o700))
	got := m.channels()
	slices.Sort(got)
	if want := []string{"#old style", "%ZZ", "100%", "both ways"}; !slices.Equal(got, want) {
		t.Errorf("channels %q, want %q", got, want)
	}
	for _, id := range got {
		m.want(get(id), hist(msg("a")))
	}
	zinotest.Must(t, os.RemoveAll(m.file("channels")))
	zinotest.Contains(t, "without the directory", m.ask(`{"type":"list_channels"}`), "channels")
}
