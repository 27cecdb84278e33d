package config

import "time"

// Duration is a length of time in the file, such as "0", "10m" or "24h".
type Duration string

// Value is the duration. It is 0 for a text that is not one, which no checked
// configuration has.
func (d Duration) Value() time.Duration {
	v, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return v
}

// valid reports whether d is a duration of up to ten years, and not negative.
func (d Duration) valid() bool {
	v, err := time.ParseDuration(string(d))
	return err == nil && v >= 0 && v <= 10*365*24*time.Hour
}

// durations is the text of the rule for a Duration.
const durations = `a length of time such as "90s", "10m" or "24h"`
