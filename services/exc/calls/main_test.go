package calls

import (
	"fmt"
	"os"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"writer": write})
	os.Exit(m.Run())
}

// write records calls until it is killed, and prints a line after each step. Its
// arguments are the directory and a name for its keys.
func write(args []string) error {
	j, err := Open(args[0], new(zinotest.Buffer).Logger())
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		c := Call{Key: fmt.Sprintf("%s/t/1/%d", args[1], n), Sum: "sum"}
		if err := j.Begin(c); err != nil {
			return err
		}
		fmt.Println("begun", c.Key)
		if err := j.End(c.Key, []byte(`{"n":1}`)); err != nil {
			return err
		}
		fmt.Println("ended", c.Key)
	}
}

// open opens the journal of a directory. The log is that of the test.
func open(t testing.TB, dir string) *Journal {
	t.Helper()
	log := new(zinotest.Buffer)
	j, err := Open(dir, log.Logger())
	zinotest.Must(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// find is what a journal has of a key.
func find(t testing.TB, j *Journal, key string, since time.Time) Record {
	t.Helper()
	r, err := j.Find(key, since)
	zinotest.Must(t, err)
	return r
}

var states = map[State]string{Unknown: "unknown", NotBegun: "not begun", Begun: "begun", Finished: "finished", Dropped: "dropped"}

// mustBe checks what a journal has of a key that was asked for now.
func mustBe(t testing.TB, j *Journal, key string, want State) {
	t.Helper()
	zinotest.Equal(t, key, states[find(t, j, key, time.Now()).State], states[want])
}
