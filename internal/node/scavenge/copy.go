// Package scavenge copies datasets from the caches of nodes to the prefix directory
// after the last run of an allocation (SCR Developer Guide, "Scavenge").
//
// Two commands without MPI do that. On every node that is left, Copy copies the
// files of its ranks, and their redundancy files, and writes a list of these for each
// rank. Then, on any node, Build reads the lists, rebuilds the files of ranks without a
// list, and enters the dataset in the index.
//
//	copy.go     from a node to the prefix directory
//	scan.go     which files are there, and which are missing
//	rebuild.go  sets of ranks some of whose files are missing
//	build.go    from the lists to a dataset that can be used
//	files.go    helpers of these
//
// Both can be run again at any time, whether they were killed or not. The list of a rank is
// written once all its files are on their medium. Files have temporary names until all
// ranks have lists; then they get their names, and the dataset becomes usable. Until then
// files of an older dataset with these names stay.
package scavenge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/partner"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Copy copies the files of one node.
type Copy struct {
	Control string // directory with the node's filemaps
	Prefix  string // absolute
	ID      int    // of the dataset
	Buffer  int    // bytes that are copied at a time
	// Reread reads files that have been copied before, and verifies their checksums, instead
	// of comparing only sizes and times.
	Reread bool
	// Partner makes this node copy the files of ranks on other nodes that have not copied
	// them, if its redundancy has copies of these files, or all nodes share the directory of
	// the dataset.
	Partner bool
	// Down lists nodes that will copy nothing: for their ranks Partner is always assumed.
	Down []string
	// Progress, if not nil, counts the bytes that are copied.
	Progress progress.Meter
	// Booted is when the node has started, for tests; zero: it is asked.
	Booted time.Time
	// Warn is called with errors of single ranks and files.
	Warn func(error)
}

// Copied is the result of Copy.
type Copied struct {
	There    bool     // the whole dataset was in the prefix directory before
	Ranks    []int    // ranks whose files were copied
	Files    int      // number of files that were copied
	Kept     int      // number of files that had been copied before
	Bytes    int64    // size of the files that were copied
	Partners []string // nodes of whose ranks this node has copies
}

// NothingHere is the beginning of the error of a node on which no rank has run, or whose
// storage has been emptied since. scr_run uses it to distinguish spare nodes from failures.
const NothingHere = "the job has nothing on this node"

// NoControl is the error of a node without a control directory.
func NoControl(err error) error {
	return fmt.Errorf("%s, or it is not the job that SCR_JOB_ID and --cntldir say: control directory: %w", NothingHere, err)
}

// Run copies the files of the node. If the files of some ranks cannot be copied it continues
// with the others, and returns an error in the end.
func (c *Copy) Run() (Copied, error) {
	alone, err := c.alone()
	if errors.Is(err, fs.ErrNotExist) {
		return Copied{}, NoControl(err)
	}
	if err != nil {
		return Copied{}, err
	}
	defer alone.Release()
	alone.KeepAlive()
	maps, bad, err := filemap.ReadDir(c.Control)
	if err != nil {
		return Copied{}, fmt.Errorf("control directory: %w", err)
	}
	for _, err := range bad {
		c.Warn(err)
	}
	c.distrust(maps)
	control, err := os.Stat(c.Control)
	if err != nil {
		return Copied{}, fmt.Errorf("control directory: %w", err)
	}
	n := &node{Copy: c, maps: maps, user: trust.OwnerOf(control), dir: prefix.Dir(c.Prefix, c.ID), copier: transfer.NewCopier(c.Buffer)}
	if len(maps.Ranks(c.ID)) == 0 {
		return n.notCached()
	}
	ranks, err := n.ranks()
	if err != nil {
		return Copied{}, err
	}
	there, err := prefix.Arrived(c.Prefix, n.dataset)
	if err != nil || there {
		return Copied{There: there}, err
	}
	if err := prefix.Announce(c.Prefix, n.dataset); err != nil {
		return Copied{}, err
	}
	n.copier.Stalled, n.copier.Below, n.copier.Admit = c.Warn, n.root(), n.admit
	n.meter = progress.Or(c.Progress)
	n.copier.Step = func(bytes int) error { n.meter.Add(int64(bytes)); return nil }
	for _, rank := range ranks {
		for _, path := range n.maps.Files(n.ID, rank) {
			n.meter.Expect(max(n.maps.Meta(n.ID, rank, path).Size(), 0))
		}
	}
	failed := len(bad)
	for _, rank := range ranks {
		if err := n.copyRank(rank); err != nil {
			failed++
			c.Warn(fmt.Errorf("rank %d: %w", rank, err))
		}
		if err := n.partners(rank); err != nil {
			failed++
			c.Warn(fmt.Errorf("copies kept by rank %d: %w", rank, err))
		}
	}
	if err := n.common(); err != nil {
		failed++
		c.Warn(fmt.Errorf("ranks of other nodes: %w", err))
	}
	slices.Sort(n.done.Partners)
	n.done.Partners = slices.Compact(n.done.Partners)
	if failed > 0 {
		return n.done, fmt.Errorf("dataset %d: not all that the node has could be copied", c.ID)
	}
	return n.done, nil
}

