package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// protection determines where datasets are stored and how they are protected, according
// to the parameters and the lines GROUPS=, STORE= and CKPT=.
type protection struct {
	groups *reddesc.Groups
	stores []*reddesc.Store // the first is that of SCR_CACHE_BASE
	descs  []*reddesc.Descriptor
}

// newProtection makes the failure groups and stores of a job; addDescriptors has to follow.
// base is SCR_CACHE_BASE on rank 0. It returns the error of check, which is called as reddesc.CheckedGroups
// says. It is collective. The caller must free the result, even after an error.
func newProtection(world mpi.Comm, base string, cfg *config.Config, log *report.Logger, check func(first bool) error) (*protection, error) {
	groups, err := reddesc.CheckedGroups(world, cfg.NodeName, check)
	p := &protection{groups: groups}
	if err != nil {
		return p, err
	}
	p.addGroups(world, cfg, log)
	return p, p.addStores(world, base, cfg)
}

// addGroups makes the failure groups of GROUPS= lines. A node that no line names is a
// group of its own.
func (p *protection) addGroups(world mpi.Comm, cfg *config.Config, log *report.Logger) {
	kinds := map[string]bool{}
	for _, line := range cfg.Groups {
		for kind := range line {
			kinds[kind] = true
		}
	}
	warnOfGroups(world, cfg, log)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		group := cfg.Groups[cfg.NodeName][kind]
		if group == "" {
			group = "node " + cfg.NodeName
		}
		p.groups.Add(kind, group)
	}
}

// warnOfGroups warns if a node of the job is in no GROUPS= line while another line names a
// node that is not in the job: one of the names is probably mistyped. If all nodes of the
// job have lines, further lines are normal: other jobs use the same file.
func warnOfGroups(world mpi.Comm, cfg *config.Config, log *report.Logger) {
	if len(cfg.Groups) == 0 {
		return
	}
	nodes := slices.Sorted(maps.Keys(cfg.Groups))
	has := make([]int64, len(nodes)+1) // last element: the highest rank on a node without a line
	has[len(nodes)] = -1
	if i := slices.Index(nodes, cfg.NodeName); i >= 0 {
		has[i] = 1
	} else {
		has[len(nodes)] = int64(world.Rank())
	}
	world.Allreduce(has, mpi.Max)
	without, other := int(has[len(nodes)]), slices.Index(has[:len(nodes)], 0)
	if without < 0 || other < 0 {
		return
	}
	name := mpi.BcastBytes(world, []byte(cfg.NodeName), without)
	log.WarnJob("no GROUPS= line is for node %s, which counts as a group of its own, but there is one for %s, which is no node of this job: "+
		"are they the same? SCR_NODE_NAME, else the host name, is what a node is called", name, nodes[other])
}

// ckptLines returns the CKPT= lines that apply: none if SCR_COPY_TYPE is set to a scheme, as in SCR 3.1.
func ckptLines(cfg *config.Config) []config.Ckpt {
	if cfg.Source(&cfg.CopyType).Level != config.Default && cfg.CopyType != "FILE" {
		return nil
	}
	return cfg.Ckpts
}

// inForce reports whether a CKPT= line and its store are not turned off.
func inForce(cfg *config.Config, line config.Ckpt, store string) bool {
	return line.Enabled.Or(true) && cfg.Store(store).Enabled.Or(true)
}

