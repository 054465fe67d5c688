package scr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/mpi"
)

// itemInt returns a number that an item of the configuration has, or what stands
// for it where the item says nothing.
func itemInt(item *hash.Hash, field string, otherwise int) int {
	if n, ok := item.Int(field); ok {
		return int(n)
	}
	return otherwise
}

func itemText(item *hash.Hash, field, otherwise string) string {
	if text := item.Text(field); text != "" {
		return text
	}
	return otherwise
}

// describeStores makes the store descriptors: that of SCR_CACHE_BASE first, then
// those of STORE= lines, and of directories that only a CKPT= line names. A store
// is known to all ranks by the name that it has on rank 0.
func (s *Session) describeStores() error {
	text, err := mpi.BcastBytes(s.world, []byte(s.config.String("SCR_CACHE_BASE")), 0)
	if err != nil {
		return err
	}
	base := string(text)
	lines := s.config.Items("STORE")
	names := []string{base}
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range lines.Keys() {
		if itemInt(lines.Get(name), "ENABLED", 1) == 1 {
			add(name)
		}
	}
	for _, ckpt := range s.ckptLines().All() {
		add(ckpt.Text("STORE"))
	}
	for _, name := range names {
		line := lines.Get(name)
		where := name
		switch {
		case name == base:
			where = s.config.String("SCR_CACHE_BASE")
		case line != nil:
			where = s.config.StorePath(name)
		}
		store, err := reddesc.NewStore(s.groups, name, where, itemInt(line, "COUNT", s.config.Int("SCR_CACHE_SIZE")),
			line.Text("GROUP"), line.Text("VIEW"), itemInt(line, "MKDIR", 1) == 1)
		if err != nil {
			return err
		}
		s.stores = append(s.stores, store)
	}
	return nil
}

// ckptLines are the CKPT= lines that count. Those of the system's file give way to
// a user who says how to protect checkpoints with SCR_COPY_TYPE.
func (s *Session) ckptLines() *hash.Hash {
	scheme := s.config.Source("SCR_COPY_TYPE").Level
	if s.config.ItemsLevel("CKPT") == config.System && scheme > config.System && s.config.String("SCR_COPY_TYPE") != "FILE" {
		return nil
	}
	return s.config.Items("CKPT")
}

// describeRedundancy makes the redundancy descriptors, of CKPT= lines, or one of
// the parameters if there are none. What a line does not say is as the parameters
// say.
func (s *Session) describeRedundancy() error {
	lines := s.ckptLines()
	if s.config.String("SCR_COPY_TYPE") == "FILE" && lines.Size() == 0 {
		return &ArgumentError{"SCR_COPY_TYPE=FILE, but there is no CKPT= line in a configuration file, and none was set by SCR_Config"}
	}
	if lines.Size() == 0 {
		lines = hash.New()
		lines.At("0")
	}
	scheme := s.config.String("SCR_COPY_TYPE")
	if scheme == "FILE" {
		scheme = "XOR"
	}
	setBy := func(index int) string { return fmt.Sprintf("CKPT=%d", index) }
	if s.ckptLines().Size() == 0 {
		setBy = func(int) string { return "SCR_COPY_TYPE=" + scheme }
	}
	stores := s.config.Items("STORE")
	for _, index := range lines.Ints() {
		line := lines.Get(fmt.Sprint(index))
		store := s.store(itemText(line, "STORE", s.stores[0].Name))
		if itemInt(line, "ENABLED", 1) == 0 || itemInt(stores.Get(store.Name), "ENABLED", 1) == 0 {
			continue
		}
		p := reddesc.Params{
			Index:    index,
			SetBy:    setBy(index),
			Interval: itemInt(line, "INTERVAL", 1),
			Store:    store.Name,
			Group:    itemText(line, "GROUP", s.config.String("SCR_GROUP")),
			Type:     itemText(line, "TYPE", scheme),
			SetSize:  itemInt(line, "SET_SIZE", s.config.Int("SCR_SET_SIZE")),
			Failures: itemInt(line, "SET_FAILURES", s.config.Int("SCR_SET_FAILURES")),
			Hop:      s.config.Int("SCR_HOP_DISTANCE"),
			Output:   itemInt(line, "OUTPUT", 0) == 1,
			Bypass:   itemInt(line, "BYPASS", s.bypassing()) == 1 || store.Count <= 0,
		}
		if err := reddesc.Check(s.groups, p); err != nil {
			return &ArgumentError{err.Error()}
		}
		d, warning, err := reddesc.Create(s.groups, p)
		if err != nil {
			return err
		}
		s.descs = append(s.descs, d)
		if warning == "" && (line.Text("SET_FAILURES") != "" || s.ckptLines().Size() == 0) {
			warning = unheeded(p)
		}
		if warning != "" && s.world.Rank() == 0 {
			s.log.Warn("%s", warning)
		}
	}
	if reddesc.Pick(s.descs, 1) == nil {
		return &ArgumentError{"no CKPT= line that is enabled, with a store that is, has INTERVAL=1: there would be checkpoints that none is for"}
	}
	return nil
}

// unheeded says that a descriptor is for more losses than its scheme ever bears, ""
// if it is not: who asks for them relies on them.
func unheeded(p reddesc.Params) string {
	if p.Bypass || p.Failures < 2 || !strings.EqualFold(p.Type, "XOR") {
		return ""
	}
	return fmt.Sprintf("%s: SET_FAILURES=%d has no effect with XOR, which bears the loss of 1 member of a set; "+
		"RS and PARTNER bear more", p.SetBy, p.Failures)
}

func (s *Session) bypassing() int {
	if s.config.Bool("SCR_CACHE_BYPASS") {
		return 1
	}
	return 0
}

// store returns the store of a name.
func (s *Session) store(name string) *reddesc.Store {
	for _, store := range s.stores {
		if store.Name == name {
			return store
		}
	}
	return s.stores[0]
}

// descriptor returns the one to use for a dataset. checkpoint is the number of the
// checkpoint, if it is one.
func (s *Session) descriptor(flags Flags, checkpoint int) *reddesc.Descriptor {
	if flags.Has(Output) {
		if d := reddesc.PickOutput(s.descs); d != nil {
			return d
		}
	}
	if !flags.Has(Checkpoint) {
		checkpoint = 1
	}
	return reddesc.Pick(s.descs, max(checkpoint, 1))
}

// describe says how checkpoints are protected.
func (s *Session) describe() string {
	var all []string
	for _, d := range s.descs {
		text := fmt.Sprintf("%s in sets of %d", d.Type, d.Set.Size())
		if d.Bypass {
			text = "written to the prefix directory"
		}
		if d.Interval > 1 {
			text = fmt.Sprintf("every %d: %s", d.Interval, text)
		}
		if d.Output {
			text = "output: " + text
		}
		if len(s.stores) > 1 && !d.Bypass {
			text += " in " + d.Store
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}
