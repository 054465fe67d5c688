package main

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/hostlist"
	jobrun "github.com/goscr/goscr/internal/job/run"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	jobstatus "github.com/goscr/goscr/internal/observe/status"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/snapshot"
	"github.com/goscr/goscr/internal/sys/memory"
)

var doctorCommand = command{
	names:    []string{"scr_doctor"},
	short:    "examine a prefix directory and this node: what a restart would do, and what stands in its way",
	synopsis: []string{"[DIR] [--program FILE] [--offline] [--json]"},
	long: `Prints what it finds, a line each, with the command that helps where there is one: how safe the job is; the checkpoint that the
next run is offered, and why none of the newer ones; the nodes of the allocation; free room in the prefix directory and in the
cache, and the job's memory limit; the clocks; the MPI of the program and of the library; the
settings that have no effect, such as misspelt ones; the parameters that are set, each with its source; and the lines of STORE, CKPT and GROUPS in force.

A line begins with ok, with note for what may be meant so, with warning for what will be a problem in some cases, or with problem.
DIR is the prefix directory; the default is $SCR_PREFIX, else the current directory. In an allocation the command asks its
nodes, with --offline not. It changes nothing. It does not read the files of checkpoints: scr_index --verify does.`,
	exit:     status{done: "Nothing that it found is a problem.", failed: "There is a problem, or it could not examine the directory."},
	environ:  slices.Concat(ofNodes, []string{"SCR_CACHE_BASE", "SCR_CACHE_SIZE"}),
	files:    []file{{".scr/index.scr", "the index"}, {".scr/flush.scr", "where datasets are"}, {".scr/log", "the log of the job"}},
	examples: `    scr_doctor /p/run7`,
	see:      []string{"scr_status", "scr_index", "scr_test_runtime"},
	takes:    true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		f := c.facts(flags)
		program := flags.String("program", "", "examine the program in `FILE` (default: that of the newest checkpoint)")
		offline := flags.Bool("offline", false, "ask no node")
		dir := prefixFlag(flags)
		return func(args []string) error {
			option, err := orArgument(*dir, args)
			if err != nil {
				return err
			}
			d := &doctor{now: time.Now()}
			d.readSettings(c, option)
			switch {
			case option != "":
			case d.job != nil:
				option = d.job.Prefix
			default:
				option = cmp.Or(config.FindPrefix(), os.Getenv("SCR_PREFIX"), ".")
			}
			if d.dir, err = prefixDir(option); err != nil {
				return err
			}
			d.examine(c, *program, *offline)
			return d.show(f)
		}
	},
}

// doctor examines a prefix directory and this node.
type doctor struct {
	dir      string
	now      time.Time
	status   *jobstatus.Status
	list     []snapshot.Snapshot // newest first
	record   *snapshot.Record    // of the newest checkpoint with one, nil if there is none
	job      *jobrun.Job         // nil if the configuration is wrong
	warnings []string            // about the configuration
	findings []finding
}

// finding is something that a doctor has found.
type finding struct {
	Level   level  `json:"level"`
	Area    string `json:"area"`
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // that helps
}

type level string

const (
	fine    level = "ok"
	remark  level = "note"
	caution level = "warning"
	fault   level = "problem"
)

func (d *doctor) add(l level, area, command, format string, args ...any) {
	d.findings = append(d.findings, finding{l, area, oneLine(fmt.Errorf(format, args...)), command})
}

// show prints what was found.
func (d *doctor) show(f *facts) error {
	var err error
	if f.json {
		err = f.encode(struct {
			Prefix   string    `json:"prefix"`
			Findings []finding `json:"findings"`
		}{d.dir, d.findings})
	} else {
		for _, x := range d.findings {
			_, err = fmt.Fprintf(f.out, "%-8s %-12s %s\n", x.Level, x.Area, x.Text)
			if x.Command != "" {
				_, err = fmt.Fprintf(f.out, "%-8s %-12s   try: %s\n", "", "", x.Command)
			}
		}
	}
	if err == nil && slices.ContainsFunc(d.findings, func(x finding) bool { return x.Level == fault }) {
		err = errNo
	}
	return err
}

