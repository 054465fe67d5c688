package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/observe/account/page"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/snapshot"
	"github.com/goscr/goscr/internal/prefix/transfer"
)

var indexCommand = command{
	names: []string{"scr_index"},
	short: "list, verify and change the datasets in the index of a prefix directory",
	synopsis: []string{"[-p DIR] [--list] [--json]", "[-p DIR] --add NAME", "[-p DIR] --build ID", "[-p DIR] --drop NAME", "[-p DIR] --drop-after NAME",
		"[-p DIR] --current NAME", "[-p DIR] --verify [NAME...] [--json]", "[-p DIR] --expand NAME", "[-p DIR] --repair"},
	long: `The index lists the datasets in a prefix directory. A restart reads the current one first. If that fails, it reads
older ones, the newest of them first, but no dataset that is incomplete or from which a restart has failed. It never
reads a newer one than the current one, unless that was chosen, and the run cannot restart from it: then the run says so, and restarts as
if nothing had been chosen.

--current and --drop-after choose the checkpoint of the next restart, as SCR_CURRENT does: the next run restarts from it even if
the cache has a newer one, which then leaves the cache. The choice ends when that run begins its first dataset. It has no effect
if a job completes another dataset before that run begins. --current with the name of the newest one withdraws it. --drop
of the chosen one chooses the next older one, or, if there is none, withdraws the choice. After these options, a line on standard error says from what the next run restarts.

The list has these columns. DSET: the number of the dataset. VALID: whether a restart may read it in the prefix directory, a dash if it is only in the cache. FLUSHED: the time at
which it was complete in the prefix directory, or at which an incomplete flush began. CUR: a star for the current
dataset. AGE: the time since the program began to write it. SIZE: the size of its files. JOB: the id of the job that
wrote it. PLACE: its places in the job's record: prefix, cache, flushing. NAME. Datasets that are only in the cache are
not in the index, but the list has them, because a restart on the same nodes may use them. The list also has checkpoints
that SCR 1.1 left in the prefix directory, under the names of their directories. Lines on standard error give the reason, if it is known,
why a dataset is not valid: a newer dataset with the same file names has replaced some of its files; its flush goes on, has
failed or was interrupted; or a restart failed, with the time and the reason (the program could not restart, or
died, or goscr could not fetch the files).

--build makes a dataset usable that scr_copy has copied. It checks that all files of all ranks are there, rebuilds
missing files from redundancy, for as many sets at a time as the node has processors, and enters the dataset in the
index. A checkpoint becomes the current one unless a newer one is. If it cannot rebuild a file, it enters the dataset as unusable.
If the dataset was flushed completely before the job died, it only enters it. You can repeat --build and
--expand, also after an interruption.`,
	exit: status{done: "Done; with --verify, all files are as they were written.",
		failed: "Not done or not found; with --verify, a file is not as it was written. A line on standard error says why."},
	environ: ofPrefix,
	files:   []file{{".scr/index.scr", "the index"}, {".scr/scr.dataset.ID/", "the summary and the list of files of one dataset"}},
	examples: `After the last run of a job, on the nodes that are left and then anywhere:

    scr_copy --id 12 --prefix /p/run7
    scr_index --prefix /p/run7 --build 12`,
	see:   []string{"scr_copy", "scr_flush_file", "scr_rebuild_xor"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		flags.BoolP("list", "l", false, "list the datasets, newest first; this is the default")
		add := flags.StringP("add", "a", "", "enter dataset `NAME` again, which is in the prefix directory but not in the index: it was dropped or scavenged, or is a checkpoint directory of SCR 1.1")
		build := flags.IntP("build", "b", 0, "make dataset `ID`, which scr_copy has copied, usable: rebuild missing files, and enter it in the index")
		drop := flags.StringP("drop", "d", "", "remove dataset `NAME` from the index; its files stay, unless its name is NAME~ID, which is a checkpoint that has made way for one of another computation: then they are deleted")
		after := flags.String("drop-after", "", "remove all datasets that are newer than `NAME` from the index, so that the job restarts from it; their files stay")
		current := flags.StringP("current", "c", "", "make `NAME` the dataset to restart from first; one from which a restart has failed is tried again")
		flags.Bool("verify", false, "read every byte of the datasets named, or of all that are complete, and compare sizes and checksums with the recorded ones; the output counts the files without a checksum, such as those of SCR 3.1")
		expand := flags.String("expand", "", "decompress the files of dataset `NAME`, flushed with SCR_FLUSH_COMPRESS, where they are; then any program can read them, SCR 3.1 and runs with SCR_FETCH_BYPASS among them")
		flags.Bool("repair", false, "if the index is damaged or lost, make a new one from the datasets that are there; the old one becomes index.scr.damaged. An index that can be read is not changed")
		asJSON := flags.Bool("json", false, "write JSON, with --list and --verify")
		dir := prefixFlag(flags)
		return func(args []string) error {
			what, err := exactlyOne(flags, "list", "list", "add", "build", "drop", "drop-after", "current", "verify", "expand", "repair")
			if err != nil {
				return err
			}
			if *asJSON && what != "list" && what != "verify" {
				return fmt.Errorf("--json goes with --list and --verify; %w", errUsage)
			}
			if what != "verify" {
				if err := noArguments(args); err != nil {
					return err
				}
			}
			path, err := prefixDir(*dir)
			if err != nil {
				return err
			}
			x := newIndex(c, path, *asJSON)
			switch what {
			case "add":
				return x.add(*add)
			case "build":
				return x.build(*build)
			case "drop":
				return thenNext(x.err, path, x.file.drop(*drop))
			case "drop-after":
				return thenNext(x.err, path, x.file.dropAfter(*after))
			case "current":
				return thenNext(x.err, path, x.file.setCurrent(*current))
			case "verify":
				return x.verify(args)
			case "expand":
				return x.expand(*expand)
			case "repair":
				return x.repair()
			}
			return x.list()
		}
	},
}

