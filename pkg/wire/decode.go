package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Decode reads the object payload into the struct that v points to and checks
// it: well-formed JSON, valid UTF-8, exact keys, values of the right type,
// every required field there (one without the omitzero option). null counts
// as absent, a number may stand in a string, unknown keys are ignored. Fields
// of type json.RawMessage are the exception: their text is only delimited, it
// lies in payload, and whoever reads it checks it.
func Decode(payload []byte, v any) error {
	return decodeObject(payload, reflect.ValueOf(v).Elem(), true)
}

// DecodeReply is Decode for answers: a missing field is left at zero.
func DecodeReply(payload []byte, v any) error {
	return decodeObject(payload, reflect.ValueOf(v).Elem(), false)
}

// Type returns the "type" of a packet, empty if it is absent or null, and the
// text of its "meta". The structure of the object is checked as far as both
// stand: AppendRequest puts them first, so that a long list behind them is
// walked once, by Decode, which checks the rest.
func Type(payload []byte) (typ string, meta []byte, err error) {
	f := object(payload)
	for key, value, ok := f.next(); ok; key, value, ok = f.next() {
		switch string(key) {
		case "type":
			if typ, err = typeIn(value); err != nil {
				return "", nil, err
			}
		case "meta":
			meta = value
		}
		if typ != "" && meta != nil {
			return typ, meta, nil
		}
	}
	return typ, meta, f.err
}

// ReplyType returns the "type" of an answer. The object is checked as far as
// that, and as a whole if there is none.
func ReplyType(payload []byte) (typ string, err error) {
	f := object(payload)
	for key, value, ok := f.next(); ok; key, value, ok = f.next() {
		if string(key) == "type" {
			return typeIn(value)
		}
	}
	return "", f.err
}

func typeIn(value []byte) (typ string, err error) {
	if err = decodeInto(value, reflect.ValueOf(&typ).Elem(), true); err != nil {
		return "", fmt.Errorf("field %q: %w", "type", err)
	}
	return typ, nil
}

// RequestType is Type for a packet inside a packet: all of it is checked.
func RequestType(payload []byte) (string, error) {
	if !Valid(payload) {
		return "", malformed(payload)
	}
	typ, _, err := Type(payload)
	return typ, err
}

func decodeObject(raw []byte, v reflect.Value, strict bool) error {
	info := structOf(v.Type())
	var seen uint64
	f := object(raw)
	for key, value, ok := f.next(); ok; key, value, ok = f.next() {
		i, known := info.index[string(key)]
		if !known {
			if !Valid(value) {
				return fmt.Errorf("field %q: %w", key, malformed(value))
			}
			continue
		}
		if string(value) == "null" {
			continue
		}
		seen |= 1 << i
		if err := decodeInto(value, v.Field(info.fields[i].index), strict); err != nil {
			return fmt.Errorf("field %q: %w", key, err)
		}
	}
	if f.err != nil {
		return f.err
	}
	return info.missing(seen, strict)
}

// missing names the first required field that was not seen.
func (info *structInfo) missing(seen uint64, strict bool) error {
	for i, field := range info.fields {
		if strict && !field.optional && seen&(1<<i) == 0 {
			return fmt.Errorf("missing field %q", field.name)
		}
	}
	return nil
}

var rawType = reflect.TypeFor[json.RawMessage]()

func decodeInto(raw []byte, v reflect.Value, strict bool) error {
	if v.Type() == rawType {
		v.SetBytes(raw)
		return nil
	}
	if string(raw) == "null" {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeInto(raw, v.Elem(), strict)
	case reflect.Struct:
		return decodeObject(raw, v, strict)
	case reflect.Slice:
		return decodeList(raw, v, strict)
	case reflect.Map:
		return decodeMap(raw, v, strict)
	}
	return decodeScalar(raw, v)
}

func decodeScalar(raw []byte, v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		text, ok := Unquote(nil, raw)
		if !ok {
			return wrong("a string", raw)
		}
		v.SetString(string(text))
	case reflect.Bool:
		if s := string(raw); s != "true" && s != "false" {
			return wrong("true or false", raw)
		}
		v.SetBool(raw[0] == 't')
	case reflect.Int, reflect.Int64:
		n, err := integer(raw)
		if err != nil {
			return err
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := number(raw)
		if err != nil {
			return err
		}
		v.SetFloat(n)
	default:
		return fmt.Errorf("a field of type %s cannot be decoded", v.Type())
	}
	return nil
}

func decodeList(raw []byte, v reflect.Value, strict bool) error {
	elements, err := Elements(raw)
	if err != nil {
		return err
	}
	list := reflect.MakeSlice(v.Type(), len(elements), len(elements))
	for i, element := range elements {
		if err := decodeInto(element, list.Index(i), strict); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	v.Set(list)
	return nil
}

func decodeMap(raw []byte, v reflect.Value, strict bool) error {
	m := reflect.MakeMap(v.Type())
	f := object(raw)
	for key, value, ok := f.next(); ok; key, value, ok = f.next() {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := decodeInto(value, element, strict); err != nil {
			return fmt.Errorf("field %q: %w", key, err)
		}
		m.SetMapIndex(reflect.ValueOf(string(key)), element)
	}
	v.Set(m)
	return f.err
}

// number reads a JSON number, or a string that holds one.
func number(raw []byte) (float64, error) {
	text := string(raw)
	if unquoted, ok := Unquote(nil, raw); ok {
		text = strings.TrimSpace(string(unquoted))
	}
	n, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errors.New("the number is out of range")
	}
	if err != nil || !json.Valid([]byte(text)) { // ParseFloat also reads hex, inf and 1_000
		return 0, wrong("a number", raw)
	}
	return n, nil
}

// integer reads a number without a fraction that an int64 holds exactly.
func integer(raw []byte) (int64, error) {
	text := strings.Trim(string(raw), `" `)
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && json.Valid([]byte(text)) {
		return n, nil
	}
	f, err := number(raw)
	if err != nil {
		return 0, err
	}
	if f != math.Trunc(f) {
		return 0, wrong("a whole number", raw)
	}
	if math.Abs(f) > 1<<53 {
		return 0, errors.New("the number is out of range")
	}
	return int64(f), nil
}

func wrong(want string, raw []byte) error {
	if !Valid(raw) {
		return malformed(raw)
	}
	return fmt.Errorf("expected %s, found %s", want, describe(raw))
}

// describe names the kind of value that raw begins.
func describe(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
