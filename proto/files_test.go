package proto_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

var (
	metaType  = reflect.TypeFor[proto.Meta]()
	errorType = reflect.TypeFor[proto.Error]()
)

// example is one line of testdata/examples.jsonl: a request and the packets
// that may answer it.
type example struct {
	Service string            `json:"service"`
	Type    string            `json:"type"`
	Request json.RawMessage   `json:"request"`
	Replies []json.RawMessage `json:"replies"`
}

// vector is what these tests need of a line of testdata/vectors.jsonl; the
// package services/constellation replays them.
type vector struct {
	Service string           `json:"service"`
	Name    string           `json:"name"`
	Payload string           `json:"payload"`
	Expect  []map[string]any `json:"expect"`
	Lenient bool             `json:"lenient"`
}

// readLines decodes a file of one JSON value a line.
func readLines[T any](t *testing.T, name string) (list []T) {
	t.Helper()
	data, err := os.ReadFile(name)
	zinotest.Must(t, err)
	for line := range strings.Lines(string(data)) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v: %s", name, err, line)
		}
		list = append(list, v)
	}
	return list
}

func examples(t *testing.T) []example {
	t.Helper()
	return readLines[example](t, "testdata/examples.jsonl")
}

// readExamples are the examples as they are printed, by service and type.
func readExamples(t *testing.T) map[[2]string][]exampleText {
	t.Helper()
	byMethod := map[[2]string][]exampleText{}
	for _, e := range examples(t) {
		text := exampleText{Request: string(e.Request)}
		for _, reply := range e.Replies {
			text.Replies = append(text.Replies, string(reply))
		}
		key := [2]string{e.Service, e.Type}
		byMethod[key] = append(byMethod[key], text)
	}
	return byMethod
}

// vectors are those of one packet, with its type.
func vectors(t *testing.T) (list []vector, types []string) {
	t.Helper()
	for _, v := range readLines[vector](t, "testdata/vectors.jsonl") {
		var head struct {
			Type *string `json:"type"`
		}
		if v.Payload == "" || len(v.Expect) != 1 || json.Unmarshal([]byte(v.Payload), &head) != nil {
			continue
		}
		if head.Type == nil {
			head.Type = new(string)
		}
		list, types = append(list, v), append(types, *head.Type)
	}
	return list, types
}

// errorTexts are the errors whose exact words are part of the contract, by
// service and type, as the vectors hold them.
func errorTexts(t *testing.T) map[[2]string][]errorText {
	t.Helper()
	byMethod := map[[2]string][]errorText{}
	list, types := vectors(t)
	for i, v := range list {
		message, _ := v.Expect[0]["message"].(string)
		code, _ := v.Expect[0]["code"].(string)
		key, text := [2]string{v.Service, types[i]}, errorText{message, code}
		if origin, ok := v.Expect[0]["service"]; ok && origin != v.Service {
			continue // another service's words, passed on
		}
		if v.Service == "any" || message == "" || strings.HasSuffix(message, "…") || slices.Contains(byMethod[key], text) {
			continue
		}
		if !strings.HasPrefix(message, "Unknown message type") {
			byMethod[key] = append(byMethod[key], text)
		}
	}
	return byMethod
}