// index makes and verifies datasets in a prefix directory, and prints what it has found.
type index struct {
	*context
	dir  string
	file indexFile
	json bool
}

func newIndex(c *context, dir string, json bool) index {
	return index{c, dir, indexFile{dir, c.warn("scr_index")}, json}
}

// indexFile finds the datasets of a prefix directory, and changes its index.
type indexFile struct {
	dir  string
	warn func(error)
}

// listed is a dataset in JSON.
type listed struct {
	ID         int    `json:"id"`
	Name       string `json:"name"`
	Valid      bool   `json:"valid"`
	Complete   bool   `json:"complete"`
	Failed     bool   `json:"failed"`
	Flushed    string `json:"flushed"`
	Current    bool   `json:"current"`
	Compressed bool   `json:"compressed"`
	Checkpoint bool   `json:"checkpoint"`
	Output     bool   `json:"output"`
	Files      int    `json:"files"`
	Bytes      int64  `json:"bytes"`
	Why        string `json:"why"` // it is not valid, "" if that is not known

	Indexed bool       `json:"indexed"` // it is in the index, and not only in the cache
	Created *time.Time `json:"created"` // when the program began to write it; nil if that is not known
	Job     string     `json:"job"`     // the id of the job
	User    string     `json:"user"`
	Place   []string   `json:"place"` // prefix, cache, flushing
}

// known returns the datasets of the index, and those that are in the cache only, newest first.
func (x indexFile) known() (list []listed, err error) {
	i, err := x.read()
	if err != nil {
		return nil, err
	}
	list = []listed{}
	places, err := prefix.Locations(x.dir)
	if err != nil {
		// The index can be read all the same.
		x.warn(fmt.Errorf("the datasets in the cache are unknown: %w", err))
	}
	entries := i.Entries()
	for _, e := range entries {
		l := listedAs(e.Dataset)
		l.Indexed = true
		l.Valid, l.Complete, l.Failed = e.Complete && !e.Failed, e.Complete, e.Failed
		l.Name, l.Flushed, l.Current, l.Compressed, l.Why = e.Name, e.Flushed, e.Current, e.Compressed(), e.Why()
		l.Checkpoint, l.Output = e.Flags().Has(dataset.Checkpoint), e.Flags().Has(dataset.Output)
		if e.Complete {
			l.Place = append(l.Place, "prefix")
		}
		l.Place = append(l.Place, placesOf(places, e.Dataset)...)
		if !e.Complete && !e.Bypass() {
			l.Why = cmp.Or(l.Why, unflushed(l.Place))
		}
		list = append(list, l)
	}
	for _, p := range places {
		indexed := func(e prefix.Entry) bool { return e.ID == p.ID && e.Dataset.Same(p.Dataset) }
		if p.Is(prefix.InCache) && !slices.ContainsFunc(entries, indexed) {
			l := listedAs(p.Dataset)
			l.ID, l.Name = p.ID, p.Name
			l.Checkpoint, l.Output = p.Flags().Has(dataset.Checkpoint), p.Flags().Has(dataset.Output)
			l.Place = placesOf(places, p.Dataset)
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b listed) int { return b.ID - a.ID })
	return list, nil
}

