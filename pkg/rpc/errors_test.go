package rpc

import (
	"fmt"
	"testing"

	"zino/proto"
)

// TestChain: an error that others wrap keeps all that it says to programs.
func TestChain(t *testing.T) {
	origin := &proto.Error{Message: "no", Code: proto.CodeBusy, Service: "rtr", Kind: "http_status", Status: 529, Details: "overloaded"}
	want := *origin
	want.Message = "agr run: while asking: no"
	if got := chain("agr", "run", fmt.Errorf("while asking: %w", origin)); *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}
