package service

import (
	"errors"
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

// callers are the users and groups that may call this service, and the invalid
// entries of their list.
type callers struct {
	rpc.Callers
	problems []string
}

// callersOf parses a comma-separated list of users and groups: names or numbers,
// groups with the prefix "group:", those that may call some methods only as
// "name=method+method". Root and the process's own user may always call. An unknown
// name is skipped and reported as a problem.
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
			c.problems = append(c.problems, fmt.Sprintf("--callers: skipped %q: %v", name, err))
		}
	}
	return c
}

var errNoMethod = errors.New("no method after the =")

func (c *callers) add(name string) error {
	name, methods, some := strings.Cut(name, "=")
	if group, ok := strings.CutPrefix(name, "group:"); ok {
		gid, err := number(group, groupID)
		switch {
		case err != nil:
			return err
		case some && methods == "":
			return errNoMethod
		case some && c.GroupMethods[gid] == nil:
			if c.GroupMethods == nil {
				c.GroupMethods = map[int][]string{}
			}
			c.GroupMethods[gid] = strings.Split(methods, "+")
			c.mention(fmt.Sprintf("group %s (%s)", group, strings.Join(c.GroupMethods[gid], ", ")))
		case !some && !slices.Contains(c.GIDs, gid):
			c.GIDs = append(c.GIDs, gid)
			c.mention("group " + group)
		}
		return nil
	}
	uid, err := number(name, userID)
	switch {
	case err != nil:
		return err
	case !some:
		c.user(uid, userName(uid))
	case methods == "":
		return errNoMethod
	case c.Methods[uid] == nil:
		if c.Methods == nil {
			c.Methods = map[int][]string{}
		}
		c.Methods[uid] = strings.Split(methods, "+")
		c.mention(fmt.Sprintf("%s (%s)", userName(uid), strings.Join(c.Methods[uid], ", ")))
	}
	return nil
}

func (c *callers) user(uid int, name string) {
	if !slices.Contains(c.UIDs, uid) {
		c.UIDs = append(c.UIDs, uid)
		c.mention(name)
	}
}

func (c *callers) mention(name string) {
	if c.Text != "" {
		c.Text += ", "
	}
	c.Text += name
}

// apply makes s refuse other callers and report the list in its stats.
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

// number returns the id of a user or group, given as number or name.
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

// userName returns the name of a user, or "uid N" if it is unknown.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}
