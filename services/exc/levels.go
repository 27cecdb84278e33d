package exc

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"zino/pkg/config"
	"zino/proto"
)

// levelProblem says why a level is not to be had here, nil if it is.
func (s *Service) levelProblem(ctx context.Context, level string) error {
	switch level {
	case levelOff:
		return nil
	case levelUnit:
		return s.sandbox.unitProblem()
	}
	return s.hostFor(ctx).Unable()
}

// unitProblem says why no units can be asked for. It does not connect, which
// would start one.
func (b *sandbox) unitProblem() error {
	fi, err := os.Stat(b.unit)
	if err == nil && fi.Mode()&fs.ModeSocket == 0 {
		err = fmt.Errorf("%s is no socket", b.unit)
	}
	if err != nil {
		return fmt.Errorf("%w: zino-run.socket of a system installation listens there", err)
	}
	return nil
}

// tellLevels adds to the counters which levels there are, why not the others,
// and by what means. A level that is configured and is not to be had is a
// problem.
func (s *Service) tellLevels(ctx context.Context, st *proto.Stats) {
	var had []string
	for _, level := range config.Sandboxes {
		err := s.levelProblem(ctx, level)
		if err == nil {
			had = append(had, level)
			continue
		}
		st.Info["no sandbox "+level] = err.Error()
		if level == s.sandbox.level {
			st.Problems = append(st.Problems, fmt.Sprintf("[exc] sandbox = %q is not to be had here, and no code is run: %v", level, err))
		}
	}
	st.Info["sandbox"] = s.sandbox.level
	st.Info["sandboxes"] = strings.Join(had, ", ")
	if slices.Contains(had, levelReadOnly) {
		host := s.hostFor(ctx)
		st.Info["sandbox means"] = strings.Join(host.Means(), ", ")
		if host.NoNamespaces != nil {
			st.Info["no namespaces"] = host.NoNamespaces.Error()
		}
	}
	s.sandbox.tellLimits(st)
}

// tellLimits adds which limits are configured and not enforced, and why there
// are no control groups.
func (b *sandbox) tellLimits(st *proto.Stats) {
	weak := b.limits.Names()
	if b.tree != nil {
		weak = b.tree.Unlimited(b.limits)
	} else {
		st.Info["no control groups"] = b.noTree.Error()
	}
	if len(weak) > 0 {
		st.Info["limits not enforced"] = strings.Join(weak, ", ")
	}
}
