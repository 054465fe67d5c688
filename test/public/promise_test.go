package public

import (
	"fmt"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/test/promised"
)

var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/`)
	spaces   = regexp.MustCompile(`\s+`)
	enums    = regexp.MustCompile(`^typedef enum \{(.*)\} (\w+)$`)
)

// header returns the declarations and the macros of a header, a line each.
func header(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	var rest strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(comments.ReplaceAllString(string(text), " "), "\\\n", " ")) {
		trimmed := strings.TrimSpace(spaces.ReplaceAllString(line, " "))
		switch {
		case strings.HasPrefix(trimmed, "#define ") && strings.Count(trimmed, " ") > 1:
			lines = append(lines, trimmed)
		case !strings.HasPrefix(trimmed, "#"):
			rest.WriteString(" " + trimmed)
		}
	}
	for declaration := range strings.SplitSeq(rest.String(), ";") {
		declaration = strings.TrimSpace(spaces.ReplaceAllString(declaration, " "))
		declaration = strings.TrimSpace(strings.TrimPrefix(declaration, `extern "C" {`))
		if m := enums.FindStringSubmatch(declaration); m != nil { // which may get more values
			declaration = "typedef enum " + m[2]
			for value := range strings.SplitSeq(m[1], ",") {
				lines = append(lines, declaration+": "+strings.TrimSpace(value))
			}
		}
		if declaration != "" && declaration != "}" {
			lines = append(lines, declaration)
		}
	}
	if len(lines) < 5 {
		t.Fatalf("%s has %d declarations", path, len(lines))
	}
	return lines
}

func TestPromise_C(t *testing.T) {
	promised.Compare(t, "scr.h", header(t, "../../cmd/libscr/scr.h"))
	promised.Compare(t, "scr_cr.h", header(t, "../../cr/lib/scr_cr.h"))
	promised.Compare(t, "veloc.h", append(header(t, "../../bindings/veloc/veloc.h"), header(t, "../../bindings/veloc/veloc/defs.h")...))
}

// The public names of a module for Python: constants, functions, classes, and the methods and values that a class has or takes
// from a private one, with their arguments.
func TestPromise_Python(t *testing.T) {
	constant := regexp.MustCompile(`^[A-Z][A-Z_]* = [^ ]+`)
	classes := regexp.MustCompile(`^class (\w+)(?:\((\w+))?`)
	for _, module := range []string{"scr.py", "scr_cr.py"} {
		text, err := os.ReadFile("../../bindings/python/" + module)
		must(t, err)
		class, lines := "", []string(nil)
		members := map[string][]string{} // by class
		bases := map[string]string{}     // of public classes
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			inner, isMember := strings.CutPrefix(line, "    ")
			method, isMethod := strings.CutPrefix(inner, "def ")
			switch {
			case isMember && class != "" && isMethod && !strings.HasPrefix(method, "_"):
				members[class] = append(members[class], method)
			case isMember && class != "":
				members[class] = append(members[class], constant.FindAllString(inner, -1)...)
			case classes.MatchString(line):
				m := classes.FindStringSubmatch(line)
				class = m[1]
				if !strings.HasPrefix(class, "_") {
					lines, bases[class] = append(lines, line), m[2]
				}
			case strings.HasPrefix(line, "def "):
				class = ""
				if !strings.HasPrefix(line, "def _") {
					lines = append(lines, line)
				}
			default:
				lines = append(lines, constant.FindAllString(line, -1)...)
			}
		}
		for class, base := range bases {
			for _, member := range slices.Concat(members[class], members[base]) {
				lines = append(lines, class+"."+member)
			}
		}
		promised.Compare(t, module, lines)
	}
}

// The constants of scrf.h, and of the modules for Fortran the constants and the subroutines with their arguments.
func TestPromise_Fortran(t *testing.T) {
	declared := regexp.MustCompile(`(?i)^(parameter *\(.*|integer.*, parameter.*::.*|subroutine \w+\(.*\))`)
	for _, file := range []string{"scrf.h", "scr.f90", "scr_cr.f90"} {
		text, err := os.ReadFile("../../bindings/fortran/" + file)
		must(t, err)
		var lines []string
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(spaces.ReplaceAllString(strings.TrimSpace(line), " "), " !")
			lines = append(lines, declared.FindAllString(line, -1)...)
		}
		if len(lines) < 3 {
			t.Errorf("%s has %q", file, lines)
		}
		promised.Compare(t, file, lines)
	}
}

func TestPromise_Go(t *testing.T) {
	load := exports(t)
	for _, path := range packages {
		p, err := load.Import(module + "/" + path)
		must(t, err)
		var lines []string
		for _, name := range p.Scope().Names() {
			if object := p.Scope().Lookup(name); object.Exported() {
				lines = append(lines, declarations(object)...)
			}
		}
		promised.Compare(t, "go-"+strings.ReplaceAll(path, "/", "-"), lines)
	}
}

// declarations returns an object as Go declares it, with the exported fields or methods of a
// type, a line each.
func declarations(object types.Object) (lines []string) {
	short := func(p *types.Package) string { return p.Name() }
	named, isType := object.Type().(*types.Named)
	if _, ok := object.(*types.TypeName); !ok || !isType {
		line := types.ObjectString(object, short)
		if c, ok := object.(*types.Const); ok {
			line = fmt.Sprintf("%s = %s", line, c.Val())
		}
		return []string{line}
	}
	lines = append(lines, fmt.Sprintf("type %s %s", object.Name(), kind(named.Underlying())))
	switch u := named.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if f.Exported() {
				lines = append(lines, fmt.Sprintf("type %s field %s %s", object.Name(), f.Name(), types.TypeString(f.Type(), short)))
			}
		}
	case *types.Interface:
		for m := range u.Methods() {
			lines = append(lines, fmt.Sprintf("type %s method %s%s", object.Name(), m.Name(), signature(m, short)))
		}
	}
	for m := range named.Methods() {
		if m.Exported() {
			lines = append(lines, types.ObjectString(m, short))
		}
	}
	return lines
}

// kind is a type without what is in it, which may grow.
func kind(t types.Type) string {
	switch t.(type) {
	case *types.Struct:
		return "struct"
	case *types.Interface:
		return "interface"
	}
	return t.String()
}

func signature(f *types.Func, short types.Qualifier) string {
	return strings.TrimPrefix(types.TypeString(f.Type(), short), "func")
}
