package exc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zino/proto"
)

// volley is the code of all attacks, and what its victims are.
func (a *arena) volley(t *testing.T) (code string, harms []harm) {
	t.Helper()
	var b strings.Builder
	b.WriteString(a.env() + "T=$(mktemp -d)\n")
	for i, x := range attacks {
		h := harm{victim: filepath.Join(a.outside, fmt.Sprint("victim", i)), made: filepath.Join(a.outside, fmt.Sprint("new", i))}
		mustWrite(t, h.victim, "intact\n")
		harms = append(harms, h)
		if !x.rootOnly || os.Geteuid() == 0 {
			fmt.Fprintf(&b, "echo '@@%d'; ( V=%s NEW=%s\n%s\n) 2>&1\n", i, h.victim, h.made, x.code)
		}
	}
	b.WriteString("echo '@@end'; rm -rf \"$T\"\n")
	return b.String(), harms
}

// suffer has an arena be attacked at a level and gives, by the attacks' names,
// what became of them.
func suffer(t *testing.T, level string) map[string]string {
	mark(t)
	a := newArena(t, nil)
	a.makeSetuid(t)
	name := a.at(level)
	if err := a.levelProblem(t.Context(), name); err != nil {
		a.mustRefuse(t, name, err)
		return nil
	}
	code, harms := a.volley(t)
	r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: proto.Level(name), Root: a.root})
	if err != nil || r.ExitCode != 0 || !strings.Contains(r.Stdout, "@@end") || r.Confinement.Sandbox != proto.Level(name) {
		t.Errorf("%s: %+v, %v", level, r, err)
		return nil
	}
	a.look(r.Stdout, harms)
	table := map[string]string{}
	for i, x := range attacks {
		if !strings.Contains(r.Stdout, fmt.Sprintf("@@%d\n", i)) {
			continue
		}
		worked := strings.Contains(harms[i].printed, pwned)
		if x.worked != nil {
			worked = x.worked(a, harms[i])
		}
		table[x.name] = map[bool]string{true: "NOT STOPPED", false: "stopped"}[worked]
		if open := slices.Contains(x.open, level); worked != open {
			t.Errorf("%s at %s: worked %v, want %v: %s", x.name, level, worked, open, harms[i].printed)
		}
	}
	return table
}

// look notes what each attack printed, and under which names somebody came.
func (a *arena) look(stdout string, harms []harm) {
	for part := range strings.SplitSeq(stdout, "@@") {
		number, text, _ := strings.Cut(part, "\n")
		if i, err := strconv.Atoi(number); err == nil && i < len(harms) {
			harms[i].printed = text
		}
	}
	hits := a.hitsSoFar()
	for i := range harms {
		harms[i].hits = hits
	}
}

// TestAttacks holds every attack against every level.
func TestAttacks(t *testing.T) {
	tables := map[string]map[string]string{}
	for _, level := range tableLevels {
		t.Run(level, func(t *testing.T) { tables[level] = suffer(t, level) })
	}
	var all strings.Builder
	fmt.Fprintf(&all, "%-30s", "as user "+fmt.Sprint(os.Geteuid()))
	for _, level := range tableLevels {
		fmt.Fprintf(&all, "%-16s", level)
	}
	for _, x := range attacks {
		fmt.Fprintf(&all, "\n%-30s", x.name)
		for _, level := range tableLevels {
			fmt.Fprintf(&all, "%-16s", tables[level][x.name])
		}
	}
	t.Logf("\n%s", all.String())
}

// Confined code cannot kill its supervisor.
func TestKillingTheSupervisor(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	for _, level := range tableLevels {
		name := a.at(level)
		if a.levelProblem(t.Context(), name) == nil {
			r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "kill -9 $PPID; exit 3", Sandbox: proto.Level(name), Root: a.root})
			if lost := strings.Contains(r.Stderr, "supervisor of this run was killed"); err != nil || lost != (level == levelOff) || !lost && r.ExitCode != 3 {
				t.Errorf("%s: %+v, %v", level, r, err)
			}
		}
	}
}

// mustRefuse checks that a level that is not to be had is an error with the
// reason.
func (a *arena) mustRefuse(t *testing.T, level string, why error) {
	t.Helper()
	_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo pwned", Sandbox: proto.Level(level), Root: a.root})
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, why.Error()) {
		t.Errorf("%s: got %v, want the error unavailable with: %v", level, err, why)
	}
}

// makeSetuid puts a program in the root that runs as another user, if that can
// be done.
func (a *arena) makeSetuid(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	id, err := os.ReadFile("/usr/bin/id")
	file := filepath.Join(a.root, "setuid")
	if err == nil {
		err = errors.Join(os.WriteFile(file, id, 0o755), os.Chown(file, 65534, -1), unix.Chmod(file, 0o4755))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(a.root, 0o711); err != nil {
		t.Fatal(err)
	}
}
