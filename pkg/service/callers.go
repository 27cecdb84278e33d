package service

import (
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/rpc"
	"zino/proto"
)

// callers are who may call this service, and what is wrong with the list.
type callers struct {
	rpc.Callers
	problems []string
}

// callersOf reads a list of users and groups: names or numbers, groups with
// "group:" in front, commas between. Root and the process's own user are always
// among the callers. A name that this host does not have lets nobody in, and is
// a problem that people are told of.
func callersOf(list string) callers {
	c := callers{}
	c.user(0, "root")
	if own := os.Geteuid(); own != 0 {
		c.user(own, userName(own))
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if err := c.add(name); err != nil {
			c.problems = append(c.problems, fmt.Sprintf("--callers lets nobody in by %q: %v", name, err))
		}
	}
	return c
}

func (c *callers) add(name string) error {
	if group, ok := strings.CutPrefix(name, "group:"); ok {
		gid, err := number(group, groupID)
		if err == nil && !slices.Contains(c.GIDs, gid) {
			c.GIDs = append(c.GIDs, gid)
			c.say("group " + group)
		}
		return err
	}
	uid, err := number(name, userID)
	if err == nil {
		c.user(uid, userName(uid))
	}
	return err
}

func (c *callers) user(uid int, name string) {
	if !slices.Contains(c.UIDs, uid) {
		c.UIDs = append(c.UIDs, uid)
		c.say(name)
	}
}

func (c *callers) say(name string) {
	if c.Text != "" {
		c.Text += ", "
	}
	c.Text += name
}

// apply has s answer nobody else, and tell who they are in its stats.
func (c callers) apply(s *rpc.Server, log *slog.Logger) {
	s.Only(c.Callers)
	for _, problem := range c.problems {
		log.Warn(problem)
	}
	s.OnStats(func(stats *proto.Stats) {
		if stats.Info == nil {
			stats.Info = map[string]string{}
		}
		stats.Info["callers"] = c.Text
		stats.Problems = append(stats.Problems, c.problems...)
	})
}

// number is the number of a user or group, whose name find knows.
func number(name string, find func(string) (string, error)) (int, error) {
	text := name
	if _, err := strconv.ParseUint(name, 10, 31); err != nil {
		if text, err = find(name); err != nil {
			return 0, err
		}
	}
	return strconv.Atoi(text)
}

func userID(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func groupID(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

// userName is the name of a user, or its number where it has none.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}
