package exc

import (
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// BenchmarkExecute measures a whole run of a program that does nothing, at each
// level that this host has.
func BenchmarkExecute(b *testing.B) {
	s := newService(b, nil, map[string]string{"true.json": `{}`})
	root := shortDir(b)
	for _, level := range config.Sandboxes {
		if s.levelProblem(b.Context(), level) != nil {
			continue
		}
		b.Run(level, func(b *testing.B) {
			for b.Loop() {
				r, err := s.execute(b.Context(), proto.Execute{Executor: "true", Sandbox: level, Root: root})
				if err != nil || r.ExitCode != 0 {
					b.Fatalf("%+v, %v", r, err)
				}
			}
		})
	}
}
