package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Settings are the settings that a program makes with SCR_Config before SCR_Init. The zero
// value is empty and ready for use, with the environment of the process.
type Settings struct {
	// Environ looks up variables; if it is nil, in the environment of the process.
	Environ Environ
	// Names lists the variables of the environment, so that Load can warn about unknown
	// ones. If both are nil, they are those of the process.
	Names func() []string

	// Err is why the caller could not make the settings that it should have made on this rank; nil if it has made them. Load
	// returns it on all ranks: before that, a rank does not know whether others call Load.
	Err error

	set   *layer            // nil until something is set
	texts map[string]string // of files that were read for a query, by path
}

func (s *Settings) lookup() Environ {
	if s.Environ == nil {
		return os.LookupEnv
	}
	return s.Environ
}

// names lists the variables of the environment, or returns nil if they cannot be listed.
func (s *Settings) names() []string {
	switch {
	case s.Names != nil:
		return s.Names()
	case s.Environ != nil:
		return nil
	}
	var names []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	return names
}

// layer returns the settings as the layer of level Program.
func (s *Settings) layer() *layer {
	if s.set == nil {
		s.set = newLayer(Program)
	}
	return s.set
}

// file returns the text of a configuration file. As in SCR, a file is read once for all
// queries and for SCR_Init, and again when the program changes where the user's file is.
func (s *Settings) file(path string, check func(string, fs.FileInfo) error) (string, error) {
	if text, ok := s.texts[path]; ok {
		return text, nil
	}
	text, err := readText(path, check)
	if err == nil {
		if s.texts == nil {
			s.texts = map[string]string{}
		}
		s.texts[path] = text
	}
	return text, err
}

// Config carries out a string that was given to SCR_Config:
//
//	A=B              sets A, in place of what was set before
//	A=               takes back what was set
//	A                returns the value of A, from whatever place sets it
//	A=B C=D          sets child C of item A=B, beside the other items A
//	A=B C            returns a child of an item
//
// A query returns what was set, not a default; it reads the files. ok says whether it found
// a value; it is false for a string that sets. Where there are several values, the error is
// ErrAmbiguous. If the first string about A has a child, the system's items A stay beside
// those of the program.
func (s *Settings) Config(text string) (result string, ok bool, err error) {
	pairs, err := parseConfig(text)
	if err != nil || len(pairs) == 0 {
		return "", false, err
	}
	q, isQuery, err := parseQuery(pairs)
	switch {
	case err != nil:
	case isQuery:
		var r *resolver
		if r, _, _, err = readAll(s, s.lookup()); err == nil {
			return q.answer(r.expanded(r.inForce(q.name)))
		}
	default:
		err = s.apply(pairs)
	}
	return "", false, err
}

// Set sets a parameter to a value that may have blanks; "" takes back what was set.
func (s *Settings) Set(name, value string) error {
	if name == "" || strings.ContainsAny(name, blanks+"=\n\x00") || strings.ContainsAny(value, "\n\x00") {
		return fmt.Errorf("%q=%q: a name has neither blanks nor =, and a value is one line", name, value)
	}
	return s.apply([]pair{{key: name, value: value}})
}

// Add is Config for a string that sets; a query is an error.
func (s *Settings) Add(text string) error {
	pairs, err := parseConfig(text)
	if err != nil {
		return err
	}
	if _, isQuery, err := parseQuery(pairs); err != nil || isQuery || len(pairs) == 0 {
		return cmp.Or(err, fmt.Errorf("%q sets nothing", text))
	}
	return s.apply(pairs)
}

