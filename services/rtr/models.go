package rtr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"zino/proto"
	"zino/services/rtr/wire"
)

// listedFor is how long a list of models is kept. Servers on this host or network
// are asked each time: they answer at once, and their owner may have just loaded
// one.
const listedFor = 5 * time.Minute

// list is what an endpoint answered when it was asked for its models.
type list struct {
	models []wire.Model
	at     time.Time
}

// listKey is an endpoint with a key: keys may see different models.
type listKey struct{ provider, base, key string }

// anyModel stands for a model where only the endpoint matters.
const anyModel = "*"

// models lists what can be asked. Without a provider in the request these are the
// models of all providers that are connected; one that does not answer is a problem
// in the reply.
func (s *Service) models(ctx context.Context, req proto.ModelsRequest) (proto.ModelList, error) {
	if !isProvider(req.Provider) {
		return proto.ModelList{}, &proto.Error{Code: proto.CodeInvalid, Message: unknownProvider(req.Provider)}
	}
	targets, err := s.connected(ctx, req.Provider)
	if err != nil {
		return proto.ModelList{}, err
	}
	lists, failed := make([][]proto.Model, len(targets)), make([]error, len(targets))
	var asking sync.WaitGroup
	for i, t := range targets {
		asking.Go(func() { lists[i], failed[i] = s.modelsAt(ctx, t) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return proto.ModelList{}, ctx.Err()
	}
	reply := proto.ModelList{Models: slices.Concat(lists...)}
	for i, err := range failed {
		if err != nil && len(reply.Models) == 0 {
			return proto.ModelList{}, unlisted(targets[i], err)
		} else if err != nil {
			reply.Problems = append(reply.Problems, unlisted(targets[i], err).Error())
		}
	}
	if reply.Models == nil {
		reply.Models = []proto.Model{}
	}
	return reply, nil
}

// unlisted is the error of a provider whose models cannot be listed.
func unlisted(t *target, err error) error {
	e := proto.Error{Code: proto.CodeUnavailable}
	if cause, ok := errors.AsType[*proto.Error](err); ok {
		e = *cause
	} else {
		e.Message = err.Error()
	}
	e.Message = fmt.Sprintf("cannot list the models of %s (%s): %s", t.caps.Provider, t.caps.Endpoint, e.Message)
	return &e
}

// connected returns a target for each provider that can be asked: the named one, or
// the configured or implied one and all others with a key.
func (s *Service) connected(ctx context.Context, name string) ([]*target, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	first := s.resolve(ctx, selector{provider: name, model: anyModel})
	if name == "" && !first.remote() {
		first = s.resolve(ctx, selector{provider: "auto", model: anyModel}) // perhaps a server on this host
	}
	var targets []*target
	if first.remote() {
		targets = append(targets, first)
	}
	for _, v := range vendors {
		if name != "" && name != "auto" || v.name == "ollama" && s.set.bases[v.name] == nil {
			continue
		}
		t := s.resolve(ctx, selector{provider: v.name, model: anyModel})
		same := func(have *target) bool {
			return have.caps.Provider == v.name && have.ep.Base == t.ep.Base
		}
		if t.remote() && !slices.ContainsFunc(targets, same) {
			targets = append(targets, t)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(targets) == 0 && first.caps.Problem != "":
		return nil, &proto.Error{Code: proto.CodeUnavailable, Message: first.caps.Problem}
	case len(targets) == 0:
		return nil, &proto.Error{Code: proto.CodeUnavailable, Message: "no model is connected: " + connectFully() + ", or start a model server on loopback"}
	}
	return targets, nil
}

// modelsAt lists the models of a target's endpoint, and after them those that are
// built in or configured by name and not listed, with what is known of each.
func (s *Service) modelsAt(ctx context.Context, t *target) ([]proto.Model, error) {
	listed, err := s.listed(ctx, t)
	if err != nil {
		return nil, err
	}
	v, _ := vendorOf(t.caps.Provider)
	known := []string{}
	if t.genuine && v.model != "" {
		known = append(known, v.model)
	}
	for _, m := range s.set.known {
		if m.Provider == t.caps.Provider && !strings.Contains(m.Name, "*") {
			known = append(known, m.Name)
		}
	}
	for _, name := range known {
		if !slices.ContainsFunc(listed, func(m wire.Model) bool { return m.Name == name }) {
			listed = append(listed, wire.Model{Name: name})
		}
	}
	models := make([]proto.Model, len(listed))
	for i, m := range listed {
		one := *t
		one.caps.Model, one.context, one.traits = m.Name, 0, wire.TraitsOf(t.genuine, t.ep.Base, m.Name)
		s.adjust(&one)
		models[i] = proto.Model{
			Name: m.Name, Provider: t.caps.Provider, Efforts: wire.EffortsOf(one.wire(), m.Name),
			Context: cmp.Or(one.context, m.Context, one.window), // as configured, as listed, as built in
		}
	}
	return models, nil
}

// listed asks an endpoint for its models, or returns its last list for listedFor.
func (s *Service) listed(ctx context.Context, t *target) ([]wire.Model, error) {
	key := listKey{t.caps.Provider, t.ep.Base, t.ep.Key}
	s.listLock.Lock()
	had, ok := s.lists[key]
	s.listLock.Unlock()
	if ok && time.Since(had.at) < listedFor {
		return slices.Clone(had.models), nil
	}
	v, _ := vendorOf(t.caps.Provider)
	models, err := v.models(ctx, t.ep)
	if err == nil && !wire.IsLocal(t.ep.Base) {
		s.listLock.Lock()
		s.lists[key] = list{models, time.Now()}
		s.listLock.Unlock()
	}
	return slices.Clone(models), err
}
