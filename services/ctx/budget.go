package assemble

// bytesPerToken is what a token is taken for. It is an estimate: which text is
// how many tokens is known to the model's maker alone. English prose has about
// four bytes to a token, source code and other alphabets have fewer.
const bytesPerToken = 4

// tokens estimates the tokens of so many bytes, rounded up.
func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// budget is how many tokens a part of a context may take; 0: any number. The
// part is measured as it is sent: its messages as JSON, with the commas between
// them.
type budget int

// holds reports whether so many bytes are within the budget.
func (b budget) holds(bytes int) bool { return b <= 0 || tokens(bytes) <= int(b) }
