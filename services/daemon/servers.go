package daemon

import (
	"context"
	"encoding/json"
	"slices"

	"zino/pkg/rpc"
	"zino/proto"
)

// maxServers is the size of the largest mcp_servers in bytes.
const maxServers = 256 << 10

// clientServers are the servers of mcp_servers, each as in .mcp.json.
type clientServers struct {
	Servers map[string]map[string]json.RawMessage `json:"mcpServers"`
}

// checkServers validates mcp_servers. What a server's entry says is checked by mcp.
func checkServers(raw proto.Raw) error {
	if len(raw) == 0 {
		return nil
	}
	var c clientServers
	if len(raw) > maxServers || json.Unmarshal(raw, &c) != nil || c.Servers == nil {
		return proto.Errorf(proto.CodeInvalid, `invalid mcp_servers: want an object {"mcpServers":{NAME:{…}}} of at most %d bytes`, maxServers)
	}
	return nil
}

// checkServersUser returns an error if a user may not send mcp a request of a type: on the
// host's constellation all but root may only look.
func (s *Service) checkServersUser(uid int, typ string) error {
	reads := []string{proto.MCPServers.Type, proto.Ping.Type, proto.Describe.Type, proto.GetStats.Type}
	if s.cfg.Gate.RequireToken && uid != 0 && !slices.Contains(reads, typ) {
		return proto.Errorf(proto.CodeDenied, "the MCP servers of the host, and their logins, are root's: run it with sudo")
	}
	return nil
}

// wakeServers has mcp start, if it does not run, while the prompt of a turn is assembled: agr
// waits for 200 ms for its answer.
func (s *Service) wakeServers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	_, _ = rpc.Call(ctx, s.mcp, proto.Ping, proto.PingRequest{}) // agr reports it if there is no answer
}
