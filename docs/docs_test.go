// Package docs compares the pages in this directory with the code they are
// about. It has tests only.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/config"
)

// root of the repository.
const root = ".."

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ------------------------------------------------------------------ the pages

// row is a line of a table, by the headings of its columns.
type row map[string]string

var divider = regexp.MustCompile(`^[-:| ]+$`)

// tables returns the rows of the tables of a page that begin with a column of
// that heading, by what that column has in backquotes.
func tables(t *testing.T, page, first string) map[string][]row {
	t.Helper()
	all := map[string][]row{}
	var headings []string
	for number, line := range strings.Split(read(t, page), "\n") {
		if !strings.HasPrefix(line, "|") {
			headings = nil
			continue
		}
		if divider.MatchString(line) {
			continue
		}
		cells := cellsOf(line)
		if headings == nil {
			headings = cells
			continue
		}
		if headings[0] != first {
			continue
		}
		names := quoted(cells[0])
		if len(cells) != len(headings) || len(names) != 1 {
			t.Errorf("%s:%d: %d cells of %d, and %d names in the first", page, number+1, len(cells), len(headings), len(names))
			continue
		}
		r := row{}
		for i, cell := range cells {
			r[headings[i]] = cell
		}
		all[names[0]] = append(all[names[0]], r)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no table of a column %q", page, first)
	}
	return all
}

// cellsOf splits a line of a table; \| is no end of a cell.
func cellsOf(line string) []string {
	const bar = "\x00"
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	line = strings.ReplaceAll(line, `\|`, bar)
	var cells []string
	for _, cell := range strings.Split(line, "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, bar, "|")))
	}
	return cells
}

var backquoted = regexp.MustCompile("`([^`]+)`")

// quoted returns what a cell has in backquotes.
func quoted(cell string) []string {
	var list []string
	for _, m := range backquoted.FindAllStringSubmatch(cell, -1) {
		list = append(list, m[1])
	}
	return list
}

// --------------------------------------------------------------- the sources

// sources is what the Go files of the repository have.
type sources struct {
	reads map[string][]string // parameter or field -> directories that read it
	tests map[string][]string // test -> files that have one of that name
	texts map[string]string   // of test files, and of all those of a directory
	words map[string]bool     // strings, each as a whole
	names map[string]bool     // functions, methods as Type.Name, constants of package scr and internal/config
}

// accessors are what finds the value of a parameter or of a field of an item, by a
// name among its arguments.
var accessors = []string{"Int", "Bool", "String", "Size", "Seconds", "Float", "Items", "Text", "Value", "find"}

func parse(t *testing.T) sources {
	t.Helper()
	s := sources{map[string][]string{}, map[string][]string{}, map[string]string{}, map[string]bool{}, map[string]bool{}}
	var files []*ast.File
	var dirs []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "build"):
			return fs.SkipDir
		case !strings.HasSuffix(file, ".go"):
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, data, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if strings.HasSuffix(file, "_test.go") {
			s.texts[file] = string(data)
			s.texts[filepath.Dir(file)] += string(data)
			for _, d := range f.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					s.tests[f.Name.Name] = append(s.tests[f.Name.Name], file)
				}
			}
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		files, dirs = append(files, f), append(dirs, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	passing := append(slices.Clone(accessors), wrappers(files)...)
	for i, f := range files {
		if dirs[i] == "scr" || dirs[i] == "internal/config" {
			declared(f, s.names)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				word, _ := strconv.Unquote(lit.Value)
				s.words[word] = true
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.Contains(passing, callee(call)) {
				return true
			}
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					name, _ := strconv.Unquote(lit.Value)
					if !slices.Contains(s.reads[name], dirs[i]) {
						s.reads[name] = append(s.reads[name], dirs[i])
					}
				}
			}
			return true
		})
	}
	return s
}

// wrappers are functions that pass one of their own arguments on to an accessor.
func wrappers(files []*ast.File) []string {
	var list []string
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil && passesOn(n.Type, n.Body) {
					list = append(list, n.Name.Name)
				}
			case *ast.AssignStmt:
				name, isName := n.Lhs[0].(*ast.Ident)
				if f, ok := n.Rhs[0].(*ast.FuncLit); ok && isName && passesOn(f.Type, f.Body) {
					list = append(list, name.Name)
				}
			}
			return true
		})
	}
	return list
}

