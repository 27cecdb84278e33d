package handoff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// work returns a session with all kinds of events.
func work() []string {
	return join(begun("/w/p"), user("build it"), did("read", "a.go", fine), did("edit", "/w/p/b.go", fine), ran("make", exit1), interrupted)
}

const offline = "# Handoff\n\n## Goal\n\nship it\n\n## Starter prompt\n\n```text\nship it\n\n" +
	"This continues an earlier session, which you cannot see. It began with this request:\n- build it\nFiles that it changed:\n- `b.go`\n" +
	"Still open:\n- Finish the last request, it was interrupted: build it\n- Run again, it failed: exit status 1: `make`\n" +
	"Look at the present state of the files before you change anything.\n```\n\n" +
	"## Relevant files\n\n- `b.go`\n- `a.go`\n\n" +
	"## Open tasks\n\n- [ ] Finish the last request, it was interrupted: build it\n- [ ] Run again, it failed: exit status 1: `make`\n\n" +
	"## Repro commands\n\n```sh\n# failed: exit status 1:\nmake\n```\n"

func TestOffline(t *testing.T) {
	for _, id := range []string{"", "sess", "session-1"} {
		b := newEnv(t, answer(), work()...).start()
		got, err := b.Make(t.Context(), proto.Handoff{Goal: "ship it", SessionID: id, Root: "/w/p", Offline: true})
		if err != nil || got.SessionID != "session-1" || got.Content != offline || got.Filled != nil {
			t.Errorf("%q: %+v, %v\nwant\n%s", id, got, err, offline)
		}
		if len(b.asked) != 0 || b.pages != 5 {
			t.Errorf("%q: the model was asked %d times, %d pages were read", id, len(b.asked), b.pages)
		}
	}
}

func TestModel(t *testing.T) {
	b := newEnv(t, answer(commandsKey, ""), append(work(), user("main.go new/b.go"))...).start()
	req := proto.Handoff{Goal: "ship it", Root: "/w/p", Provider: "p", Model: "m", MaxTokens: 7, Effort: "max"}
	got, err := b.Make(t.Context(), req)
	const want = "# Handoff\n\n## Goal\n\nship it\n\n## Starter prompt\n\n```text\nTo ship it, look at ./main.go.\n```\n\n## Relevant files\n\n- `main.go`\n- `new/b.go`\n\n" +
		"## Open tasks\n\n- [ ] do a\n- [ ] do b in .\n\n## Repro commands\n\n```sh\n# failed: exit status 1:\nmake\n```\n"
	if err != nil || got.SessionID != "session-1" || got.Content != want || !slices.Equal(got.Filled, []string{commandsSection}) {
		t.Errorf("%+v, %v\nwant\n%s", got, err, want)
	}
	if len(b.asked) != 1 {
		t.Fatalf("asked %d times", len(b.asked))
	}
	in := b.asked[0]
	if in.Provider != "p" || in.Model != "m" || in.MaxTokens != 7 || in.Effort != "max" || in.Temperature != 0.5 || in.TopP != 0.25 ||
		!in.NeedModel || !in.Stream || in.Events || in.SessionID != "" || in.Tools != nil {
		t.Errorf("asked %+v", in)
	}
	if text := string(in.Messages); !strings.Contains(text, "[user] build it") || !strings.Contains(text, "[call of edit] content: x") {
		t.Errorf("the model got %s", text)
	}
}

