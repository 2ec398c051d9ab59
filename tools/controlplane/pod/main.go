// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command pod is all that the images of tests on real nodes hold: a static
// program that waits, or sends and receives bytes.
//
//	pod pause            wait until told to end
//	pod receive PORT     take one connection, print how many bytes came and
//	                     answer with the count
//	pod send HOST:PORT BYTES
//	                     send so many bytes and print the answer; wait for the
//	                     receiver if it is not there yet
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "pause":
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
		<-end
		return nil
	case len(args) == 2 && args[0] == "receive":
		return receive(args[1])
	case len(args) == 3 && args[0] == "send":
		count, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return fmt.Errorf("BYTES %q: want a number", args[2])
		}
		return send(args[1], count)
	}
	return fmt.Errorf("arguments %q: want pause, receive PORT or send HOST:PORT BYTES", args)
}

func receive(port string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	count, err := io.Copy(io.Discard, conn)
	if err != nil {
		return err
	}
	fmt.Println("received", count)
	_, err = fmt.Fprintln(conn, count)
	return err
}

func send(to string, count int64) error {
	const patience = 30 * time.Second
	var conn net.Conn
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		var err error
		if conn, err = net.DialTimeout("tcp", to, time.Second); err == nil {
			break
		}
		if time.Since(begin) > patience {
			return err
		}
	}
	defer conn.Close()
	if _, err := io.CopyN(conn, zeros{}, count); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 64))
	if err != nil {
		return err
	}
	fmt.Printf("sent %d, the receiver says %s", count, answer)
	return nil
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