// distrust leaves out files that the next run would not use either, because the node has started again.
func (c *Copy) distrust(maps *filemap.Map) {
	maps.Distrust(cmp.Or(c.Booted, filemap.Booted()), func(id, rank int, path string) {
		if id == c.ID {
			c.Warn(fmt.Errorf("rank %d: the node has started again since %s was written, and it had no checksum yet", rank, path))
		}
	})
}

// alone waits until no other scr_copy runs on the node, since both would write files with
// the same temporary names. It is an error if another one does not end, and shows no sign of
// life. If the lock cannot be taken at all, for example because the storage is full or fails,
// alone warns and returns nil.
func (c *Copy) alone() (*lock.Lock, error) {
	l, err := lock.Wait(filepath.Join(c.Control, "copy.lock"))
	if errors.Is(err, lock.ErrTimeout) {
		return nil, fmt.Errorf("another scr_copy works on this node's files: %w", err)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// Nothing says that another one runs, and the files would be lost if they were not copied.
		c.Warn(fmt.Errorf("no lock keeps another scr_copy from this node's files: %w", err))
		return nil, nil
	}
	return l, err
}

// node is the state of a Copy.
type node struct {
	*Copy
	maps    *filemap.Map
	dataset dataset.Dataset
	dir     string // metadata of the dataset in the prefix directory
	user    int    // to whom the control directory belongs
	shared  string // the dataset's directory in the cache if all nodes share it, else ""
	copier  *transfer.Copier
	meter   progress.Meter
	done    Copied
}

// notCached handles a dataset of which the node has no files. The program may have written
// it directly to the prefix directory.
func (n *node) notCached() (Copied, error) {
	e, err := written(n.Prefix, n.ID)
	if err == nil && !e.Complete {
		err = fmt.Errorf("dataset %d is not in the cache of this node; scr_inspect_cache lists the datasets there", n.ID)
	}
	return Copied{There: err == nil}, err
}

// ranks returns the ranks whose files of the dataset the node has, and finds its
// description.
func (n *node) ranks() ([]int, error) {
	var ranks []int
	var of string // prefix directory of the job
	for _, rank := range n.maps.Ranks(n.ID) {
		d := n.maps.Dataset(n.ID, rank)
		if files, _ := n.maps.Expected(n.ID, rank); files < 0 || !d.Complete() {
			continue // not a rank of this node, or it was killed before it had completed the dataset
		}
		if !n.dataset.IsZero() && !d.Same(n.dataset) {
			return nil, fmt.Errorf("the filemaps in %s know two datasets %d: %s and %s", n.Control, n.ID, n.dataset.Name(), d.Name())
		}
		n.dataset, of = d.Dataset, d.Prefix
		if d.World {
			n.shared = filepath.Join(d.Dir, fmt.Sprintf("scr.dataset.%d", n.ID))
		}
		ranks = append(ranks, rank)
	}
	if len(ranks) == 0 {
		return nil, fmt.Errorf("dataset %d was not completed in the cache of this node", n.ID)
	}
	if err := dataset.CheckName(n.dataset.Name()); err != nil {
		return nil, err
	}
	if of != "" {
		real, err := filepath.EvalSymlinks(n.Prefix)
		if err != nil {
			return nil, err
		}
		if !filemap.SamePrefix(real, of) {
			return nil, fmt.Errorf("dataset %d (%s) belongs to a job with prefix directory %s, not %s", n.ID, n.dataset.Name(), of, real)
		}
	}
	return ranks, nil
}

