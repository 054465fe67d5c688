// Package docs compares the pages in this directory with the code they are
// about. It has tests only.
package docs

import (
	"fmt"
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
	"github.com/goscr/goscr/internal/redundancy/reddesc"
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

// sources is what the files of the repository say, as text.
type sources struct {
	tests map[string][]string // Go test -> files that have one of that name
	texts map[string]string   // of files with tests in Go, and of all those of a directory
	code  string              // Go that is no test
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func readSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{map[string][]string{}, map[string]string{}, ""}
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
		if !strings.HasSuffix(file, "_test.go") {
			s.code += string(data)
			return err
		}
		s.texts[file] = string(data)
		s.texts[filepath.Dir(file)] += string(data)
		for _, m := range testName.FindAllStringSubmatch(string(data), -1) {
			s.tests[m[1]] = append(s.tests[m[1]], file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inSession is the method of internal/session for a function of the C interface.
func inSession(function string) string {
	var method string
	for _, word := range strings.Split(function, "_")[1:] {
		method += strings.ToUpper(word[:1]) + word[1:]
	}
	return method
}

// covered checks that the tests which a cell names are there, and that each of
// them says what it is to test: in its file, or beside it, where helpers do it.
func (s *sources) covered(t *testing.T, what, cell string, says ...string) {
	t.Helper()
	tests := quoted(cell)
	if len(tests) == 0 {
		t.Errorf("%s: no test is named", what)
	}
	any := regexp.MustCompile(`\b(` + strings.Join(says, "|") + `)`)
	for _, test := range tests {
		texts := script(test)
		for _, file := range s.tests[test] {
			texts = append(texts, s.texts[filepath.Dir(file)])
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
	dir := filepath.Join(root, "test", "scripts")
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

// Some test sets each parameter, and each field of an item.
func TestParameters_AreTested(t *testing.T) {
	var all strings.Builder
	for _, text := range readSources(t).texts {
		all.WriteString(text)
	}
	scripts, err := filepath.Glob(filepath.Join(root, "test/scripts/*"))
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, file := range scripts {
		if data, err := os.ReadFile(file); err == nil { // and not a directory
			all.Write(data)
		}
	}
	words, set := firsts(`\b(SCR_\w+)`, all.String()), firsts(`\b([A-Z_]+)=`, all.String())
	for _, p := range config.Parameters {
		if !words[p.Name] {
			t.Errorf("no test speaks of %s", p.Name)
		}
	}
	for _, kind := range config.ItemKinds {
		if !set[kind.Name] {
			t.Errorf("no test has a line %s=", kind.Name)
		}
		for _, field := range kind.Fields {
			if !regexp.MustCompile(kind.Name + `=.*\b` + field.Name + `=`).MatchString(all.String()) {
				t.Errorf("no test sets %s of %s", field.Name, kind.Name)
			}
		}
	}
}

// Some code reads each parameter, and each field of an item but one.
func TestParameters_AreRead(t *testing.T) {
	code := readSources(t).code
	fields := regexp.MustCompile("(?m)^\t(\\w+) +(\\S+) +`scr:\"(\\w+)\"`").FindAllStringSubmatch(read(t, "internal/config/values.go"), -1)
	if len(fields) < len(config.Parameters) {
		t.Fatalf("%d fields for %d parameters", len(fields), len(config.Parameters))
	}
	plain, optional := firsts(`(?:cfg|onfig|\bc)\.(\w+)`, code), firsts(`\.(\w+)\.(?:Or|Value|Set)\b`, code)
	// For libscr.so, by a query; without effect, as docs/config.md says.
	elsewhere := []string{"SCR_ABORT_ON_ERROR", "SCR_CR_SELF_PREFIX", "SCR_CR_THREAD", "SCR_CR_LIMIT_SECONDS", "SCR_CR_LIMIT_ABORT", "SCR_CR_IMAGE", "SCR_CR_IMAGE_RESTORE", "SCR_CHECK_IN_FLIGHT", "SCR_CR_DEBUG", "SCR_AXL_MKDIR", "FETCH"}
	for _, f := range fields {
		name, kind, parameter := f[1], f[2], f[3]
		used := plain[name]
		if strings.HasPrefix(kind, "Optional") {
			used = optional[name]
		}
		if used == slices.Contains(elsewhere, parameter) {
			t.Errorf("%s: that the code reads it is %v", parameter, used)
		}
	}
}

// firsts are the first groups of all matches.
func firsts(pattern, text string) map[string]bool {
	set := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		set[m[1]] = true
	}
	return set
}

// ------------------------------------------------------------------- the calls

// calls returns the functions of scr.h. libscr.so exports those, what inside.h declares for
// libscr_cr.so and variables.h for libveloc-client.so, and no others, as TestLibrary_Symbols (test/scripts/built) checks.
func calls(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*\b(SCR_[A-Z]\w*)\(`).FindAllStringSubmatch(read(t, "cmd/libscr/scr.h"), -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	others := slices.Collect(maps.Keys(firsts(`(?m)^int (goscr_(?:cr|variables)_\w+)\(`, read(t, "cmd/libscr/inside.h")+read(t, "cmd/libscr/variables.h"))))
	_, global, _ := strings.Cut(read(t, "cmd/libscr/libscr.map"), "global:")
	global, _, _ = strings.Cut(global, "local:")
	for _, pattern := range strings.FieldsFunc(global, func(r rune) bool { return strings.ContainsRune("; \n", r) }) {
		if !slices.ContainsFunc(append(others, list...), func(name string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			t.Errorf("libscr.map exports %s, which neither scr.h nor inside.h nor variables.h declares", pattern)
		}
	}
	return list
}

func TestAPI(t *testing.T) {
	const page = "docs/api.md"
	s := readSources(t)
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
			says := []string{name, strings.ToLower(name), inSession(name) + `\(`}
			for _, id := range quoted(l["Go"]) {
				if !declared(s.code, id) {
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
			s.covered(t, name, d["test"], says...)
			manual(t, name)
		})
	}
}

// declared reports whether code has a function, a method Type.Name or a constant.
func declared(code, name string) bool {
	before := `(func |const |\t)`
	if of, method, ok := strings.Cut(name, "."); ok {
		before, name = `func \(\w+ \*?`+of+`\) `, method
	}
	return regexp.MustCompile(`(?m)^` + before + name + `\b`).MatchString(code)
}

// manual checks that there is a page of the manual about a call.
func manual(t *testing.T, call string) {
	t.Helper()
	text := read(t, "docs/man/"+call+".3")
	if !strings.Contains(text, "\n.Nm "+call+"\n") {
		t.Errorf("docs/man/%s.3 is about something else", call)
	}
	if !strings.Contains(text, "\n.ds doc-volume-operating-system goscr\n.Dt ") { // else groff calls it a manual of BSD
		t.Errorf("docs/man/%s.3 has the heading of BSD", call)
	}
}

func TestManual_NothingElse(t *testing.T) {
	pages, err := filepath.Glob("man/*.3")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	inside := slices.Sorted(maps.Keys(firsts(`(?m)^int (SCR_CR_\w+)\(`, read(t, "cr/lib/scr_cr.h"))))
	if len(inside) == 0 {
		t.Error("scr_cr.h declares nothing")
	}
	for _, call := range inside {
		manual(t, call)
	}
	list := append(calls(t), inside...)
	for _, page := range pages {
		if call := strings.TrimSuffix(filepath.Base(page), ".3"); !slices.Contains(list, call) {
			t.Errorf("%s is about what neither scr.h nor scr_cr.h declares", page)
		}
	}
}

// ------------------------------------------------------------------- the links

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every page can be found from README.md, which is short.
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
	if !strings.Contains(readme, "(CONTRIBUTING.md)") {
		t.Error("README.md does not lead to CONTRIBUTING.md")
	}
	if n := len(strings.Fields(readme)); n > 700 {
		t.Errorf("README.md has %d words; 700 is the limit, so that it is read", n)
	}
	words := len(strings.Fields(readme))
	for _, page := range pages {
		for line := range strings.Lines(read(t, "docs/"+page)) {
			if page != "config.md" || !strings.HasPrefix(line, "| ") { // its tables are generated
				words += len(strings.Fields(line))
			}
		}
	}
	t.Logf("%d words in README.md and the pages, without the tables of config.md", words)
	if words > 30000 {
		t.Errorf("README.md and the pages have %d words; 30,000 is the limit", words)
	}
	decisions, err := filepath.Glob("decisions/*.md")
	if err != nil || len(decisions) == 0 {
		t.Fatal(decisions, err)
	}
	if !strings.Contains(readme, "(docs/decisions/README.md)") {
		t.Error("README.md does not lead to docs/decisions/README.md")
	}
	list := read(t, "docs/decisions/README.md")
	for _, page := range decisions {
		name := filepath.Base(page)
		if name != "README.md" && !strings.Contains(list, "("+name+")") {
			t.Errorf("docs/decisions/README.md does not lead to %s", name)
		}
		if n := len(strings.Fields(read(t, "docs/"+page))); name != "README.md" && n > 250 {
			t.Errorf("docs/%s has %d words; 250 is the limit", page, n)
		}
	}
	for _, page := range append(append(pages, decisions...), "../README.md", "../CONTRIBUTING.md") {
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

var quotedPath = regexp.MustCompile("`([A-Za-z0-9_.-]+)(/[A-Za-z0-9_./-]*)`")

// Files that pages name are there.
func TestPaths(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(append(pages, decisions...), "../README.md", "../CONTRIBUTING.md") {
		for _, m := range quotedPath.FindAllStringSubmatch(read(t, "docs/"+page), -1) {
			top, rest := m[1], m[2]
			if _, err := os.Stat(filepath.Join(root, top)); err != nil || top == "build" || top == ".." || top+rest == "hash/crc32" { // of Go
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(root, top, rest)); err != nil {
				t.Errorf("%s names %s%s: %v", page, top, rest, err)
			}
		}
	}
	if found == 0 {
		t.Error("no page names a file")
	}
}

// -------------------------------------------------------------- names in texts

var named = regexp.MustCompile(`\b(SCR_\w+|scr_[a-z0-9_]+)`)

// What pages call by name is there, or is said not to be.
func TestNames(t *testing.T) {
	known := map[string]bool{"SCR_LIB": strings.Contains(read(t, "bindings/python/scr.py"), `"SCR_LIB"`)}
	for _, m := range regexp.MustCompile(`"(SCR_\w+|scr_\w+)"`).FindAllStringSubmatch(readSources(t).code, -1) {
		known[m[1]] = true // such as a reason in the halt file
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
	known["scr_image"] = true // cr/scrimage
	known["scr_cr"] = true    // libscr_cr.so, scr_cr.h
	for name := range firsts(`\b(SCR_CR_\w+)`, read(t, "cr/lib/scr_cr.h")) {
		known[name], known[strings.ToLower(name)] = true, true
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
	pages := []string{"README.md", "CONTRIBUTING.md", "cmd/libscr/scr.h"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md", "docs/man/*"} {
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

// Each row of thesis.md names scripts that try it, or has nothing to try.
func TestThesis_IsTested(t *testing.T) {
	names := regexp.MustCompile("`([0-9]{2}-[a-z]+)`")
	rows, untested := 0, 0
	for _, line := range strings.Split(read(t, "docs/thesis.md"), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, " tests |") {
			continue
		}
		rows++
		cells := cellsOf(line)
		found := names.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(found) == 0 {
			untested++
		}
		for _, m := range found {
			if m[1] == "71-install" { // test/scripts/built
				continue
			}
			if _, err := os.Stat(filepath.Join(root, "test/scripts", m[1]+".sh")); err != nil {
				t.Errorf("%s: %v", cells[0], err)
			}
		}
	}
	if rows < 20 || untested > 1 {
		t.Errorf("%d rows, of which %d name no test", rows, untested)
	}
}

// Tests that reliability.md names are there.
func TestReliability_TestsExist(t *testing.T) {
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "build" || d.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "docs/reliability.md")
	names := regexp.MustCompile("`((?:Test|Fuzz)\\w+)(\\*?)`").FindAllStringSubmatch(page, -1)
	if len(names) < 100 {
		t.Errorf("it names %d tests", len(names))
	}
	for _, m := range names {
		found := there[m[1]]
		for name := range there {
			found = found || m[2] != "" && strings.HasPrefix(name, m[1])
		}
		if !found {
			t.Errorf("no test is called %s%s", m[1], m[2])
		}
	}
	for _, m := range regexp.MustCompile("`([0-9]{2}-[a-z]+\\.sh)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, "test/scripts", m[1])); err != nil {
			t.Error(err)
		}
	}
}

// Defaults that pages name in tables of parameters, and in sentences, are those of the library. A cell of several words explains what
// none of them is.
func TestDefaults(t *testing.T) {
	defaults := map[string]string{}
	for _, p := range config.Parameters {
		defaults[p.Name] = p.Default
	}
	compared := 0
	_, table, _ := strings.Cut(read(t, "docs/use.md"), "\n| parameter | default | what it does |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := cellsOf(line)
		value := strings.Trim(cells[1], "`")
		if strings.Contains(value, " ") {
			continue
		}
		for _, name := range quoted(cells[0]) {
			if compared++; value != defaults[name] {
				t.Errorf("use.md says that the default of %s is %s, and it is %q", name, value, defaults[name])
			}
		}
	}
	if compared < 15 {
		t.Errorf("%d defaults were compared", compared)
	}
	ordinals := map[string]string{"10": "10th", "8": "8th", "5": "5th"}
	words := map[string]string{"10": "tenth", "8": "eighth", "5": "fifth"}
	numbers := map[string]string{"1": "one", "2": "two", "3": "three", "4": "four", "8": "eight"}
	every, kept := defaults["SCR_FLUSH"], defaults["SCR_CACHE_SIZE"]
	room, err := strconv.Atoi(kept) // with the dataset that is being written
	if err != nil {
		t.Fatal(err)
	}
	room++
	members, err := strconv.Atoi(defaults["SCR_SET_SIZE"])
	if err != nil {
		t.Fatal(err)
	}
	ofAll := fmt.Sprintf("%d × %d/%d, or about %.1f times", room, members, members-1, float64(room*members)/float64(members-1))
	rs, losses := reddesc.Stored{Params: reddesc.Params{Type: "RS"}, Members: members}, []int{}
	for rs.Tolerates(append(losses, len(losses))) {
		losses = append(losses, len(losses))
	}
	lost := strconv.Itoa(len(losses))
	for page, sentences := range map[string][]string{
		"README.md":       {"room for " + numbers[strconv.Itoa(room)] + " checkpoints", "each set of at least " + defaults["SCR_SET_SIZE"] + " nodes can lose one"},
		"docs/use.md":     {"XOR over sets of at least " + defaults["SCR_SET_SIZE"] + " nodes", "every " + ordinals[every] + " checkpoint", "the " + numbers[kept] + " newest checkpoints", lost + " for `RS`"},
		"docs/cluster.md": {numbers[kept] + " datasets, XOR in sets of " + numbers[defaults["SCR_SET_SIZE"]], ofAll},
		"docs/choose.md":  {"The default is every " + words[every] + " checkpoint", "| `RS` | " + numbers[lost] + " lost nodes"},
		"docs/start.md":   {"every " + words[every] + ", and the last one", "the " + numbers[kept] + " newest checkpoints are in the cache"},
		"docs/scale.md":   {"XOR in sets of " + defaults["SCR_SET_SIZE"] + " and " + numbers[kept] + " datasets in the cache"},
		"docs/trouble.md": {"Every " + words[every] + " checkpoint"},
	} {
		for _, sentence := range sentences {
			if !strings.Contains(strings.ReplaceAll(read(t, page), "\n", " "), sentence) {
				t.Errorf("%s does not say %q, which is the default now", page, sentence)
			}
		}
	}
}