// readSettings reads the configuration, which also has the prefix directory if option is "".
func (d *doctor) readSettings(c *context, option string) {
	var err error
	if d.job, d.warnings, err = openQuietly(c, option); err != nil {
		d.add(fault, "settings", "", "no run and no other command starts: %w", err)
	}
	d.warnings = append(d.warnings, config.UnknownVariables()...)
}

// examine makes all examinations, in the order in which they are shown.
func (d *doctor) examine(c *context, program string, offline bool) {
	dir := d.dir
	nodes := d.ask(c, offline)
	var err error
	if d.status, err = jobstatus.Read(dir, d.now); err != nil {
		d.add(fault, "job", "scr_index -p "+dir+" --repair", "%w", err)
	} else {
		if names, err := neededNodes(dir, d.status); err != nil {
			d.add(caution, "nodes", "", "%w", err)
		} else if names = hostlist.Intersection(names, nodes.names); !offline && nodes.err == nil && len(names) > 0 {
			answered(d.status, names, nodes.down)
		}
		d.examineJob()
	}
	var x *prefix.Index
	if d.list, err = snapshot.List(dir); err == nil {
		x, err = prefix.ReadIndex(dir)
	}
	if err != nil {
		d.add(fault, "checkpoints", "scr_index -p "+dir+" --repair", "%w", err)
	} else {
		d.examineCheckpoints(x)
	}
	for _, s := range d.list {
		if d.record, err = snapshot.Read(dir, s); err == nil {
			break
		}
	}
	d.examineNodes(nodes)
	d.examineRoom()
	d.examineClocks()
	d.examineMPI(program)
	d.examineSettings()
}

// examineJob says how safe the job is, and whether it runs.
func (d *doctor) examineJob() {
	s := d.status
	if s.Empty() {
		d.add(remark, "job", "", "no job has used %s as its prefix directory", d.dir)
	} else {
		verdict, level := s.Lines(d.now, 3)[0], remark
		switch word, _, _ := strings.Cut(verdict, ":"); word {
		case "SAFE":
			level = fine
		case "AT RISK":
			level = caution
		case "LOST":
			level = fault
		}
		d.add(level, "job", strings.TrimPrefix(s.Next(d.dir), "next: "), "%s", verdict)
	}
	if s.Problem != "" {
		d.add(caution, "log", "", "%s", s.Problem)
	}
	for _, l := range s.Lost {
		d.add(remark, "job", "", "the last run has lost %s at %s", printable(l.Node), l.Time.Local().Format(time.DateTime))
	}
	if err := unix.Access(d.dir, unix.W_OK|unix.X_OK); err != nil {
		d.add(fault, "directory", "", "you may not write to %s (%w), so no job of yours can use it", d.dir, err)
	}
}

// examineCheckpoints says what the next run is offered, and why nothing newer. x is the index.
func (d *doctor) examineCheckpoints(x *prefix.Index) {
	located, err := prefix.Locations(d.dir)
	if err != nil {
		d.add(caution, "checkpoints", "", "what is in the caches is unknown: %w", err)
	}
	offered, chosen := nextOffered(d.list, x, located, true)
	if chosen {
		d.add(remark, "checkpoints", "", "a user has chosen %s with scr_index; the next run leaves newer ones out", d.list[offered].Name)
	}
	if offered >= 0 && !d.list[offered].InPrefix && d.allGone() {
		d.add(caution, "checkpoints", "", "%s is only in the caches of %s, and none of these nodes can be used", d.list[offered].Name, hostlist.Compress(d.status.Gone))
		offered, _ = nextOffered(d.list, x, located, false)
	}
	if d.job != nil && d.job.Config.Current != "" {
		d.add(remark, "checkpoints", "", "SCR_CURRENT=%s: a run with this setting restarts from that checkpoint, if it can", printable(d.job.Config.Current))
	}
	if d.job != nil && strings.EqualFold(d.job.Config.Restart, "never") {
		d.add(remark, "checkpoints", "", "SCR_RESTART=never: a run with this setting starts from the beginning")
	}
	for i, s := range d.list {
		if i == offered {
			break
		}
		if s.Problem != "" {
			d.add(caution, "checkpoints", d.remedy(x.ByID(s.Seq), s), "%s is not offered: %s", s.Name, s.Problem)
		}
	}
	switch {
	case offered >= 0 && d.list[offered].InPrefix:
		d.add(fine, "checkpoints", "scr_index -p "+d.dir+" --verify "+d.list[offered].Name, "the next run is offered %s, which is in the prefix directory", d.list[offered].Name)
	case offered >= 0 && d.status != nil && d.status.State == jobstatus.Running:
		d.add(fine, "checkpoints", "", "the next run is offered %s, from the caches of the nodes; it is not in the prefix directory", d.list[offered].Name)
	case offered >= 0: // nobody has looked at the caches since
		d.add(remark, "checkpoints", "", "the next run is offered %s if the caches of the nodes are as the last run left them; it is not in the prefix directory", d.list[offered].Name)
	case len(d.list) > 0:
		d.add(fault, "checkpoints", "scr_index -p "+d.dir, "of %s the next run is offered none: it starts from the beginning", report.Count(len(d.list), "checkpoint"))
	default:
		d.add(remark, "checkpoints", "", "there is no checkpoint: the next run starts from the beginning")
	}
}

