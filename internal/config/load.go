package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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
	shared, err := hash.FromRoot(c, func() (*hash.Hash, error) { return decide(program, environ, names) })
	if err != nil {
		return nil, nil, err
	}
	cfg, warnings, err := complete(shared, program, environ)
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

// Keys of the hash that rank 0 sends to all ranks.
const (
	keyJob     = "JOB"     // name -> TEXT, LEVEL, WHERE: values of parameters of scope Job, except those that everywhere returns
	keySet     = "SET"     // name -> level -> TEXT, WHERE: settings of parameters of scope Rank
	keyItem    = "ITEM"    // kind -> id -> field -> value
	keyItemSet = "ITEMSET" // kind -> level
	keyItemRaw = "ITEMRAW" // kind -> id -> TEXT, LEVEL, WHERE: ids of scope Rank before expansion
	keyAsked   = "ASKED"   // what Query answers: key -> number -> RAW, TEXT, ITEM -> number -> RAW (its key), TEXT
	keyRaw     = "RAW"
	keyProgram = "PROGRAM" // rank 0's Settings.Text
	keyWarning = "WARNING" // number -> text
	keyIgnored = "IGNORED" // texts: files that do not count
	keyText    = "TEXT"
	keyLevel   = "LEVEL"
	keyWhere   = "WHERE"
)

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
func decide(program *Settings, environ Environ, names []string) (*hash.Hash, error) {
	r, prefix, file, err := readAll(program, environ)
	if err != nil {
		return nil, err
	}
	shared := hash.New()
	shared.SetValue(keyProgram, program.Text())
	for _, l := range r.layers {
		for _, err := range l.ignored {
			shared.At(keyIgnored).At(err.Error())
		}
	}
	for i, text := range append(r.warnings(file), unknownVariables(names)...) {
		shared.At(keyWarning).SetValue(strconv.Itoa(i), text)
	}
	decided := map[string]value{"SCR_PREFIX": prefix, "SCR_CONF_FILE": file}
	for i := range Parameters {
		p := &Parameters[i]
		if p.Scope == Rank {
			r.shareSettings(shared, p.Name)
			continue
		}
		v, ok := decided[p.Name]
		if !ok {
			if v, err = r.resolve(p); err != nil {
				return nil, err
			}
		}
		if alike, known := p.everywhere(); !known || alike != v {
			shareValue(shared.At(keyJob, p.Name), v)
		}
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
	for _, key := range r.keys() {
		r.shareAnswers(shared.At(keyAsked), key)
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

// shareSettings adds the settings of a parameter of scope Rank in each layer.
func (r *resolver) shareSettings(shared *hash.Hash, name string) {
	for _, l := range r.layers {
		if s := l.last(name); s.text != "" {
			h := shared.At(keySet, name, strconv.Itoa(int(l.level)))
			h.SetValue(keyText, s.text)
			h.SetValue(keyWhere, s.where)
		}
	}
}

// shareAnswers adds what queries for a key can be answered with. Values of scope Rank are
// not expanded, and not from the environment.
func (r *resolver) shareAnswers(asked *hash.Hash, key string) {
	ofRank := isOfRank(key)
	items := r.inForce(key)
	if ofRank {
		items = itemsOf(r.layers, key)
	}
	for i, it := range r.expanded(items) {
		if ofRank {
			it.text = it.raw
		}
		h := asked.At(key, strconv.Itoa(i))
		h.SetValue(keyRaw, it.raw)
		h.SetValue(keyText, it.text)
		for j, s := range it.children {
			child := h.At(keyItem, strconv.Itoa(j))
			child.SetValue(keyRaw, s.key)
			child.SetValue(keyText, s.text)
		}
	}
}

// shareItems adds the items of one kind that are in force.
func (r *resolver) shareItems(kind *ItemKind, shared *hash.Hash) error {
	items := slices.Clone(r.inForce(kind.Name))
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.text, b.text) })
	highest := Default
	for _, it := range items {
		highest = max(highest, it.level)
		final, err := r.resolveItem(kind, it, shared.At(keyItem, kind.Name))
		if err != nil {
			return err
		}
		if kind.Scope == Rank {
			source := Source{it.level, it.where}
			shareValue(shared.At(keyItemRaw, kind.Name, final), value{text: it.text, source: source})
		}
	}
	if len(items) > 0 {
		shared.At(keyItemSet).SetInt(kind.Name, int64(highest))
	}
	return nil
}

// complete makes the Config of a rank: it finds the parameters of scope Rank, and adds them
// to the values that rank 0 decided.
func complete(shared *hash.Hash, program *Settings, environ Environ) (*Config, []string, error) {
	if err := program.same(shared.Text(keyProgram)); err != nil {
		return nil, nil, err
	}
	cfg := &Config{values: make(map[string]value, len(Parameters)), items: hash.New(), asked: hash.New()}
	cfg.asked.Merge(shared.Get(keyAsked))
	for name, h := range shared.Get(keyJob).All() {
		v, err := findOrText(Parameters, name).check(h.Text(keyText), sharedSource(h))
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
	r := receive(shared, environ, cfg.values["SCR_PREFIX"].text)
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
	cfg.items.Merge(shared.Get(keyItem))
	paths, err := r.paths(shared.Get(keyItemRaw))
	if err != nil {
		return nil, nil, err
	}
	cfg.Lines = linesOf(cfg.items, paths)
	level, _ := shared.Get(keyItemSet).Int("CKPT")
	cfg.CkptsFrom = Level(level)
	cfg.Ignored = shared.Get(keyIgnored).Keys()
	var warnings []string
	for _, i := range shared.Get(keyWarning).Ints() {
		warnings = append(warnings, shared.Get(keyWarning).Text(strconv.Itoa(i)))
	}
	return cfg, warnings, nil
}

// receive makes a resolver for parameters of scope Rank from rank 0's settings and this
// rank's environment.
func receive(shared *hash.Hash, environ Environ, prefix string) *resolver {
	r := &resolver{environ: environ, prefix: prefix}
	for level := User; level >= System; level-- {
		l := newLayer(level)
		for name, h := range shared.Get(keySet).All() {
			if h := h.Get(strconv.Itoa(int(level))); h != nil {
				l.add([]pair{{key: name, value: h.Text(keyText)}}, h.Text(keyWhere))
			}
		}
		r.layers = append(r.layers, l)
	}
	return r
}

// paths expands the ids of items of scope Rank with this rank's environment. These ids are
// paths.
func (r *resolver) paths(kinds *hash.Hash) (map[string]string, error) {
	paths := map[string]string{} // by id
	for name, ids := range kinds.All() {
		for id, h := range ids.All() {
			source, text := sharedSource(h), h.Text(keyText)
			v, err := r.setTo(&findKind(name).Parameter, setting{text: text, where: source.Where}, source.Level)
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