func passesOn(of *ast.FuncType, body *ast.BlockStmt) bool {
	var own []string
	for _, field := range of.Params.List {
		for _, name := range field.Names {
			own = append(own, name.Name)
		}
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && slices.Contains(accessors, callee(call)) {
			for _, arg := range call.Args {
				name, ok := arg.(*ast.Ident)
				found = found || ok && slices.Contains(own, name.Name)
			}
		}
		return true
	})
	return found
}

func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// declared adds what a file declares.
func declared(f *ast.File, names map[string]bool) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if id, ok := of.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			names[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
}

// covered checks that the tests which a cell names are there, and that each of
// them says what it is to test: in its file, or where helpers do it, beside it.
func (s *sources) covered(t *testing.T, what, cell string, helped bool, says ...string) {
	t.Helper()
	tests := quoted(cell)
	if len(tests) == 0 {
		t.Errorf("%s: no test is named", what)
	}
	any := regexp.MustCompile(`\b(` + strings.Join(says, "|") + `)`)
	for _, test := range tests {
		var texts []string
		for _, file := range s.tests[test] {
			if helped {
				file = filepath.Dir(file)
			}
			texts = append(texts, s.texts[file])
		}
		if !strings.HasPrefix(test, "Test") {
			texts = script(test)
		}
		if len(texts) == 0 {
			t.Errorf("%s: there is no test %s", what, test)
		} else if !slices.ContainsFunc(texts, any.MatchString) {
			t.Errorf("%s: %s does not say %s", what, test, strings.Join(says, " or "))
		}
	}
}

// script returns the text of a test under mpirun, and of the programs it runs.
func script(name string) []string {
	dir := filepath.Join(root, "scripts", "test.d")
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || path.Base(name) != name {
		return nil
	}
	texts := []string{string(data)}
	for _, program := range regexp.MustCompile(`[a-z]+\.(c|f|f90|py)\b`).FindAllString(texts[0], -1) {
		if data, err := os.ReadFile(filepath.Join(dir, program)); err == nil {
			texts = append(texts, string(data))
		}
	}
	return texts
}

// -------------------------------------------------------------- the parameters

// parsedOnly are fields that are accepted and have no effect, as config.md says.
var parsedOnly = []string{"STORE FETCH"}

// kinds is how config.md calls what has no unit.
var kinds = map[config.Type]string{
	config.Text: "text", config.Name: "name", config.Path: "path", config.Int: "number", config.Bool: "0 or 1",
}

