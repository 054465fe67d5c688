package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"
)

// Fields and methods of embedded structs count, whether they are embedded by
// themselves, by pointer, or by a name that is an alias.
func TestCounts(t *testing.T) {
	const text = `package p

import "sync"

type inner struct{ a, b int }
func (inner) one() {}
func (*inner) two() {}

type alias = inner

type middle struct { *inner; c int }
func (middle) two() {}

type outer struct { middle; sync.Mutex; fmt; x struct{ y, z int } }

type byAlias struct { alias }
type held struct { inner inner }
type ring struct { *ring; a int }
type fmt interface{ print() }
type number int
func (number) print() {}
type generic[T any] struct { inner; t T }
func (*generic[T]) three() {}
type instance struct { generic[int] }
`
	fset, find := token.NewFileSet(), imports{checked: map[string]*types.Package{}}
	var p *pkg
	for _, source := range []struct{ path, text string }{
		{"sync", "package sync; type Mutex struct{}; func (*Mutex) Lock() {}"},
		{module + "/p", text},
	} {
		file, err := parser.ParseFile(fset, "p.go", source.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p = &pkg{name: "p", files: []*ast.File{file}, info: &types.Info{Defs: map[*ast.Ident]types.Object{}}}
		conf := types.Config{Importer: find}
		if find.checked[source.path], err = conf.Check(source.path, fset, p.files, p.info); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]declared{
		"inner":    {fields: 2, methods: 2},
		"middle":   {fields: 3, methods: 2},
		"outer":    {fields: 6, methods: 2}, // those of Mutex are Go's, and that of fmt is of an interface
		"byAlias":  {fields: 2, methods: 2},
		"held":     {fields: 1},
		"ring":     {fields: 2},
		"fmt":      {methods: 1},
		"number":   {methods: 1},
		"generic":  {fields: 3, methods: 3},
		"instance": {fields: 3, methods: 3},
	}
	for _, d := range p.types() {
		w := want[d.name[len("p."):]]
		delete(want, d.name[len("p."):])
		if d.fields != w.fields || d.methods != w.methods {
			t.Errorf("%s has %d fields and %d methods, want %d and %d", d.name, d.fields, d.methods, w.fields, w.methods)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
