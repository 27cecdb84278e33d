package exc

import (
	"testing"

	"zino/proto"
)

// The devices that code gets take and give what they should at every level, and
// standard input is empty.
func TestDevices(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	const code = `set -e
echo x >/dev/null; echo x >>/dev/null
[ "$(head -c 3 /dev/zero | tr '\0' z)" = zzz ]
[ "$(head -c 9 /dev/urandom | wc -c)" = 9 ]
! { echo x >/dev/full; } 2>/dev/null
[ "$(cat | wc -c)" = 0 ]
[ /dev/stdin -ef /dev/null ]
echo fine`
	a.each(t, func(t *testing.T, _, name string) {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: proto.Level(name), Root: a.root})
		if err != nil || r.Stdout != "fine\n" || r.ExitCode != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