// TestUselessAnswer checks that the facts replace an answer that is not a bundle.
func TestUselessAnswer(t *testing.T) {
	for _, answer := range []string{"", "No.", "\x1b[2J```"} {
		b := newEnv(t, answer, work()...).start()
		got, err := b.Make(t.Context(), proto.Handoff{Goal: "ship it"})
		if err != nil || got.Content != offline || !slices.Equal(got.Filled, sectionNames) {
			t.Errorf("%q: %+v, %v", answer, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		req  proto.Handoff
		code proto.Code
		want string
	}{
		"no goal":       {proto.Handoff{Goal: " \n"}, proto.CodeInvalid, "--goal"},
		"long goal":     {proto.Handoff{Goal: strings.Repeat("g", goalBytes+1)}, proto.CodeTooLarge, "64 KiB"},
		"relative root": {proto.Handoff{Goal: "g", Root: "x"}, proto.CodeInvalid, `invalid root "x": use an absolute path`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, answer(), work()...) // neither mem nor rtr runs
			_, err := b.Make(t.Context(), c.req)
			if !errors.Is(err, &proto.Error{Code: c.code}) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// errorOf returns err as the packet that the caller gets.
func errorOf(t *testing.T, err error) proto.Error {
	t.Helper()
	e, ok := err.(*proto.Error)
	if !ok {
		t.Fatalf("error %v of type %T", err, err)
	}
	return *e
}

func TestErrorsOfMem(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*env)
		want proto.Error
	}{
		"none": {func(b *env) {
			b.find = func(context.Context, proto.FindSession) (proto.SessionSummary, error) {
				return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: "No sessions found."}
			}
		}, proto.Error{Code: proto.CodeNotFound, Message: "No sessions found.", Service: "mem", Kind: "session"}},
		"unknown": {func(b *env) {
			b.find = func(context.Context, proto.FindSession) (proto.SessionSummary, error) {
				return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: `There is no session "x". See zino sessions list.`}
			}
		}, proto.Error{Code: proto.CodeNotFound, Message: `There is no session "x". See zino sessions list.`, Service: "mem", Kind: "session"}},
		"disk": {func(b *env) {
			b.page = func(context.Context, proto.ReadSession) (proto.SessionEvents, error) {
				return proto.SessionEvents{}, errors.New("disk on fire")
			}
		}, proto.Error{Code: proto.CodeInternal, Message: "mem read_session: disk on fire", Service: "mem", Kind: "session"}},
		"later page": {func(b *env) {
			first := b.page
			b.page = func(ctx context.Context, req proto.ReadSession) (proto.SessionEvents, error) {
				if req.From > 0 {
					return proto.SessionEvents{}, &proto.Error{Code: proto.CodeInvalid, Message: "moved"}
				}
				return first(ctx, req)
			}
		}, proto.Error{Code: proto.CodeInvalid, Message: "moved", Service: "mem", Kind: "session"}},
		"broken events": {func(b *env) {
			b.page = func(context.Context, proto.ReadSession) (proto.SessionEvents, error) {
				return proto.SessionEvents{Events: proto.Raw(`{"a":1}`)}, nil
			}
		}, proto.Error{Code: proto.CodeInternal, Message: "mem sent events that are not a list: expected a list, found an object", Kind: "session"}},
		"no end": {func(b *env) {
			b.page = func(context.Context, proto.ReadSession) (proto.SessionEvents, error) {
				return proto.SessionEvents{Events: proto.Raw(`[]`), More: true}, nil
			}
		}, proto.Error{Code: proto.CodeInternal, Message: "mem sent a page of a session without progress", Kind: "session"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, answer(), work()...)
			c.set(b)
			b.start()
			_, err := b.Make(t.Context(), proto.Handoff{Goal: "g", Offline: true})
			if got := errorOf(t, err); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
	b := newEnv(t, answer())
	_, err := b.Make(t.Context(), proto.Handoff{Goal: "g", Offline: true})
	if got := errorOf(t, err); got.Code != proto.CodeUnavailable || got.Kind != "session" || !strings.HasPrefix(got.Message, "Could not connect to mem: ") {
		t.Errorf("without mem: %+v", got)
	}
}

const advice = "; with --offline the bundle is made of the session's events, without a model"

func TestErrorsOfRtr(t *testing.T) {
	for name, c := range map[string]struct{ err, want error }{
		"no model": {
			&proto.Error{Code: proto.CodeUnavailable, Message: "no model is connected: set ANTHROPIC_API_KEY."},
			&proto.Error{Code: proto.CodeUnavailable, Service: "rtr", Message: "no model is connected: set ANTHROPIC_API_KEY" + advice},
		},
		"provider": {
			&proto.Error{Code: proto.CodeUnavailable, Message: "HTTP 529: overloaded", Kind: "http_status", Status: 529, Details: "more"},
			&proto.Error{Code: proto.CodeUnavailable, Service: "rtr", Message: "HTTP 529: overloaded" + advice, Kind: "http_status", Status: 529, Details: "more"},
		},
		"any": {errors.New("oops"), &proto.Error{Code: proto.CodeInternal, Service: "rtr", Message: "rtr infer: oops" + advice}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, answer(), work()...)
			b.infer = func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
				if err := out.Text([]byte("{")); err != nil {
					return proto.Text{}, err
				}
				return proto.Text{}, c.err
			}
			b.start()
			got, err := b.Make(t.Context(), proto.Handoff{Goal: "g"})
			if fmt.Sprintf("%+v", errorOf(t, err)) != fmt.Sprintf("%+v", *c.want.(*proto.Error)) || got.Content != "" {
				t.Errorf("got  %+v, %+v\nwant %+v", err, got, c.want)
			}
		})
	}
}

// TestHangUp checks that the request to the model is cancelled when the caller
// disconnects, and that the error has no advice.
func TestHangUp(t *testing.T) {
	b := newEnv(t, answer(), work()...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	b.infer = func(ctx context.Context, _ proto.Infer, _ *rpc.Out) (proto.Text, error) {
		cancel()
		<-ctx.Done()
		close(ended)
		return proto.Text{}, ctx.Err()
	}
	b.start()
	_, err := b.Make(ctx, proto.Handoff{Goal: "g"})
	<-ended
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "offline") {
		t.Errorf("error %v", err)
	}
	b = newEnv(t, answer(), work()...)
	ctx, cancel = context.WithCancel(t.Context())
	b.page = func(ctx context.Context, _ proto.ReadSession) (proto.SessionEvents, error) {
		cancel()
		<-ctx.Done()
		return proto.SessionEvents{}, ctx.Err()
	}
	b.start()
	if _, err := b.Make(ctx, proto.Handoff{Goal: "g", Offline: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
