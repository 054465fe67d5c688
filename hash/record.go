package hash

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A record is a struct whose fields stand under keys of a hash. The tag of a field has its key:
//
//	type request struct {
//		State  string         `hash:"STATE"`
//		Since  time.Time      `hash:"SINCE"`
//		Reason string         `hash:"REASON,omitempty"`
//		Ranks  map[int]entry  `hash:"RANK"`
//		Other  *hash.Hash     `hash:",rest"`
//	}
//
// Fields without a tag are no part of the record, but the fields of an embedded struct without a
// tag are. A field is, by its type:
//
//	string, int…, uint…, bool     KEY = text; a bool is 1 or 0
//	time.Time, time.Duration      KEY = number of microseconds, of a Time since 1970
//	encoding.TextMarshaler        KEY = text of its own; with encoding.TextUnmarshaler, to be read
//	struct                        KEY / its fields
//	Marshaler                     KEY / a tree of its own; with Unmarshaler, to be read
//	*Hash                         KEY / the hash, not a copy
//	map of strings or ints to T   KEY / <key> = T, or KEY / <key> / T if a T is no text
//	slice of T                    the same with the keys 0, 1, 2, …
//	pointer to T                  as T; no key if it is nil
//
// After the key follow options, separated by commas:
//
//	omitempty   no key if the field has the zero value, or is empty
//	seconds     a time.Time or time.Duration in seconds
//	set         a slice of strings or ints as KEY / <element>: sorted, each once
//	rest        of a *Hash, without a key: all keys that Marshal would not write again: those that
//	            no field has, and those whose contents are not of the type of their field
//
// A value in a file may have been written by anybody. One that is missing, or not of the type of its
// field, leaves the field as it was, so the caller sets defaults before; but a map is made. Ranges
// are for the caller to check. A tag or a type that is none of these is a mistake in the program, which panics.

// Marshaler is a type that makes the hash under its key itself. nil is an empty hash.
type Marshaler interface{ MarshalHash() *Hash }

// Unmarshaler is a type that reads the hash under its key itself. It may keep the hash.
type Unmarshaler interface{ UnmarshalHash(h *Hash) }

// Marshal returns a hash with the fields of a record: a struct, or a pointer to one.
func Marshal(record any) *Hash {
	h := New()
	h.SetFields(record)
	return h
}

// SetFields is Marshal into a hash. Keys that are of no field stay, also in the records below, as
// another version may have written them. Of a map, entries go that it does not have.
func (h *Hash) SetFields(record any) { setFields(h, reflect.Indirect(reflect.ValueOf(record))) }

// Unmarshal sets the fields of the record to which a pointer points from a hash, which may be nil.
func Unmarshal(h *Hash, record any) { getFields(h, reflect.ValueOf(record).Elem()) }

// As is Unmarshal for a record whose defaults are zero.
func As[T any](h *Hash) (record T) {
	Unmarshal(h, &record)
	return record
}

// field is a field of a record.
type field struct {
	index                           []int
	key                             string
	omitEmpty, seconds, rest, asSet bool
}

// plans has the fields of each type of record, with that for the rest first.
var plans sync.Map // reflect.Type to []field

func fieldsOf(t reflect.Type) []field {
	if plan, ok := plans.Load(t); ok {
		return plan.([]field)
	}
	var plan []field
	for i := range t.NumField() {
		s := t.Field(i)
		tag, ok := s.Tag.Lookup("hash")
		if !ok {
			if s.Anonymous && s.Type.Kind() == reflect.Struct {
				for _, f := range fieldsOf(s.Type) {
					f.index = slices.Concat(s.Index, f.index)
					plan = append(plan, f)
				}
			}
			continue
		}
		key, options, _ := strings.Cut(tag, ",")
		f := field{index: s.Index, key: key}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
				f.omitEmpty = true
			case "seconds":
				f.seconds = true
			case "set":
				f.asSet = true
			case "rest":
				f.rest = true
			case "":
			default:
				panic(fmt.Sprintf("hash: option %q of field %s of %s", option, s.Name, t))
			}
		}
		if f.rest == (key != "") {
			panic(fmt.Sprintf("hash: key %q of field %s of %s", key, s.Name, t))
		}
		plan = append(plan, f)
	}
	slices.SortStableFunc(plan, func(a, b field) int { return -cmp.Compare(number(a.rest), number(b.rest)) })
	plans.Store(t, plan)
	return plan
}

