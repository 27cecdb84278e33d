package mcp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"

	"zino/pkg/gate"
	"zino/pkg/text"
	"zino/proto"
)

const (
	searchLimit  = 5
	searchTokens = 2000 // of the schemas of a search
	furtherMax   = 20   // names of a search by words
	bytesToken   = 4
)

// words splits a name or a text into words: at _, - and where the case changes.
func words(s string) (list []string) {
	var word []rune
	flush := func() {
		if len(word) > 0 {
			list = append(list, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	var last rune
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case unicode.IsUpper(r) && unicode.IsLower(last):
			flush()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		last = r
	}
	flush()
	return list
}

// found is a tool that can be searched.
type found struct {
	d     *definition
	tool  *toolInfo
	score float64
}

// tools returns the tools of servers that may be used.
func (s *Service) tools(list []*definition) (all []found) {
	for _, d := range list {
		known := s.catalog.get(d.hash)
		for i := range known.Tools {
			if d.allows(known.Tools[i].Name) {
				all = append(all, found{d: d, tool: &known.Tools[i]})
			}
		}
	}
	return all
}

// rank orders tools by the words of a query: each counts by its rarity, and double in a
// name. A word also counts, for less, where another one begins with it.
func rank(query string, all []found) (hits []found) {
	asked := slices.Compact(slices.Sorted(slices.Values(words(query))))
	type parts struct{ name, text []string }
	split := make([]parts, len(all))
	for i, f := range all {
		split[i] = parts{append(words(f.tool.Name), words(f.d.name)...), words(f.tool.Description)}
	}
	weight := func(list []string, word string) float64 {
		best := 0.0
		for _, w := range list {
			switch {
			case w == word:
				return 1
			case len(word) >= 3 && strings.HasPrefix(w, word), len(w) >= 3 && strings.HasPrefix(word, w) && len(word)-len(w) <= 3:
				best = 0.6
			}
		}
		return best
	}
	for _, word := range asked {
		having := 0
		for _, p := range split {
			if weight(p.name, word) > 0 || weight(p.text, word) > 0 {
				having++
			}
		}
		if having == 0 {
			continue
		}
		idf := math.Log(1 + float64(len(all))/float64(having))
		for i, p := range split {
			all[i].score += idf * (2*weight(p.name, word) + weight(p.text, word))
		}
	}
	for _, f := range all {
		if f.score > 0 {
			hits = append(hits, f)
		}
	}
	slices.SortStableFunc(hits, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.d.name, b.d.name), strings.Compare(a.tool.Name, b.tool.Name))
	})
	return hits
}

// Search finds tools. Servers whose tools are not known are started.
func (s *Service) Search(ctx context.Context, req proto.SearchTools) (proto.FoundTools, error) {
	reply := proto.FoundTools{Tools: []proto.MCPTool{}, Names: []string{}}
	list, _ := s.definitions(scope{req.Root, req.Project, req.Client})
	if req.Server != "" {
		d, err := s.find(scope{req.Root, req.Project, req.Client}, req.Server)
		if err != nil {
			return reply, err
		}
		list = []*definition{d}
	}
	list = slices.DeleteFunc(list, func(d *definition) bool { return !d.enabled() })
	s.learnAll(ctx, list, req.ServerTokens, &reply)
	if ctx.Err() != nil {
		return reply, ctx.Err()
	}
	all := s.tools(list)
	if strings.TrimSpace(req.Query) == "" {
		for _, d := range list {
			var names []string
			for _, f := range all {
				if f.d == d {
					names = append(names, f.tool.Name)
				}
			}
			if len(names) > 0 {
				reply.Names = append(reply.Names, d.name+": "+strings.Join(names, ", "))
				s.instruct(&reply, d)
			}
		}
		return reply, nil
	}
	hits := rank(req.Query, all)
	limit, room := cmp.Or(max(req.Limit, 0), searchLimit), searchTokens*bytesToken
	for i, f := range hits {
		size := len(f.tool.Input) + len(f.tool.Description)
		if len(reply.Tools) == i && i < limit && (i == 0 || size <= room) {
			room -= size
			reply.Tools = append(reply.Tools, s.tool(f))
			s.instruct(&reply, f.d)
			continue
		}
		if reply.More++; len(reply.Names) < furtherMax {
			reply.Names = append(reply.Names, f.d.name+"."+f.tool.Name+": "+firstSentence(f.tool.Description))
		}
	}
	return reply, nil
}

// tool returns a tool for an answer.
func (s *Service) tool(f found) proto.MCPTool {
	return proto.MCPTool{Server: f.d.name, Name: f.tool.Name, Description: f.tool.Description, Input: f.tool.Input, ReadOnly: f.tool.ReadOnly}
}

// instruct adds what a server says about its use.
func (s *Service) instruct(reply *proto.FoundTools, d *definition) {
	if instructions := s.catalog.get(d.hash).Instructions; instructions != "" {
		if reply.Instructions == nil {
			reply.Instructions = map[string]string{}
		}
		reply.Instructions[d.name] = instructions
	}
}

func firstSentence(s string) string {
	s = text.OneLine(s)
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i+1]
	}
	return text.Clip(s, 160)
}

// learnAll starts the servers whose tools are not known, side by side, and notes in reply
// which could not be asked.
func (s *Service) learnAll(ctx context.Context, list []*definition, tokens []string, reply *proto.FoundTools) {
	var mu sync.Mutex
	var problems []string
	var wg sync.WaitGroup
	for _, d := range list {
		if d.problem != "" {
			problems = append(problems, d.name+": "+d.problem)
			continue
		}
		if s.catalog.get(d.hash).Listed {
			continue
		}
		wg.Go(func() {
			in, err := s.acquire(ctx, d, "")
			needed := gate.Needed(err)
			if needed != nil {
				if token := tokenFor(needed, tokens); token != "" {
					in, err = s.acquire(ctx, d, token)
				}
			}
			if err == nil {
				in.release()
				return
			}
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if needed = gate.Needed(err); needed != nil {
				reply.Needed = append(reply.Needed, needed)
			}
			switch err := s.explain(ctx, d, err); {
			case strings.HasPrefix(err.Error(), d.name+":"):
				problems = append(problems, err.Error())
			default:
				problems = append(problems, fmt.Sprintf("%s: %v", d.name, err))
			}
		})
	}
	wg.Wait()
	slices.Sort(problems)
	reply.Problems = problems
}

// tokenFor returns the token of the server that needs one, or "".
func tokenFor(needed *proto.ApprovalNeeded, tokens []string) string {
	for _, token := range tokens {
		if definition, ok := gate.ClaimedServer(token); ok && definition == needed.Digest {
			return token
		}
	}
	return ""
}
