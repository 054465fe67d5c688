package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// settingsFile is the file below the prefix directory in which the program's settings are
// stored for commands.
const settingsFile = ".scr/app.conf"

// Load finds the values on all ranks of c, or for a single process if c is nil. It is
// collective. The settings of the program may be nil, and must be the same on all ranks.
// If environ is nil, the Environ of the settings is used. For a program in C, environ must
// call C's getenv: Go copied the environment when the process began, and the program may
// have changed it since.
//
// A file that does not count (see trust.Users) is as one that does not exist, and a warning
// says so.
//
// Load fails, with the same error on all ranks, if a file cannot be read or parsed, or if a
// parameter does not accept its value. A file that does not exist is no error. The
// warnings, one line each and the same on all ranks, are about settings that have no
// effect, such as misspelt ones.
func Load(c mpi.Comm, program *Settings, environ func(string) (string, bool)) (*Config, []string, error) {
	if program == nil {
		program = &Settings{}
	}
	defer func() { program.texts = nil }()
	names := func() []string { return nil } // of the environment
	if environ == nil || program.Names != nil {
		names = program.names
	}
	if environ == nil {
		environ = program.lookup()
	}
	if c == nil {
		d, err := decide(program, environ, names())
		if err != nil {
			return nil, nil, err
		}
		return complete(d, program, environ)
	}
	message, err := hash.FromRoot(c, func() (*hash.Hash, error) {
		d, err := decide(program, environ, names())
		return hash.Marshal(d), err
	})
	if err != nil {
		return nil, nil, err
	}
	cfg, warnings, err := complete(hash.As[decisions](message), program, environ)
	if err := mpi.Agree(c, cmp.Or(program.Err, err)); err != nil {
		return nil, nil, err
	}
	return cfg, warnings, nil
}

// Read is Load for commands, which run without MPI. It reads the program's settings from the
// file that the last job wrote in the prefix directory. A prefix that is not "" overrides
// every other setting of SCR_PREFIX.
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
	early, found, _, err := readAll(&Settings{}, environ)
	if err != nil {
		return nil, nil, err
	}
	users, err := early.users()
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(found.text, settingsFile)
	text, err := readText(path, users.Check)
	foreign := new(trust.ForeignError)
	if err != nil && !errors.As(err, &foreign) {
		return nil, nil, err
	}
	program, e := ParseSettings(path, text)
	if e != nil {
		return nil, nil, e
	}
	if err != nil {
		program.layer().ignored = append(program.layer().ignored, foreign)
	}
	// The file was found by the prefix, so a SCR_PREFIX in it must not change the prefix.
	program.layer().unset("SCR_PREFIX")
	return Load(nil, program, environ)
}

// FindPrefix returns the prefix directory for a command that helps where Read returns an error: of a configuration file with
// wrong lines, the others count. It is "" if no prefix directory can be found.
func FindPrefix() string {
	r := &resolver{environ: os.LookupEnv, lenient: true}
	prefix, _, _ := r.read(&Settings{}) // the caller has reported the error
	return prefix.text
}

// decisions are what rank 0 sends to all ranks.
type decisions struct {
	Program  string                       `hash:"PROGRAM"` // rank 0's Settings.Text
	Job      map[string]shared            `hash:"JOB"`     // by name: values of parameters of scope Job, except those that everywhere returns
	Set      map[string][]shared          `hash:"SET"`     // by name: settings of parameters of scope Rank
	Items    *hash.Hash                   `hash:"ITEM"`    // kind -> id -> field -> value
	ItemsSet map[string]Level             `hash:"ITEMSET"` // by kind
	ItemsRaw map[string]map[string]shared `hash:"ITEMRAW"` // by kind and id: ids of scope Rank before expansion
	Asked    map[string][]expanded        `hash:"ASKED"`   // by key: what Query answers
	Warnings []string                     `hash:"WARNING"`
	Ignored  []string                     `hash:"IGNORED,set"` // files that do not count
}

// shared is a value, or a setting before expansion.
type shared struct {
	Text string `hash:"TEXT"`
	Source
}

// readAll reads all files into a resolver. It also returns what read does.
func readAll(program *Settings, environ Environ) (r *resolver, prefix, file value, err error) {
	r = &resolver{environ: environ}
	prefix, file, err = r.read(program)
	return r, prefix, file, err
}

