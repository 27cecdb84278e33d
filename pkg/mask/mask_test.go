package mask_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/build"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zino/pkg/environ"
	"zino/pkg/mask"
	"zino/pkg/zinotest"
	"zino/proto"
)

var (
	random = zinotest.Random
	lines  = zinotest.Split
)

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	letter = zinotest.Letters
	hexa   = "0123456789abcdef"
	b64    = letter + "+/"
)

func newMasker(t testing.TB, c mask.Config) *mask.Masker {
	t.Helper()
	c.Salt = []byte("salt")
	m, err := mask.New(c)
	zinotest.Must(t, err)
	return m
}

// stream masks text cut at the places cuts.
func stream(m *mask.Masker, text string, cuts ...int) string {
	s := m.Stream()
	var out []byte
	at := 0
	for _, cut := range cuts {
		out = append(out, s.Add([]byte(text[at:cut]))...)
		at = cut
	}
	out = append(out, s.Add([]byte(text[at:]))...)
	return string(append(out, s.Flush()...))
}

func TestMasksShapes(t *testing.T) {
	m := newMasker(t, mask.Config{})
	list := zinotest.Canaries()
	if len(list) < 30 {
		t.Fatalf("only %d shapes", len(list))
	}
	for _, c := range list {
		masked, n := m.Text([]byte(c.Text))
		got := string(masked)
		if strings.Contains(got, c.Secret) || !strings.Contains(got, "[masked:"+c.Kind+":") || n == 0 {
			t.Errorf("%s: %q became %q with %d masks", c.Name, c.Text, got, n)
		}
		if again, n := m.Text(masked); n != 0 || string(again) != got {
			t.Errorf("%s: masked again: %q became %q", c.Name, got, again)
		}
		if !mask.HasPlaceholder(got) || mask.HasPlaceholder(c.Text) {
			t.Errorf("%s: HasPlaceholder is wrong", c.Name)
		}
	}
}

// TestStreamEqualsText cuts each canary at every place, within short and long lines.
func TestStreamEqualsText(t *testing.T) {
	m := newMasker(t, mask.Config{})
	for _, c := range zinotest.Canaries() {
		for _, filler := range []int{0, 3500, 4090, 20_000} {
			text := strings.Repeat("some words ", filler/11) + c.Text + strings.Repeat(" more words", filler/11)
			want, _ := m.Text([]byte(text))
			if strings.Contains(string(want), c.Secret) {
				t.Fatalf("%s in a line of %d bytes: the secret is in the output", c.Name, len(text))
			}
			step := 1 + filler/500
			for cut := filler; cut <= min(len(text), filler+len(c.Text)); cut += step {
				if got := stream(m, text, cut); got != string(want) {
					t.Fatalf("%s cut at %d: %q instead of %q", c.Name, cut, got, want)
				}
			}
			every := make([]int, len(text))
			for i := range every {
				every[i] = i
			}
			if got := stream(m, text, every...); got != string(want) {
				t.Fatalf("%s byte by byte: %q instead of %q", c.Name, got, want)
			}
		}
	}
}

// TestStreamKeepsBack checks what a stream passes on before it knows the rest.
func TestStreamKeepsBack(t *testing.T) {
	s := newMasker(t, mask.Config{}).Stream()
	if got := string(s.Add([]byte("one\ntwo"))); got != "one\n" {
		t.Errorf("%q was passed on, want the whole line", got)
	}
	long := strings.Repeat("x y ", 2000)
	if got := s.Add([]byte(long)); len(got) == 0 || 3+len(long)-len(got) < 512 || 3+len(long)-len(got) > 8192 {
		t.Errorf("%d of %d bytes of a long line were passed on", len(got), len(long))
	}
	s.Flush()
	if got := s.Add([]byte("-----BEGIN PRIVATE" + " KEY-----\n" + random(1, 64, b64) + "\n")); len(got) > 0 {
		t.Errorf("%q of a private key was passed on", got)
	}
	if got := s.Add([]byte(strings.Repeat(random(1, 64, b64)+"\n", 300))); !strings.HasPrefix(string(got), "[masked:private-key:") || len(got) > 100 {
		t.Errorf("%.100q was passed on of a key over 16 KiB", got)
	}
	if got := string(s.Flush()); !strings.HasPrefix(got, "[masked:private-key:") || len(got) > 100 {
		t.Errorf("the rest of the key became %.100q", got)
	}
	if s.Count() != 2 {
		t.Errorf("%d masks, want 2", s.Count())
	}
}

