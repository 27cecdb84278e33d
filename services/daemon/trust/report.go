package trust

import (
	"strconv"
	"strings"

	"zino/pkg/text"
	"zino/proto"
)

// shownMax is how many names a list for people has.
const shownMax = 8

// Report describes the files of a root, with the texts for people.
func Report(root, home string, store *Store) (proto.TrustReport, error) {
	all, err := load(root, home, store)
	report := proto.TrustReport{Files: []proto.TrustFile{}}
	if err != nil {
		return report, err
	}
	for _, f := range all {
		report.Files = append(report.Files, f.TrustFile)
	}
	if len(all) > 0 {
		top, err := places(root, home)
		if err != nil {
			return report, err
		}
		report.Question, report.Unused = question(top[0], all), unused(top[0], all)
	}
	return report, nil
}

// question asks about all files that have no answer.
func question(root string, all []found) string {
	var parts, scripts []string
	count, changed := map[string]int{}, map[string]int{} // by kind
	for _, f := range all {
		if f.State != proto.TrustNew && f.State != proto.TrustChanged {
			continue
		}
		where := nameIn(root, f.Path)
		if f.State == proto.TrustChanged {
			where += " has changed"
		}
		scripts = append(scripts, f.scripts...)
		switch f.Kind {
		case proto.TrustMCP:
			if len(f.names) > 0 {
				where += ": " + names(f.names)
			}
			parts = append(parts, text.Count(f.count, "MCP server")+" ("+where+")")
		case proto.TrustHooks:
			parts = append(parts, text.Count(f.count, "hook")+" ("+where+")")
		default:
			count[f.Kind]++
			if f.State == proto.TrustChanged {
				changed[f.Kind]++
			}
		}
	}
	for _, kind := range []string{proto.TrustSkill, proto.TrustCommand} {
		if n := count[kind]; n > 0 {
			part := text.Count(n, kind)
			if changed[kind] > 0 {
				part += " (" + strconv.Itoa(changed[kind]) + " changed)"
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	q := "This project brings: " + strings.Join(parts, ", ") + "."
	if len(scripts) > 0 {
		q += " They run files that are not covered by your answer: " + names(scripts) + "."
	}
	return q + " Use them?"
}

// unused says which files without an answer are not used.
func unused(root string, all []found) string {
	var list []string
	for _, f := range all {
		if f.State == proto.TrustNew || f.State == proto.TrustChanged {
			list = append(list, nameIn(root, f.Path))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "Not used, not trusted: " + names(list) + ". See: zino trust"
}

// names lists names for people.
func names(list []string) string {
	rest := len(list) - shownMax
	var shown []string
	for _, name := range list[:min(len(list), shownMax)] {
		shown = append(shown, text.Clip(text.VisibleLine(name), 80))
	}
	s := strings.Join(shown, ", ")
	if rest > 0 {
		s += " and " + strconv.Itoa(rest) + " more"
	}
	return s
}