func number(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

func setFields(h *Hash, record reflect.Value) {
	var rest *Hash
	for _, f := range fieldsOf(record.Type()) {
		v := record.FieldByIndex(f.index)
		switch {
		case f.rest:
			rest = v.Interface().(*Hash)
			h.Merge(rest)
		case !f.omitEmpty || !empty(v):
			f.set(h, f.key, v)
		case !rest.Has(f.key):
			h.Unset(f.key)
		}
	}
}

func empty(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Map || k == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

// set puts a value under a key.
func (f field) set(h *Hash, key string, v reflect.Value) {
	if text, ok := f.text(v); ok {
		h.SetValue(key, text)
		return
	}
	switch x := v.Interface().(type) {
	case *Hash:
		h.Set(key, x)
		return
	case Marshaler:
		h.Set(key, x.MarshalHash())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			h.Unset(key)
		} else {
			f.set(h, key, v.Elem())
		}
	case reflect.Struct:
		setFields(h.At(key), v)
	case reflect.Map:
		f.setMap(h.At(key), v)
	case reflect.Slice:
		under := h.Set(key, nil)
		for i := range v.Len() {
			if f.asSet {
				text, _ := f.text(v.Index(i))
				under.Set(text, nil)
			} else {
				f.set(under, strconv.Itoa(i), v.Index(i))
			}
		}
	default:
		panic(fmt.Sprintf("hash: %s under %q", v.Type(), key))
	}
}

// setMap puts the entries of a map into the hash under its key.
func (f field) setMap(h *Hash, v reflect.Value) {
	texts := map[string]reflect.Value{}
	for _, k := range v.MapKeys() {
		text, _ := f.text(k)
		texts[text] = v.MapIndex(k)
	}
	for _, key := range h.Keys() {
		if _, ok := f.mapKey(key, v.Type()); ok && !texts[key].IsValid() {
			h.Unset(key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		f.set(h, key, texts[key])
	}
}

// mapKey returns the key of a map by its text.
func (f field) mapKey(text string, t reflect.Type) (key reflect.Value, ok bool) {
	key = reflect.New(t.Key()).Elem()
	ok = f.parse(text, key)
	again, _ := f.text(key)
	return key, ok && again == text // "007" is no key: 7 would be written in its place
}

// text returns the text of a value; ok is false if it is not of a type that has one.
func (f field) text(v reflect.Value) (text string, ok bool) {
	if v.Kind() == reflect.String && v.NumMethod() == 0 {
		return v.String(), true // the most frequent one, without a copy
	}
	switch x := v.Interface().(type) {
	case time.Time:
		if f.seconds {
			return strconv.FormatInt(x.Unix(), 10), true
		}
		return strconv.FormatInt(x.UnixMicro(), 10), true
	case time.Duration:
		return strconv.FormatInt(int64(x/f.unit()), 10), true
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil {
			panic(fmt.Sprintf("hash: %s: %v", v.Type(), err))
		}
		return string(b), true
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String(), true
	case v.Kind() == reflect.Bool:
		return strconv.FormatInt(number(v.Bool()), 10), true
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), true
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), true
	}
	return "", false
}

func (f field) unit() time.Duration {
	if f.seconds {
		return time.Second
	}
	return time.Microsecond
}

func getFields(h *Hash, record reflect.Value) {
	var rest reflect.Value
	done := map[string]bool(nil)
	for _, f := range fieldsOf(record.Type()) {
		v := record.FieldByIndex(f.index)
		switch {
		case f.rest:
			rest, done = v, map[string]bool{}
		case f.get(h.Get(f.key), v) && !(f.omitEmpty && empty(v)) && done != nil:
			done[f.key] = true
		}
	}
	if done == nil {
		return
	}
	var other *Hash
	for key, under := range h.All() {
		if !done[key] {
			if other == nil {
				other = New()
			}
			other.Set(key, under.Clone())
		}
	}
	rest.Set(reflect.ValueOf(other))
}

// get sets a value from the hash under its key, and reports whether that is of its type.
func (f field) get(h *Hash, v reflect.Value) bool {
	if v.Kind() == reflect.Map && v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	if h == nil {
		return false
	}
	switch x := v.Addr().Interface().(type) {
	case **Hash:
		*x = h
		return true
	case Unmarshaler:
		x.UnmarshalHash(h)
		return true
	case *time.Time, encoding.TextUnmarshaler:
		return f.getText(h, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		if f.get(h, to.Elem()) {
			v.Set(to)
			return true
		}
		return false
	case reflect.Struct:
		getFields(h, v)
	case reflect.Map:
		f.getMap(h, v)
	case reflect.Slice:
		f.getSlice(h, v)
	default:
		return f.getText(h, v)
	}
	return true
}

// getText sets a value whose hash is one text.
func (f field) getText(h *Hash, v reflect.Value) bool {
	return h.Size() == 1 && f.parse(h.elements[0].key, v)
}

func (f field) getMap(h *Hash, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for text, under := range h.All() {
		if key, ok := f.mapKey(text, v.Type()); ok {
			element := reflect.New(v.Type().Elem()).Elem()
			f.get(under, element)
			v.SetMapIndex(key, element)
		}
	}
}

// getSlice reads a set, or a list up to the first number that is missing.
func (f field) getSlice(h *Hash, v reflect.Value) {
	v.SetZero()
	element := reflect.New(v.Type().Elem()).Elem()
	if !f.asSet {
		for i := 0; h.Has(strconv.Itoa(i)); i++ {
			element.SetZero()
			f.get(h.Get(strconv.Itoa(i)), element)
			v.Set(reflect.Append(v, element))
		}
		return
	}
	texts := h.Keys()
	if element.CanInt() {
		texts = nil
		for _, n := range h.Ints() {
			texts = append(texts, strconv.Itoa(n))
		}
	}
	for _, text := range texts {
		if f.parse(text, element) {
			v.Set(reflect.Append(v, element))
		}
	}
}

// parse sets a value from its text, and reports whether that is of its type.
func (f field) parse(text string, v reflect.Value) bool {
	switch x := v.Addr().Interface().(type) {
	case *time.Time, *time.Duration:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false
		}
		switch t, isTime := x.(*time.Time); {
		case !isTime && n*int64(f.unit())/int64(f.unit()) != n: // longer than a Duration can be
			return false
		case isTime && f.seconds:
			*t = time.Unix(n, 0)
		case isTime:
			*t = time.UnixMicro(n)
		default:
			v.SetInt(n * int64(f.unit()))
		}
		return true
	case encoding.TextUnmarshaler:
		return x.UnmarshalText([]byte(text)) == nil
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
		return true
	case v.Kind() == reflect.Bool:
		v.SetBool(text == "1")
		return text == "1" || text == "0"
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err == nil {
			v.SetInt(n)
		}
		return err == nil
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err == nil {
			v.SetUint(n)
		}
		return err == nil
	}
	panic(fmt.Sprintf("hash: %s cannot be read", v.Type()))
}
