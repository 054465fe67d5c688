package cache

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Protection protects a dataset behind the program. CompleteFirst makes it, Run encodes, in any
// goroutine, and EndProtection records the result. Until then the dataset can be used, but a lost node
// loses it. If the job is killed before, and no node is lost, the next run makes the redundancy.
type Protection struct {
	cached *Cached
	job    *redundancy.Job
	own    []redundancy.File // clones, which get their checksums
	made   []redundancy.File
	took   time.Duration
	comm   mpi.Revocable
	sums   atomic.Pointer[map[string]uint32] // by path; nil until Run has succeeded
}

// CompleteFirst is Complete, but does not encode: it returns a Protection that does, over a
// communicator of the set's members, in the same order, which nothing else uses. The
// Protection is nil if the dataset is protected already, as are files of several ranks. It is
// collective.
func (k *Cache) CompleteFirst(c *Cached, failed error, comm mpi.Revocable) (*Protection, error) {
	if k.parts.places.world[c.ID()] {
		return nil, k.Complete(c, failed)
	}
	p, err := k.completeFirst(c, failed, comm)
	k.Unused.spoiled = k.Unused.spoiled || err != nil
	return p, err
}

func (k *Cache) completeFirst(c *Cached, failed error, comm mpi.Revocable) (*Protection, error) {
	files, err := k.validate(c, failed)
	if err != nil {
		return nil, err
	}
	p := &Protection{cached: c, job: k.parts.job(c), comm: comm}
	for _, f := range files {
		p.own = append(p.own, redundancy.File{Path: f.Path, Meta: f.Meta.Clone()})
	}
	// What Run would do with the filemap and the spare file, which belong to the program's thread.
	if c.bare = c.made() > 0; c.bare {
		err = prepare(p.job, c.Desc.Scheme.Name())
	}
	bare, err := mpi.AgreeSumOne(k.Config.World, err, one(c.bare))
	if err != nil {
		return nil, k.abandon(c, nil, err)
	}
	set := *c.Desc.Set
	set.Comm = comm
	p.job.Set, p.job.Recycle, p.job.Behind = &set, nil, true
	p.job.Unchecked = false // the program does not wait for it
	p.job.Register = func(redundancy.File) error { return nil }
	// If the job dies while only some ranks have recorded the dataset, it is lost: the protected
	// one before it has to be there still.
	c.SetComplete(true)
	k.Happened(c, life.ProtectionStarted, life.Facts{Exposed: bare > 0, Unchecked: true})
	return p, k.include(c, files)
}

// prepare enters the redundancy file of a job, and gives it the pages of an older one.
func prepare(j *redundancy.Job, scheme string) error {
	f := j.Made(scheme)
	if err := j.Register(f); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return j.Recycle(f.Path)
}

// Run encodes. It neither uses MPI nor changes the cache, so that any goroutine may call it, if
// the communicator lets it. pace, unless nil, is Job.Pace. It is collective over the set. The error
// is not agreed.
func (p *Protection) Run(pace func(bytes int) error) (err error) {
	start := time.Now()
	defer func() { p.took = time.Since(start) }()
	defer report.Recover(&err)
	p.job.Pace = pace
	err = mpi.Guard(p.comm, func() error {
		p.made, err = p.cached.Desc.Scheme.Encode(p.job, p.own)
		return err
	})
	if err == nil {
		sums := map[string]uint32{}
		for _, f := range p.own {
			if crc, known := f.Meta.CRC(); known {
				sums[f.Path] = crc
			}
		}
		p.sums.Store(&sums)
	}
	return err
}

// Describe records the checksums in the descriptions of files, if Run has found them. Any
// goroutine may call it.
func (p *Protection) Describe(files []redundancy.File) {
	sums := p.sums.Load()
	if sums == nil {
		return
	}
	for _, f := range files {
		if crc, found := (*sums)[f.Path]; found {
			f.Meta.SetCRC(crc)
		}
	}
}

// Cached returns the dataset.
func (p *Protection) Cached() *Cached { return p.cached }

// Size returns the size of the caller's files in bytes.
func (p *Protection) Size() (bytes int64) {
	for _, f := range p.own {
		bytes += f.Meta.Size()
	}
	return bytes
}

// Cancel ends Run, on all members of the set. If it has ended nothing happens. It is not
// collective.
func (p *Protection) Cancel() { p.comm.Revoke("the protection is cancelled") }

// EndProtection records that a dataset is protected, after Run has returned err. If Run has failed on
// any rank, EndProtection returns that error; the dataset remains as it was. It is collective; the
// error is agreed.
func (k *Cache) EndProtection(p *Protection, err error) error {
	c := p.cached
	c.encoding = p.took
	unchecked, err := k.encoded(c, p.own, p.made, err)
	if err != nil {
		return err
	}
	bare := c.bare
	c.bare = false
	err = mpi.Agree(k.Config.World, k.record(c, append(p.own, p.made...)))
	if err != nil {
		c.bare = bare
		return errors.Join(err, errNotRecorded)
	}
	k.Happened(c, life.ProtectionEnded, life.Facts{Unchecked: unchecked})
	return nil
}

// Protect protects a dataset, of which EndProtection has returned an error, while the program waits. After an error it is used as it is.
// It is collective; the error is agreed.
func (k *Cache) Protect(c *Cached) error {
	p := &Protection{cached: c, job: k.parts.job(c)}
	for _, f := range k.Files(c.ID()) {
		if f.Meta.Type() == meta.Full {
			p.own = append(p.own, redundancy.File{Path: f.Path, Meta: f.Meta.Clone()})
		}
	}
	start := time.Now()
	var err error
	p.made, err = c.Desc.Scheme.Encode(p.job, p.own)
	p.took = time.Since(start)
	if err = k.EndProtection(p, err); err != nil {
		k.Happened(c, life.ProtectionFailed)
	}
	return err
}

// errNotRecorded says that a dataset has its redundancy, of which a filemap says nothing.
var errNotRecorded = errors.New("the next run makes the redundancy again")