// encodings returns the forms of a secret that its hints must recognize.
func encodings(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	return map[string]string{
		"raw":                    secret,
		"Base64":                 base64.StdEncoding.EncodeToString([]byte(secret)),
		"Base64 of a character":  base64.StdEncoding.EncodeToString([]byte("a" + secret + "z")),
		"Base64 of two":          base64.StdEncoding.EncodeToString([]byte("ab" + secret)),
		"Base64 of user:pass":    base64.StdEncoding.EncodeToString([]byte("user:" + secret + "\n")),
		"Base64 for URLs":        base64.RawURLEncoding.EncodeToString([]byte("x" + secret)),
		"query":                  url.QueryEscape(secret),
		"path":                   url.PathEscape(secret),
		"hexadecimal":            hex.EncodeToString([]byte(secret)),
		"hexadecimal in capital": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"JSON":                   string(quoted[1 : len(quoted)-1]),
	}
}

// TestMasksNamesOfEnvironment checks that all names that executed code does not get are
// known here.
func TestMasksNamesOfEnvironment(t *testing.T) {
	m := newMasker(t, mask.Config{})
	parts, ends := environ.Marks()
	for _, mark := range slices.Concat(parts, ends) {
		for _, name := range []string{"X_" + mark, mark + "_X", mark + "2", strings.ToLower(mark), "my-" + mark} {
			line := fmt.Sprintf("{%q: %q}", name, random(1, 24, letter))
			if _, n := m.Text([]byte(line)); environ.Secret(name, "") != (n == 1) {
				t.Errorf("%s: %d masks, withheld: %v", line, n, n == 0)
			}
		}
	}
}

func TestMasksKnownValues(t *testing.T) {
	secrets := []string{
		"sk-test-" + random(1, 40, letter), random(2, 16, letter), random(3, 64, b64+`"\<>&%?=`),
		"pass word " + random(4, 20, "äöü "+letter), random(5, 700, letter),
	}
	hints := mask.NewHints(secrets)
	wire, err := json.Marshal(hints)
	zinotest.Must(t, err)
	for _, secret := range secrets {
		if strings.Contains(string(wire), secret) {
			t.Error("the hints contain the secret")
		}
	}
	var got proto.MaskHints
	zinotest.Must(t, json.Unmarshal(wire, &got))
	for name, m := range map[string]*mask.Masker{
		"hints":  newMasker(t, mask.Config{Hints: got, NoShapes: true}),
		"values": newMasker(t, mask.Config{Values: secrets, NoShapes: true}),
	} {
		for i, secret := range secrets {
			for form, encoded := range encodings(secret) {
				for _, around := range []string{"", "x", "a line\n", strings.Repeat("é", 5000)} {
					text := around + encoded + around
					masked, n := m.Text([]byte(text))
					// The characters at both ends of Base64 have bits of the text around.
					if n != 1 || strings.Contains(string(masked), encoded[4:len(encoded)-5]) {
						t.Errorf("%s: secret %d, %s, in %d bytes: %d masks", name, i, form, len(text), n)
					}
					if around == "x" && encoded == secret {
						for cut := range len(text) {
							if got := stream(m, text, cut); got != string(masked) {
								t.Fatalf("%s: secret %d cut at %d: %q", name, i, cut, got)
							}
						}
					}
				}
			}
		}
	}
}

