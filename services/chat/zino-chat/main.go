// Zino-chat is the interactive terminal of Zino. zino starts it, with a pipe as file
// descriptor 3.
package main

import (
	"os"

	"zino/services/chat"
)

func main() { os.Exit(chat.Run(os.NewFile(3, "zino"))) }
