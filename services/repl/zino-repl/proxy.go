package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"

	"zino/pkg/config"
	"zino/pkg/service"
)

// proxyOptions are the flags of the reverse proxy.
type proxyOptions struct {
	url    string
	port   int
	remote bool
}

func (o *proxyOptions) flags() service.Flags {
	return service.Flags{
		Usage: `      --proxy URL       serve the application at URL, with the script in its pages
      --port N          port of the proxy on 127.0.0.1 (default: that of URL + 10000,
                        or the next free one)
      --allow-remote    let URL be on another host
`,
		Define: func(set *flag.FlagSet) {
			set.StringVar(&o.url, "proxy", "", "")
			set.IntVar(&o.port, "port", 0, "")
			set.BoolVar(&o.remote, "allow-remote", false, "")
		},
	}
}

// listen parses the address of the application and opens the listener of the proxy.
func (o *proxyOptions) listen() (*url.URL, net.Listener, error) {
	upstream, err := config.Upstream(o.url, o.remote)
	if err != nil {
		return nil, nil, fmt.Errorf("--proxy: %w", err)
	}
	if o.port < 0 || o.port > maxPort {
		return nil, nil, fmt.Errorf("--port %d is not a port", o.port)
	}
	port, err := strconv.Atoi(upstream.Port())
	if err != nil { // none: that of the scheme
		port = map[string]int{"http": 80, "https": 443}[upstream.Scheme]
	}
	var l net.Listener
	if o.port == port {
		err = fmt.Errorf("--port %d is the port of the application", o.port)
	} else if o.port != 0 {
		l, err = listenOn(o.port)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("--port %d is in use; name another one, or leave it out", o.port)
		}
	} else {
		l, err = listenFree(port)
	}
	return upstream, l, err
}

const (
	maxPort  = 65535
	distance = 10000 // from the port of the application, so that each one keeps its origin
	amanda   = 10080 // browsers refuse to connect to it
	attempts = 200
)

// listenFree listens on the port of the application + 10000, or the next free one.
// Above 65535 it looks 10000 below the application's.
func listenFree(port int) (l net.Listener, err error) {
	first := port + distance
	if first > maxPort {
		first = port - distance
	}
	for port := first; port <= min(maxPort, first+attempts); port++ {
		if port == amanda {
			continue
		}
		if l, err = listenOn(port); !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("the ports %d to %d are in use: name one with --port", first, min(maxPort, first+attempts))
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
