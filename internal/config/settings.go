package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Settings are the settings that a program makes with SCR_Config before SCR_Init. The zero
// value is empty and ready for use, with the environment of the process.
type Settings struct {
	// Environ looks up variables for queries; if it is nil, in the environment of the
	// process.
	Environ Environ
	// Names lists the variables of the environment, so that Load can warn about unknown
	// ones. If both are nil, they are those of the process.
	Names func() []string

	set *layer // nil until something is set
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

// Config carries out a string that was given to SCR_Config:
//
//	A=B                      sets A
//	A=                       unsets A
//	A                        returns the value of A
//	CKPT=0 TYPE=XOR COUNT=   sets and unsets fields of an item
//	CKPT=0 TYPE              returns a field of an item
//	CKPT                     returns the ids of all items, separated by blanks
//	CKPT=                    unsets all items of the kind
//
// Values are written as in a file, with quotes around blanks, and one string may set
// several parameters. A query returns the value from the environment, from the program or
// the default, because the files are not read before Load. ok says whether a query found a
// value; it is false for a string that sets or unsets.
func (s *Settings) Config(text string) (result string, ok bool, err error) {
	pairs, err := parseLine(text)
	if err != nil {
		return "", false, err
	}
	q, isQuery, err := parseQuery(pairs)
	if err != nil {
		return "", false, err
	}
	if isQuery {
		return s.query(q)
	}
	return "", false, s.layer().add(pairs, "")
}

// query asks for a parameter (name), a field of an item (all three), or the
// ids of the items of a kind (name).
type query struct{ name, id, field string }

// parseQuery reports whether pairs are a query. A mixture of a query and settings is an
// error.
func parseQuery(pairs []pair) (q query, isQuery bool, err error) {
	switch {
	case len(pairs) == 0:
		return q, false, errors.New("nothing to set or to query")
	case len(pairs) == 1 && pairs[0].bare:
		return query{name: pairs[0].key}, true, nil
	case len(pairs) == 2 && !pairs[0].bare && pairs[1].bare && findKind(pairs[0].key) != nil:
		return query{pairs[0].key, pairs[0].value, pairs[1].key}, true, nil
	}
	return q, false, noBare(pairs)
}

func (s *Settings) query(q query) (string, bool, error) {
	r := resolver{environ: s.lookup(), layers: []*layer{s.layer()}}
	if q.field != "" {
		it := s.layer().items[q.name][q.id]
		if it == nil {
			return "", false, nil
		}
		text, err := expand(it.fields[q.field].text, r.variable)
		return text, err == nil && text != "", err
	}
	if findKind(q.name) != nil {
		ids := strings.Join(slices.Sorted(maps.Keys(s.layer().items[q.name])), " ")
		return ids, ids != "", nil
	}
	prefix, err := r.resolve(find(Parameters, "SCR_PREFIX"))
	if err != nil {
		return "", false, err
	}
	r.prefix = prefix.text
	v, err := r.resolve(findOrText(Parameters, q.name))
	return v.text, err == nil && v.text != "", err
}

// Text returns the settings in the form of a configuration file, "" if there are none. Equal
// settings have the same text, in whatever order they were made.
func (s *Settings) Text() string { return s.text(func(string) bool { return true }) }

// Public is Text without secrets. It is stored in the prefix directory for commands.
func (s *Settings) Public() string {
	return s.text(func(name string) bool {
		p := find(Parameters, name)
		return p == nil || !p.Secret
	})
}

func (s *Settings) text(wanted func(name string) bool) string {
	var b strings.Builder
	for _, pairs := range s.layer().lines() {
		if wanted(pairs[0].key) {
			b.WriteString(format(pairs))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// ParseSettings parses the result of Text. An error begins with name:line.
func ParseSettings(name, text string) (*Settings, error) {
	l, err := layerOf(Program, name, text)
	if err != nil {
		return nil, err
	}
	return &Settings{set: l}, nil
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
