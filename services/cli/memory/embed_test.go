package memory

import (
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestEmbedIsDescribed(t *testing.T) {
	done := proto.EmbeddedHard{Provider: "ollama", Model: "m", Memories: 9, Missing: 4, Tokens: 70}
	zinotest.Equal(t, "dry run", describeEmbed(done, true, " at http://h"), "About 70 tokens would be sent to ollama/m at http://h: 4 texts without a vector, of 9 memories in all.")
	zinotest.Equal(t, "dry run without work", describeEmbed(proto.EmbeddedHard{Provider: "ollama", Model: "m", Memories: 9}, true, ""),
		"Nothing would be sent to ollama/m: all memories have vectors.")
	zinotest.Equal(t, "run without work", describeEmbed(proto.EmbeddedHard{Provider: "ollama", Model: "m", Memories: 9}, false, " at http://h"),
		"Nothing to do: all memories have vectors of ollama/m.")
	done.Embedded, done.TooLong, done.Exhausted = 5, 1, true
	zinotest.Equal(t, "run", describeEmbed(done, false, ""),
		"5 texts embedded with 70 tokens by ollama/m; without a vector: 4. Too long for the model: 1. The limit of tokens is reached: run it again for the rest.")
}
