package session

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/descriptors"
	"github.com/goscr/goscr/mpi"
)

// unfinished is the dataset that the program is writing, either in the cache or directly in
// the prefix directory.
type unfinished struct {
	dataset.Dataset
	cached  *cache.Cached // nil if it is written directly
	direct  *direct       // nil if it is written in the cache
	began   time.Time
	spent   spent        // of this rank
	wish    request.Wish // of the commands that have asked for it
	failed  error        // why it cannot be completed, nil if it can
	command string       // how the program restarts from it, "": as it was started
	silence *silence     // nil on ranks other than 0, and where ranks can share a file
	own     *directory   // where the rank writes files under names of its own, nil if it does not
}

// spent is where the time of a rank goes while the program writes a dataset.
type spent struct {
	opened time.Time     // when the program began to write
	routed time.Duration // in calls of Route
}

// files returns the number of files of all ranks, once the dataset is complete.
func (o *unfinished) files() int {
	if o.direct != nil {
		return o.direct.Files()
	}
	return o.cached.Files()
}

// StartOutput begins a dataset. The program then asks Route for the path of
// each file it is going to write, writes them, and ends with CompleteOutput.
// The name, by which users know the dataset, must be the same on all ranks; if it
// is "", a name is made from the dataset's number.
func (s *Session) StartOutput(name string, flags Flags) error {
	return s.call("StartOutput", func() error { return s.start("StartOutput", name, inSeries{}, flags, writing) })
}

// StartCheckpoint begins a checkpoint, whose name is made from its number.
// CompleteCheckpoint ends it.
func (s *Session) StartCheckpoint() error {
	return s.call("StartCheckpoint", func() error { return s.start("StartCheckpoint", "", inSeries{}, Checkpoint, checkpointing) })
}

func (s *Session) start(call, name string, v inSeries, flags Flags, next state) error {
	if err := s.state.expect(call, idle); err != nil {
		return err
	}
	removed, err := sameEverywhere(s.world, name, flags, s.cache.Removed())
	if err != nil {
		return err
	}
	if unknown := flags &^ (Checkpoint | Output); unknown != 0 {
		return &ArgumentError{fmt.Sprintf("flags %v: %#x is no flag", flags, int(unknown))}
	}
	id, checkpoint := s.numbers.id+1, s.numbers.checkpoint[v.series]
	if flags.Has(Checkpoint) {
		checkpoint++
	}
	if name == "" {
		name = fmt.Sprintf("scr.dataset.%d", id)
	}
	if err := dataset.CheckName(name); err != nil {
		return &ArgumentError{err.Error()}
	}
	if removed {
		if err := s.flusher.Remake(); err != nil {
			return err
		}
	}
	if err := s.stopRestart(); err != nil {
		return err
	}
	s.computed()
	o, where, err := s.create(id, name, v, flags, checkpoint)
	if err != nil {
		s.advisor.Failed(id, err)
		s.computing()
		return err
	}
	s.output, s.state = o, next
	if s.world.Rank() == 0 && !s.mayShare(o) && s.cache.Config.Node.Size() < s.world.Size() {
		o.silence = watchFor(s.config.WaitTime, func() {
			s.log.WarnJob("dataset %d (%s): the files of rank 0 have not changed for %v. That is no error if other ranks still write. If the program hangs: do all ranks write parts of one file "+
				"(MPI-IO, HDF5)? Each node has a file of its own in its cache, and does not see those of others; SCR_CACHE_BYPASS=1 lets such a program write to the prefix directory", o.ID(), o.Name(), s.config.WaitTime)
		})
	}
	s.numbers.id = id
	s.numbers.checkpoint.set(v.series, checkpoint)
	s.events.Dataset(writingEventsOf(o.Dataset).start, o.Dataset, eventlog.Record{Note: where})
	o.spent.opened = time.Now()
	return nil
}

