package config

import "testing"

func TestUpstream(t *testing.T) {
	for address, want := range map[string]string{
		"http://localhost:5173": "http://localhost:5173", "http://LOCALHOST:5173/": "http://localhost:5173/", "https://localhost": "https://localhost",
		"http://localhost:80": "http://localhost", "https://localhost:443/app/?x": "https://localhost/app/?x", "http://[::1]:5173": "http://[::1]:5173",
		"http://127.0.0.2:1": "http://127.0.0.2:1", "http://[::ffff:127.0.0.1]:1": "http://[::ffff:127.0.0.1]:1", "http://app.example:8080": "http://app.example:8080",
		"": "", "localhost:5173": "", "5173": "", "ws://localhost:5173": "", "http://": "", "http://:5173": "", "http://user@localhost:5173": "", "http://localhost:5173/#x": "",
		"http://localhost:x": "", "http://10.0.0.1:5173": "", "http://0.0.0.0:5173": "", "http://[fe80::1]:5173": "", "file:///etc/passwd": "", "http://local host": "",
	} {
		got, err := Upstream(address, false)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", address, got, err, want)
		}
	}
	if got, err := Upstream("http://10.0.0.1:5173", true); err != nil || got.Host != "10.0.0.1:5173" {
		t.Errorf("with remote: %v, %v", got, err)
	}
}