// copyRank copies the files of a rank and then writes its list. If its redundancy cannot be
// copied, the rank counts as copied nevertheless, since that redundancy helps other ranks
// only; the error is returned in the end. A rank whose dataset was not protected yet has no redundancy to copy.
func (n *node) copyRank(rank int) error {
	if err := n.maps.CheckData(n.ID, rank, reddesc.FromHash(n.maps.Reddesc(n.ID, rank)).Made()); err != nil {
		return err
	}
	_, ranks := n.maps.Expected(n.ID, rank)
	p := &prefix.Part{Rank: rank, Ranks: ranks, Dataset: n.dataset}
	copied := n.copied(rank, ranks)
	var spoiled error
	for _, path := range n.maps.Files(n.ID, rank) {
		f := redundancy.File{Path: path, Meta: n.maps.Meta(n.ID, rank, path).Clone()}
		if f.Meta.Type() != meta.Full {
			if !f.Meta.Complete() {
				continue
			}
			if err := f.Meta.Check(path); err != nil {
				spoiled = err
				continue
			}
		}
		to, err := n.destination(f)
		if f.Meta.Shared() && err == nil { // it is copied with the rank with which it is counted
			p.Files = append(p.Files, redundancy.File{Path: to, Meta: f.Meta, Below: n.root()})
			continue
		}
		if there, ok := copied[to]; ok && err == nil {
			n.kept(f)
			p.Files = append(p.Files, there)
			continue
		}
		if err == nil {
			f, err = n.bring(f, to)
		}
		if err != nil && f.Meta.Type() == meta.Full {
			return err
		}
		if err != nil {
			spoiled = err
			continue
		}
		p.Files = append(p.Files, f)
	}
	if err := p.Enter(n.Prefix); err != nil {
		return err
	}
	n.done.Ranks = append(n.done.Ranks, rank)
	return spoiled
}

// copied returns the files of the program that scr_transfer or an earlier scr_copy has
// copied, by their final paths. There are none unless the rank has a list, and all files on
// it are present.
func (n *node) copied(rank, ranks int) map[string]redundancy.File {
	p, err := prefix.ReadPart(n.Prefix, n.ID, rank)
	if err != nil || !p.Dataset.Same(n.dataset) || p.Ranks != ranks || p.Find(n.Prefix) != nil {
		return nil
	}
	own, _ := redundancy.Split(p.Files)
	if n.Reread && redundancy.Verify(asWritten(own), n.Buffer) != nil {
		return nil
	}
	there := map[string]redundancy.File{}
	for _, f := range own {
		there[filepath.Join(n.Prefix, f.Meta.File())] = f
	}
	return there
}

// destination returns the final path of a file of the cache in the prefix directory.
func (n *node) destination(f redundancy.File) (string, error) {
	if f.Meta.Type() != meta.Full {
		name := filepath.Base(f.Path)
		if !prefix.IsRedundancy(name) {
			return "", fmt.Errorf("%s is called like no redundancy file", f.Path)
		}
		return filepath.Join(n.dir, name), nil
	}
	return prefix.Destination(n.Prefix, f)
}

// bring copies a file of a rank, and returns it with its new path. A file of the program has
// a temporary name until the files of all ranks are there. A redundancy file gets its final
// name at once, since it cannot replace a file of another dataset.
func (n *node) bring(f redundancy.File, to string) (redundancy.File, error) {
	bring := &prefix.Bring{
		Prefix: n.Prefix, Copy: n.copier.Copy, Aside: n.aside,
		There: func(f redundancy.File, aside string) (bool, error) {
			there := n.isThere(f, aside)
			if there {
				n.kept(f)
			}
			return there, nil
		},
		Copied: func(f redundancy.File) error {
			n.done.Files++
			n.done.Bytes += f.Meta.Size()
			return nil
		},
	}
	if f.Meta.Type() != meta.Full && n.isThere(f, to) {
		n.kept(f)
		return redundancy.File{Path: to, Meta: f.Meta, Below: n.root()}, nil
	}
	copied, err := bring.File(f, to)
	if err == nil && f.Meta.Type() != meta.Full {
		err = n.root().Rename(copied.Path, to)
		copied.Path = to
	}
	return copied, err
}

// kept counts a file that had been copied before.
func (n *node) kept(f redundancy.File) {
	n.done.Kept++
	n.meter.Add(f.Meta.Size())
}

// admit checks the owner of a file of the node. If the caller is not the user of the job, the
// filemaps, which are the user's, could name a file that only the caller can read.
func (n *node) admit(info fs.FileInfo) error {
	if owner := trust.OwnerOf(info); n.user != os.Geteuid() && owner != n.user {
		return fmt.Errorf("it belongs to %s, and is not a file of %s, who has run the job", trust.Name(owner), trust.Name(n.user))
	}
	return nil
}

// root is the prefix directory, to which others may be able to write.
func (n *node) root() trust.Root { return trust.Root(n.Prefix) }

// aside returns the temporary path of a file whose final path is to.
func (n *node) aside(to string) string { return prefix.Aside(to, n.ID, prefix.ByCopy) }

// isThere reports whether a file has been copied to a path. A file with the right time is
// complete, since a copy sets the time last.
func (n *node) isThere(f redundancy.File, path string) bool {
	info, err := n.root().Lstat(path)
	mtime, known := f.Meta.Modified()
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Meta.Size() || !known || !info.ModTime().Equal(mtime) {
		return false
	}
	return !n.Reread || redundancy.Verify([]redundancy.File{{Path: path, Meta: f.Meta, Below: n.root()}}, n.Buffer) == nil
}

