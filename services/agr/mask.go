package agr

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"zino/pkg/mask"
	"zino/pkg/wire"
	"zino/proto"
)

// turnMask masks the results of a run. The Masker is made for the first one: a run
// without calls needs none.
type turnMask struct {
	once    sync.Once
	masker  *mask.Masker
	err     error
	noticed atomic.Bool
}

// madeMask returns the mask with its Masker.
func (t *turn) madeMask() *turnMask {
	m := &t.mask
	m.once.Do(func() {
		env := os.Environ()
		for name, value := range t.req.Env {
			env = append(env, name+"="+value)
		}
		m.masker, m.err = t.masks.Masker(t.req.Mask, env)
	})
	return m
}

// masked masks a result. Results of exc are masked there.
func (t *turn) masked(r result) result {
	if r.byExc {
		return r
	}
	m := t.madeMask()
	switch {
	case m.err != nil:
		return failed(fmt.Errorf("the result is left out, since its secrets cannot be masked: %w", m.err))
	case r.err != nil:
		e := *r.err
		e.message = maskText(m.masker, e.message)
		r.err = &e
	case r.data != nil:
		data, _ := m.masker.JSON(r.data)
		r.data = data
	case r.ran == nil:
		r.text = maskText(m.masker, r.text)
	}
	return r
}

func maskText(m *mask.Masker, text string) string {
	masked, n := m.Text([]byte(text))
	if n == 0 {
		return text
	}
	return string(masked)
}

// noticeMasked sends a notice for the first result of a run that has placeholders.
func (t *turn) noticeMasked(envelope proto.Raw) error {
	n := maskedOf(envelope)
	if n == 0 || t.mask.noticed.Swap(true) {
		return nil
	}
	return t.report(t.out.Event, proto.TypeNotice, proto.MaskedNotice(n))
}

// maskedOf returns the member masked of an envelope, which follows ok.
func maskedOf(envelope proto.Raw) int {
	for key, value := range wire.Members(envelope) {
		if string(key) == "masked" {
			n, _ := strconv.Atoi(string(value))
			return n
		}
		if string(key) != "ok" {
			break
		}
	}
	return 0
}