func TestConfig(t *testing.T) {
	const page = "docs/config.md"
	s := parse(t)
	rows := tables(t, page, "parameter")
	known := map[string]config.Parameter{}
	for _, p := range config.Parameters {
		known[p.Name] = p
	}
	for _, kind := range config.ItemKinds {
		known[kind.Name] = kind.ID
		for _, field := range kind.Fields {
			known[kind.Name+" "+field.Name] = field
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if _, ok := known[name]; !ok {
			t.Errorf("%s has %s, which internal/config/parameters.go does not know", page, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		p := known[name]
		if len(rows[name]) != 1 {
			t.Errorf("%s has %d lines about %s (%s), not one", page, len(rows[name]), name, p.Help)
			continue
		}
		r := rows[name][0]
		t.Run(name, func(t *testing.T) {
			asInTheTable(t, p, r)
			example(t, p, name, r["example"])
			s.readers(t, p, name, r["read in"])
			says := p.Name + `\b`
			if p.Name != name || !strings.HasPrefix(name, "SCR_") {
				says = p.Name + "=" // other words are like it
			}
			s.covered(t, name, r["test"], false, says)
		})
	}
}

// asInTheTable compares default and unit with those of the code.
func asInTheTable(t *testing.T, p config.Parameter, r row) {
	t.Helper()
	// What begins with backquotes is a value; words tell where it is from.
	given := ""
	if strings.HasPrefix(r["default"], "`") {
		given = quoted(r["default"])[0]
	}
	if given != p.Default || r["default"] == "" {
		t.Errorf("default %s: it is %q", r["default"], p.Default)
	}
	want := p.Unit
	if want == "" {
		want = kinds[p.Type]
	}
	if r["unit"] != want {
		t.Errorf("unit %q: it is %q", r["unit"], want)
	}
	if strings.TrimSpace(r["what it does"]) == "" {
		t.Error("nothing is said of what it does")
	}
}

// example sets what the page gives as an example.
func example(t *testing.T, p config.Parameter, name, cell string) {
	t.Helper()
	texts := quoted(cell)
	if len(texts) != 1 {
		t.Fatalf("%d examples", len(texts))
	}
	settings, err := config.ParseSettings("example", texts[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	environ := func(variable string) (string, bool) {
		if variable == "SCR_PREFIX" && name != variable {
			return dir, true
		}
		return "", false
	}
	cfg, warnings, err := config.Load(nil, settings, environ)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		if strings.Contains(w, "unknown") {
			t.Error(w)
		}
	}
	kind, field, isField := strings.Cut(name, " ")
	switch {
	case strings.HasPrefix(name, "SCR_"):
		if cfg.Source(name).Level != config.Program {
			t.Errorf("%s does not set it", texts[0])
		}
	case cfg.Items(kind).Size() != 1:
		t.Errorf("%s sets no item", texts[0])
	case isField:
		for _, item := range cfg.Items(kind).All() {
			if item.Text(field) == "" {
				t.Errorf("%s does not set it", texts[0])
			}
		}
	}
}

// readers checks that a parameter is read, and where.
func (s *sources) readers(t *testing.T, p config.Parameter, name, cell string) {
	t.Helper()
	read := s.reads[p.Name]
	if slices.Contains(parsedOnly, name) {
		if cell != "nowhere" {
			t.Errorf("is said to be read in %s, and is accepted only", cell)
		}
		return
	}
	if len(read) == 0 {
		t.Error("nothing in the code reads it")
	}
	for _, dir := range quoted(cell) {
		if !slices.Contains(read, dir) {
			t.Errorf("is not read in %s, but in %s", dir, strings.Join(read, ", "))
		}
	}
	if len(quoted(cell)) == 0 {
		t.Errorf("does not say where it is read (in %s)", strings.Join(read, ", "))
	}
}

// ------------------------------------------------------------------- the calls

// calls returns the functions of scr.h. libscr.so exports those and no others, as
// TestLibrary_Symbols (scripts/test.d/built) checks.
func calls(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*\b(SCR_[A-Z]\w*)\(`).FindAllStringSubmatch(read(t, "cmd/libscr/scr.h"), -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	_, global, _ := strings.Cut(read(t, "cmd/libscr/libscr.map"), "global:")
	global, _, _ = strings.Cut(global, "local:")
	for _, pattern := range strings.FieldsFunc(global, func(r rune) bool { return strings.ContainsRune("; \n", r) }) {
		if !slices.ContainsFunc(list, func(name string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			t.Errorf("libscr.map exports %s, which scr.h does not declare", pattern)
		}
	}
	return list
}

func TestAPI(t *testing.T) {
	const page = "docs/api.md"
	s := parse(t)
	list := calls(t)
	languages, details := tables(t, page, "C"), tables(t, page, "call")
	for _, table := range []map[string][]row{languages, details} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if !slices.Contains(list, name) {
				t.Errorf("%s has %s, which scr.h does not declare", page, name)
			}
		}
	}
	python, fortran := read(t, "bindings/python/scr.py"), read(t, "bindings/fortran/scrf.h")
	for _, name := range list {
		t.Run(name, func(t *testing.T) {
			if len(languages[name]) != 1 || len(details[name]) != 1 {
				t.Fatalf("%s has %d and %d lines about it, not one in each table", page, len(languages[name]), len(details[name]))
			}
			l, d := languages[name][0], details[name][0]
			says := []string{name, strings.ToLower(name)}
			for _, id := range quoted(l["Go"]) {
				if !s.names[id] {
					t.Errorf("package scr has no %s", id)
				}
				says = append(says, id[strings.LastIndex(id, ".")+1:]+`\(`)
			}
			for _, id := range quoted(l["Fortran"]) {
				if !strings.Contains(fortran, "call "+id+"(") {
					t.Errorf("scrf.h has no %s", id)
				}
			}
			for _, id := range quoted(l["Python"]) {
				if !strings.HasPrefix(id, "scr.") {
					continue // an argument
				}
				if !strings.Contains(python, "\ndef "+strings.TrimPrefix(id, "scr.")+"(") {
					t.Errorf("scr.py has no %s", id)
				}
				says = append(says, id)
			}
			for _, column := range []string{"possible in", "fails", "example"} {
				if d[column] == "" {
					t.Errorf("nothing stands in column %q", column)
				}
			}
			if !strings.Contains(d["example"], name) {
				t.Errorf("the example does without it")
			}
			s.covered(t, name, d["test"], true, says...)
			manual(t, name)
		})
	}
}

// manual checks that there is a page of the manual about a call.
func manual(t *testing.T, call string) {
	t.Helper()
	if text := read(t, "docs/man/"+call+".3"); !strings.Contains(text, "\n.Nm "+call+"\n") {
		t.Errorf("docs/man/%s.3 is about something else", call)
	}
}

func TestManual_NothingElse(t *testing.T) {
	pages, err := filepath.Glob("man/*.3")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	list := calls(t)
	for _, page := range pages {
		if call := strings.TrimSuffix(filepath.Base(page), ".3"); !slices.Contains(list, call) {
			t.Errorf("%s is about what scr.h does not declare", page)
		}
	}
}

// ------------------------------------------------------------------- the links

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := read(t, "README.md")
	for _, page := range pages {
		if !strings.Contains(readme, "(docs/"+page+")") {
			t.Errorf("README.md does not lead to docs/%s", page)
		}
	}
	for _, page := range append(pages, "../README.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, "docs/"+page), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), target)); err != nil {
				t.Errorf("%s: link to %s: %v", page, m[1], err)
			}
		}
	}
}

// -------------------------------------------------------------- names in texts

var named = regexp.MustCompile(`\b(SCR_\w+|scr_[a-z0-9_]+)`)

// What pages call by name is there, or is said not to be.
func TestNames(t *testing.T) {
	known := map[string]bool{"SCR_LIB": strings.Contains(read(t, "bindings/python/scr.py"), `"SCR_LIB"`)}
	for word := range parse(t).words {
		known[word] = true // such as a reason in the halt file
	}
	commands, err := filepath.Glob("man/*.1") // those there are, as cmd/scr checks
	if err != nil || len(commands) == 0 {
		t.Fatal(commands, err)
	}
	for _, page := range commands {
		known[strings.TrimSuffix(filepath.Base(page), ".1")] = true
	}
	for _, m := range regexp.MustCompile(`Launcher: "(\w+)"`).FindAllStringSubmatch(read(t, "scripts/launchers/main.go"), -1) {
		known["scr_"+m[1]+"_loop"] = true // a script made from the template there
	}
	for _, p := range config.Parameters {
		known[p.Name] = true
	}
	for _, m := range regexp.MustCompile(`#define (SCR_\w+)`).FindAllStringSubmatch(read(t, "cmd/libscr/scr.h"), -1) {
		known[m[1]] = true
	}
	for _, call := range calls(t) {
		known[call] = true
		known[strings.ToUpper(call)], known[strings.ToLower(call)] = true, true // as Fortran programs write it
	}
	absent := tables(t, "docs/differences.md", "not known")
	for name := range absent {
		if known[name] {
			t.Errorf("docs/differences.md says that %s is not known, and it is", name)
		}
	}
	pages := []string{"README.md", "cmd/libscr/scr.h"}
	for _, pattern := range []string{"docs/*.md", "docs/man/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			pages = append(pages, strings.TrimPrefix(page, root+"/"))
		}
	}
	title := regexp.MustCompile(`(?m)^\.(Dt|TH) .*`) // in capitals, whatever it is
	for _, page := range pages {
		for _, name := range named.FindAllString(title.ReplaceAllString(read(t, page), ""), -1) {
			ok := known[name]
			if strings.HasSuffix(name, "_") { // all that begin with it
				for other := range known {
					ok = ok || strings.HasPrefix(other, name)
				}
			}
			if !ok && (page != "docs/differences.md" || absent[name] == nil) {
				t.Errorf("%s speaks of %s, which is no parameter, constant, call or command", page, name)
			}
		}
	}
}
