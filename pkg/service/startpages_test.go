package service

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
)

func TestUnmodified(t *testing.T) {
	const smaps = `00400000-00a0c000 r-xp 00000000 fe:00 2101                              /usr/bin/zino sys
Size:               6192 kB
Rss:                5000 kB
Anonymous:             0 kB
Swap:                  0 kB
SwapPss:               0 kB
VmFlags: rd ex mr mw me
00a0c000-00a10000 r--p 0060c000 fe:00 2101                              /usr/bin/zino sys
Rss:                  16 kB
Anonymous:            12 kB
Swap:                  0 kB
00a10000-00a18000 r--p 00610000 fe:00 2101                              /usr/bin/zino sys
Anonymous:             0 kB
Swap:                  8 kB
00a18000-00a20000 r--p 00618000 fe:00 2101                              /usr/bin/zino sys
Anonymous:             0 kB
Swap:                  0 kB
00a20000-00a30000 rw-p 00620000 fe:00 2101                              /usr/bin/zino sys
Anonymous:             0 kB
Swap:                  0 kB
00a30000-00a40000 r--s 00000000 fe:00 2101                              /usr/bin/zino sys
Anonymous:             0 kB
Swap:                  0 kB
00a40000-00a50000 r--p 00000000 fe:00 2102                              /var/lib/zino/index
Anonymous:             0 kB
Swap:                  0 kB
c000000000-c000400000 r--p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7fff0000-7fff2000 r-xp 00000000 00:00 0                                 [vdso]
Anonymous:             0 kB
Swap:                  0 kB
`
	want := []mapping{{0x400000, 0xa0c000}, {0xa18000, 0xa20000}}
	got, err := unmodified(strings.NewReader(smaps), "/usr/bin/zino sys")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
	head, _, _ := strings.Cut(smaps, "Anonymous:")
	torn := io.MultiReader(strings.NewReader(head), iotest.ErrReader(io.ErrUnexpectedEOF))
	if got, err := unmodified(torn, "/usr/bin/zino sys"); len(got) > 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("torn: got %x, %v", got, err)
	}
}

// TestUnmapStartPages maps and unmaps the pages of the test's own program.
func TestUnmapStartPages(t *testing.T) {
	mapped := func() int {
		status, err := os.ReadFile("/proc/self/status")
		zinotest.Must(t, err)
		_, rest, _ := strings.Cut(string(status), "RssFile:")
		kb, err := strconv.Atoi(strings.Fields(rest)[0])
		zinotest.Must(t, err)
		return kb
	}
	list, err := startPages()
	zinotest.Must(t, err)
	for _, m := range list {
		zinotest.Must(t, m.advise(unix.MADV_POPULATE_READ))
	}
	before := mapped()
	unmapStartPages(slog.New(slog.DiscardHandler))
	if after := mapped(); after > before/2 {
		t.Errorf("%d kB are mapped after %d kB", after, before)
	}
}
