package exc

import (
	"errors"
	"slices"

	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/protect"
)

// unconfined is the refusal of a run that was not started after all.
func (a *arrangement) unconfined(o outcome) error {
	if o.verdict != unconfined {
		return nil
	}
	return &refusal{a.level, errors.New(o.why)}
}

// conclude checks what the run left in protected places, and adds to its standard
// error what was found, and why writes were refused.
func (a *arrangement) conclude(o outcome) (outcome, error) {
	var lines []string
	if a.protected != nil {
		lines = a.protected.Explain(o.stdout, o.stderr, o.exitCode() != 0)
	}
	a.checkProtected()
	lines = append(lines, protect.Lines(a.violations)...)
	if a.gap != "" {
		lines = append(lines, a.gap)
	}
	for _, line := range lines {
		o.stderr = withLine(o.stderr, line)
	}
	return o, a.unconfined(o)
}

// report says how the run went.
func (a *arrangement) report(o outcome) *proto.Confinement {
	c := &proto.Confinement{Sandbox: proto.Level(a.level), Network: a.network, Means: a.means, Unlimited: a.weak, Limit: o.limit()}
	if a.gap != "" {
		c.Unlimited = append(slices.Clone(c.Unlimited), "scan")
	}
	for _, v := range a.violations {
		if name := v.Where(); name != "" {
			c.Refused = append(c.Refused, name)
		}
	}
	if a.level == levelUnit {
		takeOver(c, o.unit)
	}
	if a.group == nil {
		return c
	}
	u := a.group.Usage()
	ms := u.CPU.Milliseconds()
	c.CPUMS = &ms
	if u.Peak >= 0 {
		c.PeakBytes = &u.Peak
	}
	switch {
	case c.Limit != "":
	case u.OutOfMemory > 0:
		c.Limit = cgroup.Memory
	case u.TasksDenied > 0 && o.exitCode() != 0:
		c.Limit = cgroup.Tasks
	}
	return c
}

// takeOver fills in what a unit said of itself, if it came to that.
func takeOver(c *proto.Confinement, e *unitEnd) {
	if e == nil {
		return
	}
	c.CPUMS, c.PeakBytes, c.Unlimited = e.CPUMS, e.PeakBytes, e.Unlimited
	if c.Limit == "" {
		c.Limit = e.Limit
	}
}

// limit names the limit that ended a run, as far as its end shows.
func (o outcome) limit() string {
	switch {
	case o.timedOut:
		return "time"
	case o.flooded:
		return "output"
	}
	return ""
}