// allGone reports whether nodes were asked that have the caches, and all of them are gone.
func (d *doctor) allGone() bool {
	return d.status != nil && len(d.status.Asked) > 0 && len(d.status.Gone) == len(d.status.Asked)
}

// remedy is the command that may make a checkpoint usable, "" if there is none. e is its entry in the index.
func (d *doctor) remedy(e prefix.Entry, s snapshot.Snapshot) string {
	switch {
	case e.Replaced != nil:
		return ""
	case e.Failed:
		return fmt.Sprintf("scr_index -p %s --verify %s; then --current %s, to try it again", d.dir, s.Name, s.Name)
	case s.InCache: // a restart from it has failed
		return "SCR_CURRENT=" + s.Name + " in the environment of the next run, to try it again"
	}
	return fmt.Sprintf("scr_index -p %s --build %d", d.dir, s.Seq)
}

// allocated are the nodes of the allocation, and why some are down.
type allocated struct {
	names []string
	down  map[string]string
	err   error // in place of them
}

// ask finds the nodes of the allocation, and, unless offline, asks each once whether it can be used.
func (d *doctor) ask(c *context, offline bool) (a allocated) {
	if d.job == nil {
		return a
	}
	if a.names, a.err = d.job.Nodes(c.ctx()); a.err != nil {
		a.err = fmt.Errorf("the nodes of the allocation are unknown: %w", a.err)
		return a
	}
	if !offline && len(a.names) > 0 {
		a.down, a.err = d.job.Down(c.ctx(), a.names, nil, false)
	}
	return a
}

// examineNodes says whether the nodes of the allocation can be used, and are those that have the caches.
func (d *doctor) examineNodes(a allocated) {
	if d.job == nil {
		return
	}
	nodes, down := a.names, a.down
	if a.err != nil {
		d.add(caution, "nodes", "", "%w", a.err)
	}
	if len(nodes) == 0 {
		if a.err == nil {
			d.add(remark, "nodes", inAllocation, "here is no allocation, so no node can be asked whether its cache is there")
		}
		return
	}
	for _, node := range nodes {
		if why := down[node]; why != "" {
			d.add(caution, "nodes", "", "%s cannot be used: %s", node, why)
		}
	}
	up := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return down[n] != "" })
	needed, why, err := d.job.Needed(nodes)
	switch {
	case err != nil:
		d.add(caution, "nodes", "", "%w", err)
	case len(up) < needed:
		d.add(fault, "nodes", moreNodes(len(nodes), needed), "%d of %d nodes can be used, and a run needs %d (%s)", len(up), len(nodes), needed, why)
	default:
		d.add(fine, "nodes", "", "%d of %d nodes of the allocation can be used", len(up), len(nodes))
	}
	if d.record == nil {
		return
	}
	var gone []string
	for _, n := range d.record.Nodes {
		if !slices.Contains(up, n.Name) {
			gone = append(gone, n.Name)
		}
	}
	if len(gone) > 0 && d.list[0].InCache {
		helps := ""
		if missing := hostlist.Minus(gone, nodes); len(missing) > 0 {
			helps = "an allocation that has " + hostlist.Compress(missing)
		}
		d.add(caution, "nodes", helps, "%s ran on %s, which this allocation cannot use", d.record.Name, hostlist.Compress(gone))
	}
}

