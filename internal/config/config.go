// Package config finds the value of every parameter.
//
// A value is taken from the first of these that has one:
//
//	the environment
//	the user's file      $SCR_CONF_FILE, else <prefix>/.scrconf
//	the program          SCR_Config, before SCR_Init
//	the system's file    /etc/scr.conf, or what the installation chose
//	the default          in the table Parameters, and nowhere else
//
// An empty value counts as none, also where expansion made it empty. In files,
// program settings and defaults $VAR and ${VAR} stand for variables of the
// environment, nothing where they are unset; $$ is a dollar sign. Two names
// are not left to the environment: $PWD is the directory the process works in,
// and $SCR_PREFIX the prefix directory that was decided on. The prefix decides
// where the user's file is, so that file cannot set it.
//
// Rank 0 reads the files and decides on parameters of scope Job. Parameters
// of scope Rank are found on each rank by the same rule, with that rank's
// environment. Items (GROUPS, STORE, CKPT) are decided on by rank 0, and all
// of one kind come from one place: as in SCR, a user who describes a
// checkpoint replaces the descriptors of the system's file, lest the two mix.
package config

//go:generate go run ./generate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// systemFile is where an installation keeps its settings. To be changed with
//
//	go build -ldflags "-X github.com/goscr/goscr/internal/config.systemFile=/opt/scr/etc/scr.conf"
var systemFile = "/etc/scr.conf"

// settingsFile is where the settings of a program are kept for commands,
// below the prefix directory.
const settingsFile = ".scr/app.conf"

// maxFile is more bytes than any file of settings has.
const maxFile = 16 << 20

// Environ looks up a variable, as os.LookupEnv does.
type Environ func(name string) (string, bool)

// Level is one of the places a value can come from; higher ones win.
type Level int

// The levels.
const (
	Default Level = iota
	System
	Program
	User
	Environment
)

var levelNames = [...]string{"default", "system file", "program", "user file", "environment"}

func (l Level) String() string { return levelNames[l] }

// Source is where a value came from.
type Source struct {
	Level Level
	Where string // file:line, or what a default was derived from; else ""
}

func (s Source) String() string {
	if s.Where == "" {
		return s.Level.String()
	}
	return s.Level.String() + ", " + s.Where
}

// Config is the values of all parameters on one rank. It does not change, and
// may be used by any number of goroutines.
type Config struct {
	Values
	Lines

	values     map[string]value  // every parameter, and unknown names that were set
	items      *hash.Hash        // kind -> id -> field -> value
	paths      map[string]string // id of a STORE -> what it is on this rank
	itemLevels map[string]Level
}

// Load finds the values on all ranks of c, or for a process on its own if c
// is nil. It is collective. The settings of the program may be nil, and must be
// the same on all ranks; a nil environ is that of the settings. In a program in
// C it must be C's getenv, since Go's copy is as old as the process.
//
// An error is the same on all ranks: a file that cannot be read or parsed, or
// a value that its parameter does not accept. A file that does not exist is
// no error. The warnings, one line each and the same on all ranks, are about
// settings that have no effect, such as misspelt ones.
func Load(c mpi.Comm, program *Settings, environ func(string) (string, bool)) (*Config, []string, error) {
	if program == nil {
		program = &Settings{}
	}
	var names []string // of the environment
	if environ == nil || program.Names != nil {
		names = program.names()
	}
	if environ == nil {
		environ = program.environ()
	}
	if c == nil {
		shared, err := decide(program, environ, names)
		if err != nil {
			return nil, nil, err
		}
		return complete(shared, program, environ)
	}
	var shared *hash.Hash
	var err error
	if c.Rank() == 0 {
		shared, err = decide(program, environ, names)
	}
	if err := mpi.Agree(c, err); err != nil {
		return nil, nil, err
	}
	// A rank that has no values must still take part in what follows.
	shared, err = hash.Bcast(shared, 0, c)
	var cfg *Config
	var warnings []string
	if err == nil {
		cfg, warnings, err = complete(shared, program, environ)
	}
	if err := mpi.Agree(c, err); err != nil {
		return nil, nil, err
	}
	return cfg, warnings, nil
}

