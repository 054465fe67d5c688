package structure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pkg is a package of the module, without its tests.
type pkg struct {
	path  string // import path
	name  string // path below the module
	dir   string
	files []*ast.File // in the order of names
	names []string
	info  *types.Info
	fset  *token.FileSet
	lines int
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Dir, Export    string
	GoFiles, CgoFiles, Imports []string
	Module                     *struct{ Path string }
}

const module = "github.com/goscr/goscr"

// list executes `go list` with these variables and arguments.
func list(cgo string, arguments ...string) ([]listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,Imports,Module"}, arguments...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, problems.String())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// packages are those of load, which are read once for all tests.
var packages = sync.OnceValues(check)

// load returns every package of the module, as it is built with the tag mpi.
func load(t *testing.T) []*pkg {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// imports finds packages of the module among those that check has checked, and
// others by what the compiler has exported.
type imports struct {
	checked map[string]*types.Package
	others  types.Importer
}

func (i imports) Import(path string) (*types.Package, error) {
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return i.others.Import(path)
}

// check type-checks the packages of the module. It needs neither an MPI nor a C
// compiler: names of C have no type.
func check() ([]*pkg, error) {
	// With -deps a package comes after those that it imports.
	seen, err := list("1", "-deps", "-tags=mpi", module+"/...")
	if err != nil {
		return nil, err
	}
	var own []listed
	foreign := map[string]bool{}
	for _, l := range seen {
		if l.Module == nil || l.Module.Path != module || len(l.GoFiles)+len(l.CgoFiles) == 0 {
			continue
		}
		own = append(own, l)
		for _, path := range l.Imports {
			if path != "C" && path != "unsafe" && !strings.HasPrefix(path, module+"/") {
				foreign[path] = true
			}
		}
	}
	compiled, err := list("0", append([]string{"-export"}, slices.Sorted(maps.Keys(foreign))...)...)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, l := range compiled {
		exports[l.ImportPath] = l.Export
	}
	fset := token.NewFileSet()
	find := imports{map[string]*types.Package{}, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})}
	var all []*pkg
	for _, l := range own {
		p := &pkg{path: l.ImportPath, name: strings.TrimPrefix(l.ImportPath, module+"/"), dir: l.Dir, fset: fset}
		for _, name := range slices.Sorted(slices.Values(slices.Concat(l.GoFiles, l.CgoFiles))) {
			f, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			p.files, p.names = append(p.files, f), append(p.names, name)
			p.lines += fset.File(f.Pos()).LineCount()
		}
		p.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
		conf := types.Config{Importer: find, FakeImportC: true}
		if find.checked[l.ImportPath], err = conf.Check(l.ImportPath, fset, p.files, p.info); err != nil {
			return nil, fmt.Errorf("%s: %w", l.ImportPath, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// calls returns which files of a package use functions and methods of which
// others, as indices.
func (p *pkg) calls() [][]int {
	home := map[types.Object]int{} // function or method -> its file
	for i, f := range p.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				home[p.info.Defs[fn.Name]] = i
			}
		}
	}
	edges := make([][]int, len(p.files))
	for i, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			used := p.info.Uses[id]
			if fn, ok := used.(*types.Func); ok {
				used = fn.Origin()
			}
			if j, ok := home[used]; ok && used != nil && j != i && !slices.Contains(edges[i], j) {
				edges[i] = append(edges[i], j)
			}
			return true
		})
	}
	return edges
}

// cycle returns the names of the files in the largest strongly connected part
// of a package's calls, none if its files call each other in one direction only.
func (p *pkg) cycle() []string {
	edges := p.calls()
	reach := make([][]bool, len(edges)) // reach[i][j]: i calls j, if through others
	for i := range edges {
		reach[i] = make([]bool, len(edges))
		var visit func(int)
		visit = func(k int) {
			for _, j := range edges[k] {
				if !reach[i][j] {
					reach[i][j] = true
					visit(j)
				}
			}
		}
		visit(i)
	}
	var largest []string
	for i := range edges {
		var part []string
		for j := range edges {
			if reach[i][j] && reach[j][i] {
				part = append(part, p.names[j])
			}
		}
		if len(part) > len(largest) {
			largest = part
		}
	}
	return largest
}

func TestStructure_Table(t *testing.T) {
	lines, product, callbacks, singles, guards := 0, 0, 0, 0, 0
	for _, p := range load(t) {
		lines += p.lines
		if p.isProduct() {
			product += p.lines
			callbacks += p.callbacks()
		}
		singles += len(p.singles())
		guards += len(p.guards())
		if c := p.cycle(); len(c) > 0 {
			t.Logf("%-32s %2d of %2d files in one cycle: %s", p.name, len(c), len(p.files), strings.Join(c, " "))
		}
		for _, s := range p.types() {
			if s.fields > mostFields/2 || s.methods > mostMethods/2 {
				t.Logf("%-32s %3d fields, %3d methods", s.name, s.fields, s.methods)
			}
		}
	}
	t.Logf("%5d reductions of one value that are not mpi.AllreduceOne or mpi.Any", singles)
	t.Logf("%5d warnings that the code, and not the logger, leaves to rank 0", guards)
	t.Logf("%5d exported fields of the product are functions", callbacks)
	t.Logf("%5d lines of Go that is no test, %d of them in the product: not in test, examples and scripts", lines, product)
}

