package gate

// Commands returns what a command line does as it is decided: its simple commands and its
// redirections, in their order.
func Commands(command string) (list []string) {
	for _, p := range partsOf(command, nil) {
		list = append(list, p.source)
	}
	return list
}

// CheckPattern returns what is wrong with a pattern of commands.
func CheckPattern(pattern string) error { return new(commandPattern).UnmarshalText([]byte(pattern)) }

// CoversCommand reports whether a pattern allows a command line as that of a rule would: it
// matches every simple command, none of which is in doubt. env are patterns of the variables
// that may be set. A redirection to or from a file is not covered.
func CoversCommand(pattern, command string, env []string) bool {
	var p commandPattern
	if p.UnmarshalText([]byte(pattern)) != nil {
		return false
	}
	matched := false
	for _, part := range partsOf(command, env) {
		switch {
		case part.doubt != "", part.tool != "bash", len(part.words) == 0:
			return false
		case part.pass:
		case !p.match(part.words, part.open):
			return false
		default:
			matched = true
		}
	}
	return matched
}

// CheckPathPattern returns what is wrong with a pattern of paths.
func CheckPathPattern(pattern string) error { return new(pathPattern).UnmarshalText([]byte(pattern)) }

// CoversPath reports whether a pattern of paths allows a call of read, write or edit as that
// of a rule would.
func CoversPath(pattern string, c *Call) bool {
	var p pathPattern
	return p.UnmarshalText([]byte(pattern)) == nil && p.match(c.locate(c.Path), false)
}

// PatternOf returns the pattern of paths that matches the file of a call alone, "" if its
// path cannot be resolved.
func PatternOf(c *Call) string { return escape(c.locate(c.Path).real) }

// CoversHost reports whether a pattern of hosts matches a host.
func CoversHost(pattern, host string) bool {
	var p hostPattern
	return host != "" && p.UnmarshalText([]byte(pattern)) == nil && p.match(host)
}

// SameInput reports whether two inputs of calls have the same tokens: blanks between them,
// and the escapes of strings, make no difference.
func SameInput(a, b []byte) bool {
	x, err := canonical(a)
	if err != nil {
		return false
	}
	y, err := canonical(b)
	return err == nil && x == y
}
