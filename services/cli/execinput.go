package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// inputMax is how many bytes standard input may add to a prompt.
const inputMax = 8 << 20

// errSilent says that nothing came in time.
var errSilent = errors.New("nothing came")

// readInput reads r to its end, up to inputMax bytes of text. If patience fires
// before the first byte, or the end, has come that is errSilent. r is left to a
// goroutine of its own then.
func readInput(ctx context.Context, r io.Reader, patience <-chan time.Time) (string, error) {
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
	case <-patience:
		return "", errSilent
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

// checkInput refuses what is no text.
func checkInput(data []byte) error {
	switch {
	case len(data) > inputMax:
		return badInput("it has more than %d MiB: give the model a path to read instead", inputMax>>20)
	case isImage(data):
		return badInput("Images are not taken yet: give text")
	case bytes.IndexByte(data, 0) >= 0:
		return badInput("it is binary: byte %d is NUL; give text", bytes.IndexByte(data, 0))
	case !utf8.Valid(data):
		return badInput("it is not UTF-8 text; convert it first, with iconv")
	}
	return nil
}

func badInput(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// isImage knows the pictures that people are likely to try.
func isImage(data []byte) bool {
	for _, mark := range []string{"\x89PNG\r\n", "\xff\xd8\xff", "GIF87a", "GIF89a", "II*\x00", "MM\x00*"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return true
		}
	}
	return len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP"
}