// TestMasksFilesInBase64 masks what base64 and openssl print for a file with a key.
func TestMasksFilesInBase64(t *testing.T) {
	secret := "sk-test-" + random(1, 100, letter)
	m := newMasker(t, mask.Config{Hints: mask.NewHints([]string{secret}), NoShapes: true})
	for _, width := range []int{64, 76} {
		printed := lines(base64.StdEncoding.EncodeToString([]byte(secret+"\n")), width)
		masked, n := m.Text([]byte(strings.Join(printed, "\n") + "\n"))
		if n != len(printed) {
			t.Errorf("lines of %d characters: %d masks: %s", width, n, masked)
		}
	}
}

func TestValuesOfLines(t *testing.T) {
	key := "-----BEGIN PRIVATE" + " KEY-----\n" + random(1, 64, b64) + "\n" + random(2, 30, b64) + "\n-----END PRIVATE" + " KEY-----\n"
	m := newMasker(t, mask.Config{Values: []string{key, "short-pw", "tiny"}, NoShapes: true})
	masked, n := m.Text([]byte("a " + random(2, 30, b64) + " b\n-----BEGIN PRIVATE" + " KEY-----\nxshort-pwx tiny\n"))
	want := regexp.MustCompile(`^a \[masked:secret:....\] b\n-----BEGIN PRIVATE KEY-----\nx\[masked:secret:....\]x tiny\n$`)
	if n != 2 || !want.Match(masked) {
		t.Errorf("%d masks: %q", n, masked)
	}
	if h := mask.NewHints([]string{"fifteen-bytes-x"}); len(h.Values) != 0 {
		t.Error("a value of 15 bytes has hints")
	}
}