// common copies the files of ranks on other nodes that need that, if all nodes share the
// directory of the dataset: there are copies of these nodes' filemaps.
func (n *node) common() error {
	if n.shared == "" || !n.Partner && len(n.Down) == 0 {
		return nil
	}
	copies, bad, err := filemap.ReadCopies(n.shared, n.ID)
	if err != nil {
		return err
	}
	failed := errors.Join(bad...)
	n.distrust(copies)
	for _, rank := range copies.Ranks(n.ID) {
		if files, _ := n.maps.Expected(n.ID, rank); files >= 0 || !copies.Dataset(n.ID, rank).Same(n.dataset) {
			continue
		}
		where := ""
		if desc := reddesc.FromHash(copies.Reddesc(n.ID, rank)); desc != nil {
			where = desc.Node
		}
		if !n.Partner && !slices.Contains(n.Down, where) {
			continue
		}
		of := *n
		of.maps = copies
		err := of.instead(rank, func() error { return of.copyRank(rank) })
		n.done = of.done
		failed = errors.Join(failed, err)
	}
	return failed
}

// partners copies the files of other ranks from the copies that this rank keeps of them, if
// these other ranks need that.
func (n *node) partners(rank int) error {
	for _, path := range n.maps.Files(n.ID, rank) {
		md := n.maps.Meta(n.ID, rank, path)
		// A file that is not complete may still contain the copies of an older dataset, whose pages it reuses.
		if md.Type() != meta.Partner || !md.Complete() {
			continue
		}
		if err := n.partnersOf(path); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) partnersOf(path string) error {
	if info, err := os.Lstat(path); err == nil {
		if err := n.admit(info); err != nil {
			return &redundancy.CorruptError{Path: path, Reason: err.Error()}
		}
	}
	r, err := redundancy.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	if !r.Dataset.Same(n.dataset) {
		return &redundancy.CorruptError{Path: path, Reason: fmt.Sprintf("has copies of another dataset: %d (%s)", r.Dataset.ID(), r.Dataset.Name())}
	}
	group := r.Members
	m := slices.Index(group, r.Current.Rank)
	for d := 1; d <= len(r.Sections()) && d < len(group) && m >= 0; d++ {
		rank := group[(m-d+len(group))%len(group)]
		var where string
		if kept := reddesc.FromHash(n.maps.Reddesc(n.ID, rank)); kept != nil {
			where = kept.Node
		}
		if where != "" {
			n.done.Partners = append(n.done.Partners, where)
		}
		if !n.Partner && !slices.Contains(n.Down, where) {
			continue
		}
		if err := n.instead(rank, func() error { return n.extract(r, d, rank) }); err != nil {
			return err
		}
	}
	return nil
}

// instead calls bring, which brings the files of a rank of another node, unless they have
// been copied. A lock ensures that only one of several nodes does so.
func (n *node) instead(rank int, bring func() error) error {
	alone, err := lock.Wait(filepath.Join(n.dir, fmt.Sprintf("%d.lock", rank)))
	if err != nil {
		return err
	}
	defer alone.Release()
	alone.KeepAlive()
	if p, err := prefix.ReadPart(n.Prefix, n.ID, rank); err == nil && p.Dataset.Same(n.dataset) {
		return nil
	}
	return bring()
}

// extract makes the files of a rank from the copy d of a redundancy file.
func (n *node) extract(r *redundancy.Reader, d, rank int) error {
	kept := r.Left[d-1]
	if kept == nil || kept.Rank != rank {
		return &redundancy.CorruptError{Path: r.Path(), Reason: fmt.Sprintf("copy %d is not of rank %d", d, rank)}
	}
	files := kept.In(n.Prefix)
	for i, f := range files {
		if err := prefix.CheckName(f.Meta.File()); err != nil {
			return fmt.Errorf("%s names %w", r.Path(), err)
		}
		files[i].Path, files[i].Below = n.aside(f.Path), n.root()
	}
	err := partner.Extract(r, d, files, n.Buffer, n.meter)
	for _, f := range files {
		if err == nil {
			err = syncFile(f)
		}
	}
	if err != nil {
		return errors.Join(err, prefix.DiscardAsides(n.Prefix, files))
	}
	for _, f := range files {
		n.done.Files++
		n.done.Bytes += f.Meta.Size()
	}
	p := &prefix.Part{Rank: rank, Ranks: r.Ranks, Dataset: n.dataset, Files: files}
	if err := p.Enter(n.Prefix); err != nil {
		return err
	}
	n.done.Ranks = append(n.done.Ranks, rank)
	return nil
}
