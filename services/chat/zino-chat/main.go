// Zino-chat is the interactive terminal of Zino. zino starts it, with a socket as file
// descriptor 3.
package main

import (
	"fmt"
	"os"

	"zino/pkg/rpc"
	"zino/services/chat"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("zino-chat", rpc.VersionText())
		return
	}
	os.Exit(chat.Run(os.NewFile(3, "zino")))
}
