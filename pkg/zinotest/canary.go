package zinotest

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Letters are letters and digits.
const Letters = upper + lower + digits

const (
	digits = "0123456789"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	letter = Letters
	b64    = letter + "+/"
	hexa   = digits + "abcdef"
)

// A Canary is a secret in a text: Secret may not occur in the masked text. The secrets are
// put together here, so that no scanner of repositories reports them.
type Canary struct {
	Name   string
	Kind   string // of the placeholder
	Text   string
	Secret string
}

// Canaries returns a secret of each shape that is masked.
func Canaries() (list []Canary) {
	seed := uint64(0)
	add := func(name, kind, format, prefix string, n int, set string) {
		seed++
		body := Random(seed, n, set)
		list = append(list, Canary{name, kind, fmt.Sprintf(format, prefix+body), body})
	}
	add("AWS access key", "aws-key", "key id %s in use", "AKIA", 16, upper+"234567")
	add("AWS temporary key", "aws-key", `{"id":"%s"}`, "ASIA", 16, upper+"234567")
	add("AWS secret key", "value", "aws_secret_access_key = %s", "", 40, b64)
	add("AWS keys in a table", "aws-secret", "bob,AK"+"IA"+Random(99, 16, upper)+",%s", "", 40, b64)
	add("GitHub personal", "github", "git clone with %s", "gh"+"p_", 36, letter)
	add("GitHub OAuth", "github", "\"%s\"", "gh"+"o_", 36, letter)
	add("GitHub user", "github", "a=%s;", "gh"+"u_", 36, letter)
	add("GitHub server", "github", "x\\n%s", "gh"+"s_", 36, letter)
	add("GitHub refresh", "github", "(%s)", "gh"+"r_", 76, letter)
	add("GitHub fine-grained", "github", "%s", "github_"+"pat_", 82, letter+"_")
	add("GitLab", "gitlab", "PRIVATE-TOKEN %s", "glpat"+"-", 20, letter)
	add("Slack bot", "slack", "%s", "xox"+"b-", 50, digits+lower)
	add("Slack app", "slack", "%s", "xap"+"p-1-", 60, digits+upper)
	add("Slack webhook", "slack", "curl https://%s", "hooks.slack"+".com/services/", 44, letter)
	add("Stripe live", "stripe", "stripe: %s.", "sk_"+"live_", 24, letter)
	add("Stripe restricted", "stripe", "%s", "rk_"+"live_", 24, letter)
	add("Stripe webhook", "stripe", "%s", "wh"+"sec_", 32, letter)
	add("Google API", "google", "maps?a=%s&b=1", "AI"+"za", 35, letter+"-_")
	add("Google OAuth", "google", "%s", "ya"+"29.", 60, letter+"-_")
	add("Google client", "google", "%s", "GOC"+"SPX-", 28, letter)
	add("npm", "npm", "//registry/:_x %s", "np"+"m_", 36, letter)
	add("PyPI", "pypi", "%s", "py"+"pi-", 100, letter+"-_")
	add("Docker", "docker", "%s", "dckr"+"_pat_", 27, letter+"-_")
	add("Docker configuration", "value", "\t\t\"auth\": \"%s\"", "", 40, letter)
	add("Hugging Face", "huggingface", "%s", "h"+"f_", 34, letter)
	add("OpenAI project", "openai", "%s", "sk-"+"proj-", 100, letter+"-_")
	add("OpenAI", "api-key", "%s", "sk"+"-", 48, letter)
	add("Anthropic", "anthropic", "%s", "sk-"+"ant-api03-", 93, letter+"-_")
	add("OpenRouter", "openrouter", "%s", "sk-"+"or-v1-", 64, hexa)
	add("age", "age", "%s", "AGE-SECRET"+"-KEY-1", 58, upper+digits)
	add("WireGuard", "value", "PrivateKey = %s=", "", 43, b64)
	add("OpenSSH body", "private-key", "%s", "b3BlbnNzaC1rZXkt"+"djEAAAAA", 46, b64)
	add("JSON Web Token", "jwt", "t: %s", "ey"+"J"+Random(1, 30, letter)+".ey"+"J", 200, letter+"-_")
	add("Authorization", "authorization", "> authorization: Bearer %s\r", "", 30, letter)
	add("Authorization basic", "authorization", "curl -H 'Authorization: Basic %s' x", "", 24, letter)
	add("Authorization in JSON", "authorization", `{"Authorization":"token %s"}`, "", 24, letter)
	add("bearer token", "authorization", `"Authorization", "Bearer %s"`, "", 40, letter)
	add("Cookie", "cookie", "Cookie: a=%s; b=2", "", 24, letter)
	add("Set-Cookie", "cookie", "< Set-Cookie: sid=%s; Path=/", "", 24, letter)
	add("URL password", "password", "postgres://app:%s@db.example.com/app", "", 12, letter)
	add("URL token", "password", "https://%s@github.com/a/b", "", 24, letter)
	add(".netrc", "password", "machine example.com login ann password %s", "", 10, letter)
	add(".netrc line", "password", "\n  password %s\n", "", 10, letter)
	add(".netrc line in a diff", "password", "\n+  password %s\n", "", 10, letter)
	add("environment", "value", "DB_PASSWORD=%s", "", 12, lower+digits)
	add("export", "value", "export MY_TOKEN='%s'", "", 16, letter)
	add("docker run", "value", "docker run -e API_KEY=%s image", "", 16, letter)
	add("PAT", "value", "GH_PAT=%s", "", 16, letter)
	add("short mark", "value", "DB_PW=%s", "", 16, letter)
	add("YAML", "value", "  password: %s", "x7", 12, letter)
	add("JSON member", "value", `{"client_secret": "%s"}`, "", 16, letter)
	add("escaped JSON", "value", `"{\"api_key\":\"%s\"}"`, "a1b2c3", 20, letter)
	add("escaped lines", "value", `"A=1\nDB_PASSWORD=%s\nB=2"`, "", 16, letter)
	add("query", "value", "https://example.com/?access_token=%s&x=1", "a1b2c3", 20, letter)
	for i, form := range []string{"%s", "  %s", "> %s", "12\t%s", "+%s"} {
		body := Split(base64.StdEncoding.EncodeToString([]byte(Random(uint64(200+i), 500, letter))), 64)
		pem := slices.Concat([]string{"-----BEGIN RSA PRIVATE" + " KEY-----"}, body, []string{"-----END RSA PRIVATE" + " KEY-----"})
		var text strings.Builder
		text.WriteString("before\n")
		for _, line := range pem {
			text.WriteString(fmt.Sprintf(form, line) + "\n")
		}
		list = append(list, Canary{"PEM " + form, "private-key", text.String() + "after\n", body[3]})
		if i == 0 {
			list = append(list,
				Canary{"PEM in JSON", "private-key", `{"private_key":"` + strings.Join(pem, `\n`) + `\n","x":1}`, body[3]},
				Canary{"PEM without end", "private-key", strings.Join(pem[:6], "\n") + "\nafter\n", body[3]},
				Canary{"PEM in Base64", "private-key", "tls.key: " + base64.StdEncoding.EncodeToString([]byte(text.String()[7:])), base64.StdEncoding.EncodeToString([]byte(text.String()[7:]))[100:160]})
		}
	}
	return list
}

// Split cuts a text into pieces of n bytes.
func Split(s string, n int) (list []string) {
	for chunk := range slices.Chunk([]byte(s), n) {
		list = append(list, string(chunk))
	}
	return list
}

// Random returns n characters of set, the same ones for the same seed.
func Random(seed uint64, n int, set string) string {
	r := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = set[r.IntN(len(set))]
	}
	return string(b)
}
