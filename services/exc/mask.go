package exc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"zino/pkg/config"
	"zino/pkg/environ"
	"zino/pkg/mask"
	"zino/proto"
)

// UseMask sets which secrets are masked besides the keys of providers. It must be called
// before the first request.
func (s *Service) UseMask(cfg config.Mask) { s.masks = mask.NewSource(cfg, s.log) }

// masker returns the Masker of a request. It also masks the values that are withheld
// from executed code.
func (s *Service) masker(with *proto.Masking, env map[string]string) (*mask.Masker, error) {
	all := os.Environ()
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return s.masks.Masker(with, all, environ.Withheld(all, s.passEnv)...)
}

// masked masks an envelope.
func (c *turnCall) masked(envelope proto.Raw) proto.Raw {
	text, _ := c.mask.JSON(envelope)
	n := mask.Count(text)
	if n == 0 {
		return text
	}
	behind := bytes.IndexByte(text, ',') + 1 // "ok"
	return slices.Insert(slices.Clone(text), behind, fmt.Appendf(nil, `"masked":%d,`, n)...)
}

// maskedError masks the message of an error.
func (c *turnCall) maskedError(err error) error {
	e, ok := errors.AsType[*proto.Error](err)
	if !ok {
		return err
	}
	message := err.Error()
	text := maskText(c.mask, message)
	if text == message {
		return err
	}
	masked := *e
	masked.Message = text
	return &masked
}

func maskText(m *mask.Masker, text string) string {
	masked, n := m.Text([]byte(text))
	if n == 0 {
		return text
	}
	return string(masked)
}

// tap shows output to the callers that want it, without secrets and by whole lines.
func (c *turnCall) tap(stream string, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lives) == 0 {
		c.streams = nil
		return
	}
	s := c.streams[stream]
	if s == nil {
		if c.streams == nil {
			c.streams = map[string]*mask.Stream{}
		}
		s = c.mask.Stream()
		c.streams[stream] = s
	}
	c.show(stream, s.Add(p))
}

// show shows masked output. mu is locked.
func (c *turnCall) show(stream string, p []byte) {
	for live := range c.lives {
		live.Tap(stream, p)
	}
}

// flush shows the output that tap has kept back, at the end of the call.
func (c *turnCall) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for stream, s := range c.streams {
		c.show(stream, s.Flush())
	}
	c.streams = nil
}