// Read is Load for commands, which run without MPI: it takes the settings of
// the program from where the last job left them in the prefix directory. A
// prefix that is not "" wins over every other setting of SCR_PREFIX.
func Read(prefix string) (*Config, []string, error) {
	environ := Environ(os.LookupEnv)
	if prefix != "" {
		environ = func(name string) (string, bool) {
			if name == "SCR_PREFIX" {
				return prefix, true
			}
			return os.LookupEnv(name)
		}
	}
	early := resolver{environ: environ}
	if err := early.readFile(System, systemFile); err != nil {
		return nil, nil, err
	}
	found, err := early.resolve(find(Parameters, "SCR_PREFIX"))
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(found.text, settingsFile)
	text, err := readText(path)
	if err != nil {
		return nil, nil, err
	}
	program, err := ParseSettings(path, text)
	if err != nil {
		return nil, nil, err
	}
	// They were found by the prefix, so what they say of it is no news.
	program.layer().unset("SCR_PREFIX")
	return Load(nil, program, environ)
}

// Keys of the hash that rank 0 sends to all ranks.
const (
	keyJob     = "JOB"     // name -> TEXT, LEVEL, WHERE: values that were decided on
	keySet     = "SET"     // name -> level -> TEXT, WHERE: what was set of scope Rank
	keyItem    = "ITEM"    // kind -> id -> field -> value
	keyItemSet = "ITEMSET" // kind -> level
	keyItemRaw = "ITEMRAW" // kind -> id -> TEXT, LEVEL, WHERE: ids of scope Rank before expansion
	keyProgram = "PROGRAM" // rank 0's Settings.Text
	keyWarning = "WARNING" // number -> text
	keyText    = "TEXT"
	keyLevel   = "LEVEL"
	keyWhere   = "WHERE"
)

// decide does all that rank 0 does for the other ranks.
func decide(program *Settings, environ Environ, names []string) (*hash.Hash, error) {
	r := resolver{environ: environ}
	if err := r.readFile(System, systemFile); err != nil {
		return nil, err
	}
	r.layers = append([]*layer{program.layer()}, r.layers...)
	prefix, err := r.resolve(find(Parameters, "SCR_PREFIX"))
	if err != nil {
		return nil, err
	}
	r.prefix = prefix.text
	file, err := r.resolve(find(Parameters, "SCR_CONF_FILE"))
	if err != nil {
		return nil, err
	}
	if err := r.readFile(User, file.text); err != nil {
		return nil, err
	}
	shared := hash.New()
	shared.SetValue(keyProgram, program.Text())
	for i, text := range append(r.warnings(prefix, file), unknownVariables(names)...) {
		shared.At(keyWarning).SetValue(strconv.Itoa(i), text)
	}
	for i := range Parameters {
		p := &Parameters[i]
		if p.Scope == Rank {
			r.share(shared, p.Name)
			continue
		}
		v := prefix
		switch p.Name {
		case "SCR_PREFIX":
		case "SCR_CONF_FILE":
			v = file // the user's file was found by it
		default:
			if v, err = r.resolve(p); err != nil {
				return nil, err
			}
		}
		shareValue(shared.At(keyJob, p.Name), v)
	}
	for _, name := range r.unknown() {
		v, err := r.resolve(&Parameter{Name: name})
		if err != nil {
			return nil, err
		}
		if v.text != "" {
			shareValue(shared.At(keyJob, name), v)
		}
	}
	for i := range ItemKinds {
		if err := r.resolveItems(&ItemKinds[i], shared); err != nil {
			return nil, err
		}
	}
	return shared, nil
}

func shareValue(h *hash.Hash, v value) {
	h.SetValue(keyText, v.text)
	h.SetInt(keyLevel, int64(v.source.Level))
	h.SetValue(keyWhere, v.source.Where)
}

func sharedSource(h *hash.Hash) Source {
	level, _ := h.Int(keyLevel)
	return Source{Level(level), h.Text(keyWhere)}
}

// share adds what each layer sets a parameter of scope Rank to.
func (r *resolver) share(shared *hash.Hash, name string) {
	for _, l := range r.layers {
		if s, ok := l.values[name]; ok {
			h := shared.At(keySet, name, strconv.Itoa(int(l.level)))
			h.SetValue(keyText, s.text)
			h.SetValue(keyWhere, s.where)
		}
	}
}

