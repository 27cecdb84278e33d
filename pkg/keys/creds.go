package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// creds runs systemd-creds.
type creds struct {
	user     bool          // keys of an ordinary user: needs systemd 256
	patience time.Duration // for one run
}

// seal encrypts a key. What cannot be decrypted again is worth nothing, so that
// is tried at once. The error is a reason in a few words.
func (c creds) seal(ctx context.Context, name, key string) ([]byte, error) {
	data, err := c.run(ctx, "encrypt", name, []byte(key))
	if err != nil {
		return nil, err
	}
	back, err := c.run(ctx, "decrypt", name, data)
	if err != nil {
		return nil, err
	}
	if string(back) != key {
		return nil, errors.New("systemd-creds does not give back what it was given")
	}
	return data, nil
}

// unseal decrypts what seal made.
func (c creds) unseal(ctx context.Context, name string, data []byte) ([]byte, error) {
	return c.run(ctx, "decrypt", name, data)
}

// run passes input through systemd-creds. Secrets go through its standard
// input and output, never through its arguments.
func (c creds) run(parent context.Context, verb, name string, input []byte) ([]byte, error) {
	path, err := exec.LookPath("systemd-creds")
	if err != nil {
		return nil, errors.New("systemd-creds is not installed")
	}
	ctx, cancel := context.WithTimeout(parent, c.patience)
	defer cancel()
	args := []string{verb, "--name=zino-" + name, "-", "-"}
	if c.user {
		args = append([]string{"--user"}, args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = bytes.NewReader(input)
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it must not ask on the terminal
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case err == nil:
		return out, nil
	case parent.Err() != nil:
		return nil, parent.Err()
	case ctx.Err() != nil:
		return nil, fmt.Errorf("systemd-creds does not answer within %v", c.patience)
	}
	return nil, complaint(verb, err)
}

// environment is what the tool needs of ours: no key of any provider.
func environment() (env []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "PATH" || name == "HOME" || name == "XDG_RUNTIME_DIR" || strings.HasPrefix(name, "SYSTEMD_") {
			env = append(env, v)
		}
	}
	return env
}

// complaint words what went wrong. While a key is encrypted the tool's own
// words are left out: it has seen the key.
func complaint(verb string, err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("systemd-creds cannot be run: %w", err)
	}
	if verb == "encrypt" {
		return fmt.Errorf("systemd-creds cannot encrypt here: %s", exit.ProcessState)
	}
	return fmt.Errorf("systemd-creds: %s: %s", exit.ProcessState, lastLine(exit.Stderr))
}

// lastLine is the last line that is not empty, fit for an error.
func lastLine(text []byte) string {
	const limit = 200
	text = bytes.TrimSpace(text)
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	text = text[:min(len(text), limit)]
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(text), ""))
}