// listedAs returns what the description of a dataset says.
func listedAs(d dataset.Dataset) listed {
	l := listed{ID: d.ID(), Files: d.Files(), Bytes: d.Size(), Job: d.Owner().JobID, User: d.Owner().User, Place: []string{}}
	if at := d.Created(); at.UnixMicro() > 0 {
		l.Created = &at
	}
	return l
}

// placesOf returns where a dataset is besides the prefix directory.
func placesOf(all []prefix.Located, d dataset.Dataset) (places []string) {
	for _, p := range all {
		if p.ID != d.ID() || !p.Dataset.Same(d) {
			continue
		}
		if p.Is(prefix.InCache) {
			places = append(places, "cache")
		}
		if p.Is(prefix.Flushing) {
			places = append(places, "flushing")
		}
	}
	return places
}

// unflushed returns why a dataset that is in these places is incomplete in the prefix directory, "" if that is not known. The index does not
// tell a flush from scr_copy.
func unflushed(places []string) string {
	switch {
	case slices.Contains(places, "flushing"):
		return "it is being flushed, or the flush was interrupted"
	case slices.Contains(places, "cache"):
		return "the flush has failed or was interrupted, or scr_copy has not ended; it is in the cache"
	}
	return ""
}

// read reads the index. A missing index is an error if there was one.
func (x indexFile) read() (*prefix.Index, error) {
	if err := prefix.CheckIndex(x.dir); err != nil {
		return nil, err
	}
	return prefix.ReadIndex(x.dir)
}

func (x index) list() error {
	list, err := x.file.known()
	if err != nil {
		return err
	}
	if x.json {
		return x.encode(list)
	}
	if len(list) == 0 {
		fmt.Fprintf(x.err, "no datasets in %s\n", x.dir)
		return nil
	}
	jobs, places := len("JOB"), len("PLACE")
	for _, l := range list {
		jobs, places = max(jobs, len(l.job())), max(places, len(l.place()))
	}
	fmt.Fprintf(x.out, "DSET VALID FLUSHED             CUR    AGE       SIZE %-*s %-*s NAME\n", jobs, "JOB", places, "PLACE")
	now := time.Now()
	for _, l := range list {
		current, age := " ", "-"
		if l.Current {
			current = "*"
		}
		if l.Created != nil {
			age = strings.ReplaceAll(page.Span(max(now.Sub(*l.Created).Seconds(), 0)), " ", "")
		}
		flushed := "-"
		if l.Flushed != "" {
			flushed = printable(l.Flushed)
		}
		valid := "-"
		if l.Indexed {
			valid = yesNo(l.Valid)
		}
		fmt.Fprintf(x.out, "%4d %-5s %-19s   %s %6s %10s %-*s %-*s %s\n", l.ID, valid, flushed, current, age,
			strings.ReplaceAll(report.Bytes(l.Bytes), " ", ""), jobs, l.job(), places, l.place(), printable(l.Name))
	}
	for _, l := range list { // not in the table, which others read
		if l.Why != "" {
			fmt.Fprintf(x.err, "dataset %d (%s): %s\n", l.ID, printable(l.Name), printable(l.Why))
		}
	}
	return nil
}

// job and place return columns of the table, each one word.
func (l listed) job() string {
	if l.Job == "" {
		return "-"
	}
	return strings.Join(strings.Fields(printable(l.Job)), "_")
}
func (l listed) place() string { return cmp.Or(strings.Join(l.Place, ","), "-") }

// change changes the index, which must have a dataset of the name.
func (x indexFile) change(name string, f func(*prefix.Index) error) error {
	i, err := x.read()
	if err != nil {
		return err
	}
	if _, ok := i.Lookup(name); !ok {
		return x.unknown(name)
	}
	return prefix.UpdateIndex(x.dir, f)
}

// newestInCache reports whether the newest checkpoint, which the next run restarts from if there is no choice, has this name and is only in the cache.
func newestInCache(dir, name string) bool {
	list, err := snapshot.List(dir)
	return err == nil && len(list) > 0 && list[0].Name == name && list[0].InCache && !list[0].InPrefix && list[0].Problem == ""
}

func (x indexFile) unknown(name string) error {
	list, _ := prefix.Locations(x.dir) // what the commands cannot read is not in the message
	if slices.ContainsFunc(list, func(l prefix.Located) bool { return l.Name == name && l.Is(prefix.InCache) }) {
		return fmt.Errorf("dataset %q is only in the cache, and not in the index of %s; a run restarts from it with SCR_CURRENT=%s", name, x.dir, name)
	}
	return fmt.Errorf("there is no dataset %q in the index of %s; scr_index --list shows all datasets", name, x.dir)
}

