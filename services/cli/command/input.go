package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"zino/pkg/text"
	"zino/services/cli/render"
	"zino/services/cli/term"
)

// inputMax is how many bytes standard input may add to a prompt.
const inputMax = 8 << 20

// ErrSilent is the error if no byte arrives before the timeout.
var ErrSilent = errors.New("nothing came")

// ReadInput reads r to its end, up to 8 MiB of text. If timeout fires before the
// first byte or the end, the result is ErrSilent, and a goroutine continues to read r.
func ReadInput(ctx context.Context, r io.Reader, timeout <-chan time.Time) (string, error) {
	type result struct {
		data []byte
		err  error
	}
	first, all := make(chan struct{}), make(chan result, 1)
	go func() {
		var buf bytes.Buffer
		head := make([]byte, 4096)
		n, err := r.Read(head)
		close(first)
		buf.Write(head[:n])
		if err == nil {
			_, err = io.Copy(&buf, io.LimitReader(r, inputMax+1-int64(n)))
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		all <- result{buf.Bytes(), err}
	}()
	select {
	case <-first:
	case <-timeout:
		return "", ErrSilent
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case got := <-all:
		if got.err != nil {
			return "", got.err
		}
		return string(got.data), checkInput(got.data)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// checkInput returns an error if data is too long or not text.
func checkInput(data []byte) error {
	switch nul := bytes.IndexByte(data, 0); {
	case len(data) > inputMax:
		return render.Usage("it has more than %d MiB: give the model a path to read instead", inputMax>>20)
	case isImage(data):
		return render.Usage("it is an image: give it to zino exec with --image FILE")
	case nul >= 0:
		return render.Usage("it is binary: byte %d is NUL; give text", nul)
	case !utf8.Valid(data):
		return render.Usage("it is not UTF-8 text; convert it first, with iconv")
	}
	return nil
}

func isImage(data []byte) bool {
	for _, mark := range []string{"\x89PNG\r\n", "\xff\xd8\xff", "GIF87a", "GIF89a", "II*\x00", "MM\x00*"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return true
		}
	}
	return len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP"
}

// Confirm asks a question on the terminal until the answer is yes or no. What was typed
// before is discarded. A no is reported here.
func (e *Env) Confirm(ctx context.Context, question string) (bool, error) {
	screen := term.Screen(e.Err)
	term.Discard(e.In)
	for {
		io.WriteString(screen, text.Visible(question))
		line, err := term.ReadLineUntil(ctx, e.In)
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			e.Say("Nothing was changed.")
			return false, render.ErrReported
		}
		if err != nil {
			io.WriteString(screen, "\n")
			if ctx.Err() == nil {
				err = render.ErrReported
			}
			return false, err
		}
	}
}
