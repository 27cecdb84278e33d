package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"unicode/utf8"
)

// FuzzDecode holds the decoder against encoding/json. Whatever encoding/json
// reads, key by key and exactly, we read alike; what is not JSON in UTF-8 is
// refused, but for the inside of raw fields.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"text":"x"}`, ` { "text" : "\ud800" , "int" : "2" } `, `{"text":null,"ptr":5,"name":"n"}`,
		`{"flag":true,"int":-2,"long":9223372036854775807,"float":1e-400}`, `{"raw":[tru],"list":["a","b"]}`,
		`{"inners":[{"a":"1","b":2},{}],"one":{"a":"2"},"map":{"k":"v"},"kinds":{"k":{}},"sums":{"s":1}}`,
		`{"int":1.0}`, `{"int":1e2}`, `{"int":1.5}`, `{"float":NaN}`, `{"x":[1,}]}`, `{"a":1}}`, `{"int":1,"int":null}`,
		"{\"\xff\":1}", "{\"text\":\"\xff\"}", "\ufeff{}", `[]`, `null`, ``, `{`, `{"text":"x",}`, `{"map":{"k":1}}`, `{"one":{"b":1,"b":2}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var got sample
		err := DecodeReply(bytes.Clone(payload), &got)
		good := json.Valid(payload) && utf8.Valid(payload)
		if err == nil && !good && got.Raw == nil {
			t.Fatalf("accepted %q", payload)
		}
		if want, wantErr := reference(payload); good && wantErr == nil && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q: %+v, %v; encoding/json: %+v", payload, got, err, want)
		}
		if strict := Decode(bytes.Clone(payload), new(sample)); strict == nil && err != nil {
			t.Fatalf("%q is a request and no reply: %v", payload, err)
		}
	})
}

// errIncomparable marks texts about which encoding/json has other rules: keys
// given twice, and keys of inner objects that differ in case.
var errIncomparable = errors.New("not comparable")

// reference decodes a sample with encoding/json, matching keys exactly.
func reference(payload []byte) (sample, error) {
	var v sample
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil || members == nil {
		return v, errors.Join(err, errIncomparable)
	}
	if err := singleKeys(payload); err != nil {
		return v, err
	}
	for _, field := range structOf(reflect.TypeFor[sample]()).fields {
		raw, ok := members[field.name]
		if !ok || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, reflect.ValueOf(&v).Elem().Field(field.index).Addr().Interface()); err != nil {
			return v, err
		}
	}
	return v, nil
}

// singleKeys walks all tokens of payload and looks at the keys.
func singleKeys(payload []byte) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	var keys []map[string]bool // of the objects around the token, nil for a list
	expectKey := false
	for {
		token, err := d.Token()
		if err != nil {
			return ignoreEOF(err)
		}
		if delim, ok := token.(json.Delim); ok {
			switch delim {
			case '{':
				keys = append(keys, map[string]bool{})
			case '[':
				keys = append(keys, nil)
			default:
				keys = keys[:len(keys)-1]
			}
			expectKey = len(keys) > 0 && keys[len(keys)-1] != nil
			continue
		}
		if expectKey {
			if err := note(keys, fmt.Sprint(token)); err != nil {
				return err
			}
			expectKey = false
			continue
		}
		expectKey = len(keys) > 0 && keys[len(keys)-1] != nil
	}
}

func ignoreEOF(err error) error {
	if err.Error() == "EOF" {
		return nil
	}
	return err
}

// note records a key of the innermost object.
func note(keys []map[string]bool, key string) error {
	seen := keys[len(keys)-1]
	if seen[key] || len(keys) > 1 && (key == "A" || key == "B") {
		return errIncomparable
	}
	seen[key] = true
	return nil
}
