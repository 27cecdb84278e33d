package chat

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"zino/proto"
)

// remedy is a row of the table of what to do about an error. A row matches if all of its
// conditions do.
type remedy struct {
	status []int        // of the provider's answer
	codes  []proto.Code // of the error
	text   string       // substrings of the message or the details, in lower case: | means or
	try    string       // one command; $1 is a match of find, and the row needs one
	find   *regexp.Regexp
	whole  bool // the details say no more than that
}

var (
	budgetKey   = regexp.MustCompile(`raise (\[budget\] \w+(?: in \S+?)?)(?:[;,.]?\s|[;,.]?$)`)
	nearestName = regexp.MustCompile(`the nearest are ([^\s,:]+)`)
)

// remedies is the table. The texts are those that rtr, mem and the services put into their
// errors.
var remedies = []remedy{
	{codes: []proto.Code{proto.CodeBudget}, find: budgetKey, try: "raise $1 (zino config edit)"},
	{codes: []proto.Code{proto.CodeBudget}, try: "/cost"},
	{text: "base url of such a server mostly ends in /v1", try: "add /v1 to [api] base_url (zino config edit)"},
	{text: "no space left|disk quota exceeded", try: "free disk space (df -h), then send the message again"},
	{text: "the key is missing|no key|no model is connected", try: "/provider"},
	{status: []int{401, 403}, try: "zino auth set $PROVIDER", whole: true},
	{text: "api key not valid|invalid api key|invalid x-api-key", try: "zino auth set $PROVIDER"},
	{codes: []proto.Code{proto.CodeTooLarge}, text: "context|too long|too large|prompt|token", try: "/handoff GOAL", whole: true},
	{text: "zino handoff", try: "/handoff GOAL"},
	{status: []int{404}, find: nearestName, try: "/model $1"},
	{status: []int{404, 429, 402}, try: "/model"},
	{codes: []proto.Code{proto.CodeLimit}, try: "/model"},
	{text: "quota|credit", status: []int{400}, try: "/model"},
	{text: "no such host|network is unreachable|no route to host|temporary failure in name resolution|name resolution", try: "check the network, or /provider ollama for a model of this host"},
	{text: "permission denied|connection refused|cannot reach|could not connect|cannot connect", try: "/doctor"},
}

// remedyOf returns one command that may help after an error; "": none is known. whole is
// true if the details say no more than that.
func remedyOf(e *proto.Error, provider string) (try string, whole bool) {
	message := e.Message + " " + e.Details
	lower := strings.ToLower(message)
	for _, r := range remedies {
		if len(r.status) > 0 && !slices.Contains(r.status, e.Status) || len(r.codes) > 0 && !slices.Contains(r.codes, e.Code) {
			continue
		}
		if r.text != "" && !slices.ContainsFunc(strings.Split(r.text, "|"), func(part string) bool { return strings.Contains(lower, part) }) {
			continue
		}
		found := ""
		if r.find != nil {
			match := r.find.FindStringSubmatch(message)
			if match == nil {
				continue
			}
			found = match[1]
		}
		switch {
		case !strings.Contains(r.try, "$PROVIDER"):
			return strings.ReplaceAll(r.try, "$1", safe(found)), r.whole
		case provider != offline && provider != "ollama":
			return strings.ReplaceAll(r.try, "$PROVIDER", safe(cmp.Or(provider, providers[0]))), r.whole
		}
		return "/provider", r.whole
	}
	return "", false
}
