package approval

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"zino/proto"
)

// RequesterOf returns a user with the name that the host has for it.
func RequesterOf(uid int) proto.Requester {
	r := proto.Requester{UID: uid}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		r.User = u.Username
	}
	return r
}

// homeOf returns a user's home directory without symbolic links, "" if it is unknown.
func homeOf(uid int) string {
	home := os.Getenv("HOME")
	if uid != os.Geteuid() || !filepath.IsAbs(home) {
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return ""
		}
		home = u.HomeDir
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		return real
	}
	return home
}

// CallOf returns what grants are compared with.
func CallOf(c proto.AskedCall, session string, uid int) Call {
	return Call{AskedCall: c, Session: session, UID: uid, Home: homeOf(uid)}
}

// Approvers are the users who may answer requests, as [gate] approvers has them.
type Approvers []string

// Allow returns the error denied if a user may not answer a request. The user of the daemon
// itself may: it can read the daemon's key.
func (list Approvers) Allow(uid int, a proto.Approval) error {
	if uid == os.Geteuid() || slices.ContainsFunc(list, func(who string) bool { return is(uid, who, a) }) {
		return nil
	}
	return proto.Errorf(proto.CodeDenied, "uid %d may not answer %s; approvers: %s", uid, a.ID, strings.Join(list, ", "))
}

func is(uid int, who string, a proto.Approval) bool {
	switch group, isGroup := strings.CutPrefix(who, "group:"); {
	case who == "root":
		return uid == 0
	case who == "requester":
		return uid == a.By.UID && uid >= 0
	case isGroup:
		g, err := user.LookupGroup(group)
		if err != nil {
			return false
		}
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return false
		}
		ids, err := u.GroupIds()
		return err == nil && slices.Contains(ids, g.Gid)
	}
	if who == strconv.Itoa(uid) {
		return true
	}
	u, err := user.Lookup(who)
	return err == nil && u.Uid == strconv.Itoa(uid)
}
