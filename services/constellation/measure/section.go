package measure

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"zino/pkg/durable"
)

// Section replaces the section with a name in a Markdown file: the lines between
// "<!-- name -->" and "<!-- /name -->". A file without the section gets it at its end.
// Readers see the old file or the new one, and concurrent commands wait for each other.
func Section(file, name, markdown string) error {
	lock, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { lock.Close() }()
	for {
		if err := durable.Lock(context.Background(), lock); err != nil {
			return err
		}
		locked, err := lock.Stat()
		if err != nil {
			return err
		}
		now, err := os.Stat(file)
		if err != nil {
			return err
		}
		if os.SameFile(locked, now) {
			break
		}
		lock.Close() // another command has replaced the file
		if lock, err = os.Open(file); err != nil {
			return err
		}
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := withSection(string(old), name, markdown)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return durable.ReplacePath(file, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func withSection(text, name, markdown string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	section := begin + strings.Trim(markdown, "\n") + "\n" + end
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		return strings.TrimRight(text, "\n") + "\n\n" + section, nil
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("section %q has no end: add a line %q", name, strings.TrimSpace(end))
	}
	return before + section + after, nil
}
