package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// remote is a server with a URL, and its authorization server.
type remote struct {
	*httptest.Server
	open bool // it asks for no login

	mu        sync.Mutex
	requests  []*http.Request
	valid     map[string]bool // access tokens
	refresh   string
	tokens    int
	life      int // seconds
	verifiers map[string]string
}

// newRemote starts one.
func newRemote(t *testing.T, open bool) *remote {
	r := &remote{open: open, valid: map[string]bool{}, verifiers: map[string]string{}, life: 3600}
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return testServer() }, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, req)
		ok := r.open || r.valid[strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")]
		r.mu.Unlock()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+r.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tools.ServeHTTP(w, req)
	})
	send := func(path string, value func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(value())
		})
	}
	send("/.well-known/oauth-protected-resource/mcp", func() any {
		return map[string]any{"resource": r.URL + "/mcp", "authorization_servers": []string{r.URL}, "scopes_supported": []string{"tools"}}
	})
	send("/.well-known/oauth-authorization-server", func() any {
		return map[string]any{
			"issuer": r.URL, "authorization_endpoint": r.URL + "/authorize", "token_endpoint": r.URL + "/token", "registration_endpoint": r.URL + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		}
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, req *http.Request) {
		var client map[string]any
		json.NewDecoder(req.Body).Decode(&client)
		client["client_id"], client["token_endpoint_auth_method"] = "client-1", "none"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(client)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch req.FormValue("grant_type") {
		case "authorization_code":
			if req.FormValue("code") != "code-1" || req.FormValue("code_verifier") == "" || req.FormValue("client_id") != "client-1" {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error":"invalid_grant","error_description":"CANARY-description"}`)
				return
			}
		case "refresh_token":
			if req.FormValue("refresh_token") != r.refresh {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error":"invalid_grant"}`)
				return
			}
		}
		r.tokens++
		token := fmt.Sprintf("CANARY-access-%d", r.tokens)
		clear(r.valid)
		r.valid[token], r.refresh = true, fmt.Sprintf("CANARY-refresh-%d", r.tokens)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","refresh_token":%q,"expires_in":%d}`, token, r.refresh, r.life)
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

// revoke makes the access token invalid.
func (r *remote) revoke(refresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.valid)
	if refresh {
		r.refresh = "none"
	}
}

// TestHTTP: calls over HTTP, with headers from the secret store, and without a permanent
// connection.
func TestHTTP(t *testing.T) {
	r := newRemote(t, true)
	e := newEnv(t, "[mcp.servers.far]\nurl = \""+r.URL+"/mcp\"\nheaders = { \"X-Team\" = \"a\" }\nsecrets = { Authorization = \"far.token\" }\n")
	zinotest.Contains(t, "without the secret", e.fails("far", "echo", `{"name":"a"}`), `unavailable: far: the secret "far.token" is not stored`)
	_, err := rpc.Call(t.Context(), e.client, proto.MCPSecretSet, proto.SetSecret{Name: "far.token", Value: "Bearer CANARY-static"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "echo", e.text("far", "echo", `{"name":"a"}`), "hello a")
	zinotest.Equal(t, "question", e.text("far", "question", `{}`), "cancel <nil>")
	for _, req := range r.requests {
		if req.Method == http.MethodGet || req.Header.Get("X-Team") != "a" || req.Header.Get("Authorization") != "Bearer CANARY-static" {
			t.Errorf("%s %v", req.Method, req.Header)
		}
	}
	zinotest.Contains(t, "20 MiB", e.fails("far", "big", `{"bytes":20971520}`), "too_large: far: ")
	zinotest.Equal(t, "then", e.text("far", "echo", `{"name":"b"}`), "hello b")
	info, err := os.Stat(filepath.Join(e.dir, "home/mcp/secrets.json"))
	zinotest.Must(t, err)
	zinotest.Equal(t, "mode", info.Mode().Perm(), 0o600)
}

// TestRedirect: headers do not follow a redirect to another origin.
func TestRedirect(t *testing.T) {
	var leaked http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { leaked = req.Header }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	e := newEnv(t, "[mcp.servers.far]\nurl = \""+first.URL+"/mcp\"\nheaders = { \"X-Secret\" = \"CANARY\" }\n")
	zinotest.Contains(t, "call", e.fails("far", "echo", `{"name":"a"}`), "unavailable: far: ")
	if leaked != nil {
		t.Errorf("the other origin got %v", leaked)
	}
}

// login logs in as a browser would.
func (e *env) login(r *remote, change func(*proto.LoginEnd)) error {
	e.Helper()
	began, err := rpc.Call(e.Context(), e.client, proto.MCPLoginBegin, proto.LoginBegin{Server: "far", RedirectURL: "http://127.0.0.1:40001/callback"})
	zinotest.Must(e, err)
	u, err := url.Parse(began.URL)
	zinotest.Must(e, err)
	q := u.Query()
	if q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != "http://127.0.0.1:40001/callback" || q.Get("resource") != r.URL+"/mcp" || q.Get("scope") != "tools" {
		e.Errorf("the address is %s", began.URL)
	}
	end := proto.LoginEnd{Login: began.Login, Code: "code-1", State: q.Get("state")}
	change(&end)
	_, err = rpc.Call(e.Context(), e.client, proto.MCPLoginEnd, end)
	return err
}

// TestLogin: a login, the refresh of its token, and what happens without one.
func TestLogin(t *testing.T) {
	r := newRemote(t, false)
	e := newEnv(t, "[mcp.servers.far]\nurl = \""+r.URL+"/mcp\"\n")
	needs := "needs_login: run: zino mcp login far"
	zinotest.Equal(t, "before", e.fails("far", "echo", `{"name":"a"}`), needs)
	zinotest.Equal(t, "state", e.state("far").State, proto.MCPNeedsLogin)
	stats, err := rpc.Call(t.Context(), e.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "problems", strings.Join(stats.Problems, "; "), "MCP server far: needs_login: run: zino mcp login far")
	if err := e.login(r, func(end *proto.LoginEnd) { end.State = "other" }); err == nil || !strings.Contains(err.Error(), "state mismatch") {
		t.Errorf("another state: %v", err)
	}
	if err := e.login(r, func(end *proto.LoginEnd) { end.Code = "other" }); err == nil || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("another code: %v", err)
	}
	if err := e.login(r, func(end *proto.LoginEnd) { end.Login = "l-none" }); err == nil {
		t.Error("a login that did not begin")
	}
	r.life = 1
	zinotest.Must(t, e.login(r, func(*proto.LoginEnd) {}))
	zinotest.Equal(t, "after", e.text("far", "echo", `{"name":"a"}`), "hello a")
	used := r.tokens
	r.mu.Lock()
	r.life = 3600
	r.mu.Unlock()
	zinotest.Eventually(t, "the token is refreshed", func() bool {
		e.text("far", "echo", `{"name":"a"}`)
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.tokens > used
	})
	v, err := e.secrets.read()
	zinotest.Must(t, err)
	zinotest.Contains(t, "the file", fmt.Sprint(*v.Logins["far "+r.URL+"/mcp"].Token), r.refresh)
	r.revoke(false) // a server that forgets a token gets a new one
	zinotest.Equal(t, "revoked", e.text("far", "echo", `{"name":"a"}`), "hello a")
	r.revoke(true)
	zinotest.Equal(t, "revoked for good", e.fails("far", "echo", `{"name":"a"}`), needs)
	zinotest.Must(t, e.login(r, func(*proto.LoginEnd) {}))
	zinotest.Eventually(t, "it works again", func() bool { return e.ask("far", "echo", `{"name":"a"}`).OK })
	_, err = rpc.Call(t.Context(), e.client, proto.MCPLogout, proto.Logout{Server: "far"})
	zinotest.Must(t, err)
	zinotest.Eventually(t, "logged out", func() bool { return e.ask("far", "echo", `{"name":"a"}`).Error.Code == proto.ToolNeedsLogin })
	if _, err := rpc.Call(t.Context(), e.client, proto.MCPLogout, proto.Logout{Server: "far"}); err == nil {
		t.Error("logged out twice")
	}
	if strings.Contains(zinotest.Read(t, filepath.Join(e.dir, "home/mcp/secrets.json")), "CANARY") {
		t.Error("a token is left")
	}
	e.catalog.save()
	if strings.Contains(zinotest.Read(t, e.catalog.path), "CANARY") {
		t.Error("a token is in the catalogue")
	}
}

// FuzzVault: any file is read or refused.
func FuzzVault(f *testing.F) {
	f.Add([]byte(`{"version":1,"secrets":{"a":"b"},"logins":{"x":{"client_id":"c","token_url":"u","token":{"access_token":"t"}}}}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"secrets":null,"logins":{"a":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseVault(data)
		if err == nil && (v.Secrets == nil || v.Logins == nil) {
			t.Error("a nil map")
		}
		for _, l := range v.Logins {
			_ = l.Token.Valid()
		}
	})
}

// FuzzCatalog: any file is read or counts as empty.
func FuzzCatalog(f *testing.F) {
	hash := strings.Repeat("0a", 32)
	f.Add([]byte(`{"version":1,"servers":{"` + hash + `":{"listed":true,"tools":[{"name":"a"},{"name":"a"},{"name":"b","input":[]}],"problems":["x"]}}}`))
	f.Add([]byte(`{"version":1,"servers":{"` + hash + `":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for hash, e := range parseCatalog(data) {
			if len(hash) != 64 || len(e.Tools) > toolsMax || len(e.Prompts) > promptsMax || len(e.Instructions) > instructionsMax {
				t.Errorf("%s: %d tools, %d prompts", hash, len(e.Tools), len(e.Prompts))
			}
			seen := map[string]bool{}
			for _, tool := range e.Tools {
				if tool.Name == "" || seen[tool.Name] || !isObject(tool.Input) || len(tool.Description) > descriptionMax {
					t.Errorf("%+v", tool)
				}
				seen[tool.Name] = true
			}
			for _, p := range e.Prompts {
				if p.Name == "" || p.Name != clean(p.Name, nameMax) || len(p.Description) > descriptionMax {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}