// inAllocation is how a user makes scr_doctor see the nodes of a job.
const inAllocation = "scr_doctor in the allocation of the job, or with the names of its nodes in SCR_NODELIST or SCR_HOST_FILE"

// moreNodes is what helps if a run needs more nodes than can be used.
func moreNodes(known, needed int) string {
	fewer := "; or SCR_MIN_NODES=N, if N nodes are enough for a run"
	if known < needed { // this may not be the allocation of the job
		return inAllocation + fewer
	}
	return "an allocation with other nodes in place of those that cannot be used" + fewer
}

// examineRoom compares the newest checkpoint with the free bytes in the prefix directory and in the cache, and with what memory the job's
// control group leaves.
func (d *doctor) examineRoom() {
	size, onNode := int64(0), int64(0) // of the newest checkpoint, and of its part on a node
	if len(d.list) > 0 {
		size = d.list[0].Size
		onNode = size
		if d.record != nil && len(d.record.Nodes) > 0 {
			onNode /= int64(len(d.record.Nodes))
		}
	}
	d.compareRoom("room", "the prefix directory", d.dir, size, "", "SCR_PREFIX_SIZE=N in the job's environment, which keeps only the N newest checkpoints there")
	if d.job == nil { // where the cache is, is unknown
		return
	}
	cfg := d.job.Config
	all := onNode * int64(cfg.CacheSize+1) // one more, while a run writes it
	what := fmt.Sprintf("%d checkpoints of SCR_CACHE_SIZE=%d, and one that is written", cfg.CacheSize, cfg.CacheSize)
	counts := false
	for _, base := range d.job.CacheBases() {
		d.compareRoom("cache", "the cache of this node", base, all, what, "scr_clean on the node, which removes what ended jobs no longer need; or a lower SCR_CACHE_SIZE")
		counts = counts || cache.InMemory(base)
	}
	if limit, ok := memory.Tightest(); ok {
		level, helps := fine, ""
		if all > limit.Bytes && counts {
			level, helps = caution, "more memory for the job, a lower SCR_CACHE_SIZE, or SCR_CACHE_BASE=DIR on a local disk"
		}
		d.add(level, "memory", helps, "a control group limits memory to %s, of which %s are free; files in a cache in memory count", report.Bytes(limit.Bytes), report.Bytes(limit.Free()))
	}
}

// compareRoom compares the free bytes of a directory with those that are needed of something. helps is what frees more.
func (d *doctor) compareRoom(area, what, dir string, needed int64, of, helps string) {
	for dir != "/" && exists(dir) != nil { // a job makes it
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		d.add(caution, area, "", "the free room of %s (%s) is unknown: %w", what, dir, err)
		return
	}
	free := int64(st.Bavail) * st.Bsize
	text := fmt.Sprintf("%s (%s) has %s free", what, dir, report.Bytes(free))
	level := fine
	if needed > 0 {
		if of == "" {
			of = "a checkpoint"
		}
		text += fmt.Sprintf("; about %s are for %s", report.Bytes(needed), of)
	}
	if free >= needed {
		helps = ""
	} else {
		level = caution
	}
	d.add(level, area, helps, "%s", text)
}

// examineClocks compares the clock of the node that has written the log with that of this node and of the file server.
func (d *doctor) examineClocks() {
	const apart = 10 * time.Second
	if d.status == nil || d.status.Sign.IsZero() {
		return
	}
	if ahead := d.status.Sign.Sub(d.now); ahead > apart {
		d.add(caution, "clocks", "", "the job's log ends %s in the future: the clocks of its nodes and of this one differ", ahead.Round(time.Second))
		return
	}
	info, err := os.Stat(filepath.Join(d.dir, prefix.Metadata, "log"))
	if err != nil {
		return
	}
	if by := info.ModTime().Sub(d.status.Sign).Abs(); by > apart && d.status.Ended {
		d.add(remark, "clocks", "", "the file system's time of the last entry in the log, and the time in the entry, differ by %s", by.Round(time.Second))
		return
	}
	d.add(fine, "clocks", "", "the times in the job's log agree with those of the file system and of this node")
}

