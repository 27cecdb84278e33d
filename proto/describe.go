package proto

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// Schema is schema.json: for every service its methods as it describes them.
//
//go:embed schema.json
var Schema []byte

// descriptions are decoded at the first use.
var descriptions = sync.OnceValues(func() (map[string]Description, error) {
	var list []Description
	if err := json.Unmarshal(Schema, &list); err != nil {
		return nil, fmt.Errorf("schema.json: %w", err)
	}
	byName := map[string]Description{}
	for _, d := range list {
		byName[d.Service] = d
	}
	return byName, nil
})

// DescriptionOf returns the answer to describe of the service of that name.
func DescriptionOf(service string) (Description, error) {
	byName, err := descriptions()
	if err != nil {
		return Description{}, err
	}
	d, ok := byName[service]
	if !ok {
		return Description{Service: service, Proto: Version, Methods: []MethodDescription{}}, nil
	}
	return d, nil
}
