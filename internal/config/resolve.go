package config

import (
	"errors"
	"fmt"
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
	lenient bool     // wrong lines of files are left out, and no error
}

// addFile adds a configuration file as the highest layer.
func (r *resolver) addFile(level Level, path, text string) error {
	if r.lenient {
		text = withoutWrongLines(text)
	}
	l, err := layerOf(level, path, text)
	if err != nil {
		return err
	}
	l.leaveOut(r.variable)
	r.layers = append([]*layer{l}, r.layers...)
	return nil
}

// variable returns the text that replaces $NAME.
func (r *resolver) variable(name string) (string, bool) {
	switch {
	case name == "PWD":
		if dir, err := os.Getwd(); err == nil {
			return dir, true
		}
	case name == "SCR_PREFIX" && r.prefix != "":
		return r.prefix, true
	}
	return r.environ(name)
}

// expand expands the text of a setting. What a file says is expanded twice, as in SCR, which
// does so when it reads the file and when it looks a value up.
func (r *resolver) expand(text string, level Level) string {
	text, _ = expand(text, r.variable)
	if level == User || level == System {
		text, _ = expand(text, r.variable)
	}
	return text
}

// inForce returns the items with a key from the first place that has any. No item of a kind
// of ItemKinds comes from the environment, where a script may have a variable CKPT of its own.
func (r *resolver) inForce(key string) []*item {
	if text, _ := r.environ(key); text != "" && findKind(key) == nil {
		return []*item{{setting: setting{key: key, text: text}, level: Environment}}
	}
	return itemsOf(r.layers, key)
}

func itemsOf(layers []*layer, key string) []*item {
	for i, l := range layers {
		switch {
		case l.items[key] == nil:
		case slices.Contains(l.adds, key):
			return merge(itemsOf(layers[i+1:], key), l.items[key])
		default:
			return l.items[key]
		}
	}
	return nil
}

// merge adds items and their children to others, and changes neither.
func merge(below, above []*item) []*item {
	list := slices.Clone(below)
	for _, it := range above {
		if i := slices.IndexFunc(list, func(old *item) bool { return old.text == it.text }); i >= 0 {
			both := *it
			both.children = slices.Concat(list[i].children, it.children)
			it, list = &both, slices.Delete(list, i, i+1)
		}
		list = append(list, it)
	}
	return list
}

// expanded is an item whose texts are expanded; Raw is its value before that.
type expanded struct {
	Raw      string  `hash:"RAW"`
	Text     string  `hash:"TEXT"`
	Children []child `hash:"ITEM"`
}

type child struct {
	Key  string `hash:"KEY"`
	Text string `hash:"TEXT"`
}

func (r *resolver) expanded(items []*item) []expanded {
	var list []expanded
	for _, it := range items {
		x := expanded{Raw: it.text, Text: r.expand(it.text, it.level)}
		for _, s := range it.children {
			if c := (child{s.key, r.expand(s.text, it.level)}); !slices.Contains(x.Children, c) {
				x.Children = append(x.Children, c)
			}
		}
		list = append(list, x)
	}
	return list
}

// resolve finds the value of a parameter.
func (r *resolver) resolve(p *Parameter) (value, error) {
	if text, _ := r.environ(p.Name); text != "" {
		if v, err := r.setTo(p, setting{text: text}, Environment); err != nil || v.text != "" {
			return v, err
		}
	}
	for _, l := range r.layers {
		if v, err := r.setTo(p, l.last(p.Name), l.level); err != nil || v.text != "" {
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
	text := r.expand(s.text, level)
	if text == "" {
		return value{}, nil
	}
	return p.check(text, Source{level, s.where})
}

// resolveItem finds the fields of an item and sets them in items. It returns the id after
// expansion, under which they are set; two ids may be the same after expansion.
func (r *resolver) resolveItem(kind *ItemKind, it *item, items *hash.Hash) (final string, err error) {
	v, err := r.setTo(&kind.Parameter, it.setting, it.level)
	if err == nil && v.text == "" {
		err = invalid(kind.Name, it.text, Source{it.level, it.where}, errors.New("names no item"))
	}
	if err != nil {
		return "", err
	}
	final = kind.plain(v)
	h := items.At(final)
	for _, name := range it.names() {
		p := findOrText(kind.Fields, name)
		v, err := r.setTo(p, it.child(name), it.level)
		if err != nil {
			return "", fmt.Errorf("%s=%s: %w", kind.Name, it.text, err)
		}
		if v.text != "" {
			h.SetValue(name, p.plain(v))
		}
	}
	return final, nil
}

// isOfRank reports whether each rank expands the items with this key for itself.
func isOfRank(key string) bool {
	if p := find(Parameters, key); p != nil {
		return p.Scope == Rank
	}
	kind := findKind(key)
	return kind != nil && kind.Scope == Rank
}

// isKnown reports whether a key is a parameter or a kind of items.
func isKnown(key string) bool { return find(Parameters, key) != nil || findKind(key) != nil }

// keys returns the keys that are set anywhere, each once. Of the environment they are those
// of parameters.
func (r *resolver) keys() []string {
	var list []string
	for _, p := range Parameters {
		if text, _ := r.environ(p.Name); text != "" {
			list = append(list, p.Name)
		}
	}
	for _, l := range r.layers {
		for _, key := range l.order {
			if !slices.Contains(list, key) {
				list = append(list, key)
			}
		}
	}
	return list
}
