package chat

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestSkillLines(t *testing.T) {
	const task = `{"type":"function","function":{"name":"task","description":"Hands a request to a skill.","parameters":{"properties":{"skill":{` +
		`"description":"The skill.\nagent: knows nothing but the request. It reads.\ndisk: Disk space: how full it is.\nIt changes nothing.","enum":["agent","disk","bare"]}}}}}`
	for _, test := range []struct {
		name, functions string
		want            []string
	}{
		{"skills", `[{"function":{"name":"bash","description":"runs"}},` + task + `]`, []string{
			"  agent  knows nothing but the request", "  disk   Disk space: how full it is", "  bare",
		}},
		{"no task", `[{"function":{"name":"bash","description":"runs"}}]`, nil},
		{"tools as text", "bash: runs", nil},
	} {
		if got := skillLines(test.functions); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestFolderLines(t *testing.T) {
	got := folderLines([]proto.Skill{
		{Name: "pdf", Kind: proto.SkillFolder, Description: "Fills forms. Use it for PDF."},
		{Name: "broken", Kind: proto.SkillFolder, Problem: "x"},
		{Name: "pdf", Kind: proto.SkillFolder, Shadowed: true},
		{Name: "disk", Kind: proto.SkillJSON},
		{Name: "release", Kind: proto.SkillFolder, Description: "Cuts a release", UserOnly: true},
	})
	if want := []string{"  pdf      Fills forms", "  release  Cuts a release"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestServerLines(t *testing.T) {
	got := serverLines(proto.ServerList{
		Servers: []proto.MCPServer{
			{Name: "github", Source: "user", Transport: "stdio", State: "idle", Tools: 135, Protocol: "2025-11-25"},
			{Name: "far", Source: "project", Transport: "http", State: "needs_login", Problem: "run: zino mcp login far"},
			{Name: "new\x1b", Source: "host", Transport: "stdio", State: "new"},
		},
		Notices: []string{"MCP server x is defined twice"},
	})
	want := []string{
		"  github  user     stdio  idle  135 tools  2025-11-25",
		"  far     project  http   needs_login",
		"    run: zino mcp login far",
		"  new" + safe("\x1b") + "   host     stdio  new",
		"MCP server x is defined twice",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRunZino checks that runs of zino get the socket and the configuration of this chat.
func TestRunZino(t *testing.T) {
	program := filepath.Join(zinotest.Dir(t), "zino")
	zinotest.Must(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\"\n"), 0o755))
	for config, want := range map[string]string{
		"":             "--socket /run/d.sock usage",
		"/srv/my.toml": "--socket /run/d.sock --config /srv/my.toml usage",
	} {
		x := newTestChat(t, func(start *proto.ChatStart) { start.Zino, start.Socket, start.Config = program, "/run/d.sock", config })
		out, err := x.runZino(context.Background(), "usage")
		if strings.TrimSpace(out) != want || err != nil {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	}
}
