package web

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestInject checks the position of the script, marked by "|".
func TestInject(t *testing.T) {
	for _, want := range []string{
		"|", "|plain text", "|<p>x", "|<script>1</script>", "<!doctype html>|<p>x", "<!DOCTYPE html>\n<html>|\n<body>x",
		"<!doctype html>\n<html lang=en>\n<head>|\n<meta charset=utf-8>\n<script>1</script></head>",
		"<HTML><HEAD>|<TITLE>x</TITLE></HEAD>", "<head profile='a>b' data-x=\">\">|<title>x</title>", "<html data-x='<head>'>|<title>x</title>",
		"<!-- <head> --><html><!-- <head> --><head>|<!-- x --></head>", "<!-- one --><!-- two -->|<p>", "<!doctype html>|<!-- never ended <head>",
		"\ufeff|<p>x", "\ufeff<!doctype html><head>|</head>", "<?xml version=\"1.0\"?>\n<!doctype html>\n<html xmlns='x'><head>|</head>",
		"|<header>no head</header>", "|<htmlx><head>", "<html>|<header><head></head></header>", "|<head", "<html>|<head data-x=\"never ended>", "|<html", "|<!doctype",
		"<html\n>|<body><head></head>", "<head/>|<p>", "  |  <p>x", "<!doctype html>|  <p>x", "|<!DOCTYPEhtml><head>", "<!--><head>|<title>x</title><!-- -->",
	} {
		if strings.HasPrefix(want, "  |") {
			want = "|" + strings.Replace(want, "|", "", 1) // leading blanks follow the tag
		}
		doc := strings.Replace(want, "|", "", 1)
		if got := string(inject([]byte(doc))); got != strings.Replace(want, "|", tag, 1) {
			t.Errorf("%q\ngot  %q", want, got)
		}
	}
}

// FuzzInject checks that the page is otherwise unchanged, and that the position of the
// script depends only on the text before it.
func FuzzInject(f *testing.F) {
	for _, doc := range []string{"", "<!doctype html><html><head><title>x</title>", "<!-- x", "\ufeff<?xml?><html a='>", "\xff\xfe<\x00"} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := bytes.Clone(doc)
		got := inject(doc)
		if !bytes.Equal(doc, before) {
			t.Fatal("inject modified its argument")
		}
		at, ok := headStart(doc, true)
		if !ok {
			if !isUTF16(doc) || !bytes.Equal(got, doc) {
				t.Fatalf("%q became %q", doc, got)
			}
			return
		}
		if want := string(doc[:at]) + tag + string(doc[at:]); string(got) != want {
			t.Fatalf("%q became %q", doc, got)
		}
		if again, ok := headStart(append(doc[:at:at], "<p>"...), false); again != at && ok {
			t.Fatalf("%q: at %d, and %d without the rest", doc, at, again)
		}
		if len(doc) < headMax {
			streamed, err := io.ReadAll(&injector{doc: iotest.OneByteReader(bytes.NewReader(doc)), tag: tag})
			if err != nil || !bytes.Equal(streamed, got) {
				t.Fatalf("%q in pieces became %q, %v", doc, streamed, err)
			}
		}
	})
}
