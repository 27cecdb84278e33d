package markdown

import (
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"

	"zino/pkg/text"
	"zino/services/chat/screen"
)

const (
	codeMax     = 256 << 10 // longer code is shown without colours
	codeContext = 8 << 10   // bytes before a batch that its colours depend on
	codeIndent  = "  "
)

// code returns the lines of a block of code.
func (r *renderer) code(source, language string) []string {
	source = strings.TrimSuffix(source, "\n")
	if source == "" {
		return nil
	}
	return r.colored("", source, language)
}

// colored returns the lines of code that follows other code of the same block.
func (r *renderer) colored(before, source, language string) []string {
	plain := r.plainLines(source)
	lexer := lexerOf(language)
	if lexer == nil || r.Palette.Mono || len(source) > codeMax {
		return r.indented(plain)
	}
	if len(before) > codeContext {
		before = before[len(before)-codeContext:]
		before = before[strings.IndexByte(before, '\n')+1:]
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, before+plain)
	if err != nil {
		return r.indented(plain)
	}
	var painted, same strings.Builder
	skip := len(before)
	for _, token := range tokens.Tokens() {
		same.WriteString(token.Value)
		value := token.Value[min(skip, len(token.Value)):]
		skip -= len(token.Value) - len(value)
		painted.WriteString(r.Palette.Paint(tokenStyle(token.Type), text.Visible(value)))
	}
	if strings.TrimSuffix(same.String(), "\n") != strings.TrimSuffix(before+plain, "\n") {
		return r.indented(plain) // the lexer changed the text
	}
	if !strings.HasSuffix(plain, "\n") {
		return r.indented(strings.TrimSuffix(painted.String(), "\n"))
	}
	return r.indented(painted.String())
}

// indented returns the lines of code, ready to be printed.
func (r *renderer) indented(source string) []string {
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = codeIndent + r.Widths.ExpandTabs(line, 0)
		}
	}
	return lines
}

// lexerOf returns the lexer of a language, or nil.
func lexerOf(language string) chroma.Lexer {
	if language == "" {
		return nil
	}
	return lexers.Get(language)
}

// tokenStyle returns the style of a kind of token.
func tokenStyle(t chroma.TokenType) screen.Style {
	switch {
	case t.InCategory(chroma.Comment):
		return screen.Style{Color: screen.Gray}
	case t.InCategory(chroma.Keyword):
		return screen.Style{Color: screen.Magenta}
	case t.InSubCategory(chroma.LiteralString):
		return screen.Style{Color: screen.Green}
	case t.InSubCategory(chroma.LiteralNumber):
		return screen.Style{Color: screen.Yellow}
	case t == chroma.NameFunction || t == chroma.NameFunctionMagic:
		return screen.Style{Color: screen.Blue}
	}
	return screen.Style{}
}
