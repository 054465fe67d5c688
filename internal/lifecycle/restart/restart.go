// Package restart chooses the checkpoint from which a program can restart, offers it to
// the program, and copies it to the cache if necessary.
//
// It tries several sources in a fixed order, the ladder (ladder.go): the checkpoint that
// the user names; the newest one in the cache, or a newer one of the prefix directory, which
// the program has written there or which has to be fetched; and all others that have to be
// fetched (fetch.go). If none can be used, the program starts from the
// beginning. A checkpoint from which the program could not restart is not offered again. The
// program can choose another one, or drop some (choice.go).
//
// Before, Recovery.Rebuild has rebuilt lost files in the cache. Only internal/session calls this
// package. All methods are collective over the ranks of the job, and their results are
// agreed, unless their comment says otherwise.
package restart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// Config has the parameters of a Restart.
type Config struct {
	World  mpi.Comm
	Cache  *cache.Cache
	Prefix *prefix.Prefix
	Room   *flush.Room
	Log    *report.Logger
	Events *eventlog.Log // on rank 0
	Phases *phases.Meter // nil: phases are not measured

	JobID     string // SCR_JOB_ID
	Input     string // digest of the files of SCR_JOB_INPUT; "" if there are none
	Fetch     bool   // SCR_FETCH: fetch checkpoints from the prefix directory
	Width     int    // SCR_FETCH_WIDTH: how many ranks fetch at a time; 0: all
	InPlace   bool   // SCR_FETCH_BYPASS: the program reads checkpoints in the prefix directory
	Global    bool   // SCR_GLOBAL_RESTART: ... even if they are in the cache
	Never     bool   // SCR_RESTART=never: offer none
	Current   Choice // of the checkpoint to try first
	DropAfter bool   // SCR_DROP_AFTER_CURRENT: remove newer ones from the index
	// Protect returns the redundancy descriptor and the store of a checkpoint that is
	// copied to the cache.
	Protect func(d dataset.Dataset) (*reddesc.Descriptor, *reddesc.Store)
}

// Choice is a checkpoint that the user has chosen.
type Choice struct {
	Name string // "" if none is chosen
	By   string // how: SCR_CURRENT, or the command
	// id is that of the dataset, since another one may have the name; 0 if the name is all that is known, as from SCR_CURRENT.
	id int
	// Of scr_index the index has a record, which ends once the run begins a dataset.
	recorded bool
	record   prefix.Choice // on rank 0
}

// is reports whether a dataset is the one that was chosen.
func (c Choice) is(d dataset.Dataset) bool {
	if c.id != 0 {
		return d.ID() == c.id
	}
	return d.Name() == c.Name
}

// Restart has the checkpoint that a session offers to the program.
type Restart struct {
	Config
	rung    rung
	offered *Offer  // nil: none is offered, or not yet
	refused refused // those that are not offered
}

// Offer is a checkpoint from which the program can restart.
type Offer struct {
	dataset.Dataset
	cached *cache.Cached       // nil if the program reads it in the prefix directory
	byPath map[string]string   // paths of the caller's files, by path relative to the prefix directory
	byName map[string][]string // ... by base name
	// place returns the path of a file of any rank, by its path relative to the prefix directory; nil if they are in the cache.
	place    func(below string) string
	unmarked bool // it is in the prefix directory, and not marked there as the current one yet
}

// New returns a Restart that offers nothing yet.
func New(c Config) *Restart { return &Restart{Config: c, refused: refused{useless: map[int]bool{}}} }

// Offered returns the checkpoint that is offered, nil if there is none. It is not
// collective.
func (r *Restart) Offered() *Offer { return r.offered }

// Withdraw ends the offer, because the program has begun a dataset, or has chosen another one. It is not collective.
func (r *Restart) Withdraw() {
	r.offered = nil
	settle(r)
	if r.Current.recorded {
		r.Current.recorded = false
		r.Prefix.Note(func() error { return r.Current.record.End(r.Prefix.Dir) })
	}
}

// offerCached offers a checkpoint that is in the cache.
func (r *Restart) offerCached(c *cache.Cached) {
	if c.Files() == 0 {
		r.Log.WarnJob("checkpoint %s, which is offered to restart from, has no files: the program wrote none by SCR_Route_file", c.Name())
	}
	r.offered = newOffer(c.Dataset, r.Cache.Files(c.ID()))
	r.offered.cached = c
}

// newOffer returns the offer of a checkpoint. files are the caller's; redundancy files
// are left out.
func newOffer(d dataset.Dataset, files []redundancy.File) *Offer {
	o := &Offer{Dataset: d, byPath: map[string]string{}, byName: map[string][]string{}}
	for _, f := range files {
		if f.Meta.Type() != meta.Full {
			continue
		}
		o.byPath[f.Meta.File()] = f.Path
		base := filepath.Base(f.Path)
		o.byName[base] = append(o.byName[base], f.Path)
	}
	return o
}

// Directory returns the directory that has the files which the caller wrote in a directory,
// relative to the prefix directory. If it wrote none there, the directory is empty. It is not
// collective.
func (r *Restart) Directory(below string) (string, error) {
	for file, path := range r.offered.byPath {
		if name, ok := strings.CutPrefix(file, below+"/"); ok {
			return strings.TrimSuffix(path, "/"+name), nil
		}
	}
	if c := r.offered.cached; c != nil {
		return r.Cache.MakeDirectory(c, below)
	}
	dir := r.offered.place(below)
	return dir, os.MkdirAll(dir, 0o777)
}

// anyRank returns the path of a file where all ranks share the directory, "" if they do not.
func (o *Offer) anyRank(c *cache.Cache, below string) string {
	if o.cached == nil {
		return o.place(below)
	}
	if dir := c.Common(o.ID()); dir != "" {
		return filepath.Join(dir, below)
	}
	return ""
}

// Written returns the path of the file that the caller wrote as below, which is relative to
// the prefix directory. It is not collective.
func (r *Restart) Written(below string) (path string, ok bool) {
	path, ok = r.offered.byPath[below]
	return path, ok
}

// Route returns the path of the file that the caller wrote as name. below are that name
// relative to the prefix directory, and other paths of the same file. If the caller has
// written none of these, the base name must identify one of the caller's files. It is not
// collective.
func (r *Restart) Route(name string, below ...string) (string, error) {
	o := r.offered
	for _, below := range below {
		if path, ok := o.byPath[below]; ok {
			return path, nil
		}
		// Where all ranks share the directory, any rank can read any file.
		path := o.anyRank(r.Cache, below)
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	switch paths := o.byName[filepath.Base(name)]; len(paths) {
	case 1:
		return paths[0], nil
	case 0:
		return "", fmt.Errorf("rank %d has no file %s in checkpoint %s", r.World.Rank(), name, o.Name())
	default:
		return "", fmt.Errorf("rank %d has %d files named %s in checkpoint %s: give the path with which it was written",
			r.World.Rank(), len(paths), filepath.Base(name), o.Name())
	}
}

// tellNewer warns of checkpoints that are newer than the current one, and are not tried
// although the current one cannot be used: the search continues with older ones.
func (r *Restart) tellNewer(current dataset.Dataset) error {
	newer, err := prefix.Newer(r.Prefix.Dir, current.ID())
	if len(newer) > 0 {
		r.Log.Warn("newer than %s, which was made the current checkpoint, and not tried: %s; to restart from one, scr_index --current NAME",
			current.Name(), strings.Join(newer, ", "))
	}
	return err
}
