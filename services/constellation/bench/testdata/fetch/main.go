// Command fetch posts standard input to a URL and copies the answer to standard output:
// the floor of zino exec.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if err := fetch(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func fetch(url string) error {
	res, err := http.Post(url, "application/json", os.Stdin)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, res.Body)
	return errors.Join(err, res.Body.Close())
}
