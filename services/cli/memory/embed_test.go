package memory

import (
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

func TestEmbedIsDescribed(t *testing.T) {
	done := proto.EmbeddedHard{Provider: "ollama", Model: "m", Memories: 9, Missing: 4, Tokens: 70}
	zinotest.Equal(t, "dry run", describeEmbed(done, true, " at http://h"), "9 memories, 4 texts without a vector: about 70 tokens would be sent to ollama/m at http://h.")
	done.Embedded, done.TooLong, done.Exhausted = 5, 1, true
	zinotest.Equal(t, "run", describeEmbed(done, false, ""),
		"5 texts embedded with 70 tokens by ollama/m; 4 have no vector. 1 are too long for the model. The limit of tokens is reached: run it again for the rest.")
}
