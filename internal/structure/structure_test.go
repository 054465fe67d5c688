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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	Standard                bool
	Module                  *struct{ Path string }
}

const module = "github.com/goscr/goscr"

// load type-checks every package of the module that is built without MPI.
// Packages that need one (mpi/system, cmd/libscr) are not.
func load(t *testing.T) []*pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports,Standard,Module", module+"/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, problems.String())
	}
	exports := map[string]string{}
	var own []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		exports[l.ImportPath] = l.Export
		if l.Module != nil && l.Module.Path == module && len(l.GoFiles) > 0 {
			own = append(own, l)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	var all []*pkg
	for _, l := range own {
		p := &pkg{path: l.ImportPath, name: strings.TrimPrefix(l.ImportPath, module+"/"), dir: l.Dir, fset: fset}
		for _, name := range l.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files, p.names = append(p.files, f), append(p.names, name)
			p.lines += fset.File(f.Pos()).LineCount()
		}
		p.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
		conf := types.Config{Importer: imports, FakeImportC: true}
		if _, err := conf.Check(l.ImportPath, fset, p.files, p.info); err != nil {
			t.Fatalf("%s: %v", l.ImportPath, err)
		}
		all = append(all, p)
	}
	return all
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

// What may be at most.
const (
	mostInCycle = 3  // files of a package that call each other in a cycle
	mostFields  = 20 // fields of a struct
)

func TestStructure_Table(t *testing.T) {
	lines, singles, guards := 0, 0, 0
	for _, p := range load(t) {
		lines += p.lines
		singles += len(p.singles())
		guards += len(p.guards())
		if c := p.cycle(); len(c) > 0 {
			t.Logf("%-32s %2d of %2d files in one cycle: %s", p.name, len(c), len(p.files), strings.Join(c, " "))
		}
		for name, n := range p.structs() {
			if n > mostFields/2 {
				t.Logf("%-32s %2d fields in %s, %d methods", p.name, n, name, p.methods(name))
			}
		}
	}
	t.Logf("%5d reductions of one value that are not mpi.AllreduceOne or mpi.Any", singles)
	t.Logf("%5d warnings that the code, and not the logger, leaves to rank 0", guards)
	t.Logf("%5d lines of Go that is no test, without what needs an MPI to be compiled", lines)
}

// structs returns how many fields the structs of a package have.
func (p *pkg) structs() map[string]int {
	all := map[string]int{}
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if x, ok := s.Type.(*ast.StructType); ok {
					all[s.Name.Name] = x.Fields.NumFields()
				}
			}
			return true
		})
	}
	return all
}

// methods returns how many methods a type has.
func (p *pkg) methods(name string) (n int) {
	for _, f := range p.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			x := fn.Recv.List[0].Type
			if star, ok := x.(*ast.StarExpr); ok {
				x = star.X
			}
			if id, ok := x.(*ast.Ident); ok && id.Name == name {
				n++
			}
		}
	}
	return n
}

// singles are the places where a slice of one number is made, which in this
// module is for a reduction.
func (p *pkg) singles() (list []string) {
	if p.name == "mpi" || strings.HasPrefix(p.name, "mpi/") {
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
