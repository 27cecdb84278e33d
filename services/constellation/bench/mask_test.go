package bench_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"zino/pkg/mask"
)

// benchMask masks ordinary code and logs with the hints of 20 keys.
func benchMask(b *bench) ([]line, error) {
	m, err := newMasker(20)
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile("mask_test.go")
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for i := 0; text.Len() < 1<<20; i++ {
		fmt.Fprintf(&text, "2026-11-23T10:31:%02dZ INFO request id=%08x path=/api/items/%d took=%dus tokens=%d\n", i%60, i*2654435761, i, i%977, i%4096)
		if i%50 == 0 {
			text.Write(source)
		}
	}
	all := text.Bytes()[:1<<20]
	known, err := mask.New(mask.Config{Salt: []byte("salt"), NoShapes: true, Hints: mask.NewHints(keys(20))})
	if err != nil {
		return nil, err
	}
	mib := alternately(b.scale(20), 5, func() { m.Text(all) }, func() { known.Text(all) })
	page := timed(b.scale(50), 100, func() { m.Text(all[:4<<10]) })
	return []line{
		line{name: "mask 1 MiB", goals: []goal{atMost(10e6)}, note: "floor: hints of 20 keys alone"}.over(mib[0], mib[1]),
		{name: "mask 4 KiB", measured: page, goals: []goal{atMost(20e3)}},
	}, nil
}

func newMasker(n int) (*mask.Masker, error) {
	return mask.New(mask.Config{Salt: []byte("salt"), Hints: mask.NewHints(keys(n))})
}

func keys(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("key-%d-%s", i, strings.Repeat("0123456789", 4)))
	}
	return list
}
