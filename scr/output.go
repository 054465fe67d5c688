package scr

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
)

// StartOutput begins a dataset. The program then asks Route for the path of
// each file it is going to write, writes them, and ends with CompleteOutput.
// The name, which must be the same on all ranks, is what people see; "" stands
// for one made of the dataset's number.
func (s *Session) StartOutput(name string, flags Flags) error {
	return s.start("StartOutput", name, flags, writing)
}

// StartCheckpoint begins a checkpoint with a name made of its number, which
// CompleteCheckpoint ends.
func (s *Session) StartCheckpoint() error {
	return s.start("StartCheckpoint", "", Checkpoint, checkpointing)
}

func (s *Session) start(call, name string, flags Flags, next state) error {
	if err := s.expect(call, idle); err != nil {
		return err
	}
	if err := s.sameEverywhere(call, name, flags); err != nil {
		return err
	}
	if unknown := flags &^ (Checkpoint | Output); unknown != 0 {
		return &ArgumentError{fmt.Sprintf("%s called with flags %#x, of which %#x are unknown", call, int(flags), int(unknown))}
	}
	id, checkpoint := s.id+1, s.checkpoint
	if flags.Has(Checkpoint) {
		checkpoint++
	}
	if name == "" {
		name = fmt.Sprintf("scr.dataset.%d", id)
	}
	if err := dataset.CheckName(name); err != nil {
		return &ArgumentError{err.Error()}
	}
	if !s.started {
		s.tellBeginning()
	}
	s.computed()
	defer func() {
		if !s.open() {
			s.computing()
		}
	}()
	s.began = time.Now()
	s.started = true
	s.offer(nil) // restart files are no longer promised
	desc := s.descriptor(flags, checkpoint)
	if err := s.look(); err != nil {
		return err
	}
	if !desc.Bypass {
		if err := s.makeRoom(s.store(desc.Store)); err != nil {
			return err
		}
	}
	d, err := s.describeDataset(id, name, flags, checkpoint)
	if err != nil {
		return err
	}
	where := desc.Store
	if desc.Bypass {
		where = s.prefix.Dir
		err = s.beginDirect(d)
	} else {
		s.current, err = s.cache.Create(d, desc)
	}
	if err != nil {
		s.current = nil
		if desc.Bypass {
			s.passOver(err)
		}
		return err
	}
	s.id, s.checkpoint, s.routeError, s.state = id, checkpoint, nil, next
	s.event(kindOf(d)+"_START", d, eventlog.Record{Note: where})
	return nil
}

// makeRoom makes place for one more dataset in a store. An output that has
// not reached the prefix directory is flushed before it goes.
func (s *Session) makeRoom(store *reddesc.Store) error {
	newest := s.newestCheckpoint()
	leaving := s.cache.Leaving(store, store.Count-1, func(c *cache.Cached) int {
		switch {
		case s.flightOf(c) != nil || c == newest && len(s.flights) > 0:
			return 2 // one has to wait for, and not lose the newest for that
		case c.Flags().Has(Checkpoint) || c.Flags().Has(Output) && !s.flushed[c.ID()]:
			return 1
		}
		return 0
	})
	if s.world.Rank() == 0 && newest != nil && !s.flushed[newest.ID()] && slices.Contains(leaving, newest) {
		s.log.WarnOnce("%s=1: a dataset leaves the cache before the next is complete; a failure in between loses it (2 keeps it)",
			s.sizeName(store))
	}
	for _, c := range leaving {
		if f := s.flightOf(c); f != nil {
			s.log.Info("dataset %d (%s): its flush has to end before the next dataset has room", c.ID(), c.Name())
			if err := s.arriveOrWarn(f); err != nil {
				return err
			}
		}
		if s.cache.Find(c.ID()) == nil { // an output, which has left
			continue
		}
		if c.Flags().Has(Output) && !s.flushed[c.ID()] {
			if err := s.flush(c); err != nil {
				return err
			}
		}
		s.note(func() error { return prefix.Locate(s.prefix.Dir, c.Dataset, prefix.InCache, false) })
		delete(s.flushed, c.ID())
	}
	return s.cache.Evict(leaving)
}

// sizeName is what a user sets to make a store larger.
func (s *Session) sizeName(store *reddesc.Store) string {
	if s.config.Items("STORE").Get(store.Name).Has("COUNT") {
		return "STORE=" + store.Name + " COUNT"
	}
	return "SCR_CACHE_SIZE"
}

// describeDataset gives all ranks rank 0's description of a new dataset.
func (s *Session) describeDataset(id int, name string, flags Flags, checkpoint int) (dataset.Dataset, error) {
	d := dataset.New(id, name, flags, checkpoint, dataset.Owner{
		User: s.config.String("SCR_USER_NAME"), JobName: s.config.String("SCR_JOB_NAME"),
		JobID: s.config.String("SCR_JOB_ID"), Cluster: s.config.String("SCR_CLUSTER_NAME"),
	}, s.timestamp())
	packed, err := mpi.BcastBytes(s.world, d.Pack(nil), 0)
	if err != nil {
		return d, err
	}
	return dataset.Unpack(packed)
}

// timestamp is the time to record for the beginning of a dataset. It is later than
// that of any before, also when the clock has been set back: that tells datasets of
// one number apart, and whether a job goes on.
func (s *Session) timestamp() time.Time {
	now := time.Now()
	if least := s.latest.Add(time.Microsecond); now.Before(least) && least.Year() < 9999 { // if it is a time
		now = least
	}
	s.latest = now
	return now
}

