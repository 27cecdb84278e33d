package proto

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// Schema is schema.json: for every service its methods as it describes them.
//
//go:embed schema.json
var Schema []byte

// Takes reports whether a request of the method has a field of that name.
func (m MethodDescription) Takes(field string) bool {
	var schema struct {
		Properties map[string]Raw `json:"properties"`
	}
	return json.Unmarshal(m.Request, &schema) == nil && len(schema.Properties[field]) > 0
}

// Lists reports whether the service has a method of that type.
func (d Description) Lists(typ string) bool {
	return slices.ContainsFunc(d.Methods, func(m MethodDescription) bool { return m.Type == typ })
}

// TakesMode reports whether turns of a daemon have modes.
func (d Description) TakesMode() bool {
	return slices.ContainsFunc(d.Methods, func(m MethodDescription) bool { return m.Type == DaemonTurnStart.Type && m.Takes("mode") })
}