// complete adds what is this rank's own to what rank 0 decided.
func complete(shared *hash.Hash, program *Settings, environ Environ) (*Config, []string, error) {
	if err := program.same(shared.Text(keyProgram)); err != nil {
		return nil, nil, err
	}
	cfg := &Config{
		values:     map[string]value{},
		items:      hash.New(),
		paths:      map[string]string{},
		itemLevels: map[string]Level{},
	}
	for name, h := range shared.Get(keyJob).All() {
		p := find(Parameters, name)
		if p == nil {
			p = &Parameter{Name: name}
		}
		source := sharedSource(h)
		v, err := p.check(h.Text(keyText), source)
		if err != nil {
			return nil, nil, err
		}
		cfg.values[name] = v
	}
	r := resolver{environ: environ, prefix: cfg.values["SCR_PREFIX"].text}
	for level := User; level >= System; level-- {
		l := newLayer(level)
		for name, h := range shared.Get(keySet).All() {
			if h := h.Get(strconv.Itoa(int(level))); h != nil {
				l.values[name] = setting{h.Text(keyText), h.Text(keyWhere)}
			}
		}
		r.layers = append(r.layers, l)
	}
	for i := range Parameters {
		if p := &Parameters[i]; p.Scope == Rank {
			v, err := r.resolve(p)
			if err != nil {
				return nil, nil, err
			}
			cfg.values[p.Name] = v
		}
	}
	cfg.items.Merge(shared.Get(keyItem))
	for kind, ids := range shared.Get(keyItemRaw).All() {
		for id, h := range ids.All() {
			source := sharedSource(h)
			path, err := r.field(&findKind(kind).ID, setting{h.Text(keyText), source.Where}, source.Level)
			if err == nil && path == "" {
				err = invalid(kind, h.Text(keyText), source, errors.New("is empty on this rank"))
			}
			if err != nil {
				return nil, nil, err
			}
			cfg.paths[id] = path
		}
	}
	for _, kind := range shared.Get(keyItemSet).Keys() {
		level, _ := shared.Get(keyItemSet).Int(kind)
		cfg.itemLevels[kind] = Level(level)
	}
	for name, field := range cfg.Values.fields() {
		cfg.values[name].store(field)
	}
	cfg.Lines = linesOf(cfg.items, cfg.paths)
	var warnings []string
	for _, i := range shared.Get(keyWarning).Ints() {
		warnings = append(warnings, shared.Get(keyWarning).Text(strconv.Itoa(i)))
	}
	return cfg, warnings, nil
}

// resolver finds values for one rank.
type resolver struct {
	environ Environ
	prefix  string   // once it is known
	layers  []*layer // highest first
}

// readFile adds a file of settings as the highest layer.
func (r *resolver) readFile(level Level, path string) error {
	text, err := readText(path)
	if err != nil {
		return err
	}
	lines, err := parse(path, text)
	if err != nil {
		return err
	}
	l := newLayer(level)
	for _, line := range lines {
		if err := l.add(line.pairs, fmt.Sprintf("%s:%d", path, line.number)); err != nil {
			return err
		}
	}
	r.layers = append([]*layer{l}, r.layers...)
	return nil
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
		return "", fmt.Errorf("%s: more than %d bytes are no configuration file", path, maxFile)
	}
	return string(data), nil
}

// variable is what a $VAR stands for.
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
		s := l.values[p.Name]
		source := Source{l.level, s.where}
		text, err := expand(s.text, r.variable)
		if err != nil {
			return value{}, invalid(p.Name, s.text, source, err)
		}
		if text != "" {
			return p.check(text, source)
		}
	}
	if p.derive != nil {
		if text, from := p.derive(r.environ); text != "" {
			return p.check(text, Source{Default, from})
		}
	}
	text, err := expand(p.Default, r.variable)
	if err != nil {
		return value{}, invalid(p.Name, p.Default, Source{}, err)
	}
	if text == "" && p.Type == Text {
		return value{}, nil
	}
	return p.check(text, Source{})
}

// check makes a value of text that came from source.
func (p *Parameter) check(text string, source Source) (value, error) {
	v, err := p.parse(text)
	if err != nil {
		return v, invalid(p.Name, text, source, err)
	}
	v.source = source
	return v, nil
}

func invalid(name, text string, source Source, err error) error {
	return fmt.Errorf("%s=%q (%v): %w", name, text, source, err)
}