// Route returns the path under which the program must open a file. While a
// dataset is written, that is a place in the cache for a file which the
// program would have written as name, below the prefix directory. In a
// restart, it is where a file that was written as name now is; the last
// element of the name suffices if only one of the rank's files has it. At
// other times it is name itself. Route is not collective.
func (s *Session) Route(name string) (string, error) {
	path, err := s.route(name)
	if err == nil && len(path) >= MaxFilename {
		err = fmt.Errorf("%s: the path in the cache has %d characters, at most %d are possible", name, len(path), MaxFilename-1)
	}
	if err != nil {
		return "", s.Spoil(err)
	}
	return path, nil
}

// Spoil makes the dataset that is being written one that cannot be completed,
// and returns err, which says why. Outside of an output it does no more than
// that.
func (s *Session) Spoil(err error) error {
	if s.open() && s.routeError == nil {
		s.routeError = err
	}
	return err
}

func (s *Session) route(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("Route called with an empty name")
	case s.open():
		return s.routeOutput(name)
	case s.state == restarting:
		return s.routeRestart(name)
	case s.restart != nil && !s.started:
		// Programs of the first interface restart without telling.
		if path, err := s.routeRestart(name); err == nil {
			return path, nil
		}
	}
	return name, nil
}

func (s *Session) routeOutput(name string) (string, error) {
	file, err := s.belowPrefix(name)
	if err != nil {
		return "", err
	}
	md := meta.New(file, meta.Full, s.world.Size())
	md.SetOrigin(name, filepath.Join(s.prefix.Dir, filepath.Dir(file)))
	if s.direct != nil {
		return s.direct.add(s.prefix.Dir, md)
	}
	return s.cache.Add(s.current, md)
}

// belowPrefix returns the path of a file relative to the prefix directory.
func (s *Session) belowPrefix(name string) (string, error) {
	path := filepath.Clean(name)
	if !filepath.IsAbs(path) {
		// Not os.Getwd, which believes what PWD was when the program began.
		dir, err := unix.Getwd()
		if err != nil {
			return "", fmt.Errorf("working directory: %w", err)
		}
		path = filepath.Join(dir, path)
	}
	rel, below := strings.CutPrefix(path, s.prefix.Dir+"/")
	if !below && path != s.prefix.Dir {
		// The same place by another way, through symbolic links?
		path = resolve(path)
		rel, below = strings.CutPrefix(path, s.real+"/")
	}
	switch {
	case path == s.prefix.Dir || path == s.real:
		return "", fmt.Errorf("%s is the prefix directory itself", name)
	case !below:
		return "", fmt.Errorf("%s is not below the prefix directory %s: write it there, or set SCR_PREFIX", name, s.prefix.Dir)
	case rel == prefix.Metadata || strings.HasPrefix(rel, prefix.Metadata+"/"):
		return "", fmt.Errorf("%s lies in %s, which is goscr's own", name, prefix.Metadata)
	}
	return rel, nil
}

// resolve follows the symbolic links in those directories of a path that are
// there.
func resolve(path string) string {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == "/" {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// CompleteOutput ends the dataset that StartOutput began. valid says whether
// this rank has written all its files. If all ranks say so, the files are
// protected against the loss of nodes, and flushed to the prefix directory when
// that is due; with SCR_FLUSH_ASYNC=1 that goes on while the program does, and ends
// in a later call. Otherwise the dataset is deleted, and the error says why.
func (s *Session) CompleteOutput(valid bool) error {
	return s.complete("CompleteOutput", writing, valid)
}

// CompleteCheckpoint ends the checkpoint that StartCheckpoint began, like
// CompleteOutput.
func (s *Session) CompleteCheckpoint(valid bool) error {
	return s.complete("CompleteCheckpoint", checkpointing, valid)
}

func (s *Session) complete(call string, from state, valid bool) error {
	if err := s.expect(call, from); err != nil {
		return err
	}
	defer s.computing()
	defer s.takeOff()
	finish := s.completeCached
	if s.direct != nil {
		finish = s.completeDirect
	}
	if err := finish(valid); err != nil {
		return err
	}
	if err := s.look(); err != nil {
		return err
	}
	return s.haltIfAsked()
}

// completeCached is complete for a dataset in the cache.
func (s *Session) completeCached(valid bool) error {
	c := s.current
	s.state, s.current = idle, nil
	failed := s.routeError
	if failed == nil && !valid {
		failed = fmt.Errorf("the program says that its files of dataset %s are not valid", c.Name())
	}
	written, before := time.Now(), s.traffic
	err := s.cache.Complete(c, failed)
	s.result(kindOf(c.Dataset), "END", c.Dataset, s.began, err)
	if err != nil {
		return err
	}
	s.moved("ENCODE", c.Dataset, c.Desc.Store, c.Desc.Store, written)
	s.tellTraffic(fmt.Sprintf("dataset %d: protection", c.ID()), before)
	s.log.Info("dataset %d (%s): %s, %s; written in %.3f s, protected with %s in %.3f s", c.ID(), c.Name(), report.Count(c.Files(), "file"),
		report.Bytes(c.Size()), written.Sub(s.began).Seconds(), c.Desc.Type, time.Since(written).Seconds())
	s.note(func() error { return prefix.Locate(s.prefix.Dir, c.Dataset, prefix.InCache, true) })
	if c.Flags().Has(Checkpoint) {
		s.note(func() error { return halt.CountCheckpoint(s.prefix.Dir) })
	}
	err = s.flushIfDue(c)
	s.completed(c.Dataset)
	return err
}
