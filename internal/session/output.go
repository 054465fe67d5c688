package session

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// StartOutput begins a dataset. The program then asks Route for the path of
// each file it is going to write, writes them, and ends with CompleteOutput.
// The name, by which users know the dataset, must be the same on all ranks; if it
// is "", a name is made from the dataset's number.
func (s *Session) StartOutput(name string, flags Flags) error {
	return s.callIn(idle, "StartOutput", func() error { return s.start(name, inSeries{}, flags, writing) })
}

// StartCheckpoint begins a checkpoint, whose name is made from its number.
// CompleteCheckpoint ends it.
func (s *Session) StartCheckpoint() error {
	return s.callIn(idle, "StartCheckpoint", func() error { return s.start("", inSeries{}, Checkpoint, checkpointing) })
}

func (s *Session) start(name string, v inSeries, flags Flags, next state) error {
	removed, err := sameEverywhere(s.world, name, flags, s.cache.Removed())
	if err != nil {
		return err
	}
	p, err := s.writer.plan(name, v, flags)
	if err != nil {
		return err
	}
	if removed {
		if err := s.flusher.Remake(); err != nil {
			return err
		}
	}
	if err := s.reader.stop(); err != nil {
		return err
	}
	s.events.computed()
	if err := s.writer.begin(p); err != nil {
		s.events.computing()
		return err
	}
	s.state = next
	return nil
}

// Writing reports whether a dataset has been begun and not completed. It is not collective.
func (s *Session) Writing() bool { return s.state.open() }

// Route returns the path under which the program must open a file. While a
// dataset is being written, that is the path in the cache for the file that the
// program would otherwise write as name, which must be below the prefix directory.
// In a restart, it is the path that the file written as name has now; the last
// element of the name suffices if only one of the rank's files has it. At other
// times it is name itself. Route is not collective.
func (s *Session) Route(name string) (string, error) {
	var path string
	err := s.local("Route", func() (err error) {
		switch {
		case name == "":
			return returned(errors.New("a file with an empty name"))
		case s.state.open():
			path, err = s.writer.output.route(name)
		case s.state == restarting:
			path, err = s.reader.route(name)
			err = returned(err)
		default:
			path = s.reader.routeUnasked(name)
		}
		if err == nil && len(path) >= MaxFilename {
			err = fmt.Errorf("%s: the path in the cache has %d characters, at most %d are possible", name, len(path), MaxFilename-1)
		}
		return err
	})
	if err != nil {
		return "", s.Spoil(err)
	}
	return path, nil
}

// Spoil records that the dataset which is being written cannot be completed because
// of err, and returns err. If no dataset is being written, it only returns err.
func (s *Session) Spoil(err error) error {
	if o := s.writer.output; o != nil && o.failed == nil {
		o.failed = err
	}
	return err
}

// Directory returns a directory of the calling rank in the dataset that is being written. All
// files that are in it and below it when the dataset is completed belong to the dataset, also
// those for which Route was not called; the names need not be different from those of other
// ranks. Anything but regular files and directories is an error there, and an empty directory is
// not kept. In a restart, Directory returns a directory that has these files again. It is not
// collective.
func (s *Session) Directory() (dir string, err error) {
	err = s.local("Directory", func() error {
		switch {
		case s.state.open():
			dir, err = s.writer.output.directory()
		case s.state == restarting:
			dir, err = s.restart.Directory(rankDirectory(s.restart.Offered().Name(), s.world.Rank()))
		default:
			err = s.state.misplaced("Directory", states[idle].advice)
		}
		return err
	})
	if err != nil {
		return "", s.Spoil(err)
	}
	return dir, nil
}

// Reference returns what scr_restart is given to restart from the dataset that the program has
// begun last: the prefix directory and the number of the dataset, 0 if it has begun none. It is
// not collective.
func (s *Session) Reference() (prefix string, dataset int) {
	if s.reader.started {
		dataset = s.numbers.id
	}
	return s.prefix.Dir, dataset
}

// SetRestartCommand says how the program is started to restart from the checkpoint that it is
// writing: a command for a shell, which scr_restart then runs on each rank in place of the program;
// "" for the program as it was started. If it is not the same on all ranks, that is logged, and
// none is recorded. It is collective.
func (s *Session) SetRestartCommand(command string) error {
	return s.call("SetRestartCommand", func() error {
		if !s.state.open() {
			return s.state.misplaced("SetRestartCommand", states[idle].advice)
		}
		first := mpi.BcastBytes(s.world, []byte(command), 0)
		if mpi.Any(s.world, string(first) != command) {
			s.log.WarnJob("the ranks give different commands to restart, rank 0 %q: scr_restart starts the program as it was started", first)
			command = ""
		}
		s.writer.output.command = command
		return nil
	})
}