func (x indexFile) drop(name string) error {
	i, err := x.read()
	if err != nil {
		return err
	}
	switch e, ok := i.Find(name); {
	case !ok:
		return x.unknown(name)
	case e.Name != name: // a name that the program has given, which choosing takes, and deleting does not
		return fmt.Errorf("%w; dataset %d of that name is called %s", x.unknown(name), e.ID, e.Name)
	case e.Retired != nil:
		return prefix.Discard(x.dir, e)
	}
	located, damaged := prefix.Locations(x.dir) // then it is unknown whether the choice holds
	return x.change(name, func(i *prefix.Index) error {
		choice, chosen := prefix.Chosen(i)
		chosen = chosen && damaged == nil && choice.Holds(i, located, nil) && choice.Of.Name == name
		i.Remove(name)
		if older := i.Current(); chosen && older != "" {
			return prefix.Choose(i, x.dir, older, time.Now()) // who has gone back does not want what came after
		}
		return nil
	})
}

func (x indexFile) dropAfter(name string) error {
	return x.change(name, func(i *prefix.Index) error {
		e, _ := i.Find(name)
		i.RemoveAfter(e.ID)
		if !e.Complete || !e.Flags().Has(dataset.Checkpoint) {
			return nil
		}
		return prefix.Choose(i, x.dir, name, time.Now())
	})
}

func (x indexFile) setCurrent(name string) error {
	if newestInCache(x.dir, name) { // which withdraws a choice
		return prefix.UpdateIndex(x.dir, func(i *prefix.Index) error { i.UnsetCurrent(); return nil })
	}
	var e prefix.Entry
	err := x.change(name, func(i *prefix.Index) error {
		e, _ = i.Find(name)
		return prefix.Choose(i, x.dir, name, time.Now())
	})
	if err == nil && e.Replaced != nil {
		x.warn(fmt.Errorf("dataset %d (%s): %s; a restart passes it over", e.ID, name, e.Why()))
	} else if err == nil && !e.Complete {
		x.warn(fmt.Errorf("dataset %d (%s) is not complete: a restart passes it over until scr_index --build %d has made it so", e.ID, name, e.ID))
	}
	return err
}

// add enters a dataset that has a summary, or else one that was scavenged.
func (x index) add(name string) error {
	i, err := prefix.ReadIndex(x.dir)
	if err != nil {
		return err
	}
	if e, ok := i.Find(name); ok && e.Complete && e.Name == name {
		return nil
	}
	found, bad := prefix.Summaries(x.dir)
	slices.Reverse(found) // the newest of the name
	for _, f := range found {
		if (f.Name() == name && f.Retired == nil || f.Retired != nil && f.Retired.As == name) && f.Complete {
			return prefix.Add(x.dir, f)
		}
	}
	id, err := scavenge.Find(x.dir, name)
	if err != nil {
		return err
	}
	if id > 0 {
		return x.build(id)
	}
	if f, err := prefix.OldSummary(x.dir, name); err == nil {
		return prefix.Add(x.dir, f)
	}
	return errors.Join(append(bad, fmt.Errorf("there is no dataset %q below %s, neither a summary of it nor anything scavenged", name, x.dir))...)
}

func (x index) build(id int) error {
	if id < 1 {
		return fmt.Errorf("--build takes the number of a dataset, from 1 on; %w", errUsage)
	}
	meter := x.meter(fmt.Sprintf("scr_index: dataset %d", id))
	b, err := scavenge.Build(x.dir, id, x.warn("scr_index"), meter)
	meter.end()
	for _, r := range b.Rebuilt {
		var bytes int64
		for _, f := range r.Files {
			bytes += f.Meta.Size()
		}
		fmt.Fprintf(x.err, "scr_index: rebuilt %s of rank %d, %s\n", report.Count(len(r.Files), "file"), r.Rank, report.Bytes(bytes))
	}
	if err != nil {
		return err
	}
	how := "is complete"
	if b.There {
		how = "was complete"
	}
	fmt.Fprintf(x.err, "scr_index: dataset %d (%s) %s: %s, %s\n", id, b.Name(), how, report.Count(b.Files(), "file"), report.Bytes(b.Size()))
	return nil
}

