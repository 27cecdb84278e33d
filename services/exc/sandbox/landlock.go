package sandbox

import (
	"fmt"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// landlockAlone is the first version that confines without namespaces: it keeps
// signals and abstract sockets to the run.
const landlockAlone = 6

// landlockConfigs are what is restricted in each version, from 1 on.
var landlockConfigs = []landlock.Config{
	landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8, landlock.V9,
}

// landlockVersion is the newest version that the host and this package know, 0
// if there is none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return min(int(v), len(landlockConfigs))
}

// landlock restricts this process to the plan's files.
func (p *Plan) landlock() error {
	if p.Landlock == 0 {
		return nil
	}
	config := landlockConfigs[p.Landlock-1]
	rights := []any{config.HandledAccessFS, config.Scoped}
	if !p.Network && !p.Namespaces {
		rights = append(rights, config.HandledAccessNet)
	}
	exact, err := landlock.NewConfig(rights...)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	rules, err := p.landlockRules()
	if err == nil {
		err = exact.Restrict(rules...)
	}
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// devices are the files of /dev that code gets.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// landlockRules are what the plan permits.
func (p *Plan) landlockRules() ([]landlock.Rule, error) {
	rules := []landlock.Rule{landlock.RWFiles(devices...).IgnoreIfMissing()}
	if p.Namespaces { // what is to be seen at all is settled there
		rules = append(rules, landlock.RODirs("/"), p.writable("/tmp"), p.writable("/dev/shm"))
	} else {
		for _, path := range append(without(p.Read, p.Hidden), "/proc") {
			rules = append(rules, landlock.PathAccess(readRights(path), path).IgnoreIfMissing())
		}
		rules = append(rules, p.writable(p.Tmp))
	}
	if p.Root == "" {
		return rules, nil
	}
	at, err := look(p.Root) // and not by its path once more, which may lead elsewhere by now
	if err != nil {
		return nil, err
	}
	root := "/proc/self/fd/" + strconv.Itoa(at)
	if p.Writable {
		return append(rules, p.writable(root)), nil
	}
	return append(rules, landlock.RODirs(root)), nil
}

// writable is the rule for a directory in which everything is permitted. Moving
// files between directories came with version 2.
func (p *Plan) writable(dir string) landlock.Rule {
	rule := landlock.RWDirs(dir)
	if p.Landlock >= 2 {
		rule = rule.WithRefer()
	}
	return rule
}

// readRights are the rights to read and to run what is at path.
func readRights(path string) landlock.AccessFSSet {
	const file = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return file
	}
	return file | unix.LANDLOCK_ACCESS_FS_READ_DIR
}