// read reads all files. It returns the values of SCR_PREFIX and SCR_CONF_FILE. These were needed
// to find the user's file, which therefore cannot set them; but it sets the prefix if it was
// found without it.
func (r *resolver) read(program *Settings) (prefix, file value, err error) {
	add := func(level Level, path string, check func(string, fs.FileInfo) error) error {
		text, err := program.file(path, check)
		foreign := new(trust.ForeignError)
		if err != nil && !errors.As(err, &foreign) {
			return err
		}
		e := r.addFile(level, path, text)
		if err != nil && e == nil {
			r.layers[0].ignored = append(r.layers[0].ignored, foreign)
		}
		return e
	}
	if err = add(System, systemFile(), nil); err != nil {
		return
	}
	r.layers = append([]*layer{program.layer()}, r.layers...)
	users, err := r.users()
	if err != nil {
		return
	}
	if prefix, err = r.resolve(find(Parameters, "SCR_PREFIX")); err != nil {
		return
	}
	r.prefix = prefix.text
	if file, err = r.resolve(find(Parameters, "SCR_CONF_FILE")); err != nil {
		return
	}
	if err = add(User, file.text, users.Check); err == nil {
		r.layers[0].withoutUsers()
		r.layers[0].cannotSet("SCR_CONF_FILE", file.text)
		prefix, err = r.prefixOfFile(prefix, file)
	}
	return
}

// prefixOfFile returns the value of SCR_PREFIX with the user's file, if that file would be found with
// this value, too, else the value before.
func (r *resolver) prefixOfFile(before, file value) (value, error) {
	found, err := r.resolve(find(Parameters, "SCR_PREFIX"))
	if err != nil {
		return before, err
	}
	r.prefix = found.text
	if again, err := r.resolve(find(Parameters, "SCR_CONF_FILE")); err == nil && again.text == file.text && file.source.Level != Default {
		return found, nil
	}
	r.prefix = before.text
	r.layers[0].cannotSet("SCR_PREFIX", before.text)
	return before, nil
}

// users returns the users, besides the caller and root, whose files count. A file is read
// after they are known, so that it cannot say that it counts itself.
func (r *resolver) users() (trust.Users, error) {
	v, err := r.resolve(find(Parameters, trust.Parameter))
	if err != nil {
		return nil, err
	}
	return trust.ParseUsers(v.text)
}

// withoutUsers deletes a setting of the users whose files count.
func (l *layer) withoutUsers() {
	if s := l.last(trust.Parameter); s.text != "" {
		l.notes = append(l.notes, at(s.where, "%s has no effect here; set it in the environment", trust.Parameter))
	}
	l.unset(trust.Parameter)
}

// cannotSet deletes a setting of the user's file, which is found by its value.
func (l *layer) cannotSet(name, used string) {
	if s := l.last(name); s.text != "" && s.text != used {
		l.notes = append(l.notes, at(s.where, "%s has no effect in the user's configuration file, because it is needed to find that file; set it in the environment", name))
	}
	l.unset(name)
}

// decide returns everything that rank 0 decides for all ranks.
func decide(program *Settings, environ Environ, names []string) (d decisions, err error) {
	r, prefix, file, err := readAll(program, environ)
	if err != nil {
		return d, err
	}
	d = decisions{Program: program.Text(), Job: map[string]shared{}, Set: map[string][]shared{}, Items: hash.New(),
		ItemsSet: map[string]Level{}, ItemsRaw: map[string]map[string]shared{}, Asked: map[string][]expanded{}}
	for _, l := range r.layers {
		for _, err := range l.ignored {
			d.Ignored = append(d.Ignored, err.Error())
		}
	}
	slices.Sort(d.Ignored)
	d.Ignored = slices.Compact(d.Ignored)
	d.Warnings = append(r.warnings(file), unknownVariables(names)...)
	found := map[string]value{"SCR_PREFIX": prefix, "SCR_CONF_FILE": file}
	for i := range Parameters {
		p := &Parameters[i]
		if p.Scope == Rank {
			for _, l := range r.layers {
				if s := l.last(p.Name); s.text != "" {
					d.Set[p.Name] = append(d.Set[p.Name], shared{s.text, Source{l.level, s.where}})
				}
			}
			continue
		}
		v, ok := found[p.Name]
		if !ok {
			if v, err = r.resolve(p); err != nil {
				return d, err
			}
		}
		if alike, known := p.everywhere(); !known || alike != v {
			d.Job[p.Name] = shared{v.text, v.source}
		}
	}
	for _, name := range r.unknown() {
		v, err := r.resolve(&Parameter{Name: name})
		if err != nil {
			return d, err
		}
		if v.text != "" {
			d.Job[name] = shared{v.text, v.source}
		}
	}
	for i := range ItemKinds {
		if err := r.shareItems(&ItemKinds[i], &d); err != nil {
			return d, err
		}
	}
	for _, key := range r.keys() {
		d.Asked[key] = r.answers(key)
	}
	return d, nil
}

