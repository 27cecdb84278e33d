package main

import (
	"bytes"
	"errors"
	"io"
	"net"
)

// pong has the length of a service's answer to a ping.
const pong = `{"type":"pong","service":"exc","version":"0123456","proto":1,"uptime_s":0}`

var pongFrame = append([]byte{0, 0, 0, byte(len(pong))}, pong...)

// echo is a raw server: it answers each read with a fixed reply.
func echo() error {
	l, err := listener()
	if err != nil {
		return err
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(nc)
	}
}

func answer(nc net.Conn) {
	defer nc.Close()
	buf := make([]byte, 4096)
	for {
		n, err := nc.Read(buf)
		if err != nil {
			return
		}
		// A ping is answered with a pong, any other request with ok.
		reply := pongFrame
		if !bytes.HasSuffix(buf[:n], []byte(pingRequest)) {
			reply = okFrame
		}
		if _, err := nc.Write(reply); err != nil {
			return
		}
	}
}

const (
	pingRequest = `{"type":"ping"}`
	ok          = `{"type":"ok"}`
)

var okFrame = append([]byte{0, 0, 0, byte(len(ok))}, ok...)

var errAnswer = errors.New("the answer is an error")

// exchange writes a frame and reads one, without pkg/wire.
func exchange(nc net.Conn, frame, buf []byte) error {
	if _, err := nc.Write(frame); err != nil {
		return err
	}
	got := 0
	for got < 4 || got < 4+int(buf[1])<<16+int(buf[2])<<8+int(buf[3]) {
		n, err := nc.Read(buf[got:])
		if got += n; err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	if bytes.HasPrefix(buf[4:got], []byte(`{"type":"error"`)) {
		return errors.Join(errAnswer, errors.New(string(buf[4:got])))
	}
	return nil
}
