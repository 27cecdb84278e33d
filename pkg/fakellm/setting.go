package fakellm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// set takes one setting of a heading.
func (t *Turn) set(key, value string) (err error) {
	switch key {
	case "match":
		t.Match = value
	case "wait":
		t.Wait = value
	case "pause":
		t.Pause = value
	case "whole":
		t.Whole = true
	case "event":
		t.Event = value
	case "type":
		t.Type = value
	case "header":
		t.Header = append(t.Header, value)
	case "redirect":
		t.Redirect = value
	case "size":
		t.Size, err = strconv.Atoi(value)
	case "bytes":
		t.Bytes, err = parseCount(key, value)
	case "times":
		t.Times, err = parseTimes(value)
	case "refuses":
		t.Refuses = strings.Split(value, ",")
	case "end":
		t.End, err = parseEnd(value)
	case "fault":
		t.Faults, err = parseFaults(t.Faults, value)
	default:
		err = t.setContent(key, value)
	}
	return err
}

// setContent takes a setting of what a reply holds besides its text.
func (t *Turn) setContent(key, value string) (err error) {
	switch key {
	case "reasoning":
		t.Reasoning = value
	case "reasoning_key":
		t.ReasoningKey, err = parseReasoningKey(value)
	case "finish":
		t.Finish = value
	case "usage":
		t.Usage, err = parseUsage(value)
	case "nousage":
		t.NoUsage = true
	case "cost":
		t.Cost, err = parseCost(value)
	default:
		err = fmt.Errorf("unknown setting %q", key)
	}
	return err
}

func parseCount(key, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s: not a number from 1", key, value)
	}
	return n, nil
}

func parseTimes(value string) (int, error) {
	if value == "forever" {
		return Forever, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("times=%s: neither a number from 1 nor forever", value)
	}
	return n, nil
}

func parseEnd(value string) (End, error) {
	switch end := End(value); end {
	case "done":
		return Done, nil
	case Finish, Mark, Cut, Stall, Hangup:
		return end, nil
	}
	return "", fmt.Errorf("end=%s: none of done, finish, mark, cut, stall, hangup", value)
}

func parseFaults(to []Fault, value string) ([]Fault, error) {
	for name := range strings.SplitSeq(value, ",") {
		if !slices.Contains(Faults(), Fault(name)) {
			return nil, fmt.Errorf("fault=%s: none of %v", name, Faults())
		}
		to = append(to, Fault(name))
	}
	return to, nil
}

// The forms of reasoning on the OpenAI wire, besides reasoning_content.
const (
	keyReasoning = "reasoning"
	keyDetails   = "reasoning_details"
	keyExtra     = "extra_content"
)

func parseReasoningKey(value string) (string, error) {
	switch value {
	case "reasoning_content", keyReasoning, keyDetails, keyExtra:
		return value, nil
	}
	return "", fmt.Errorf("reasoning_key=%s: none of reasoning_content, reasoning, reasoning_details, extra_content", value)
}

func parseUsage(value string) (*Usage, error) {
	var u Usage
	fields := []*int{&u.In, &u.Out, &u.CacheRead, &u.CacheWrite, &u.Reasoning}
	words := strings.Split(value, ",")
	ok := len(words) >= 2 && len(words) <= len(fields)
	for i := 0; ok && i < len(words); i++ {
		n, err := strconv.Atoi(words[i])
		ok = err == nil && n >= 0
		*fields[i] = n
	}
	if !ok {
		return nil, fmt.Errorf("usage=%s: not IN,OUT[,CACHE_READ[,CACHE_WRITE[,REASONING]]]", value)
	}
	if u.CacheRead > u.In-u.CacheWrite || u.Reasoning > u.Out {
		return nil, fmt.Errorf("usage=%s: IN counts the cached tokens too, and OUT those of the reasoning", value)
	}
	return &u, nil
}

func parseCost(value string) (json.Number, error) {
	if !json.Valid([]byte(value)) || strings.Trim(value, "0123456789.eE+-") != "" {
		return "", fmt.Errorf("cost=%s: not a number", value)
	}
	return json.Number(value), nil
}
