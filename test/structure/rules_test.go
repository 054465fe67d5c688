package structure

import (
	"os"
	"strings"
	"testing"
)

func TestStructure_Cycles(t *testing.T) {
	for _, p := range load(t) {
		if c := p.cycle(); len(c) > mostInCycle {
			t.Errorf("%s: %d of %d files call each other in a cycle, at most %d may: %s",
				p.name, len(c), len(p.files), mostInCycle, strings.Join(c, " "))
		}
	}
}

// What may be at most.
const (
	mostInCycle = 3  // files of a package that call each other in a cycle
	mostFields  = 20 // fields of a struct
	mostMethods = 45 // methods of a type
)

// exceptions are the types that have more fields or methods than they may, with
// their numbers. These may only fall: who lowers a number lowers it here, too,
// and removes the row when the rule is kept.
var exceptions = []exception{}

type exception struct {
	name   string // package.Type
	what   string // fields or methods
	number int
}

// most is how many there may be without an exception.
func (e exception) most() int {
	if e.what == "fields" {
		return mostFields
	}
	return mostMethods
}

// generated are structs that a table of the project generates, with a field a row.
// Their fields are not counted, here and in structs that embed them.
var generated = map[string]bool{"internal/config.Values": true}

func TestStructure_Types(t *testing.T) {
	allowed := map[exception]int{} // by name and what
	for _, e := range exceptions {
		key := exception{name: e.name, what: e.what}
		if allowed[key] != 0 || e.number <= e.most() {
			t.Errorf("the exception of %s for %d %s is there twice, or none", e.name, e.number, e.what)
		}
		allowed[key] = e.number
	}
	for _, p := range load(t) {
		for _, d := range p.types() {
			if !generated[d.name] {
				keeps(t, allowed, exception{d.name, "fields", d.fields})
			}
			keeps(t, allowed, exception{d.name, "methods", d.methods})
		}
	}
	for e := range allowed {
		t.Errorf("%s, %s: an exception for a type that is not there", e.name, e.what)
	}
}

// keeps checks that a type has no more fields or methods than it may, and that
// an exception for it says how many there are. It removes the exception.
func keeps(t *testing.T, allowed map[exception]int, found exception) {
	t.Helper()
	key := exception{name: found.name, what: found.what}
	number, excepted := allowed[key]
	delete(allowed, key)
	switch most := found.most(); {
	case excepted && found.number <= most:
		t.Errorf("%s has %d %s: remove its exception", found.name, found.number, found.what)
	case excepted && found.number < number:
		t.Errorf("%s has %d %s: lower its exception from %d", found.name, found.number, found.what, number)
	case excepted && found.number > number:
		t.Errorf("%s has %d %s, more than the %d of its exception, which may only fall", found.name, found.number, found.what, number)
	case !excepted && found.number > most:
		t.Errorf("%s has %d %s, at most %d may be", found.name, found.number, found.what, most)
	}
}

func TestStructure_Reductions(t *testing.T) {
	for _, p := range load(t) {
		for _, at := range append(p.singles(), p.guards()...) {
			t.Error(at)
		}
	}
}

func TestStructure_Floors(t *testing.T) {
	floors := readFloors(t)
	for _, p := range load(t) {
		above, known := floors[p.name]
		if !known {
			t.Errorf("%s stands on no floor of docs/packages.md", p.name)
		}
		for _, f := range p.files {
			for _, i := range f.Imports {
				path := strings.Trim(i.Path.Value, `"`)
				name, ours := strings.CutPrefix(path, module+"/")
				if below, known := floors[name]; ours && known && below < above {
					t.Errorf("%s imports %s, which stands above it in docs/packages.md", p.name, name)
				}
			}
		}
	}
}

// readFloors reads "The house" of docs/packages.md: the floor on which each
// package stands, counted from the top. Floors are divided by lines of dashes.
func readFloors(t *testing.T) map[string]int {
	t.Helper()
	page, err := os.ReadFile("../../docs/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, found := strings.Cut(string(page), "## The house\n")
	house, _, ends := strings.Cut(house, "\n## ")
	if !found || !ends {
		t.Fatal("docs/packages.md has no drawing of the house")
	}
	floors, floor := map[string]int{}, 0
	for line := range strings.Lines(house) {
		text, drawn := strings.CutPrefix(line, "    ")
		if !drawn {
			continue
		}
		if strings.HasPrefix(text, "----") {
			floor++
			continue
		}
		if strings.HasPrefix(text, "====") {
			floor = -1 // beside the house: it may import anything
			continue
		}
		names, _, _ := strings.Cut(text, "  ") // what it is for stands after two blanks
		for _, name := range strings.Fields(names) {
			if _, twice := floors[name]; twice {
				t.Errorf("docs/packages.md has %s on two floors", name)
			}
			floors[name] = floor
		}
	}
	if len(floors) < 20 {
		t.Errorf("docs/packages.md has %d packages on its floors", len(floors))
	}
	return floors
}