// create creates a dataset in the store that its redundancy descriptor names, or in the
// prefix directory if the descriptor bypasses the cache. where is that store or directory,
// for the log.
func (s *Session) create(id int, name string, v inSeries, flags Flags, checkpoint int) (o *unfinished, where string, err error) {
	o = &unfinished{began: time.Now()}
	desc := s.protection.descriptor(flags, checkpoint)
	if err := s.poll(); err != nil {
		return nil, "", err
	}
	if flags.Has(Checkpoint) {
		o.wish = s.advisor.Starts(id, name)
	}
	var leaving flush.Leaving
	if !desc.Bypass {
		if leaving, err = s.flusher.Room.Leaving(s.protection.store(desc.Store), v.series, cache.SizeUnknown); err != nil {
			return nil, "", err
		}
	}
	if o.Dataset, err = s.describe(id, name, v, flags, checkpoint, &o.wish); err != nil {
		return nil, "", err
	}
	if !desc.Bypass {
		o.cached, err = s.createCached(o.Dataset, desc, leaving)
		return o, desc.Store, err
	}
	s.flusher.WaitForName(name)
	o.direct, err = beginDirect(s.prefix, o.Dataset)
	s.numbers.passOver(s.world, err)
	return o, s.prefix.Dir, err
}

// createCached creates a dataset in the cache, and then evicts those that leave for it, so
// that none is lost for a dataset that cannot be created. If there is no room to create it,
// they are evicted first.
func (s *Session) createCached(d dataset.Dataset, desc *reddesc.Descriptor, leaving flush.Leaving) (*cache.Cached, error) {
	c, err := s.cache.Create(d, desc)
	if err == nil {
		s.flusher.Room.Evict(leaving)
		return c, nil
	}
	if !mpi.Any(s.world, errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return nil, err
	}
	s.log.Info("dataset %d (%s): no room in the cache, so what leaves for it leaves now: %v", d.ID(), d.Name(), err)
	s.flusher.Room.Evict(leaving)
	return s.cache.Create(d, desc)
}

// describe gives all ranks rank 0's description of a new dataset, and what the commands want
// that have asked for it.
func (s *Session) describe(id int, name string, v inSeries, flags Flags, checkpoint int, wish *request.Wish) (dataset.Dataset, error) {
	d := dataset.New(id, name, dataset.Flags(flags), checkpoint, dataset.Owner{
		User: s.config.UserName, JobName: s.config.JobName, Input: s.restart.Input,
		JobID: s.config.JobID, Cluster: s.config.ClusterName,
	}, s.numbers.timestamp())
	d.SetHistory(s.numbers.history)
	if v.series != "" {
		d.SetVersion(v.series, v.number)
	}
	packed := mpi.BcastBytes(s.world, d.Pack([]byte{wish.Byte()}), 0)
	*wish = request.WishOf(packed[0])
	d, err := dataset.Unpack(packed[1:])
	s.numbers.history = d.History()
	return d, err
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
		path, err = s.route(name)
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
	if s.output != nil && s.output.failed == nil {
		s.output.failed = err
	}
	return err
}

func (s *Session) route(name string) (string, error) {
	switch {
	case name == "":
		return "", returned(errors.New("a file with an empty name"))
	case s.output != nil:
		return s.routeOutput(name)
	case s.state == restarting:
		path, err := s.routeRestart(name)
		return path, returned(err)
	case s.restart.Offered() != nil && !s.started:
		// Programs that use SCR's first API read a checkpoint without calling StartRestart.
		if path, err := s.routeRestart(name); err == nil {
			s.numbers.asked = true
			return path, nil
		}
	}
	return name, nil
}

func (s *Session) routeOutput(name string) (string, error) {
	start := time.Now()
	defer func() { s.output.spent.routed += time.Since(start) }()
	if path, ok := s.output.inOwn(name); ok {
		return path, nil
	}
	file, err := s.paths.below(name)
	if err == nil && s.mayShare(s.output) {
		file, err = s.paths.direct(file)
	}
	if err != nil {
		return "", err
	}
	md := meta.New(file, meta.Full, s.world.Size())
	md.SetOrigin(name, filepath.Join(s.prefix.Dir, filepath.Dir(file)))
	if s.output.direct != nil {
		return s.output.direct.add(md)
	}
	path, err := s.cache.Add(s.output.cached, md)
	if err == nil {
		s.output.silence.route(path)
	}
	return path, err
}

// mayShare reports whether several ranks can write parts of one file of a dataset.
func (s *Session) mayShare(o *unfinished) bool {
	return o.direct != nil || s.cache.Common(o.ID()) != ""
}