// CompleteOutput ends the dataset that StartOutput began. valid says whether
// this rank has written all its files. If it is true on all ranks, the files are
// protected against the loss of nodes, and are flushed to the prefix directory if a
// flush is due; with SCR_FLUSH_ASYNC=1 the flush continues while the program computes,
// and a later call finishes it. Otherwise the dataset is deleted, and the error says
// why.
func (s *Session) CompleteOutput(valid bool) error {
	return s.callIn(writing, "CompleteOutput", func() error { return s.complete(valid) })
}

// CompleteCheckpoint ends the checkpoint that StartCheckpoint began, like
// CompleteOutput.
func (s *Session) CompleteCheckpoint(valid bool) error {
	return s.callIn(checkpointing, "CompleteCheckpoint", func() error { return s.complete(valid) })
}

func (s *Session) complete(valid bool) error {
	s.state = idle
	o := s.writer.output
	err := s.writer.finish(valid)
	if err == nil && o.Flags().Has(dataset.Checkpoint) { // after an output alone the job would end without a checkpoint of its last steps
		err = s.haltIfAsked()
	}
	s.flusher.Background.BeginCopies()
	if err == nil && o.wish.Stops() {
		s.requests.stopAll(o)
	}
	if s.state != finished {
		s.events.computing()
	}
	return err
}

// writer lets the program write datasets, one after the other: it creates and completes them.
type writer struct {
	*services
	numbers  *numbers
	requests *requests
	record   *record

	output *unfinished // the dataset that is being written, nil if there is none
	ended  int         // how many datasets the program has ended in this run, completed or not
}

// planned is a dataset that the program wants to begin.
type planned struct {
	inSeries
	id         int
	name       string
	flags      Flags
	checkpoint int // its number, or that of the newest checkpoint
}

// plan gives a new dataset its numbers, and a name if the program has given none.
func (w *writer) plan(name string, v inSeries, flags Flags) (planned, error) {
	if unknown := flags &^ (Checkpoint | Output); unknown != 0 {
		return planned{}, &ArgumentError{fmt.Sprintf("flags %v: %#x is no flag", flags, int(unknown))}
	}
	p := planned{v, w.numbers.id + 1, name, flags, w.numbers.checkpoint[v.series]}
	if flags.Has(Checkpoint) {
		p.checkpoint++
	}
	if name == "" {
		p.name = fmt.Sprintf("scr.dataset.%d", p.id)
	}
	if err := dataset.CheckName(p.name); err != nil {
		return planned{}, &ArgumentError{err.Error()}
	}
	return p, nil
}

// begin creates a dataset, which the program then writes.
func (w *writer) begin(p planned) error {
	o, where, err := w.create(p)
	if err != nil {
		w.advisor.Failed(p.id, err)
		return err
	}
	w.output = o
	restart.ReleaseKept(w.restart)
	if w.world.Rank() == 0 && !o.mayShare() && w.cache.Config.Node.Size() < w.world.Size() {
		o.silence = watchFor(w.config.WaitTime, func() {
			w.log.WarnJob("dataset %d (%s): the files of rank 0 have not changed for %v. That is no error if other ranks still write. If the program hangs: do all ranks write parts of one file "+
				"(MPI-IO, HDF5)? Each node has a file of its own in its cache, and does not see those of others; SCR_CACHE_BYPASS=1 lets such a program write to the prefix directory", o.ID(), o.Name(), w.config.WaitTime)
		})
	}
	w.numbers.id = p.id
	w.numbers.checkpoint.set(p.series, p.checkpoint)
	w.events.Dataset(writingEventsOf(o.Dataset).start, o.Dataset, eventlog.Record{Note: where})
	o.spent.opened = time.Now()
	return nil
}

// create creates a dataset in the store that its redundancy descriptor names, or in the
// prefix directory if the descriptor bypasses the cache. where is that store or directory,
// for the log.
func (w *writer) create(p planned) (o *unfinished, where string, err error) {
	o = &unfinished{common: &w.common, cache: w.cache, began: time.Now()}
	desc := w.protection.descriptor(p.flags, p.checkpoint)
	if err := w.requests.poll(); err != nil {
		return nil, "", err
	}
	if p.flags.Has(Checkpoint) {
		o.wish = w.advisor.Starts(p.id, p.name)
	}
	var leaving flush.Leaving
	if !desc.Bypass {
		if leaving, err = w.room.Leaving(w.protection.store(desc.Store), p.series, cache.SizeUnknown); err != nil {
			return nil, "", err
		}
	}
	if o.Dataset, err = w.describe(p, &o.wish); err != nil {
		return nil, "", err
	}
	if !desc.Bypass {
		o.cached, err = w.createCached(o.Dataset, desc, leaving)
		return o, desc.Store, err
	}
	w.flusher.WaitForName(p.name)
	o.direct, err = beginDirect(w.prefix, o.Dataset)
	w.numbers.passOver(w.world, err)
	return o, w.prefix.Dir, err
}