// TestHintsAgreeWithSearch compares the hash scan with a search for each encoding.
func TestHintsAgreeWithSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	secrets := []string{random(1, 16, "ab"), random(2, 17, "ab"), random(3, 24, "abc")}
	m := newMasker(t, mask.Config{Hints: mask.NewHints(secrets), NoShapes: true})
	var forms []string
	for _, secret := range secrets {
		forms = append(forms, secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))[:len(secret)*8/6])
	}
	for range 3000 {
		var text []byte
		for range 1 + r.IntN(12) {
			f := forms[r.IntN(len(forms))]
			switch r.IntN(4) {
			case 0:
				f = f[r.IntN(len(f)):]
			case 1:
				f = f[:r.IntN(len(f))]
			case 2:
				f = random(r.Uint64(), 3, "ab \n")
			}
			text = append(text, f...)
		}
		hidden := make([]bool, len(text))
		for _, f := range forms {
			for at := range text {
				if bytes.HasPrefix(text[at:], []byte(f)) {
					for i := range f {
						hidden[at+i] = true
					}
				}
			}
		}
		var want []byte
		for i, b := range text {
			if !hidden[i] {
				want = append(want, b)
			}
		}
		masked, _ := m.Text(text)
		if got := regexp.MustCompile(`\[masked:secret:....\]`).ReplaceAll(masked, nil); string(got) != string(want) {
			t.Fatalf("%q became %q, want %q without placeholders", text, masked, want)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	secret := "gh" + "p_" + random(1, 36, letter)
	text := []byte(secret + " and " + secret)
	one, n := newMasker(t, mask.Config{}).Text(text)
	if a, b, _ := strings.Cut(string(one), " and "); n != 2 || a != b || !regexp.MustCompile(`^\[masked:github:[0-9a-f]{4}\]$`).MatchString(a) {
		t.Errorf("%q became %q with %d masks", text, one, n)
	}
	m, err := mask.New(mask.Config{Salt: []byte("another")})
	zinotest.Must(t, err)
	if other, _ := m.Text(text); bytes.Equal(other, one) {
		t.Error("the placeholder does not depend on the salt")
	}
	for _, text := range []string{"[masked:KIND:xxxx]", "[masked:github:12]", "[masked:other:1234]", "masked:github:1234"} {
		if mask.HasPlaceholder(text) {
			t.Errorf("%q counts as a placeholder", text)
		}
	}
}

func TestAllowAndShapes(t *testing.T) {
	text := "API_KEY=a1b2c3d4e5f6g7h8 API_KEY=a1b2c3d4e5f6g7h8x known-value-0123456789"
	m := newMasker(t, mask.Config{Allow: []string{"a1b2[a-z0-9]{12}", "known-.*"}, Values: []string{"known-value-0123456789"}})
	masked, n := m.Text([]byte(text))
	if n != 2 || !strings.HasPrefix(string(masked), "API_KEY=a1b2c3d4e5f6g7h8 API_KEY=[masked:value:") || !strings.Contains(string(masked), "] [masked:secret:") {
		t.Errorf("allowed: %d masks: %s", n, masked)
	}
	m = newMasker(t, mask.Config{NoShapes: true, Values: []string{"known-value-0123456789"}})
	if masked, n := m.Text([]byte(text)); n != 1 || !strings.HasPrefix(string(masked), "API_KEY=a1b2c3d4e5f6g7h8 API_KEY=a1b2c3d4e5f6g7h8x [masked:secret:") {
		t.Errorf("without shapes: %d masks: %s", n, masked)
	}
}

func TestNewRejects(t *testing.T) {
	good := mask.NewHints([]string{"0123456789abcdef"})
	if _, err := mask.New(mask.Config{}); err == nil {
		t.Error("without a salt: no error")
	}
	change := func(f func(*proto.MaskHints)) mask.Config {
		c := mask.Config{Hints: good}
		c.Hints.Values = slices.Clone(good.Values)
		f(&c.Hints)
		return c
	}
	for name, c := range map[string]mask.Config{
		"expression":   {Allow: []string{"("}},
		"even base":    change(func(h *proto.MaskHints) { h.Base = h.Base[:15] + "2" }),
		"short base":   change(func(h *proto.MaskHints) { h.Base = "3" }),
		"salt":         change(func(h *proto.MaskHints) { h.Salt = "?" }),
		"short hash":   change(func(h *proto.MaskHints) { h.Values[0].SHA256 = "12" }),
		"long hash":    change(func(h *proto.MaskHints) { h.Values[0].SHA256 += "12" }),
		"tail":         change(func(h *proto.MaskHints) { h.Values[0].Tail = "x" }),
		"short length": change(func(h *proto.MaskHints) { h.Values[0].Length = 15 }),
		"long length":  change(func(h *proto.MaskHints) { h.Values[0].Length = 1 << 20 }),
	} {
		c.Salt = []byte("salt")
		if _, err := mask.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// ordinary are lines with the names or the forms of secrets, but without secrets.
const ordinary = `
password := readPassword(terminal)
DB_PASSWORD=${DB_PASSWORD}
DB_PASSWORD=<your password here>
DB_PASSWORD=changeme1234
DB_PASSWORD=xxxxxxxxxxxx
API_KEY=$(cat /run/secrets/api_key)
"token": null, "api_key": "", "password": "********"
token = lexer.Next()
if token == "identifier42x" {
"max_tokens": 128000, "input_tokens": 1234567890
key: "memory_limit"
"key": "page_outline"
for key, value := range sortedKeys(m) {
SSH_AUTH_SOCK=/run/user/1000/keyring/ssh
SSH_KEY=/home/ann/.ssh/id_ed25519
private_key_path: /etc/ssl/private/server.key
primary_key = id
PUBLIC_KEY=c2lnbmluZyBrZXkgZm9yIHJlbGVhc2Vz
the password must be at least 8 characters
password required
Authorization: required for all requests
req.Header.Set("Authorization", "Bearer "+key)
curl -H "Authorization: Bearer $TOKEN" https://example.com
Cookie: the name of a header
http://localhost:8080/path@2x.png
git@github.com:owner/repo.git
https://github.com/owner/repo
http://user:password@example.com/
fmt.Sprintf("https://%s:%s@%s", user, pass, host)
task-1234567890abcdefghij1234567890
disk-0123456789abcdefghijkl is full
commit 3f786850e387550fdab836ed7e6dc881de23001b
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
github.com/x/y v1.2.3 h1:DpHIWsSS8yGNUQwZKWiTqvaP9ynSmQVQKSvJ2AbcDeF=
550e8400-e29b-41d4-a716-446655440000
-----BEGIN CERTIFICATE-----
const marker = "-----BEGIN PRIVATE KEY-----"
sk-your-api-key-goes-here-please
cookie_expires = 2026-11-23T15:02:32Z
`

func TestLeavesOrdinaryLines(t *testing.T) {
	m := newMasker(t, mask.Config{})
	for line := range strings.Lines(ordinary) {
		if masked, n := m.Text([]byte(line)); n > 0 {
			t.Errorf("%q became %q", line, masked)
		}
	}
	if _, n := m.Text([]byte(ordinary)); n > 0 {
		t.Errorf("%d masks in all lines", n)
	}
}

// TestFalseMasks masks the sources of this repository and of the Go libraries without
// their tests, made-up logs and those of the host, and expects less than 5 masks in 10,000
// lines of each.
func TestFalseMasks(t *testing.T) {
	var own, library, logs bytes.Buffer
	sources := func(text *bytes.Buffer) fs.WalkDirFunc {
		return func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.IsDir() && d.Name() == "testdata" {
				return cmpSkip(err)
			}
			if source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".toml"); !source {
				return nil
			}
			content, err := os.ReadFile(name)
			text.Write(content)
			return err
		}
	}
	zinotest.Must(t, filepath.WalkDir("../..", sources(&own)))
	for _, dir := range []string{"net", "crypto/tls", "encoding", "os", "cmd/go/internal"} {
		zinotest.Must(t, filepath.WalkDir(filepath.Join(build.Default.GOROOT, "src", dir), sources(&library)))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		fmt.Fprintf(&logs, logLines[i%len(logLines)]+"\n", 10+r.IntN(50), random(r.Uint64(), 8, hexa), r.IntN(100_000), random(r.Uint64(), 12, lower))
	}
	for _, name := range []string{"dpkg.log", "alternatives.log", "apt/history.log"} {
		content, _ := os.ReadFile(filepath.Join("/var/log", name)) // it may not be there
		logs.Write(content)
	}
	m := newMasker(t, mask.Config{})
	for name, text := range map[string]*bytes.Buffer{"this repository": &own, "Go": &library, "logs": &logs} {
		all, found := 0, 0
		for line := range bytes.Lines(text.Bytes()) {
			all++
			if masked, n := m.Text(line); n > 0 {
				found += n
				t.Logf("%s%s", line, masked)
			}
		}
		if t.Logf("%s: %d masks in %d lines", name, found, all); all < 10_000 || found*10_000 >= 5*all {
			t.Errorf("%s: %d masks in %d lines", name, found, all)
		}
	}
}

func cmpSkip(err error) error {
	if err != nil {
		return err
	}
	return filepath.SkipDir
}

// logLines are formats of log lines with a minute, hexadecimal digits, a number and letters.
var logLines = []string{
	"2026-11-23T10:%d:01Z INFO request id=%s took=%dus path=/api/%s",
	"Nov 23 10:%d:22 host sshd[811]: Accepted publickey for %s from 10.0.0.7 port %d ssh2: ED25519 SHA256:%s",
	"10.0.0.%d - - [23/Nov/2026:10:31:00 +0000] \"GET /static/%s.js HTTP/1.1\" 200 %d \"https://example.com/%s\"",
	`{"level":"info","minute":%d,"trace_id":"%s","tokens":%d,"msg":"cache key %s not found"}`,
	"time=10:%d level=warn msg=\"token expired\" user=%s retries=%d key=user:%s",
	"[%d%%] Building object %s.o (%d of 4096) in %s",
	"10:%d kernel: usb 1-1: new device, idVendor=%s, keyboard %d %s",
	"npm WARN deprecated %d: %s@%d.0.1 use %s instead",
	"10:%d mysqld: Access denied for user '%s'@'localhost' (using password: YES) %d %s",
	"postgres[%d]: LOG: statement: SELECT %s FROM t WHERE primary_key = %d AND name = '%s'",
}

func TestValuesReadsFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { zinotest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	write("a.env", "# comment=with-a-value\nexport A='quoted value'\nB=plain-value=1\nC=short\n\nbase64line==\n12345678901\n")
	write("b.json", `{"x":{"password":"in-json-1","n":12345678},"list":["in-json-2","no"]}`)
	write("c.part", "  \"key\": \"a-member-1\",\n\"a string\"\n")
	got, err := mask.Values([]string{filepath.Join(dir, "*")}, []string{"OTHER=not-this-one", "TOKEN=from-the-environment"}, []string{"TOKEN", "MISSING"})
	zinotest.Must(t, err)
	want := []string{"from-the-environment", "quoted value", "plain-value=1", "base64line==", "12345678901", "in-json-2", "in-json-1", "a-member-1", "a string"}
	if !slices.Equal(got, want) {
		t.Errorf("values %q, want %q", got, want)
	}
	zinotest.Must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	if got, err := mask.Values([]string{filepath.Join(dir, "*"), "[", "/nonexistent"}, nil, nil); err == nil || len(got) != len(want)-1 {
		t.Errorf("with a directory: %d values, error %v", len(got), err)
	}
}

// TestEndsOfPrivateKeys checks keys whose first lines are not in the text.
func TestEndsOfPrivateKeys(t *testing.T) {
	m, err := mask.New(mask.Config{Salt: []byte("salt")})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("aB3d/+7x", 8)
	for _, c := range []struct{ name, text, want string }{
		{"tail", line + "\n" + line + "\nabcd==\n-----END PRIVATE KEY-----\nx", "[masked]\n-----END PRIVATE KEY-----\nx"},
		{"diff", " x = 1\n " + line + "\n abcd==\n -----END RSA PRIVATE KEY-----\n-last", " x = 1\n [masked]\n -----END RSA PRIVATE KEY-----\n-last"},
		{"short", "the line\n-----END PRIVATE KEY-----", "the line\n-----END PRIVATE KEY-----"},
		{"certificate", line + "\n-----END CERTIFICATE-----\nno PRIVATE KEY", line + "\n-----END CERTIFICATE-----\nno PRIVATE KEY"},
		{"whole", "-----BEGIN PRIVATE KEY-----\n" + line + "\n-----END PRIVATE KEY-----\n", "[masked]\n"},
		{"first", "-----END PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n"},
	} {
		got, _ := m.Text([]byte(c.text))
		if text := regexp.MustCompile(`\[masked:private-key:....\]`).ReplaceAllString(string(got), "[masked]"); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

// TestPart cuts a text at every two places: no piece of a secret is passed on, and what
// is around secrets stays. Secrets have capitals and digits only.
func TestPart(t *testing.T) {
	m, err := mask.New(mask.Config{Salt: []byte("salt"), Values: []string{"CORPORATEVALUE99"}})
	if err != nil {
		t.Fatal(err)
	}
	plain := func(text string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, text)
	}
	text := "one CORPORATEVALUE99 two\npassword=KT9WQ2XZ7VB4\nthree"
	for from := range len(text) + 1 {
		for to := from; to <= len(text); to++ {
			got, _ := m.Part([]byte(text), from, to)
			if rest := regexp.MustCompile(`\[masked:[a-z]+:[0-9a-f]{4}\]`).ReplaceAllString(string(got), ""); rest != plain(text[from:to]) {
				t.Fatalf("%d to %d: %q of %q", from, to, got, text[from:to])
			}
		}
	}
}
