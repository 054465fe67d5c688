package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
)

// maxFile limits the bytes that are read of a configuration file. No real one is as large.
const maxFile = 16 << 20

// setting is a value as it was set, before expansion.
type setting struct {
	text  string
	where string // file:line, or ""
}

// item is one of STORE, CKPT and so on.
type item struct {
	where  string
	fields map[string]setting
}

// layer is the settings of one level.
type layer struct {
	level  Level
	values map[string]setting
	order  []string                    // names in values, in the order in which they were set
	items  map[string]map[string]*item // by kind and id

	replaced []string // a warning for each field that a file sets twice to different values
}

func newLayer(level Level) *layer {
	return &layer{
		level:  level,
		values: map[string]setting{},
		items:  map[string]map[string]*item{},
	}
}

// readText returns the contents of a file, "" if it does not exist.
func readText(path string) (string, error) {
	f, err := os.Open(path)
	if missing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("%s: a configuration file must not have more than %d bytes", path, maxFile)
	}
	return string(data), nil
}

// missing reports whether an error says that there is no such file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// layerOf parses the text of the configuration file with this name.
func layerOf(level Level, name, text string) (*layer, error) {
	l := newLayer(level)
	lines, err := parse(name, text)
	for _, line := range lines {
		if err == nil {
			err = l.add(line.pairs, fmt.Sprintf("%s:%d", name, line.number))
		}
	}
	return l, err
}

// add adds the settings of one line, or none of them if it returns an error. Later lines
// override earlier ones; an empty value unsets a setting.
func (l *layer) add(pairs []pair, where string) error {
	if len(pairs) == 0 {
		return nil
	}
	wrong := func(format string, args ...any) error {
		err := fmt.Errorf(format, args...)
		if where != "" {
			err = fmt.Errorf("%s: %w", where, err)
		}
		return err
	}
	for _, p := range pairs[1:] {
		if findKind(p.key) != nil && findKind(pairs[0].key) == nil {
			return wrong("%s= must come first on its line", p.key)
		}
	}
	kind := findKind(pairs[0].key)
	switch {
	case kind == nil:
		for _, p := range pairs {
			l.set(p.key, setting{p.value, where})
		}
	case pairs[0].value != "":
		l.addItem(kind.Name, pairs[0].value, pairs[1:], where)
	case len(pairs) == 1:
		delete(l.items, kind.Name)
	default:
		return wrong("%s= names no item", kind.Name)
	}
	return nil
}

func (l *layer) set(name string, s setting) {
	if s.text == "" {
		l.unset(name)
		return
	}
	if _, ok := l.values[name]; !ok {
		l.order = append(l.order, name)
	}
	l.values[name] = s
}

func (l *layer) unset(name string) {
	delete(l.values, name)
	l.order = slices.DeleteFunc(l.order, func(s string) bool { return s == name })
}

func (l *layer) addItem(kind, id string, fields []pair, where string) {
	if l.items[kind] == nil {
		l.items[kind] = map[string]*item{}
	}
	it := l.items[kind][id]
	if it == nil {
		it = &item{where, map[string]setting{}}
		l.items[kind][id] = it
	}
	for _, p := range fields {
		if p.value == "" {
			delete(it.fields, p.key)
			continue
		}
		// A program may set a field again, but in a file that is probably a mistake.
		if old, ok := it.fields[p.key]; ok && old.text != p.value && where != "" {
			l.replaced = append(l.replaced, at(where, "%s=%s is here a second time, and its %s=%s takes the place of %s=%s (%s)",
				kind, id, p.key, p.value, p.key, old.text, old.where))
		}
		it.fields[p.key] = setting{p.value, where}
	}
}

// lines returns the settings in a fixed order, one line for each parameter or item.
func (l *layer) lines() [][]pair {
	var lines [][]pair
	for _, name := range slices.Sorted(maps.Keys(l.values)) {
		lines = append(lines, []pair{{key: name, value: l.values[name].text}})
	}
	for _, kind := range slices.Sorted(maps.Keys(l.items)) {
		for _, id := range slices.Sorted(maps.Keys(l.items[kind])) {
			pairs := []pair{{key: kind, value: id}}
			fields := l.items[kind][id].fields
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				pairs = append(pairs, pair{key: name, value: fields[name].text})
			}
			lines = append(lines, pairs)
		}
	}
	return lines
}

// at formats a warning about a setting and puts the place of the setting in front.
func at(where, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if where == "" {
		return text
	}
	return where + ": " + text
}