// createCached creates a dataset in the cache, and then evicts those that leave for it, so
// that none is lost for a dataset that cannot be created. If there is no room to create it,
// they are evicted first.
func (w *writer) createCached(d dataset.Dataset, desc *reddesc.Descriptor, leaving flush.Leaving) (*cache.Cached, error) {
	c, err := w.cache.Create(d, desc)
	if err == nil {
		w.room.Evict(leaving)
		return c, nil
	}
	if !mpi.Any(w.world, errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return nil, err
	}
	w.log.Info("dataset %d (%s): no room in the cache, so what leaves for it leaves now: %v", d.ID(), d.Name(), err)
	w.room.Evict(leaving)
	return w.cache.Create(d, desc)
}

// describe gives all ranks rank 0's description of a new dataset, and what the commands want
// that have asked for it.
func (w *writer) describe(p planned, wish *request.Wish) (dataset.Dataset, error) {
	d := dataset.New(p.id, p.name, dataset.Flags(p.flags), p.checkpoint, dataset.Owner{
		User: w.config.UserName, JobName: w.config.JobName, Input: w.restart.Input,
		JobID: w.config.JobID, Cluster: w.config.ClusterName,
	}, w.numbers.timestamp())
	d.SetHistory(w.numbers.history)
	if p.series != "" {
		d.SetVersion(p.series, p.number)
	}
	packed := mpi.BcastBytes(w.world, d.Pack([]byte{wish.Byte()}), 0)
	*wish = request.WishOf(packed[0])
	d, err := dataset.Unpack(packed[1:])
	w.numbers.history = d.History()
	return d, err
}

// finish completes the dataset that is under way.
func (w *writer) finish(valid bool) error {
	o := w.output
	o.silence.end()
	w.output = nil
	if o.failed == nil && !valid {
		o.failed = fmt.Errorf("the program says that its files of dataset %s %w", o.Name(), cache.ErrInvalid)
	}
	if o.failed == nil {
		o.failed = o.enterOwn()
	}
	const first = 3 // a program that leaves files open does so in each dataset
	if w.ended++; w.ended <= first && o.failed == nil {
		o.warnOfOpenFiles()
	}
	finish := w.completeCached
	if o.direct != nil {
		finish = w.completeDirect
	}
	if err := finish(o); err != nil {
		w.advisor.Failed(o.ID(), err)
		return err
	}
	if o.files() == 0 {
		w.log.WarnJob("dataset %d (%s) has no files: no rank has called SCR_Route_file for a file of it, so nothing is protected, "+
			"and a restart from it finds nothing", o.ID(), o.Name())
	}
	if o.Flags().Has(dataset.Checkpoint) && (o.cached == nil || o.cached.Protected()) {
		if err := w.restart.Supersede(o.Dataset); err != nil {
			return err
		}
	}
	return w.requests.poll()
}

// completeCached completes a dataset in the cache.
func (w *writer) completeCached(o *unfinished) error {
	c := o.cached
	written, before := time.Now(), w.events.traffic
	err := w.flusher.Complete(c, o.failed, w.waitsForProtection(o))
	types := writingEventsOf(c.Dataset)
	w.events.Result(types.end, types.fail, c.Dataset, o.began, err)
	if errors.Is(err, cache.ErrShared) {
		return err
	}
	if err != nil {
		return returned(err)
	}
	var measured []phases.Phase
	how := fmt.Sprintf("it is being protected with %s, after a wait of %.3f s", c.Desc.Type, time.Since(written).Seconds())
	if c.Protected() {
		w.events.Copied(eventlog.Encode, c.Dataset, c.Desc.Store, c.Desc.Store, written)
		measured = append(measured, encoding(c, written))
		how = fmt.Sprintf("protected with %s in %.3f s", c.Desc.Type, time.Since(written).Seconds())
	}
	w.events.measure(o, written, append(measured, w.fill(c))...)
	w.cache.WarnOfRoom(w.config.SizeName)
	w.events.tellTraffic(w.log, fmt.Sprintf("dataset %d: protection", c.ID()), before)
	w.log.Info("dataset %d (%s): %s, %s; written in %.3f s, %s", c.ID(), c.Name(), report.Count(c.Files(), "file"),
		report.Bytes(c.Size()), written.Sub(o.began).Seconds(), how)
	w.flusher.Contents.Record(c)
	if c.Flags().Has(dataset.Checkpoint) {
		w.prefix.Note(func() error { return halt.CountCheckpoint(w.prefix.Dir) })
	}
	w.advisor.Reached(c.Dataset, request.InCache)
	w.record.refer(c.Dataset, o.command)
	err = w.flusher.Completed(c)
	if c.Flags().Has(dataset.Checkpoint) {
		w.advisor.Wrote(o.began)
	}
	if err == nil {
		w.requests.fulfil(o)
	}
	return err
}