// answers returns what queries for a key can be answered with. Values of scope Rank are
// not expanded, and not from the environment.
func (r *resolver) answers(key string) []expanded {
	if !isOfRank(key) {
		return r.expanded(r.inForce(key))
	}
	list := r.expanded(itemsOf(r.layers, key))
	for i := range list {
		list[i].Text = list[i].Raw
	}
	return list
}

// shareItems adds the items of one kind that are in force.
func (r *resolver) shareItems(kind *ItemKind, d *decisions) error {
	items := slices.Clone(r.inForce(kind.Name))
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.text, b.text) })
	raw := map[string]shared{}
	for _, it := range items {
		d.ItemsSet[kind.Name] = max(d.ItemsSet[kind.Name], it.level)
		final, err := r.resolveItem(kind, it, d.Items.At(kind.Name))
		if err != nil {
			return err
		}
		raw[final] = shared{it.text, Source{it.level, it.where}}
	}
	if kind.Scope == Rank {
		d.ItemsRaw[kind.Name] = raw
	}
	return nil
}

// complete makes the Config of a rank: it finds the parameters of scope Rank, and adds them
// to the values that rank 0 decided.
func complete(d decisions, program *Settings, environ Environ) (*Config, []string, error) {
	if err := program.same(d.Program); err != nil {
		return nil, nil, err
	}
	cfg := &Config{values: make(map[string]value, len(Parameters)), items: d.Items, asked: d.Asked, Ignored: d.Ignored}
	for _, name := range slices.Sorted(maps.Keys(d.Job)) {
		v, err := findOrText(Parameters, name).check(d.Job[name].Text, d.Job[name].Source)
		if err != nil {
			return nil, nil, err
		}
		cfg.values[name] = v
	}
	for i := range Parameters {
		p := &Parameters[i]
		if _, sent := cfg.values[p.Name]; sent || p.Scope == Rank {
			continue
		}
		v, known := p.everywhere()
		if !known {
			return nil, nil, fmt.Errorf("the configuration of rank 0 has no value of %s", p.Name)
		}
		cfg.values[p.Name] = v
	}
	r := receive(d.Set, environ, cfg.values["SCR_PREFIX"].text)
	cfg.own = &resolver{environ: environ, prefix: r.prefix}
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
	paths, err := r.paths(d.ItemsRaw)
	if err != nil {
		return nil, nil, err
	}
	cfg.Lines = linesOf(cfg.items, paths)
	cfg.CkptsFrom = d.ItemsSet["CKPT"]
	return cfg, d.Warnings, nil
}

// receive makes a resolver for parameters of scope Rank from rank 0's settings and this
// rank's environment.
func receive(set map[string][]shared, environ Environ, prefix string) *resolver {
	r := &resolver{environ: environ, prefix: prefix}
	for level := User; level >= System; level-- {
		l := newLayer(level)
		for name, list := range set {
			for _, s := range list {
				if s.Level == level {
					l.add([]pair{{key: name, value: s.Text}}, s.Where)
				}
			}
		}
		r.layers = append(r.layers, l)
	}
	return r
}

// paths expands the ids of items of scope Rank with this rank's environment. These ids are
// paths.
func (r *resolver) paths(kinds map[string]map[string]shared) (map[string]string, error) {
	paths := map[string]string{} // by id
	for name, ids := range kinds {
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			s := ids[id]
			v, err := r.setTo(&findKind(name).Parameter, setting{text: s.Text, where: s.Where}, s.Level)
			if err == nil && v.text == "" {
				err = invalid(name, s.Text, s.Source, errors.New("is empty on this rank"))
			}
			if err != nil {
				return nil, err
			}
			paths[id] = v.text
		}
	}
	return paths, nil
}
