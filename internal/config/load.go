package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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
		environ = program.lookup()
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

// readAll makes a resolver of all files. It also returns the values of SCR_PREFIX
// and SCR_CONF_FILE, by which the user's file was found and in which that has no
// say.
func readAll(program *Settings, environ Environ) (r *resolver, prefix, file value, err error) {
	r = &resolver{environ: environ}
	if err = r.readFile(System, systemFile); err != nil {
		return
	}
	r.layers = append([]*layer{program.layer()}, r.layers...)
	if prefix, err = r.resolve(find(Parameters, "SCR_PREFIX")); err != nil {
		return
	}
	r.prefix = prefix.text
	if file, err = r.resolve(find(Parameters, "SCR_CONF_FILE")); err != nil {
		return
	}
	err = r.readFile(User, file.text)
	return
}

// decide does all that rank 0 does for the other ranks.
func decide(program *Settings, environ Environ, names []string) (*hash.Hash, error) {
	r, prefix, file, err := readAll(program, environ)
	if err != nil {
		return nil, err
	}
	shared := hash.New()
	shared.SetValue(keyProgram, program.Text())
	for i, text := range append(r.warnings(prefix, file), unknownVariables(names)...) {
		shared.At(keyWarning).SetValue(strconv.Itoa(i), text)
	}
	decided := map[string]value{"SCR_PREFIX": prefix, "SCR_CONF_FILE": file}
	for i := range Parameters {
		p := &Parameters[i]
		if p.Scope == Rank {
			r.share(shared, p.Name)
			continue
		}
		v, ok := decided[p.Name]
		if !ok {
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
		if err := r.shareItems(&ItemKinds[i], shared); err != nil {
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

// shareItems adds the items of one kind, from the highest layer that has any.
func (r *resolver) shareItems(kind *ItemKind, shared *hash.Hash) error {
	for _, l := range r.layers {
		ids := l.items[kind.Name]
		if len(ids) == 0 {
			continue
		}
		shared.At(keyItemSet).SetInt(kind.Name, int64(l.level))
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			final, err := r.resolveItem(kind, id, l, shared.At(keyItem, kind.Name))
			if err != nil {
				return err
			}
			if kind.Scope == Rank {
				source := Source{l.level, ids[id].where}
				shareValue(shared.At(keyItemRaw, kind.Name, final), value{text: id, source: source})
			}
		}
		return nil
	}
	return nil
}

// complete adds what is this rank's own to what rank 0 decided.
func complete(shared *hash.Hash, program *Settings, environ Environ) (*Config, []string, error) {
	if err := program.same(shared.Text(keyProgram)); err != nil {
		return nil, nil, err
	}
	cfg := &Config{values: map[string]value{}, items: hash.New()}
	for name, h := range shared.Get(keyJob).All() {
		v, err := findOrText(Parameters, name).check(h.Text(keyText), sharedSource(h))
		if err != nil {
			return nil, nil, err
		}
		cfg.values[name] = v
	}
	r := receive(shared, environ, cfg.values["SCR_PREFIX"].text)
	for i := range Parameters {
		if p := &Parameters[i]; p.Scope == Rank {
			v, err := r.resolve(p)
			if err != nil {
				return nil, nil, err
			}
			cfg.values[p.Name] = v
		}
	}
	for name, field := range fields(&cfg.Values) {
		cfg.values[name].store(field)
	}
	cfg.items.Merge(shared.Get(keyItem))
	paths, err := r.paths(shared.Get(keyItemRaw))
	if err != nil {
		return nil, nil, err
	}
	cfg.Lines = linesOf(cfg.items, paths)
	level, _ := shared.Get(keyItemSet).Int("CKPT")
	cfg.CkptsFrom = Level(level)
	var warnings []string
	for _, i := range shared.Get(keyWarning).Ints() {
		warnings = append(warnings, shared.Get(keyWarning).Text(strconv.Itoa(i)))
	}
	return cfg, warnings, nil
}

// receive makes a resolver for parameters of scope Rank.
func receive(shared *hash.Hash, environ Environ, prefix string) *resolver {
	r := &resolver{environ: environ, prefix: prefix}
	for level := User; level >= System; level-- {
		l := newLayer(level)
		for name, h := range shared.Get(keySet).All() {
			if h := h.Get(strconv.Itoa(int(level))); h != nil {
				l.values[name] = setting{h.Text(keyText), h.Text(keyWhere)}
			}
		}
		r.layers = append(r.layers, l)
	}
	return r
}

// paths expands ids of items of scope Rank, which are paths, on this rank.
func (r *resolver) paths(kinds *hash.Hash) (map[string]string, error) {
	paths := map[string]string{} // by id
	for name, ids := range kinds.All() {
		for id, h := range ids.All() {
			source, text := sharedSource(h), h.Text(keyText)
			v, err := r.setTo(&findKind(name).Parameter, setting{text, source.Where}, source.Level)
			if err == nil && v.text == "" {
				err = invalid(name, text, source, errors.New("is empty on this rank"))
			}
			if err != nil {
				return nil, err
			}
			paths[id] = v.text
		}
	}
	return paths, nil
}
