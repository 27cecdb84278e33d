package proto_test

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strconv"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

var update = flag.Bool("update", false, "write schema.json and PROTOCOL.md")

// TestMain runs nothing but the generator with -update: the other tests look at
// the schema that is compiled in, which is still the old one.
func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		if err := flag.Set("test.run", "^TestGenerated$"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestGenerated holds that schema.json and PROTOCOL.md say what the comments
// and types of this package say.
func TestGenerated(t *testing.T) {
	s := readSource(t)
	list := s.descriptions(t)
	fresh(t, "schema.json", schemaFile(t, list))
	fresh(t, "PROTOCOL.md", s.reference(t, list))
}

// descriptions are those of all services.
func (s *source) descriptions(t *testing.T) (list []proto.Description) {
	t.Helper()
	for _, service := range services {
		list = append(list, s.describe(t, service))
	}
	return list
}

// fresh compares a generated file with what it should be, or writes it.
func fresh(t *testing.T, name string, want []byte) {
	t.Helper()
	if t.Failed() {
		return
	}
	if *update {
		zinotest.Must(t, os.WriteFile(name, want, 0o644))
		return
	}
	got, err := os.ReadFile(name)
	zinotest.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: run go test ./proto -update", name)
	}
}

func TestEverythingIsDocumented(t *testing.T) {
	s := readSource(t)
	for _, name := range s.undocumented {
		t.Errorf("%s has no comment: it is part of the reference", name)
	}
	if len(s.methods) != len(proto.Methods()) {
		t.Errorf("%d methods were found in the source, %d are declared", len(s.methods), len(proto.Methods()))
	}
	if len(s.codes) == 0 || len(s.types) == 0 {
		t.Error("the source was not read")
	}
}

func TestChangelog(t *testing.T) {
	line := regexp.MustCompile(`^(\d+) +20\d\d-\d\d-\d\d  \S`)
	for i, change := range proto.Changelog {
		if m := line.FindStringSubmatch(change); m == nil || m[1] != strconv.Itoa(i+1) {
			t.Errorf("line %q: want number %d, a date, two blanks and what changed", change, i+1)
		}
	}
}

// TestMethods holds that every method belongs to a known service and that no
// service has two for one type.
func TestMethods(t *testing.T) {
	known := map[string]bool{"*": true}
	for _, service := range services {
		known[service] = true
	}
	seen := map[[2]string]bool{}
	for _, m := range proto.Methods() {
		if !known[m.Service] {
			t.Errorf("%q is a method of %q, which is not a service", m.Type, m.Service)
		}
		for _, owner := range []string{"*", m.Service} {
			if key := [2]string{owner, m.Type}; seen[key] {
				t.Errorf("%s has two methods %q", m.Service, m.Type)
			}
		}
		seen[[2]string{m.Service, m.Type}] = true
	}
}
