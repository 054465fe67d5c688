package cache

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/memory"
	"github.com/goscr/goscr/mpi"
)

// FullError says that a store had no room for a dataset. All ranks get it.
type FullError struct {
	Err   error // what has failed
	Where error // which store of which nodes, with the bytes that are free and that the dataset takes
}

func (e *FullError) Error() string { return fmt.Sprintf("%v; the error: %v", e.Where, e.Err) }
func (e *FullError) Unwrap() error { return e.Err }

// explain makes the error why of a dataset that could not be completed a *FullError, if its
// store was full on some node: the program, whose write has failed, does not know whose
// storage that is. failed is why the caller's own files are not valid, nil if they are. It is
// called before the files are deleted. It is collective.
func (l *UsableList) explain(c *Cached, failed, why error) error {
	last, _ := l.sizes(c.store)
	present := int64(0)
	for _, f := range l.Files(c.ID()) {
		if info, err := os.Lstat(f.Path); err == nil {
			present += takes(f.Path, info.Size())
		}
	}
	// ... and the ranks to which the system has said that there is no room, and those that only
	// know that their files are not valid.
	sums := []int64{present, last, l.written(c.store), one(noRoom(failed) || noRoom(why)), one(errors.Is(failed, ErrInvalid))}
	c.store.Comm.Allreduce(sums, mpi.Sum)
	present, last = sums[0], sums[1]
	// A program that only says that its files are not valid had no room if the rest of a dataset
	// like the last does not fit. If nothing tells how large the dataset was to become, hardly
	// anything is left beside what there is of it.
	const little = 64 << 10
	rest := max(little, present/64)
	if last > 0 {
		rest = max(sums[2]-present, 1)
	}
	var full error
	if free := room(c.store); c.store.Comm.Rank() == 0 {
		takes := fmt.Sprintf("a dataset takes %s there", report.Bytes(last))
		if last == 0 {
			takes = fmt.Sprintf("%s of the dataset were there", report.Bytes(present))
		}
		if sums[3] > 0 || sums[4] > 0 && free < rest {
			full = fmt.Errorf("%s on node %s is full: %s free, or a quota that is less, and %s; make room there, or choose another directory with %s",
				c.store.Base, l.parts.log.Node, report.Bytes(free), takes, c.store.SetBy)
		}
	}
	if full = mpi.Agree(l.parts.world, full); full == nil {
		return why
	}
	return &FullError{why, full}
}

// room returns the free bytes of a store here.
func room(s *reddesc.Store) int64 {
	var st unix.Statfs_t
	if unix.Statfs(s.Base, &st) != nil {
		return math.MaxInt64
	}
	return int64(min(st.Bavail*uint64(st.Bsize), math.MaxInt64))
}

// memoryLimit returns the limit of the job's memory, if it counts what is in a directory.
func memoryLimit(dir string) (memory.Limit, bool) {
	if !InMemory(dir) {
		return memory.Limit{}, false
	}
	return memory.Tightest()
}

// sizes returns the bytes of the caller's files, redundancy included, of the newest dataset of
// a store, and of all that can be used there.
func (l *UsableList) sizes(s *reddesc.Store) (last, all int64) {
	for i := len(l.list) - 1; i >= 0; i-- {
		if c := l.list[i]; c.store == s {
			last = l.parts.size(c.ID())
			all += last
		}
	}
	return last, all
}

// size returns the bytes of the caller's files of the unused datasets in a store.
func (l *UnusedList) size(s *reddesc.Store) (bytes int64) {
	for _, u := range l.list {
		if u.store == s {
			bytes += l.parts.size(u.id)
		}
	}
	return bytes
}

// written returns the bytes of the caller's files, without redundancy, of the newest dataset
// of a store.
func (l *UsableList) written(s *reddesc.Store) (bytes int64) {
	i := slices.IndexFunc(l.list, func(c *Cached) bool { return c.store == s })
	if i < 0 {
		return 0
	}
	own, _ := redundancy.Split(l.Files(l.list[i].ID()))
	for _, f := range own {
		bytes += takes(f.Path, f.Meta.Size())
	}
	return bytes
}

// WarnOfRoom warns if a store has less room than for as many datasets as it is to keep, each
// of the size of the last, or if the job's memory limit is reached first: the kernel kills such a job, so there
// should be room for one dataset more. Each store is looked at once, when it
// has a dataset that is protected. sizeName returns the parameter that says how many. It is
// collective.
func (k *Cache) WarnOfRoom(sizeName func(store string) string) {
	for _, x := range k.parts.places.all[:len(k.Config.Stores)] {
		s := x.store
		if x.measured || !slices.ContainsFunc(k.list, func(c *Cached) bool { return c.store == s && c.Protected() }) {
			continue // on all ranks
		}
		x.measured = true
		last, all := k.sizes(s)
		all += k.Unused.size(s)
		sums := []int64{last, all}
		s.Comm.Allreduce(sums, mpi.Sum)
		size, used := sums[0], sums[1]
		if s.Comm.Rank() != 0 || size == 0 || s.Count <= 0 {
			continue
		}
		if limit, limited := memoryLimit(x.dir); limited && (limit.Free()+used)/size <= int64(s.Count) {
			k.Config.Log.WarnFirst("%s is memory, of which the job may use %s on this node (control group %s) and has %s left. %s=%d keeps %s of %s, the size of the last, and the system kills "+
				"a job that has no memory left: ask for more (with Slurm: --mem), keep fewer, or choose another directory with %s",
				s.Base, report.Bytes(limit.Bytes), limit.Group, report.Bytes(limit.Free()), sizeName(s.Name), s.Count, report.Count(s.Count, "dataset"), report.Bytes(size), s.SetBy)
		}
		if free := room(s); free < math.MaxInt64-used && (free+used)/size < int64(s.Count) {
			k.Config.Log.Warn("%s has room for %s of %s, the size of the last: %s are used, and %s are free. %s=%d keeps %d while the program computes or writes the next: "+
				"make room there, choose another directory, or keep fewer", s.Base, report.Count(int((free+used)/size), "dataset"), report.Bytes(size),
				report.Bytes(used), report.Bytes(free), sizeName(s.Name), s.Count, s.Count)
		}
	}
}
