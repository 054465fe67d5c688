package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/goscr/goscr/internal/sys/trust"
)

// maxFile limits the bytes that are read of a configuration file. No real one is as large.
const maxFile = 16 << 20

// setting is a value as it was set, before expansion.
type setting struct {
	key, text string
	where     string // file:line, or ""
}

// item is KEY=VALUE with the settings that follow it on its line, its children. A parameter
// is an item, too, whose children have no effect. A child may be set several times.
type item struct {
	setting
	level    Level
	children []setting
}

// child returns the last setting of a child.
func (it *item) child(key string) setting {
	for _, s := range slices.Backward(it.children) {
		if s.key == key {
			return s
		}
	}
	return setting{}
}

// names returns the names of the children, each once, sorted.
func (it *item) names() []string {
	set := map[string]bool{}
	for _, s := range it.children {
		set[s.key] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// layer is the settings of one level. A key may have several items, in the order in which
// they were set.
type layer struct {
	level Level
	items map[string][]*item
	order []string // keys, in the order in which they were set
	adds  []string // keys whose items are added to those of the level below: see Settings.Config
	notes []string // warnings
	// ignored says why the file of the layer is taken for empty.
	ignored []*trust.ForeignError
}

func newLayer(level Level) *layer {
	return &layer{level: level, items: map[string][]*item{}}
}

// readText returns the contents of a file, "" if it does not exist. It does not read a file,
// or follow a link, for which check, if it is not nil, returns an error.
func readText(path string, check func(string, fs.FileInfo) error) (string, error) {
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		if info, err := stat(path); err == nil && check != nil {
			if err := check(path, info); err != nil {
				return "", err
			}
		}
	}
	f, err := os.Open(path)
	if missing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || check != nil && check(path, info) != nil {
		return "", cmp.Or(err, fmt.Errorf("%s: has been replaced while it was read", path))
	}
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
	lines, err := parse(name, text, true)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		where := fmt.Sprintf("%s:%d", name, line.number)
		first := line.pairs[0]
		switch {
		case first.value != "":
			l.add(line.pairs, where)
		case len(line.pairs) == 1:
			l.unset(first.key)
		default:
			return nil, fmt.Errorf("%s: %s= names no item", where, first.key)
		}
	}
	return l, nil
}

// withoutWrongLines returns the text of a configuration file without the lines that are errors of layerOf.
func withoutWrongLines(text string) string {
	isWrong := func(line string) bool { _, err := layerOf(User, "", line); return err != nil }
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), isWrong), "\n")
}

// set makes an item the only one with its key.
func (l *layer) set(key, value string) {
	l.unset(key)
	l.add([]pair{{key: key, value: value}}, "")
}

// unset deletes all items with a key.
func (l *layer) unset(key string) {
	delete(l.items, key)
	other := func(s string) bool { return s == key }
	l.order, l.adds = slices.DeleteFunc(l.order, other), slices.DeleteFunc(l.adds, other)
}

// add adds an item, or children to an item with the same value.
func (l *layer) add(pairs []pair, where string) {
	key, value := pairs[0].key, pairs[0].value
	list := l.items[key]
	if list == nil {
		l.order = append(l.order, key)
	}
	it := &item{setting: setting{key, value, where}, level: l.level}
	if i := slices.IndexFunc(list, func(old *item) bool { return old.text == value }); i >= 0 {
		it = list[i]
		list = slices.Delete(list, i, i+1) // what was set last comes last
	}
	l.items[key] = append(list, it)
	for _, p := range pairs[1:] {
		if p.value != "" {
			l.addChild(it, setting{p.key, p.value, where})
		}
	}
}

func (l *layer) addChild(it *item, s setting) {
	// A program may set a child again, but in a file that is probably a mistake.
	if old := it.child(s.key); old.text != "" && old.text != s.text && s.where != "" {
		l.notes = append(l.notes, at(s.where, "%s=%s is here a second time, and its %s=%s takes the place of %s=%s (%s)",
			it.key, it.text, s.key, s.text, s.key, old.text, old.where))
	}
	it.children = append(slices.DeleteFunc(it.children, func(old setting) bool { return old.key == s.key && old.text == s.text }), s)
}

// last returns the last setting of a parameter, whose text is "" if there is none.
func (l *layer) last(key string) setting {
	if list := l.items[key]; len(list) > 0 {
		return list[len(list)-1].setting
	}
	return setting{}
}

// leaveOut deletes the settings in which a variable is not set, as SCR does: a path in which
// a variable is missing would be another one.
func (l *layer) leaveOut(variable func(string) (string, bool)) {
	isBad := func(s setting, what string) bool {
		_, missing := expand(s.text, variable)
		if missing != "" {
			l.notes = append(l.notes, at(s.where, "$%s is not set in the environment: %s has no effect", missing, what))
		}
		return missing != ""
	}
	for _, key := range slices.Clone(l.order) {
		for _, it := range slices.Clone(l.items[key]) {
			if isBad(it.setting, fmt.Sprintf("%s=%s with all that follows it", key, it.text)) {
				l.items[key] = slices.DeleteFunc(l.items[key], func(other *item) bool { return other == it })
				continue
			}
			it.children = slices.DeleteFunc(it.children, func(s setting) bool { return isBad(s, s.key+"="+s.text) })
		}
		if len(l.items[key]) == 0 {
			l.unset(key)
		}
	}
}

// lines returns the settings as lines of a file, sorted by key. Lines with the same key are
// in the order in which they were set. Where they are not added to those of the level below,
// a line without children comes first.
func (l *layer) lines() [][]pair {
	var lines [][]pair
	for _, key := range slices.Sorted(maps.Keys(l.items)) {
		for i, it := range l.items[key] {
			first := pair{key: key, value: it.text}
			if i == 0 && !slices.Contains(l.adds, key) {
				lines = append(lines, []pair{first})
				if len(it.children) == 0 {
					continue
				}
			}
			pairs := []pair{first}
			for _, s := range it.children {
				pairs = append(pairs, pair{key: s.key, value: s.text})
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
