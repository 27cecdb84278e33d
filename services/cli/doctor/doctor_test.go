package doctor

import (
	"context"
	"testing"
	"time"
)

// TestCheckTimeout checks the report of a check that hangs and ignores its context.
func TestCheckTimeout(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	c := check{"hanging", time.Millisecond, func(context.Context) []finding { <-forever; return nil }}
	if got := c.run(t.Context()); len(got) != 1 || got[0].Check != "hanging" || got[0].Status != checkFailed || got[0].Text != "this check did not end within 1ms" {
		t.Errorf("%+v", got)
	}
}