// addStores makes the store descriptors: that of SCR_CACHE_BASE first, which is base on rank
// 0, then those that CKPT= lines name. A STORE= line that nothing uses has no effect: the system's file may
// list storage that only some of its clusters have. A store is known to all ranks by the name that it has on rank 0.
func (p *protection) addStores(world mpi.Comm, base string, cfg *config.Config) error {
	names := []string{base}
	for _, line := range ckptLines(cfg) {
		if name := line.Store.Value; name != "" && inForce(cfg, line, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var failed error
	differs := false // a rank may have an error of its own
	for _, name := range names {
		line := cfg.Store(name)
		where, setBy := line.Path, "STORE="+name
		if name == base {
			where, setBy = cfg.CacheBase, setting(cfg, "SCR_CACHE_BASE", &cfg.CacheBase)
		}
		create := line.Mkdir.Or(true)
		differs = differs || !create
		store, err := reddesc.NewStore(p.groups, name, where, line.Count.Or(cfg.CacheSize), line.Group.Value, line.View.Value, create)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		store.SetBy = setBy
		p.stores = append(p.stores, store)
	}
	if differs {
		return mpi.Agree(world, failed)
	}
	return failed
}

// setting describes the value of a parameter for messages. field is a pointer to its field.
func setting(cfg *config.Config, name string, field *string) string {
	return fmt.Sprintf("%s, which is %s (%v)", name, *field, cfg.Source(field))
}

// addDescriptors makes a redundancy descriptor for each CKPT= line, or one from the
// parameters alone if there are no lines. The parameters are the defaults of the lines. It is
// known by then which stores all ranks share.
func (p *protection) addDescriptors(cfg *config.Config, log *report.Logger) error {
	lines := ckptLines(cfg)
	if len(lines) == 0 && len(cfg.Ckpts) > 0 && cfg.CkptsFrom > config.System {
		log.WarnJob("the CKPT= lines have no effect: SCR_COPY_TYPE=%s (%v) is not FILE", cfg.CopyType, cfg.Source(&cfg.CopyType))
	}
	scheme := cfg.CopyType
	setBy := func(line config.Ckpt) string { return fmt.Sprintf("CKPT=%d", line.ID) }
	if scheme == "FILE" && len(lines) == 0 {
		return &ArgumentError{"SCR_COPY_TYPE=FILE, but there is no CKPT= line in a configuration file, and none was set by SCR_Config"}
	}
	if scheme == "FILE" {
		scheme = "XOR"
	}
	asked := len(lines) == 0 // the number of losses to tolerate was set for this descriptor
	if asked {
		lines = []config.Ckpt{{}}
		setBy = func(config.Ckpt) string { return "SCR_COPY_TYPE=" + scheme }
	}
	var bypass []string // the settings that bypass the cache
	for _, line := range lines {
		name := line.Store.Or(p.stores[0].Name)
		if !inForce(cfg, line, name) {
			continue
		}
		store := p.store(name)
		params := reddesc.Params{
			Index:    line.ID,
			SetBy:    setBy(line),
			Interval: line.Interval.Or(1),
			Store:    store.Name,
			Group:    line.Group.Or(cfg.Group),
			Type:     line.Type.Or(scheme),
			SetSize:  line.SetSize.Or(cfg.SetSize),
			Failures: line.SetFailures.Or(cfg.SetFailures),
			Hop:      cfg.HopDistance,
			Output:   line.Output.Or(false),
			Bypass:   line.Bypass.Or(cfg.CacheBypass) || store.Count <= 0,
		}
		if err := reddesc.Check(p.groups, params); err != nil {
			return &ArgumentError{err.Error()}
		}
		if params.Bypass {
			bypass = append(bypass, bypassedBy(line, cfg, store))
		}
		if store.World && !params.Bypass && !reddesc.IsSingle(params.Type) {
			log.Info("%s: all ranks share %s, so that a lost node takes no files away: they are kept with SINGLE", params.SetBy, store.Name)
			params.Type = "SINGLE"
		}
		d, warning, err := reddesc.Create(p.groups, params)
		if err != nil {
			return err
		}
		p.descs = append(p.descs, d)
		if warning == "" && (asked || line.SetFailures.Set) {
			warning = moreThanXOR(params)
		}
		if warning != "" {
			log.WarnJob("%s", warning)
		}
	}
	if len(bypass) > 0 {
		slices.Sort(bypass)
		log.WarnJob("%s: the program writes to the prefix directory, at the speed of that file system, without redundancy and "+
			"without checksums; see docs/shared-files.md", strings.Join(slices.Compact(bypass), ", "))
	}
	if reddesc.Pick(p.descs, 1) == nil {
		return &ArgumentError{"no CKPT= line that is enabled, with a store that is, has INTERVAL=1: there would be checkpoints that none is for"}
	}
	return nil
}

// bypassedBy returns the setting by which the datasets of a CKPT= line bypass the cache.
func bypassedBy(line config.Ckpt, cfg *config.Config, store *reddesc.Store) string {
	switch {
	case line.Bypass.Or(false):
		return fmt.Sprintf("CKPT=%d BYPASS=1", line.ID)
	case line.Bypass.Or(cfg.CacheBypass):
		return "SCR_CACHE_BYPASS=1"
	case cfg.Store(store.Name).Count.Set:
		return fmt.Sprintf("STORE=%s COUNT=0", store.Name)
	}
	return "SCR_CACHE_SIZE=0"
}

// moreThanXOR returns a warning if a descriptor asks XOR to tolerate more losses than it can,
// else "". A user who asks for more would rely on them.
func moreThanXOR(p reddesc.Params) string {
	if p.Bypass || p.Failures < 2 || !strings.EqualFold(p.Type, "XOR") {
		return ""
	}
	return fmt.Sprintf("%s: SET_FAILURES=%d has no effect with XOR, which tolerates the loss of 1 member of a set; "+
		"RS and PARTNER tolerate more", p.SetBy, p.Failures)
}

// store returns the store called name, or the first store if there is none.
func (p *protection) store(name string) *reddesc.Store {
	for _, store := range p.stores {
		if store.Name == name {
			return store
		}
	}
	return p.stores[0]
}

// descriptor returns the redundancy descriptor for a dataset. checkpoint is the number of
// the checkpoint, if the dataset is one.
func (p *protection) descriptor(flags Flags, checkpoint int) *reddesc.Descriptor {
	if flags.Has(Output) {
		if d := reddesc.PickOutput(p.descs); d != nil {
			return d
		}
	}
	if !flags.Has(Checkpoint) {
		checkpoint = 1
	}
	return reddesc.Pick(p.descs, max(checkpoint, 1))
}

// String says how checkpoints are protected.
func (p *protection) String() string {
	var all []string
	for _, d := range p.descs {
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
		if len(p.stores) > 1 && !d.Bypass {
			text += " in " + d.Store
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// logged says how the checkpoints that follow are protected, and how many members of a set
// may be lost at once. Of several descriptors the weakest counts. All ranks get the same.
func (p *protection) logged() string {
	d := p.weakest()
	if d == nil {
		return "written to the prefix directory"
	}
	return d.Protection.String()
}

// weakest returns the descriptor that tolerates the fewest losses, nil if all datasets bypass the cache.
func (p *protection) weakest() (weakest *reddesc.Descriptor) {
	for _, d := range p.descs {
		if !d.Bypass && (weakest == nil || d.Protection.Tolerates < weakest.Protection.Tolerates) {
			weakest = d
		}
	}
	return weakest
}

// free frees the communicators. It is collective.
func (p *protection) free() {
	for _, d := range p.descs {
		d.Free()
	}
	if p.groups != nil {
		p.groups.Free()
	}
}
