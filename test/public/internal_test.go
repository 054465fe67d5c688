package public

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// packages are the packages that a program outside this module can import. mpi/system is
// missing because it is empty without an MPI.
var packages = []string{"filemap", "hash", "meta", "mpi", "mpi/local", "reddesc", "scr", "xor"}

const module = "github.com/goscr/goscr"

// No exported name of a public package shows a type of an internal package: programs cannot
// name such a type, and go doc does not show its methods and comments.
func TestNothingInternal(t *testing.T) {
	load := exports(t)
	for _, path := range packages {
		p, err := load.Import(module + "/" + path)
		must(t, err)
		for _, name := range p.Scope().Names() {
			object := p.Scope().Lookup(name)
			if !object.Exported() {
				continue
			}
			for _, what := range internals(object) {
				t.Errorf("%s.%s shows %s", p.Name(), name, what)
			}
		}
	}
}

// exports returns an importer that reads the export data of the compiled packages.
func exports(t *testing.T) types.Importer {
	t.Helper()
	argv := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, path := range packages {
		argv = append(argv, module+"/"+path)
	}
	out, err := exec.Command("go", argv...).Output()
	must(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 {
			files[f[0]] = f[1]
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(files[path])
	})
}

// internals lists the types of internal packages that an exported object shows to users.
func internals(object types.Object) (list []string) {
	seen := map[types.Type]bool{}
	var look func(t types.Type, in *types.Package)
	name := func(of *types.TypeName) bool {
		if of.Pkg() != nil && strings.HasPrefix(of.Pkg().Path(), module+"/internal/") {
			list = append(list, types.TypeString(of.Type(), nil))
			return true
		}
		return false
	}
	look = func(t types.Type, in *types.Package) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			if !name(t.Obj()) {
				look(t.Rhs(), in)
			}
		case *types.Named:
			if name(t.Obj()) || t.Obj().Pkg() != in {
				return
			}
			for m := range t.Methods() {
				if m.Exported() {
					look(m.Type(), in)
				}
			}
			look(t.Underlying(), in)
		case *types.Pointer:
			look(t.Elem(), in)
		case *types.Slice:
			look(t.Elem(), in)
		case *types.Array:
			look(t.Elem(), in)
		case *types.Chan:
			look(t.Elem(), in)
		case *types.Map:
			look(t.Key(), in)
			look(t.Elem(), in)
		case *types.Signature:
			for v := range t.Params().Variables() {
				look(v.Type(), in)
			}
			for v := range t.Results().Variables() {
				look(v.Type(), in)
			}
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() || f.Embedded() {
					look(f.Type(), in)
				}
			}
		case *types.Interface:
			for m := range t.Methods() {
				look(m.Type(), in)
			}
		}
	}
	look(object.Type(), object.Pkg())
	slices.Sort(list)
	return slices.Compact(list)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
