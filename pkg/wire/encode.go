package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// AppendObject appends the struct v as a JSON object that begins with
// "type":typ (left out when typ is empty). Fields of type json.RawMessage go
// out as they are; other text is never HTML-escaped, and a list is never null.
func AppendObject(b []byte, typ string, v any) ([]byte, error) {
	b, err := appendFields(appendType(b, typ), reflect.Indirect(reflect.ValueOf(v)))
	return closeObject(b), err
}

// AppendRequest is AppendObject with one more field, "meta", behind the type
// unless meta is zero.
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

// appendType appends the beginning of an object, up to the comma behind its
// type.
func appendType(b []byte, typ string) []byte {
	b = append(b, '{')
	if typ == "" {
		return b
	}
	return append(AppendString(append(b, `"type":`...), typ), ',')
}

// closeObject puts the brace in the place of a last comma, if there is one.
func closeObject(b []byte) []byte {
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, '}')
}

func appendFields(b []byte, v reflect.Value) ([]byte, error) {
	for _, field := range structOf(v.Type()).fields {
		value := v.Field(field.index)
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

// roomBehind is made behind a raw field for the rest of the packet: a long text
// would be copied once more for a few bytes behind it.
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

// structInfo is what the codec needs of a struct type, computed once.
type structInfo struct {
	fields []fieldInfo
	index  map[string]int // by JSON name, into fields
}

type fieldInfo struct {
	name     string
	index    int
	optional bool
}

var structs sync.Map // reflect.Type to *structInfo

func structOf(t reflect.Type) *structInfo {
	if info, ok := structs.Load(t); ok {
		return info.(*structInfo)
	}
	info := &structInfo{index: map[string]int{}}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		info.index[name] = len(info.fields)
		info.fields = append(info.fields, fieldInfo{name, i, options == "omitzero"})
	}
	structs.Store(t, info)
	return info
}
