package environ

import (
	"slices"
	"testing"
)

func TestSecretName(t *testing.T) {
	secret := []string{
		"LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "openai_api_key", "APIKEY",
		"GITHUB_TOKEN", "HF_TOKEN", "TOKEN", "NPM_AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "GH_PAT",
		"AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
		"CLIENT_SECRET", "SECRET", "SECRET_KEY_BASE", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "SMTP_PASS",
		"SIGNING_KEY", "SSH_PRIVATE_KEY", "GPG_PASSPHRASE", "SENTRY_DSN", "DATABASE_URL", "REGISTRY_AUTH",
		"OPENAI_KEY_2", "OPENAI_KEY2", "GITHUB_TOKEN_RO", "TOKENS", "BEARER", "MY_CRED", "CREDS_FILE", "SLACK_WEBHOOK_URL",
		"ANTHROPIC_CUSTOM_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", "SMTP_PWD_OLD", "AUTH_HEADER", "GOOGLE_OAUTH2_CLIENT",
		"DB_PW", "BINDPW", "ROOTPW2", "DBPWD", "MYSQLPASS", "DEPLOYKEY", "DEPLOYKEY_2", "SSHKEYS", "DBCREDS", "SSHPASS",
		"GH_PAT_RO", "SESSION_COOKIE_1", "AZURE_STORAGE_CONNECTION_STRING", "npm_config_//registry/:_auth", "my-api.key",
	}
	own := []string{
		"CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
		"WATCHDOG_USEC", "WATCHDOG_PID", "ZINO_CONFIG", "ZINO_LOG_LEVEL", "INVOCATION_ID",
		"JOURNAL_STREAM", "RUNTIME_DIRECTORY",
	}
	free := []string{
		"PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "PWD", "OLDPWD", "EDITOR",
		"SSH_AUTH_SOCK", "DISPLAY", "XDG_RUNTIME_DIR", "GOPATH", "PYTHONPATH", "HTTPS_PROXY",
		"MAX_TOKENS", "TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEY", "PASSAGE", "SSH_ASKPASS", "XKB_DEFAULT_LAYOUT",
		"XAUTHORITY", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "COMPASS", "KEYBOARD_LAYOUT", "CREDITS", "PATH_INFO", "INIT_CWD", "KEYMAP", "KEYTIMEOUT",
		"PWNED", "UPWARD", "PASSES", "BYPASS", "MONKEY_2", "HOTKEY", "PUBKEYRING", "PASSENGER_ENV", "SACRED", "TURKEY",
	}
	for _, name := range secret {
		if env := []string{name + "=x"}; len(ForCode(env, nil)) > 0 || len(ForService(env)) > 0 {
			t.Errorf("%s is let through", name)
		}
	}
	for _, name := range own {
		if env := []string{name + "=x"}; len(ForCode(env, nil)) > 0 {
			t.Errorf("%s is let through to code", name)
		}
	}
	for _, name := range free {
		if env := []string{name + "=x"}; len(ForCode(env, nil)) == 0 || len(ForService(env)) == 0 {
			t.Errorf("%s is withheld", name)
		}
	}
	for _, name := range []string{"ZINO_LOG_LEVEL", "ZINO_HOME", "XDG_RUNTIME_DIR", "LISTEN_FDS"} {
		if len(ForService([]string{name + "=x"})) == 0 {
			t.Errorf("%s is withheld from a service", name)
		}
	}
}

// TestSecretValue: a value that is a URL with a password is a secret under any name.
func TestSecretValue(t *testing.T) {
	for _, value := range []string{
		"postgres://u:pw1@h/d", "http://u:pw2@proxy", "http://:pw@h:80/", "https://u:p%40w@h", "https://u:p@w@h",
		"https://ghp_token@github.com/a", "direct,HTTPS://u:pw@h,x", "git+ssh://u:pw@h", "mysql://u:pw@tcp(h)/d",
	} {
		if !Secret("SOME_URL", value) {
			t.Errorf("%s is let through", value)
		}
	}
	for _, value := range []string{
		"", "http://proxy:3128", "http://h:80/a@b", "https://h/?m=a:b@c", "ssh://git@github.com/a", "git@github.com:a/b", "a:b@c",
		"unix:///run/a:b@c", "http://h:80,socks5://i:81",
	} {
		if Secret("SOME_URL", value) {
			t.Errorf("%s is withheld", value)
		}
	}
}

func TestForCode(t *testing.T) {
	env := []string{"PATH=/bin", "A_TOKEN=1", "a_token=2", "EMPTY=", "EQUALS=a=b", "nonsense", "=x", "ZINO_X=1", "PROXY=http://u:p@h"}
	tests := []struct {
		pass []string
		want []string
	}{
		{nil, []string{"PATH=/bin", "EMPTY=", "EQUALS=a=b"}},
		{[]string{"PROXY"}, []string{"PATH=/bin", "EMPTY=", "EQUALS=a=b", "PROXY=http://u:p@h"}},
		{[]string{"A_TOKEN"}, []string{"PATH=/bin", "A_TOKEN=1", "EMPTY=", "EQUALS=a=b"}},
		{[]string{"ZINO_X", "a_token", "absent"}, []string{"PATH=/bin", "a_token=2", "EMPTY=", "EQUALS=a=b", "ZINO_X=1"}},
	}
	for _, tt := range tests {
		if got := ForCode(env, tt.pass); !slices.Equal(got, tt.want) {
			t.Errorf("pass %q: got %q, want %q", tt.pass, got, tt.want)
		}
	}
	if got := ForCode(nil, nil); got == nil || len(got) != 0 {
		t.Errorf("nothing became %#v", got) // nil would mean: inherit all
	}
}

func TestMapAndList(t *testing.T) {
	env := []string{"B=1", "A=x=y", "B=2", "EMPTY=", "nonsense", "=z"}
	got, err := List(Map(env))
	if want := []string{"A=x=y", "B=2", "EMPTY="}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, m := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "x\x00"}} {
		if got, err := List(m); err == nil {
			t.Errorf("%q becomes %q", m, got)
		}
	}
}