// apply sets or unsets.
func (s *Settings) apply(pairs []pair) error {
	l, key, value := s.layer(), pairs[0].key, pairs[0].value
	empty := slices.IndexFunc(pairs, func(p pair) bool { return p.value == "" })
	switch {
	case value == "" && len(pairs) > 1: // in a file of Text's form
		return fmt.Errorf("%s= names no item", key)
	case value == "":
		l.unset(key)
	case len(pairs) == 1 || len(pairs) == 2 && empty == 1: // as SCR does: see docs/differences.md
		l.set(key, value)
	case empty > 0:
		return fmt.Errorf("%s= beside other settings: a single child cannot be taken back; unset all with %s=, and set again what is to stay",
			pairs[empty].key, key)
	default:
		adds := l.items[key] == nil || slices.Contains(l.adds, key)
		l.add(pairs, "")
		if adds && !slices.Contains(l.adds, key) {
			l.adds = append(l.adds, key)
		}
	}
	if key == "SCR_PREFIX" || key == "SCR_CONF_FILE" {
		s.texts = nil
	}
	return nil
}

// ErrAmbiguous is the error of a query for which there are several values.
var ErrAmbiguous = errors.New("ambiguous")

// query asks for a parameter (name), or a child of an item (all three).
type query struct{ name, value, child string }

// parseQuery reports whether pairs are a query. A mixture of a query and settings is an
// error.
func parseQuery(pairs []pair) (q query, isQuery bool, err error) {
	switch bare := slices.IndexFunc(pairs, func(p pair) bool { return p.bare }); {
	case bare < 0:
		return q, false, nil
	case len(pairs) == 1:
		return query{name: pairs[0].key}, true, nil
	case len(pairs) == 2 && bare == 1:
		return query{pairs[0].key, pairs[0].value, pairs[1].key}, true, nil
	default:
		return q, false, fmt.Errorf("%q is not NAME=VALUE: ask for one value at a time, as NAME or NAME=VALUE CHILD; a value cannot have a blank", pairs[bare].key)
	}
}

// answer finds the answer in the items with the name. Their texts are expanded; an item may
// be asked for by its value before that, too.
func (q query) answer(items []expanded) (result string, ok bool, err error) {
	var values []string
	what := q.name
	for _, it := range items {
		switch {
		case q.child == "":
			values = append(values, it.Text)
		case q.value == it.Text || q.value == it.Raw:
			what = q.name + "=" + q.value + " " + q.child
			for _, s := range it.Children {
				if s.Key == q.child {
					values = append(values, s.Text)
				}
			}
		}
	}
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", false, fmt.Errorf("%s is %w: it has the values %s; ask for a child of one of them, as in %s=%s NAME, or set it only once",
		what, ErrAmbiguous, strings.Join(values, ", "), q.name, items[0].Text)
}

// Text returns the settings in the form of a configuration file, "" if there are none. What
// the same strings have set in the same order has the same text.
func (s *Settings) Text() string { return s.text(func(pair) bool { return true }) }

// Public is Text without secrets. It is stored in the prefix directory for commands.
func (s *Settings) Public() string {
	return s.text(func(p pair) bool {
		known := find(Parameters, p.key)
		return known == nil || !known.Secret
	})
}

func (s *Settings) text(wanted func(pair) bool) string {
	var b strings.Builder
	for _, pairs := range s.layer().lines() {
		if !slices.ContainsFunc(pairs, func(p pair) bool { return !wanted(p) }) {
			b.WriteString(format(pairs))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// ParseSettings parses the result of Text. An error begins with name:line.
func ParseSettings(name, text string) (*Settings, error) {
	lines, err := parseOwn(name, text)
	if err != nil {
		return nil, err
	}
	s := &Settings{}
	for _, line := range lines {
		if err := s.apply(line.pairs); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line.number, err)
		}
	}
	return s, nil
}

// same returns an error if the settings differ from those of rank 0, whose Text is given.
func (s *Settings) same(rank0 string) error {
	mine := s.Text()
	if mine == rank0 {
		return nil
	}
	a, b := strings.Split(mine, "\n"), strings.Split(rank0, "\n")
	i := 0
	for i < len(a)-1 && i < len(b)-1 && a[i] == b[i] {
		i++
	}
	return fmt.Errorf("the program's settings differ between ranks: %q here, %q on rank 0; SCR_Config must get the same strings on all ranks", a[i], b[i])
}