// isProduct reports whether a package is one that users run or link.
func (p *pkg) isProduct() bool {
	top, _, _ := strings.Cut(p.name, "/")
	return top != "test" && top != "examples" && top != "scripts" && !strings.HasSuffix(p.name, "/mpitest")
}

// callbacks returns how many exported fields of structs are functions.
func (p *pkg) callbacks() (n int) {
	for _, f := range p.files {
		ast.Inspect(f, func(node ast.Node) bool {
			st, ok := node.(*ast.StructType)
			if !ok { // the methods of an interface are fields, too
				return true
			}
			for _, field := range st.Fields.List {
				if _, function := field.Type.(*ast.FuncType); !function {
					continue
				}
				for _, name := range field.Names {
					if name.IsExported() {
						n++
					}
				}
			}
			return true
		})
	}
	return n
}

// declared is a type that a package declares, in a function or outside.
type declared struct {
	name            string // package.Type
	fields, methods int
}

// types returns the types that a package declares, in the order of its files.
func (p *pkg) types() (all []declared) {
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok || s.Assign.IsValid() { // an alias has the fields and methods of a type that is counted
				return true
			}
			t := p.info.Defs[s.Name].Type()
			all = append(all, declared{p.name + "." + s.Name.Name, fields(t), methods(t)})
			return true
		})
	}
	return all
}

// embedded returns the struct of this module that a field embeds, by itself or
// by pointer, nil if there is none.
func embedded(f *types.Var) *types.Named {
	t := types.Unalias(f.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	if !f.Embedded() || !ok || named.Obj().Pkg() == nil || !ours(named.Obj().Pkg().Path()) {
		return nil
	}
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return nil
	}
	return named
}

// nameOf returns package.Type of a type of this module.
func nameOf(t *types.Named) string {
	return strings.TrimPrefix(t.Obj().Pkg().Path(), module+"/") + "." + t.Obj().Name()
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// fields returns how many fields a struct has: for each struct of this module
// that it embeds, those of that one. One that is generated counts as one field.
func fields(t types.Type) int { return fieldsBut(t, nil) }

func fieldsBut(t types.Type, within []types.Type) (n int) {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return 0
	}
	within = append(within, t)
	for i := range s.NumFields() {
		e := embedded(s.Field(i))
		same := func(o types.Type) bool { return types.Identical(e, o) }
		if e == nil || generated[nameOf(e)] || slices.ContainsFunc(within, same) { // a struct can embed a pointer to itself
			n++
		} else {
			n += fieldsBut(e, within)
		}
	}
	return n
}

// methods returns how many methods a type has: its own, and those of the structs
// of this module that it embeds. An interface has those that it requires.
func methods(t types.Type) (n int) {
	if i, ok := t.Underlying().(*types.Interface); ok {
		return i.NumMethods()
	}
	set := types.NewMethodSet(types.NewPointer(t))
	for i := range set.Len() {
		receiver := set.At(i).Obj().(*types.Func).Signature().Recv().Type()
		if !types.IsInterface(receiver) && ours(set.At(i).Obj().Pkg().Path()) {
			n++
		}
	}
	return n
}

// singles are the places where a slice of one number is made, which in this
// module is for a reduction.
func (p *pkg) singles() (list []string) {
	if p.name == "mpi" || strings.HasPrefix(p.name, "mpi/") || strings.HasPrefix(p.name, "internal/mpi/") {
		return nil
	}
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || len(lit.Elts) != 1 {
				return true
			}
			if s, ok := p.info.Types[lit].Type.(*types.Slice); ok && types.Identical(s.Elem(), types.Typ[types.Int64]) {
				list = append(list, fmt.Sprintf("%v: a slice of one number: reduce with mpi.AllreduceOne or mpi.Any", p.fset.Position(lit.Pos())))
			}
			return true
		})
	}
	return list
}

// guards are the warnings that stand behind a look at the rank.
func (p *pkg) guards() (list []string) {
	look := func(cond ast.Node, body ast.Node) {
		rank := false
		ast.Inspect(cond, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			if !ok || b.Op != token.EQL && b.Op != token.NEQ {
				return true
			}
			call, ok := b.X.(*ast.CallExpr)
			zero, isLit := b.Y.(*ast.BasicLit)
			if !ok || !isLit || zero.Value != "0" {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			rank = rank || ok && (sel.Sel.Name == "Rank" || sel.Sel.Name == "me")
			return true
		})
		if !rank {
			return
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Warn" || sel.Sel.Name == "WarnOnce") {
				list = append(list, fmt.Sprintf("%v: a warning for rank 0: report.Logger.WarnJob is one", p.fset.Position(sel.Pos())))
			}
			return true
		})
	}
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				look(n.Cond, n.Body)
			case *ast.CaseClause:
				for _, cond := range n.List {
					for _, s := range n.Body {
						look(cond, s)
					}
				}
			}
			return true
		})
	}
	return list
}
