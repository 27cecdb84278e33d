// Zino-attach prepares images and PDF files for a model: it scales what is too large, and
// drops metadata. zino starts it when a prompt has images, so that zino itself links no
// decoder of foreign bytes.
//
// Each line of standard input is an object: {"path":"/home/ada/shot.png"}, or
// {"name":"shot.png","data":"…"} with the content in base64. It is answered by a line of
// standard output with a FileData of the protocol, or by {"error":"…"}. --version prints
// the version.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"zino/pkg/attach"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// lineMax is the size of a line: the largest file in base64.
const lineMax = attach.FileMax/3*4 + 4096

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("zino-attach", rpc.VersionText())
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "zino-attach:", err)
		os.Exit(1)
	}
}

// request is a line of standard input.
type request struct {
	Path string `json:"path,omitzero"`
	Name string `json:"name,omitzero"`
	Data []byte `json:"data,omitzero"`
}

// refusal is the answer for a file that cannot be prepared.
type refusal struct {
	Error string `json:"error"`
}

func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4096), lineMax)
	for lines.Scan() {
		var req request
		if err := wire.Decode(lines.Bytes(), &req); err != nil {
			return err
		}
		var answer any
		file, err := prepare(req)
		if answer = file; err != nil {
			answer = refusal{err.Error()}
		}
		line, err := wire.AppendObject(nil, "", answer)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

// prepare reads and prepares a file.
func prepare(req request) (proto.FileData, error) {
	file := proto.FileData{Name: req.Name, Data: req.Data}
	if req.Path != "" {
		opened, err := os.Open(req.Path)
		if err != nil {
			return file, err
		}
		defer opened.Close()
		if info, err := opened.Stat(); err == nil && !info.Mode().IsRegular() {
			return file, fmt.Errorf("%s is not a file", req.Path)
		}
		file.Name = req.Path
		if file.Data, err = io.ReadAll(io.LimitReader(opened, attach.FileMax+1)); err != nil {
			return file, err
		}
	}
	file, _, err := attach.Prepare(file)
	return file, err
}
