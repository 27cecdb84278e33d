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
	user    bool          // keys of an ordinary user: needs systemd 256
	timeout time.Duration // of one run
}

// seal encrypts a key, and checks that it can be decrypted again. The error is a
// reason in a few words.
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

// unseal decrypts the result of seal.
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
	ctx, cancel := context.WithTimeout(parent, c.timeout)
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
		return nil, fmt.Errorf("systemd-creds does not answer within %v", c.timeout)
	}
	return nil, runError(verb, err)
}

// environment returns the variables that systemd-creds needs, and no keys.
func environment() (env []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "PATH" || name == "HOME" || name == "XDG_RUNTIME_DIR" || strings.HasPrefix(name, "SYSTEMD_") {
			env = append(env, v)
		}
	}
	return env
}

// runError returns the error of a failed run. After encrypting, the output of the
// tool is left out, since it has read the key.
func runError(verb string, err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("systemd-creds cannot be run: %w", err)
	}
	if verb == "encrypt" {
		return fmt.Errorf("systemd-creds cannot encrypt here: %s", exit.ProcessState)
	}
	return fmt.Errorf("systemd-creds: %s: %s", exit.ProcessState, lastLine(exit.Stderr))
}

// lastLine returns the last non-empty line, printable and short.
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