// verified is the result of --verify in JSON.
type verified struct {
	ID       int      `json:"id"`
	Name     string   `json:"name"`
	Files    int64    `json:"files"`
	Bytes    int64    `json:"bytes"`
	Unknown  int64    `json:"without_checksum"`
	Problems []string `json:"problems"`
}

func (x index) verify(names []string) error {
	entries, err := x.file.chosen(names...)
	if err != nil {
		return err
	}
	list, problems := []verified{}, 0
	for _, e := range entries {
		meter := x.meter("scr_index: " + printable(e.Name))
		v, err := prefix.Verify(x.dir, e, meter)
		meter.end()
		if err != nil {
			v.Problems = []string{err.Error()}
		}
		problems += len(v.Problems)
		if v.Problems == nil {
			v.Problems = []string{}
		}
		list = append(list, verified{e.ID, e.Name, v.Files, v.Bytes, v.Unknown, v.Problems})
		if !x.json {
			list[len(list)-1].tell(x.out)
		}
	}
	if x.json {
		if err := x.encode(list); err != nil {
			return err
		}
	}
	if problems > 0 {
		return fmt.Errorf("%s: a restart that is offered such a dataset finds the same, and takes another one; scr_index --drop NAME makes it pass the dataset over, --current NAME makes it begin with another", report.Count(problems, "problem"))
	}
	if len(list) == 0 && !x.json {
		fmt.Fprintf(x.err, "scr_index: no dataset in %s is complete; nothing is verified\n", x.dir)
	}
	return nil
}

// chosen returns the datasets of some names, or all that are complete.
func (x indexFile) chosen(names ...string) (entries []prefix.Entry, err error) {
	i, err := x.read()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		for _, e := range i.Entries() {
			if e.Complete {
				entries = append(entries, e)
			}
		}
		return entries, nil
	}
	for _, name := range names {
		e, ok := i.Find(name)
		if !ok {
			return nil, x.unknown(name)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (v verified) tell(out io.Writer) {
	verdict := "ok"
	if len(v.Problems) > 0 {
		verdict = report.Count(len(v.Problems), "problem")
	}
	if v.Unknown > 0 {
		verdict += fmt.Sprintf(", %s without a checksum to compare", report.Count(int(v.Unknown), "file"))
	}
	fmt.Fprintf(out, "%d %s: %s, %s: %s\n", v.ID, printable(v.Name), report.Count(int(v.Files), "file"), report.Bytes(v.Bytes), verdict)
	for _, p := range v.Problems {
		fmt.Fprintf(out, "  %s\n", oneLine(errors.New(p)))
	}
}

func (x index) expand(name string) error {
	list, err := x.file.chosen(name)
	if err != nil {
		return err
	}
	copier, meter := transfer.NewCopier(1<<20), x.meter("scr_index: "+printable(name))
	meter.Expect(list[0].Size())
	copier.Step = func(bytes int) error { meter.Add(int64(bytes)); return nil }
	files, err := prefix.Expand(x.dir, list[0], copier)
	meter.end()
	if err != nil {
		return err
	}
	if files == 0 {
		fmt.Fprintf(x.err, "scr_index: dataset %d (%s) has no compressed files; nothing is changed\n", list[0].ID, printable(list[0].Name))
		return nil
	}
	fmt.Fprintf(x.err, "scr_index: dataset %d (%s): %s decompressed, none is compressed now\n", list[0].ID, printable(list[0].Name), report.Count(files, "file"))
	return nil
}

func (x index) repair() error {
	used := filepath.Join(x.dir, prefix.Metadata)
	if errors.Is(exists(used), fs.ErrNotExist) && errors.Is(exists(filepath.Join(x.dir, "index.scr")), fs.ErrNotExist) { // that of SCR 1.1
		return fmt.Errorf("there is no %s: no job has used %s as its prefix directory, so there is no index to repair; -p or SCR_PREFIX names another one", used, x.dir)
	}
	r, err := prefix.RepairIndex(x.dir)
	for _, e := range r.Bad {
		x.warn("scr_index")(fmt.Errorf("left out: %w", e))
	}
	if err != nil {
		return err
	}
	if !r.Done {
		fmt.Fprintf(x.err, "scr_index: the index of %s can be read; nothing is changed\n", x.dir)
		return nil
	}
	fmt.Fprintf(x.err, "scr_index: the new index has %s; it does not know from which of them a restart has failed, nor which were dropped from the old one\n", report.Count(len(r.List), "dataset"))
	if r.Aside != "" {
		fmt.Fprintf(x.err, "scr_index: the old one is now %s\n", r.Aside)
	}
	return nil
}