// examineMPI compares the MPI libraries for which the program and its libscr are linked.
func (d *doctor) examineMPI(program string) {
	if program == "" {
		if d.record == nil || len(d.record.Programs) == 0 || len(d.record.Programs[0].Argv) == 0 {
			return
		}
		p := d.record.Programs[0]
		if program = p.Argv[0]; !filepath.IsAbs(program) {
			program = filepath.Join(p.Dir, program)
		}
	}
	own, library, err := linkedWith(program)
	if err != nil {
		d.add(remark, "program", "", "the libraries of %s are unknown: %w", program, err)
		return
	}
	switch {
	case library == "":
		d.add(remark, "program", "", "%s is linked with no libscr.so: it has libscr.a, loads the library later, or does not use it", program)
		return
	case !filepath.IsAbs(library):
		const helps = "LD_LIBRARY_PATH=DIR in the job's environment, or to link the program with -Wl,-rpath,DIR, for the directory DIR of libscr.so; scr_mpi --list shows which are installed"
		d.add(caution, "program", helps, "%s needs %s, which is not in the directories that it names, in LD_LIBRARY_PATH, or in those of the system", program, library)
		return
	}
	of, _, err := linkedWith(library)
	switch {
	case err != nil:
		d.add(remark, "program", "", "the libraries of %s are unknown: %w", library, err)
	case own != "" && of != "" && own != of:
		d.add(fault, "program", "scr_mpi --list", "%s is linked with %s, and its %s with %s: they are of different MPIs", program, own, library, of)
	default:
		d.add(fine, "program", "", "%s and its %s are linked with the same MPI (%s)", program, library, of)
	}
}

// linkedWith returns the name of the MPI library with which a program or a library is linked, and the path of its
// libscr.so; "" if there is none.
func linkedWith(path string) (mpi, library string, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // does not wait for a pipe
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	f, err := elf.NewFile(file) // reads at offsets, which a pipe refuses
	if err != nil {
		return "", "", err
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return "", "", err
	}
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		list, err := f.DynString(tag)
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return "", "", err
		}
		for _, text := range list {
			dirs = append(dirs, strings.Split(strings.ReplaceAll(text, "$ORIGIN", filepath.Dir(path)), ":")...)
		}
	}
	dirs = append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), dirs...)
	dirs = append(dirs, "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")
	for _, name := range needed {
		if strings.HasPrefix(name, "libmpi") && !strings.HasPrefix(name, "libmpi_") && !strings.HasPrefix(name, "libmpifort") {
			mpi = name
		}
		if name != "libscr.so" {
			continue
		}
		library = name
		for _, dir := range dirs {
			if at := filepath.Join(dir, name); exists(at) == nil {
				library = at
				break
			}
		}
	}
	return mpi, library, nil
}

// examineSettings lists what has no effect, and what is set, and by whom.
func (d *doctor) examineSettings() {
	for _, line := range d.warnings {
		d.add(caution, "settings", "", "%s", printable(line))
	}
	if d.job == nil {
		return
	}
	cfg := d.job.Config
	changed := slices.DeleteFunc(cfg.Changed(), func(s config.Set) bool { return s.Name == "SCR_PREFIX" }) // it is what the command examines
	for _, s := range changed {
		d.add(fine, "settings", "", "%s=%s (%s)", s.Name, printable(s.Value), s.Source)
	}
	for _, line := range cfg.ItemLines() {
		d.add(fine, "settings", "", "%s", printable(line))
	}
	if len(changed) == 0 {
		d.add(fine, "settings", "", "all parameters have their defaults")
	}
	if !cfg.FlushPolicy().On() {
		d.add(caution, "settings", "", "SCR_FLUSH=0: checkpoints stay in the caches, and are lost with the nodes")
	}
}
