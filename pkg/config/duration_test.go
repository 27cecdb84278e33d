package config

import (
	"testing"
	"time"

	"zino/pkg/zinotest"
)

func TestDuration(t *testing.T) {
	for text, want := range map[Duration]struct {
		valid bool
		value time.Duration
	}{
		"0":        {true, 0},
		"10m":      {true, 10 * time.Minute},
		"1h30m":    {true, 90 * time.Minute},
		"0.5s":     {true, time.Second / 2},
		"87600h":   {true, 87600 * time.Hour},
		"87600h1s": {false, 87600*time.Hour + time.Second},
		"-1s":      {false, -time.Second},
		"10":       {false, 0},
		"1d":       {false, 0},
		"":         {false, 0},
	} {
		zinotest.Equal(t, string(text)+" is valid", text.valid(), want.valid)
		zinotest.Equal(t, string(text), text.Value(), want.value)
	}
}