func (s *Session) routeRestart(name string) (string, error) {
	below, err := s.paths.below(name)
	if err != nil {
		return s.restart.Route(name) // the last element of name may suffice
	}
	if path, ok := s.restart.Written(below); ok {
		return path, nil
	}
	direct, err := s.paths.direct(below)
	if err != nil {
		return "", err
	}
	return s.restart.Route(name, below, direct)
}

// CompleteOutput ends the dataset that StartOutput began. valid says whether
// this rank has written all its files. If it is true on all ranks, the files are
// protected against the loss of nodes, and are flushed to the prefix directory if a
// flush is due; with SCR_FLUSH_ASYNC=1 the flush continues while the program computes,
// and a later call finishes it. Otherwise the dataset is deleted, and the error says
// why.
func (s *Session) CompleteOutput(valid bool) error {
	return s.call("CompleteOutput", func() error { return s.complete("CompleteOutput", writing, valid) })
}

// CompleteCheckpoint ends the checkpoint that StartCheckpoint began, like
// CompleteOutput.
func (s *Session) CompleteCheckpoint(valid bool) error {
	return s.call("CompleteCheckpoint", func() error { return s.complete("CompleteCheckpoint", checkpointing, valid) })
}

func (s *Session) complete(call string, from state, valid bool) error {
	if err := s.state.expect(call, from); err != nil {
		return err
	}
	o := s.output
	err := s.finish(valid)
	s.flusher.Background.BeginCopies()
	if err == nil && o.wish.Stops() {
		err = s.stopAll(o)
	}
	s.computing()
	return err
}

// finish completes the dataset that is under way.
func (s *Session) finish(valid bool) error {
	o := s.output
	o.silence.end()
	s.state, s.output = idle, nil
	if o.failed == nil && !valid {
		o.failed = fmt.Errorf("the program says that its files of dataset %s %w", o.Name(), cache.ErrInvalid)
	}
	if o.failed == nil {
		o.failed = s.enterOwn(o)
	}
	s.numbers.ended++
	warnOfOpenFiles(s, o)
	finish := s.completeCached
	if o.direct != nil {
		finish = s.completeDirect
	}
	if err := finish(o); err != nil {
		s.advisor.Failed(o.ID(), err)
		return err
	}
	if o.files() == 0 {
		s.log.WarnJob("dataset %d (%s) has no files: no rank has called SCR_Route_file for a file of it, so nothing is protected, "+
			"and a restart from it finds nothing", o.ID(), o.Name())
	}
	if o.Flags().Has(dataset.Checkpoint) && (o.cached == nil || o.cached.Protected()) {
		if err := s.restart.Supersede(o.Dataset); err != nil {
			return err
		}
	}
	if err := s.poll(); err != nil {
		return err
	}
	return s.haltIfAsked()
}

// warnOfOpenFiles warns if this rank still has a file of a dataset open for writing: what the C library writes when the program
// closes it, comes after the dataset was protected. A program makes this mistake in each dataset, so only the first ones are looked at. It is not collective.
func warnOfOpenFiles(s *Session, o *unfinished) {
	const first = 3
	if s.numbers.ended > first || o.failed != nil {
		return
	}
	var paths []string
	if o.direct != nil {
		paths = slices.Collect(maps.Keys(o.direct.files))
	} else {
		for _, f := range s.cache.Files(o.ID()) {
			paths = append(paths, f.Path)
		}
	}
	if open := descriptors.Writing(paths); len(open) > 0 {
		s.log.WarnFirst("dataset %d (%s) is completed while %s is still open for writing: what is written to it later, as by fclose, is neither protected nor flushed, "+
			"and a restart refuses the file; close it before SCR_Complete_output", o.ID(), o.Name(), filepath.Base(slices.Min(open)))
	}
}

