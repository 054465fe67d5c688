package config

import (
	"iter"
	"reflect"
	"strconv"

	"github.com/goscr/goscr/hash"
)

// Lines are the items of all kinds, each a line of a configuration file.
type Lines struct {
	Stores    []Store
	Ckpts     []Ckpt                       // in the order of their ids
	CkptsFrom Level                        // the place they came from; Default if there are none
	Groups    map[string]map[string]string // node -> kind of group -> name of the group
	CntlDirs  map[string]int64             // directory -> least size of its file system in bytes
	CacheDirs map[string]int64
}

// Store returns the line about a store. If there is none, it returns one with no fields set.
func (l *Lines) Store(id string) Store {
	for _, s := range l.Stores {
		if s.ID == id {
			return s
		}
	}
	return Store{ID: id, Path: id}
}

// SizeName returns the parameter that says how many datasets a store keeps.
func (l *Lines) SizeName(store string) string {
	if l.Store(store).Count.Set {
		return "STORE=" + store + " COUNT"
	}
	return "SCR_CACHE_SIZE"
}

// Optional is the value of a field that a line may omit.
type Optional[T any] struct {
	Value T
	Set   bool
}

// Or returns the value if it was set, and otherwise the argument.
func (o Optional[T]) Or(otherwise T) T {
	if o.Set {
		return o.Value
	}
	return otherwise
}

func (o *Optional[T]) store(v value) {
	v.store(&o.Value)
	o.Set = true
}

// linesOf makes structs from the hash kind -> id -> field -> value, whose values have been
// checked. paths has the directory of each store on this rank.
func linesOf(all *hash.Hash, paths map[string]string) Lines {
	x := Lines{Groups: map[string]map[string]string{}, CntlDirs: sizes(all.Get("CNTLDIR")), CacheDirs: sizes(all.Get("CACHEDIR"))}
	for id, h := range all.Get("STORE").All() {
		s := Store{ID: id, Path: paths[id]}
		fill("STORE", &s, h)
		x.Stores = append(x.Stores, s)
	}
	for _, id := range all.Get("CKPT").Ints() {
		c := Ckpt{ID: id}
		fill("CKPT", &c, all.Get("CKPT", strconv.Itoa(id)))
		x.Ckpts = append(x.Ckpts, c)
	}
	for node, h := range all.Get("GROUPS").All() {
		x.Groups[node] = map[string]string{}
		for kind := range h.All() {
			x.Groups[node][kind] = h.Text(kind)
		}
	}
	return x
}

// ItemLines returns the lines of STORE, CKPT and the like that are in force, as a configuration file may have them: the
// kinds in the order of ItemKinds, with values as they are after expansion. Fields without a meaning are left out: the warnings of Load
// have them.
func (c *Config) ItemLines() (list []string) {
	for _, kind := range ItemKinds {
		for id, fields := range c.items.Get(kind.Name).All() {
			line := kind.Name + "=" + id
			for name := range fields.All() {
				if kind.Fields != nil && find(kind.Fields, name) == nil {
					continue
				}
				line += " " + name + "=" + fields.Text(name)
			}
			list = append(list, line)
		}
	}
	return list
}

// fill sets the fields of an item for which h has a value.
func fill(kind string, item any, h *hash.Hash) {
	for name, field := range fields(item) {
		if text := h.Text(name); text != "" {
			v, _ := find(findKind(kind).Fields, name).read(text) // rank 0 has checked it
			v.store(field)
		}
	}
}

// fields returns the names of parameters and pointers to their fields of a generated struct, in the
// order of the struct. of is a pointer to the struct.
func fields(of any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			if name := parameterOf(v.Type().Field(i)); name != "" && !yield(name, v.Field(i).Addr().Interface()) {
				return
			}
		}
	}
}

// parameterOf returns the name of the parameter of a field of a generated struct, "" if it has none.
func parameterOf(f reflect.StructField) string { return f.Tag.Get("scr") }

func sizes(dirs *hash.Hash) map[string]int64 {
	list := map[string]int64{}
	for dir, h := range dirs.All() {
		if bytes, ok := h.Int("BYTES"); ok {
			list[dir] = bytes
		}
	}
	return list
}
