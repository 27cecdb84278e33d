package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Decode reads the object payload into the struct that v points to and checks
// it: well-formed JSON, valid UTF-8, exact keys, values of the right type,
// every required field present (one without the omitzero option). null counts
// as absent, a number may be in a string, unknown keys are ignored. Fields
// of type json.RawMessage are not checked, only delimited; they are parts of
// payload.
func Decode(payload []byte, v any) error {
	return decodeObject(payload, reflect.ValueOf(v).Elem(), true)
}

// DecodeReply is Decode for answers: a missing field is left at zero.
func DecodeReply(payload []byte, v any) error {
	return decodeObject(payload, reflect.ValueOf(v).Elem(), false)
}

// Type returns the "type" of a packet, empty if it is absent or null, and the
// text of its "meta". The structure of the object is checked up to both:
// AppendRequest puts them first, so that a long list after them is scanned once,
// by Decode, which checks the rest.
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

// ReplyType returns the "type" of an answer. The object is checked up to it; without
// a type, all of it.
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
	if typ, ok := unquoted(value); ok {
		return typ, nil
	}
	if err = decodeInto(value, reflect.ValueOf(&typ).Elem(), true); err != nil {
		return "", fmt.Errorf("field %q: %w", "type", err)
	}
	return typ, nil
}

// RequestType returns the "type" of a packet and checks all of the packet.
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
		if err := decodeInto(value, v.FieldByIndex(info.fields[i].index), strict); err != nil {
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

var (
	rawType   = reflect.TypeFor[json.RawMessage]()
	bytesType = reflect.TypeFor[[]byte]() // in JSON a string in base64
)

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
		if v.Type() == bytesType {
			return decodeBytes(raw, v)
		}
		return decodeList(raw, v, strict)
	case reflect.Map:
		return decodeMap(raw, v, strict)
	}
	return decodeScalar(raw, v)
}

func decodeScalar(raw []byte, v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		text, ok := unquoted(raw)
		if !ok {
			return wrong("a string", raw)
		}
		v.SetString(text)
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

// decodeBytes decodes a string in base64.
func decodeBytes(raw []byte, v reflect.Value) error {
	if len(raw) < 2 || raw[0] != '"' {
		return wrong("a string in base64", raw)
	}
	encoded := raw[1 : len(raw)-1]
	if bytes.IndexByte(encoded, '\\') >= 0 { // "\/" is allowed in JSON
		var ok bool
		if encoded, ok = Unquote(nil, raw); !ok {
			return wrong("a string in base64", raw)
		}
	}
	data, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(encoded))), encoded)
	if err != nil {
		return errors.New("expected a string in base64")
	}
	v.SetBytes(data)
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

// number reads a JSON number, or a string that contains one.
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

// integer reads a number without a fraction that an int64 represents exactly.
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

// describe names the kind of the value raw.
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

// AppendObject appends the struct v as a JSON object that begins with
// "type":typ (left out when typ is empty). Fields of type json.RawMessage are
// copied; other text is never HTML-escaped, and a list is never null.
func AppendObject(b []byte, typ string, v any) ([]byte, error) {
	b, err := appendFields(appendType(b, typ), reflect.Indirect(reflect.ValueOf(v)))
	return closeObject(b), err
}

// AppendRequest is AppendObject with the field "meta" after the type, unless meta
// is zero.
func AppendRequest(b []byte, typ string, v, meta any) ([]byte, error) {
	b = appendType(b, typ)
	if !reflect.ValueOf(meta).IsZero() {
		var err error
		if b, err = AppendObject(append(b, `"meta":`...), "", meta); err != nil {
			return b, err
		}
		b = append(b, ',')
	}
	b, err := appendFields(b, reflect.Indirect(reflect.ValueOf(v)))
	return closeObject(b), err
}

// appendType appends the start of an object, up to the comma after its type.
func appendType(b []byte, typ string) []byte {
	b = append(b, '{')
	if typ == "" {
		return b
	}
	return append(AppendString(append(b, `"type":`...), typ), ',')
}

// closeObject appends the brace, in place of a last comma if there is one.
func closeObject(b []byte) []byte {
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, '}')
}

func appendFields(b []byte, v reflect.Value) ([]byte, error) {
	for _, field := range structOf(v.Type()).fields {
		value := v.FieldByIndex(field.index)
		if field.optional && value.IsZero() {
			continue
		}
		b = append(AppendString(b, field.name), ':')
		var err error
		if b, err = appendValue(b, value); err != nil {
			return b, fmt.Errorf("field %q: %w", field.name, err)
		}
		b = append(b, ',')
	}
	return b, nil
}

// roomBehind is the space reserved after a raw field for the rest of the packet:
// otherwise a few bytes could make the slice grow, which copies a long text again.
const roomBehind = 256

func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	if v.Type() == rawType {
		if v.Len() == 0 {
			return append(b, "[]"...), nil
		}
		return append(slices.Grow(b, v.Len()+roomBehind), v.Bytes()...), nil
	}
	switch v.Kind() {
	case reflect.String:
		return AppendString(b, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return appendValue(b, v.Elem())
	case reflect.Struct:
		b, err := appendFields(append(b, '{'), v)
		return closeObject(b), err
	case reflect.Slice:
		if v.Type() == bytesType {
			data := v.Bytes()
			b = slices.Grow(b, base64.StdEncoding.EncodedLen(len(data))+roomBehind)
			return append(base64.StdEncoding.AppendEncode(append(b, '"'), data), '"'), nil
		}
		return appendList(b, v)
	case reflect.Map:
		return appendMap(b, v)
	}
	text, err := json.Marshal(v.Interface())
	return append(b, text...), err
}

func appendList(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendValue(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, v reflect.Value) ([]byte, error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	b = append(b, '{')
	for _, key := range keys {
		b = append(AppendString(b, key.String()), ':')
		var err error
		if b, err = appendValue(b, v.MapIndex(key)); err != nil {
			return b, err
		}
		b = append(b, ',')
	}
	return closeObject(b), nil
}

// structInfo describes a struct type for the codec, computed once.
type structInfo struct {
	fields []fieldInfo
	index  map[string]int // by JSON name, into fields
}

type fieldInfo struct {
	name     string
	index    []int // of the field, through embedded structs
	optional bool
}

var structs sync.Map // reflect.Type to *structInfo

func structOf(t reflect.Type) *structInfo {
	if info, ok := structs.Load(t); ok {
		return info.(*structInfo)
	}
	n := t.NumField()
	info := &structInfo{fields: make([]fieldInfo, 0, n), index: make(map[string]int, n)}
	info.add(t, nil)
	structs.Store(t, info)
	return info
}

// add adds the fields of a struct. Those of embedded structs count as its own.
func (info *structInfo) add(t reflect.Type, path []int) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(path), i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			info.add(f.Type, at)
		case name != "" && name != "-":
			info.index[name] = len(info.fields)
			info.fields = append(info.fields, fieldInfo{name, at, options == "omitzero"})
		}
	}
}