// resolveItems adds the items of one kind to shared, from the highest layer
// that has any.
func (r *resolver) resolveItems(kind *ItemKind, shared *hash.Hash) error {
	for _, l := range r.layers {
		if len(l.items[kind.Name]) == 0 {
			continue
		}
		shared.At(keyItemSet).SetInt(kind.Name, int64(l.level))
		for _, id := range slices.Sorted(maps.Keys(l.items[kind.Name])) {
			final, err := r.resolveItem(kind, id, l, shared.At(keyItem, kind.Name))
			if err != nil {
				return err
			}
			if kind.ID.Scope == Rank {
				source := Source{l.level, l.items[kind.Name][id].where}
				shareValue(shared.At(keyItemRaw, kind.Name, final), value{text: id, source: source})
			}
		}
		return nil
	}
	return nil
}

func (r *resolver) resolveItem(kind *ItemKind, id string, l *layer, items *hash.Hash) (final string, err error) {
	it := l.items[kind.Name][id]
	if final, err = r.field(&kind.ID, setting{id, it.where}, l.level); err != nil {
		return "", err
	}
	if final == "" {
		return "", invalid(kind.Name, id, Source{l.level, it.where}, errors.New("names no item"))
	}
	h := items.At(final)
	for _, name := range slices.Sorted(maps.Keys(it.fields)) {
		p := find(kind.Fields, name)
		if p == nil {
			p = &Parameter{Name: name}
		}
		text, err := r.field(p, it.fields[name], l.level)
		if err != nil {
			return "", fmt.Errorf("%s=%s: %w", kind.Name, id, err)
		}
		if text != "" {
			h.SetValue(name, text)
		}
	}
	return final, nil
}

func (r *resolver) field(p *Parameter, s setting, level Level) (string, error) {
	source := Source{level, s.where}
	text, err := expand(s.text, r.variable)
	if err != nil {
		return "", invalid(p.Name, s.text, source, err)
	}
	if text == "" {
		return "", nil
	}
	v, err := p.check(text, source)
	return p.plain(v), err
}

// Lookup returns the value of a parameter of any name as it was written, except
// that a Path is absolute and clean and one of a list of words in upper case,
// and where it is from. ok is false for a name that is neither in Parameters nor
// set by anybody.
func (c *Config) Lookup(name string) (text string, source Source, ok bool) {
	v, ok := c.values[name]
	return v.text, v.source, ok
}

// Source says where the value of a field of Values came from, to which it takes
// a pointer: c.Source(&c.JobID).
func (c *Config) Source(field any) Source {
	for name, f := range c.Values.fields() {
		if f == field {
			return c.values[name].source
		}
	}
	return Source{}
}

// Items returns the items of a kind as id -> field -> value, nil if there are
// none. In them a number has no suffix, and a Bool is 0 or 1. It must not be
// changed.
func (c *Config) Items(kind string) *hash.Hash { return c.items.Get(kind) }

// StorePath is the directory of a STORE item on this rank. Its id is that on rank
// 0; in what was set, variables stand for what each rank's environment has.
func (c *Config) StorePath(id string) string { return c.paths[id] }

// ItemsLevel says which level the items of a kind came from; Default if there
// are none.
func (c *Config) ItemsLevel(kind string) Level { return c.itemLevels[kind] }

// Query answers what SCR_Config asks after SCR_Init: "NAME" for a parameter,
// "KIND=id FIELD" for a field of an item, "KIND" for the ids of all items. ok
// is false for what has no value. To ask for a change is an error.
func (c *Config) Query(s string) (result string, ok bool, err error) {
	pairs, err := parseLine(s)
	if err != nil {
		return "", false, err
	}
	q, isQuery, err := parseQuery(pairs)
	switch {
	case err != nil:
		return "", false, err
	case !isQuery:
		return "", false, fmt.Errorf("%q would change a setting, which must be done before SCR_Init", s)
	case q.field != "":
		result, ok = c.queryItem(q)
	case findKind(q.name) != nil:
		result = strings.Join(c.items.Get(q.name).Keys(), " ")
	default:
		result = c.values[q.name].text
	}
	return result, ok || result != "", nil
}

func (c *Config) queryItem(q query) (string, bool) {
	kind := findKind(q.name)
	v, err := kind.ID.parse(q.id)
	if err != nil {
		return "", false
	}
	return c.items.Get(kind.Name, kind.ID.plain(v)).Value(q.field)
}

// missing reports whether an error says that there is no such file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
