package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/goscr/goscr/hash"
)

// Environ looks up a variable, as os.LookupEnv does.
type Environ func(name string) (string, bool)

// resolver finds values for one rank.
type resolver struct {
	environ Environ
	prefix  string   // the prefix directory, "" until it is known
	layers  []*layer // highest first
}

// readFile adds a configuration file as the highest layer.
func (r *resolver) readFile(level Level, path string) error {
	text, err := readText(path)
	if err != nil {
		return err
	}
	l, err := layerOf(level, path, text)
	r.layers = append([]*layer{l}, r.layers...)
	return err
}

// variable returns the text that replaces $VAR.
func (r *resolver) variable(name string) (string, error) {
	switch {
	case name == "PWD":
		return os.Getwd()
	case name == "SCR_PREFIX" && r.prefix != "":
		return r.prefix, nil
	}
	text, _ := r.environ(name)
	return text, nil
}

// resolve finds the value of a parameter.
func (r *resolver) resolve(p *Parameter) (value, error) {
	if text, _ := r.environ(p.Name); text != "" {
		return p.check(text, Source{Level: Environment})
	}
	for _, l := range r.layers {
		if v, err := r.setTo(p, l.values[p.Name], l.level); err != nil || v.text != "" {
			return v, err
		}
	}
	if p.derive != nil {
		if text, from := p.derive(r.environ); text != "" {
			return p.check(text, Source{Default, from})
		}
	}
	v, err := r.setTo(p, setting{text: p.Default}, Default)
	if err == nil && v.text == "" && p.Type != Text {
		return p.check("", Source{})
	}
	return v, err
}

// setTo returns the value that one setting gives a parameter. Its text is "" if the setting
// expands to nothing.
func (r *resolver) setTo(p *Parameter, s setting, level Level) (value, error) {
	source := Source{level, s.where}
	text, err := expand(s.text, r.variable)
	if err != nil {
		return value{}, invalid(p.Name, s.text, source, err)
	}
	if text == "" {
		return value{}, nil
	}
	return p.check(text, source)
}

// resolveItem finds the fields of an item and sets them in items. It returns the id after
// expansion, under which they are set; two ids may be the same after expansion.
func (r *resolver) resolveItem(kind *ItemKind, id string, l *layer, items *hash.Hash) (final string, err error) {
	it := l.items[kind.Name][id]
	v, err := r.setTo(&kind.Parameter, setting{id, it.where}, l.level)
	if err == nil && v.text == "" {
		err = invalid(kind.Name, id, Source{l.level, it.where}, errors.New("names no item"))
	}
	if err != nil {
		return "", err
	}
	final = kind.plain(v)
	h := items.At(final)
	for _, name := range slices.Sorted(maps.Keys(it.fields)) {
		p := findOrText(kind.Fields, name)
		v, err := r.setTo(p, it.fields[name], l.level)
		if err != nil {
			return "", fmt.Errorf("%s=%s: %w", kind.Name, id, err)
		}
		if v.text != "" {
			h.SetValue(name, p.plain(v))
		}
	}
	return final, nil
}