// completeCached completes a dataset in the cache.
func (s *Session) completeCached(o *unfinished) error {
	c := o.cached
	written, before := time.Now(), s.traffic
	err := s.flusher.Complete(c, o.failed, s.waitsForProtection(o))
	types := writingEventsOf(c.Dataset)
	s.events.Result(types.end, types.fail, c.Dataset, o.began, err)
	if errors.Is(err, cache.ErrShared) {
		return err
	}
	if err != nil {
		return returned(err)
	}
	var measured []phases.Phase
	how := fmt.Sprintf("it is being protected with %s, after a wait of %.3f s", c.Desc.Type, time.Since(written).Seconds())
	if c.Protected() {
		s.events.Copied(eventlog.Encode, c.Dataset, c.Desc.Store, c.Desc.Store, written)
		measured = append(measured, encoding(c, written))
		how = fmt.Sprintf("protected with %s in %.3f s", c.Desc.Type, time.Since(written).Seconds())
	}
	s.measure(o, written, append(measured, s.fill(c))...)
	s.cache.WarnOfRoom(s.sizeName)
	s.tellTraffic(fmt.Sprintf("dataset %d: protection", c.ID()), before)
	s.log.Info("dataset %d (%s): %s, %s; written in %.3f s, %s", c.ID(), c.Name(), report.Count(c.Files(), "file"),
		report.Bytes(c.Size()), written.Sub(o.began).Seconds(), how)
	s.prefix.Note(func() error {
		if !c.Protected() {
			return errors.Join(prefix.Locate(s.prefix.Dir, c.Dataset, prefix.InCache, true), prefix.Locate(s.prefix.Dir, c.Dataset, prefix.Exposed, true))
		}
		return prefix.EnterCached(s.prefix.Dir, c.Dataset, c.Desc.Protection.String(), c.Verified())
	})
	if c.Flags().Has(dataset.Checkpoint) {
		s.prefix.Note(func() error { return halt.CountCheckpoint(s.prefix.Dir) })
	}
	s.advisor.Reached(c.Dataset, request.InCache)
	s.recordFacts(c.Dataset, o.command)
	err = s.flusher.Completed(c)
	if c.Flags().Has(dataset.Checkpoint) {
		s.advisor.Wrote(o.began)
	}
	if err == nil {
		s.fulfil(o)
	}
	return err
}

// waitsForProtection reports whether the program has to wait until a dataset is protected: if it
// is to stop after it. It is collective if SCR_ENCODE_ASYNC=1.
func (s *Session) waitsForProtection(o *unfinished) bool {
	if !s.config.EncodeAsync {
		return true
	}
	if o.wish.Term || o.wish.Stops() {
		return true
	}
	return s.advisor.Stopping()
}

// protected records that a dataset is protected, which has begun at start, while the program went
// on. It is collective.
func (s *Session) protected(c *cache.Cached, start time.Time) error {
	s.events.Copied(eventlog.Encode, c.Dataset, c.Desc.Store, c.Desc.Store, start)
	s.events.phases.Log(c.Dataset, encoding(c, start))
	s.cache.WarnOfRoom(s.sizeName)
	s.log.Info("dataset %d (%s): protected with %s%s, %.3f s after the program went on", c.ID(), c.Name(), c.Desc.Type, s.flusher.Protector.Over(), time.Since(start).Seconds())
	s.prefix.Note(func() error {
		return errors.Join(prefix.EnterCached(s.prefix.Dir, c.Dataset, c.Desc.Protection.String(), c.Verified()),
			prefix.Locate(s.prefix.Dir, c.Dataset, prefix.Exposed, false))
	})
	if !c.Flags().Has(dataset.Checkpoint) {
		return nil
	}
	return s.restart.Supersede(c.Dataset)
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
func (s *Session) completeDirect(o *unfinished) error {
	d, written := o.direct, time.Now()
	err := d.complete(o.failed)
	types := writingEventsOf(d.Dataset)
	s.events.Result(types.end, types.fail, d.Dataset, o.began, err)
	if err != nil {
		return returned(err)
	}
	s.measure(o, written)
	s.log.Info("dataset %d (%s): %s, %s, written to %s in %.3f s, complete after %.3f s more", d.ID(), d.Name(), report.Count(d.Files(), "file"),
		report.Bytes(d.Size()), s.prefix.Dir, written.Sub(o.began).Seconds(), time.Since(written).Seconds())
	s.recordFacts(d.Dataset, o.command)
	if d.Flags().Has(dataset.Checkpoint) {
		s.numbers.written = d.ID()
		s.prefix.Note(func() error { return halt.CountCheckpoint(s.prefix.Dir) })
	}
	if err := s.flusher.Arrived(d.Dataset); err != nil {
		return err
	}
	s.fulfil(o)
	if d.Flags().Has(dataset.Checkpoint) {
		s.advisor.Wrote(o.began)
	}
	return nil
}