// waitsForProtection reports whether the program has to wait until a dataset is protected: if it
// is to stop after it. It is collective unless SCR_ENCODE_ASYNC=0.
func (w *writer) waitsForProtection(o *unfinished) bool {
	return !w.flusher.Protector.Async || o.wish.Term || o.wish.Stops() || w.advisor.Stopping()
}

// protectionEnded records that a dataset is protected, which has begun at start, while the program went
// on. It is collective.
func (w *writer) protectionEnded(c *cache.Cached, start time.Time) error {
	w.events.Copied(eventlog.Encode, c.Dataset, c.Desc.Store, c.Desc.Store, start)
	w.events.phases.Log(c.Dataset, encoding(c, start))
	w.cache.WarnOfRoom(w.config.SizeName)
	w.log.Info("dataset %d (%s): protected with %s%s, %.3f s after the program went on", c.ID(), c.Name(), c.Desc.Type, w.flusher.Protector.Over(), time.Since(start).Seconds())
	w.flusher.Contents.Record(c)
	if !c.Flags().Has(dataset.Checkpoint) {
		return nil
	}
	return w.restart.Supersede(c.Dataset)
}

// encoding returns the time in which the caller has protected its files of a dataset, as a phase.
func encoding(c *cache.Cached, start time.Time) phases.Phase {
	took, extra := c.Encoded()
	p := phases.Took(eventlog.Encode, start, took)
	p.Bytes = &extra
	return p
}

// completeDirect completes a dataset that the program has written directly to the prefix
// directory.
func (w *writer) completeDirect(o *unfinished) error {
	d, written := o.direct, time.Now()
	err := d.complete(o.failed)
	types := writingEventsOf(d.Dataset)
	w.events.Result(types.end, types.fail, d.Dataset, o.began, err)
	if err != nil {
		return returned(err)
	}
	w.events.measure(o, written)
	w.log.Info("dataset %d (%s): %s, %s, written to %s in %.3f s, complete after %.3f s more", d.ID(), d.Name(), report.Count(d.Files(), "file"),
		report.Bytes(d.Size()), w.prefix.Dir, written.Sub(o.began).Seconds(), time.Since(written).Seconds())
	w.record.refer(d.Dataset, o.command)
	if d.Flags().Has(dataset.Checkpoint) {
		w.numbers.written = d.ID()
		w.prefix.Note(func() error { return halt.CountCheckpoint(w.prefix.Dir) })
	}
	if err := w.flusher.Arrived(d.Dataset); err != nil {
		return err
	}
	w.requests.fulfil(o)
	if d.Flags().Has(dataset.Checkpoint) {
		w.advisor.Wrote(o.began)
	}
	return nil
}

// abandon ends the dataset that was begun and not completed. Files that
// the program wrote directly to the prefix directory stay there, and the index lists
// their dataset as incomplete.
func (w *writer) abandon(why error) {
	o := w.output
	w.output = nil
	o.silence.end()
	if o.cached != nil {
		_ = w.cache.Complete(o.cached, why) // returns why, or the error of a rank that could not delete the dataset
	}
	w.advisor.Failed(o.ID(), why)
	types := writingEventsOf(o.Dataset)
	w.events.Result(types.end, types.fail, o.Dataset, o.began, why)
}

// fill returns how full the store of a dataset is, in percent, as a phase, with the bytes of
// the program's files in the caches of all nodes.
func (w *writer) fill(c *cache.Cached) phases.Phase {
	p := phases.Phase{Type: eventlog.Fill, Note: c.Desc.Store, Start: time.Now()}
	if w.events.phases == nil {
		return p
	}
	p.Bytes = new(int64)
	for _, there := range w.cache.List() {
		*p.Bytes += there.Size()
	}
	var st unix.Statfs_t
	if err := unix.Statfs(w.protection.store(c.Desc.Store).Base, &st); err == nil && st.Blocks > 0 {
		p.Value = 100 * float64(st.Blocks-st.Bavail) / float64(st.Blocks)
	}
	return p
}
