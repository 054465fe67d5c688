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

// generated are structs that a table of the project generates, with a field a row.
// Their fields are not counted, here and in structs that embed them.
var generated = map[string]bool{"internal/config.Values": true}

func TestStructure_Types(t *testing.T) {
	for _, p := range load(t) {
		for _, d := range p.types() {
			if d.fields > mostFields && !generated[d.name] {
				t.Errorf("%s has %d fields, at most %d may be", d.name, d.fields, mostFields)
			}
			if d.methods > mostMethods {
				t.Errorf("%s has %d methods, at most %d may be", d.name, d.methods, mostMethods)
			}
		}
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
