package exc

import (
	"testing"

	"zino/proto"
)

// BenchmarkExecute measures a whole run of a program that does nothing.
func BenchmarkExecute(b *testing.B) {
	s := newService(b, nil, map[string]string{"true.json": `{}`})
	for b.Loop() {
		r, err := s.execute(b.Context(), proto.Execute{Executor: "true"})
		if err != nil || r.ExitCode != 0 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}
