package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// crowd is six writers at once: four editors, who save what they read some time ago
// and added to, and two who append.
type crowd struct {
	*world
	buffers [4][]byte
	codes   int
}

func (c *crowd) request() string {
	c.codes++
	header := ""
	if c.codes%3 == 0 {
		header = fmt.Sprintf("> **w%d** to index-7-zen at %s\n", c.codes%6, c.now.Format(time.TimeOnly))
	}
	return fmt.Sprintf("%s```js\ncode%d()\n```\n", header, c.codes)
}

func (c *crowd) act(op, arg byte) {
	c.t.Helper()
	buffer := &c.buffers[int(arg)%len(c.buffers)]
	switch op % 16 {
	case 0, 1:
		c.append(c.request())
	case 2:
		c.append(c.request() + "words\n" + c.request())
	case 3, 4, 5: // an editor reads the file
		*buffer = bytes.Clone(c.file)
	case 6, 7: // saves what it has
		if *buffer != nil {
			c.save(*buffer)
			c.changed()
		}
	case 8, 9, 10: // adds to it
		if *buffer != nil {
			*buffer = append(bytes.Clone(*buffer), c.request()...)
			c.save(*buffer)
			c.changed()
		}
	case 11, 12, 13:
		c.answer(time.Duration(arg)*10*time.Millisecond, fmt.Sprint(arg))
	case 14:
		c.pass(time.Duration(arg) * 100 * time.Millisecond)
	case 15:
		c.apply(Gone{c.now})
		c.pass(time.Duration(arg) * time.Second / 3)
		c.apply(Connected{At: c.now})
	}
}

// check checks that no code was run twice, and that what was answered is in the file or
// kept beside it.
func (c *crowd) check() {
	c.t.Helper()
	var whole strings.Builder
	whole.WriteString(string(c.file))
	for _, body := range c.kept {
		whole.WriteString(body)
	}
	ran := map[string]bool{}
	for _, line := range c.log {
		_, code, ok := strings.Cut(line, `"code`)
		if !ok || !strings.Contains(line, " run ") {
			continue
		}
		if code = "code" + strings.TrimRight(code, `"`); ran[code] {
			c.t.Fatalf("%s was run twice:\n%s\n%s", code, strings.Join(c.log, "\n"), c.file)
		}
		ran[code] = true
		if !strings.Contains(whole.String(), "\n"+code+"\n") && !c.withdrawn(code) {
			c.t.Fatalf("%s was answered and is lost:\n%s\n%s", code, strings.Join(c.log, "\n"), c.file)
		}
	}
}

func (c *crowd) live(moves []byte) {
	c.t.Helper()
	c.start()
	for i := 0; i+1 < len(moves) && i < 120; i += 2 {
		c.act(moves[i], moves[i+1])
	}
	for range 100 {
		c.pass(20 * time.Second)
		if !c.page.busy() {
			break
		}
	}
	c.check()
	c.rests()
}

// withdrawn reports whether a request was removed from the file while it was at work.
func (c *crowd) withdrawn(code string) bool {
	job := ""
	for _, line := range c.log {
		if _, rest, ok := strings.Cut(line, " run "); ok && strings.HasSuffix(rest, fmt.Sprintf("%q", code)) {
			job, _, _ = strings.Cut(rest, " ")
		} else if job != "" && strings.Contains(line, fmt.Sprintf("done %q", job)) {
			return strings.Contains(line, "reason="+reasonLost)
		}
	}
	return false
}

// TestWriters: no sequence of saves of six writers loses an answered request or runs one
// twice. The first seeds failed once.
func TestWriters(t *testing.T) {
	seeds := []uint64{12904, 13514, 19549, 20572, 22579}
	for seed := range uint64(120) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := &crowd{world: newWorld(t, Options{})}
			c.live(moves(seed+2000, 20+int(seed%5)*25))
		})
	}
}
