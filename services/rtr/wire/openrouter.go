package wire

import (
	"context"
	"encoding/json"
	"slices"

	"zino/pkg/wire"
)

// OpenRouter is OpenAI's wire with OpenRouter's additions: the cost in the
// usage, and reasoning_details that go back in a tool loop. Source:
// openrouter.ai/docs/api-reference and docs/use-cases/reasoning-tokens.
func OpenRouter(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	return completions(ctx, ep, req, "openrouter", sink)
}

// detail is one of reasoning_details, put together from its pieces.
type detail struct {
	kind, index string
	members     []member
}

type member struct {
	key   string
	value json.RawMessage
}

// details takes a list of pieces. A piece of the same type and index as the
// last one goes on with it: its texts are joined, and other members replace
// those before.
func (e *extras) details(raw []byte) {
	list, err := wire.Elements(raw)
	if err != nil {
		return // null
	}
	for _, piece := range list {
		d := readDetail(piece)
		if n := len(e.list); n > 0 && d.index != "" && e.list[n-1].kind == d.kind && e.list[n-1].index == d.index {
			e.list[n-1].join(d)
		} else {
			e.list = append(e.list, d)
		}
	}
}

func readDetail(raw []byte) (d detail) {
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "type":
			d.kind = string(value)
		case "index":
			d.index = string(value)
		}
		d.members = append(d.members, member{string(key), slices.Clone(value)})
	}
	return d
}

func (d *detail) join(next detail) {
	for _, m := range next.members {
		i := slices.IndexFunc(d.members, func(have member) bool { return have.key == m.key })
		switch {
		case i < 0:
			d.members = append(d.members, m)
		case (m.key == "text" || m.key == "summary" || m.key == "data") && m.value[0] == '"':
			d.members[i].value = wire.AppendString(nil, text(d.members[i].value)+text(m.value))
		case string(m.value) != "null":
			d.members[i].value = m.value
		}
	}
}

// detailList writes the list as JSON.
func detailList(list []detail) []byte {
	b := []byte("[")
	for i, d := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var object []byte
		for _, m := range d.members {
			object = appendMember(object, []byte(m.key), m.value)
		}
		b = append(append(b, object...), '}')
	}
	return append(b, ']')
}
