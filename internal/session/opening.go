package session

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/advice"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/metrics"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/probe"
	"github.com/goscr/goscr/internal/sys/version"
	"github.com/goscr/goscr/mpi"
)

// opening has the steps of Init: each opens one of the services, or makes what earlier runs have left usable.
type opening struct {
	*services
	given   Options
	start   time.Time // of Init
	numbers *numbers

	// What all ranks know from rank 0: directories may have other paths elsewhere.
	realPrefix string // the prefix directory without symbolic links
	cacheBase  string // SCR_CACHE_BASE
	run        probe.Run
	probed     bool // rank 0 has made a probe in the prefix directory
}

// usePrefix prepares the prefix directory and the event log of the run.
func (o *opening) usePrefix() error {
	cfg := o.config
	o.prefix = &prefix.Prefix{
		Comm: o.world, Dir: cfg.Prefix, Buffer: bufferSize(cfg.FileBufSize), Compress: compression(cfg),
		Bare: !cfg.CopyMetadata, Blind: !cfg.CRCOnFlush, Width: cfg.FlushWidth, Log: o.log,
	}
	if cfg.PrefixShared {
		o.prefix.Ours = func(d dataset.Dataset) bool {
			if cfg.JobName != "" {
				return d.Owner().JobName == cfg.JobName
			}
			return d.Owner().JobID == cfg.JobID
		}
	}
	job := request.Job{ID: cfg.JobID, User: cfg.UserName, Since: o.start}
	if cfg.Source(&cfg.JobID).Level == config.Program { // the job may be a part of its launch, beside others
		job.Launch = config.Launch(o.given.environ())
	}
	var requests *request.Answers // on rank 0
	defer func() {
		if o.advisor == nil {
			requests.Close()
		}
	}()
	texts, err := mpi.BytesFromRoot(o.world, func() (_ []byte, err error) {
		if err := o.openPrefix(); err != nil {
			return nil, err
		}
		if requests, err = request.Begin(cfg.Prefix, job, cfg.PrefixShared); errors.As(err, new(*request.TakenError)) {
			return nil, err
		}
		o.prefix.Note(func() error { return err })
		real, err := realPrefix(cfg.Prefix)
		if err != nil {
			return nil, err
		}
		run, probed := probe.NewRun(), ""
		if err := run.Put(o.metadata(""), 0); err == nil {
			probed = "1"
		} else if err := o.prefix.Spare(err); err != nil {
			return nil, err
		}
		return []byte(strings.Join([]string{real, cfg.CacheBase, string(run), probed}, "\x00")), nil
	})
	if err != nil {
		return err
	}
	if o.world.Rank() == 0 {
		o.events.Log = eventlog.Open(cfg, o.log, metrics.Of(cfg))
	}
	o.events.phases = phases.New(o.world, cfg.NodeName, cfg.LogEnable || cfg.MetricsDir != "", o.events.Log)
	o.advisor = advice.New(o.world, o.prefix, o.log, o.events.Log)
	o.advisor.Answer(requests)
	o.events.Add(eventlog.Record{Type: eventlog.InitStart, Start: o.start,
		Note: fmt.Sprintf("goscr %s, %s", version.Goscr(), report.Count(o.world.Size(), "rank"))})
	known := strings.Split(string(texts), "\x00")
	o.realPrefix, o.cacheBase, o.run, o.probed = known[0], known[1], probe.Run(known[2]), known[3] != ""
	return nil
}

// findPrefix finds the prefix directory on the caller's node. It is an error if a node does not see what rank 0 has made
// there: its files would be in a directory of its own. The first rank of the node looks for that.
func (o *opening) findPrefix(first bool) error {
	real, err := realPrefix(o.config.Prefix)
	o.paths = paths{dir: o.config.Prefix, real: real}
	if err != nil || !first || !o.probed {
		return err
	}
	if err := o.run.Sees(o.metadata(""), 0); err != nil {
		return fmt.Errorf("node %s does not see what rank 0 makes in the prefix directory %s: %w; it must be the same directory on all nodes: is its file system mounted there?",
			o.config.NodeName, o.config.Prefix, err)
	}
	return nil
}

func realPrefix(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("prefix directory: %w (it must be the same directory on all nodes)", err)
	}
	return real, nil
}

// openCache opens the cache, and determines how datasets are protected in it. All ranks use the path of the
// prefix directory that rank 0 knows, because symbolic links may differ between nodes.
func (o *opening) openCache() (err error) {
	cfg := o.config
	if o.protection, err = newProtection(o.world, o.cacheBase, cfg, o.log, o.findPrefix); err != nil {
		return err
	}
	node, err := o.protection.groups.Comm(reddesc.Node)
	if err != nil {
		return err
	}
	o.cache, err = cache.Open(cache.Config{
		World: o.world, Node: node, NodeRanks: o.protection.groups.NodeRanks(), Stores: o.protection.stores,
		Control: cache.Base{Dir: cfg.CntlBase, SetBy: setting(cfg, "SCR_CNTL_BASE", &cfg.CntlBase)},
		User:    cfg.UserName, JobID: cfg.JobID, Allocation: config.Allocation(o.given.environ()), Prefix: o.realPrefix, Piece: bufferSize(cfg.MPIBufSize),
		Distribute: cfg.Distribute, VerifyEvicted: cfg.CRCOnDelete, Checksums: !cfg.CRCOnFlush, Booted: o.given.booted, Log: o.log, Events: o.events.Log, Phases: o.events.phases,
	}, o.run, mover.Reset)
	if err != nil {
		return err
	}
	if err := o.protection.addDescriptors(cfg, o.log); err != nil {
		return err
	}
	if o.protection.weakest() == nil { // this run reads checkpoints where they are in the prefix directory
		o.prefix.Compress = compress.Method{}
	}
	return nil
}

// openFlusher makes the Protector, and opens the Flusher, which decides when datasets are flushed and
// evicted. done is called when a dataset is protected while the program continued.
func (o *opening) openFlusher(done func(c *cache.Cached, start time.Time) error) {
	cfg, node := o.config, o.cache.Config.Node
	if cfg.FlushAsync && cfg.FlushPoststage && cfg.FlushType != string(mover.ByDaemon) {
		o.log.WarnJob("SCR_FLUSH_POSTSTAGE=1 has an effect with SCR_FLUSH_TYPE=DAEMON only: other copies end with the program, and SCR_Finalize waits for them")
	}
	auto := cfg.EncodeAsync == "AUTO"
	limits := transfer.Limits{Bandwidth: float64(cfg.FlushAsyncBW), CPU: cfg.FlushAsyncPercent / 100}
	protector := protect.New(protect.Config{
		World: o.world, Node: node, Cache: o.cache, Queue: &background.Queue{}, Log: o.log, Async: auto || cfg.EncodeAsync == "1", Auto: auto,
		Carrier: protect.Carrier(cfg.EncodeCarrier), Interface: cfg.NetInterface, Limits: limits, Done: done, SizeName: cfg.SizeName,
	})
	o.flusher = flush.Open(flush.Config{
		World: o.world, Node: node, Cache: o.cache, Protector: protector, Prefix: o.prefix, Log: o.log, Events: o.events.Log, Phases: o.events.phases,
		Policy: cfg.FlushPolicy(), Keep: cfg.PrefixSize, Fetch: cfg.Fetch, Async: cfg.FlushAsync, Poststage: cfg.FlushPoststage,
		Kind:         func(store string) mover.Kind { return mover.Kind(cfg.Store(store).Flush.Or(cfg.FlushType)) },
		PollInterval: time.Duration(cfg.FlushAsyncUsleep) * time.Microsecond,
		Limits:       limits, Launch: o.given.launch,
		Stopping: o.advisor.Stopping,
		Taken:    func(err error) { o.numbers.passOver(o.world, err) },
		SizeName: cfg.SizeName,
	})
	o.room = flush.NewRoom(o.flusher)
}

// openRestart prepares the choice of the checkpoint from which the program restarts.
func (o *opening) openRestart() error {
	input, err := readInput(o.world, o.config.JobInput)
	if err != nil {
		return err
	}
	o.restart = restart.New(restart.Config{
		Input: input,
		World: o.world, Cache: o.cache, Prefix: o.prefix, Room: o.room, Log: o.log, Events: o.events.Log, Phases: o.events.phases,
		JobID: o.config.JobID, Fetch: o.config.Fetch, Width: o.config.FetchWidth, InPlace: o.config.FetchBypass, Never: o.config.Restart == "NEVER", Global: o.config.GlobalRestart,
		Current: restart.Choice{Name: o.config.Current, By: "SCR_CURRENT"}, DropAfter: o.config.DropAfterCurrent,
		Protect: func(d dataset.Dataset) (*reddesc.Descriptor, *reddesc.Store) {
			desc := o.protection.descriptor(Flags(d.Flags()), d.Checkpoint())
			return desc, o.protection.store(desc.Store)
		},
	})
	return nil
}

// recoverCache makes the datasets of earlier runs usable, or deletes them if a purge is asked
// for, and flushes those that should be in the prefix directory by now. Of the datasets in missing an earlier run
// has not flushed all files. written says whether the index has checkpoints that a program has written to the prefix directory.
// Each step needs what the one before has found.
func (o *opening) recoverCache(missing []dataset.Dataset) (written bool, err error) {
	if o.config.PrefixPurge { // before the first reading of the index
		if err := o.prefix.Purge(); err != nil {
			return false, err
		}
	}
	if o.config.CachePurge {
		o.cache.Purge()
	} else {
		o.cache.Recovery.Rebuild(o.protection.descs...) // the list of usable and of unused datasets
	}
	o.cache.WarnOfRoom(o.config.SizeName)                // by the size of a usable one
	o.cache.Unused.CheckOthers(savedIn)                  // those of other programs among the unused ones
	if written, err = o.compareWithIndex(); err != nil { // which are flushed, which are passed over, and the user's choice
		return false, err
	}
	o.restart.WithholdOtherInput()        // unless the user has chosen it; says whether it is flushed
	left := flush.NewLeftovers(o.flusher) // what is withheld is among those to flush
	if err := left.Flush(o.config.FlushOnRestart || o.config.GlobalRestart); err != nil {
		return false, err
	}
	left.Resume(missing) // in the background, unless it is flushed now
	// What is left of flushes of datasets that no cache has now.
	if o.world.Rank() == 0 {
		o.prefix.RemoveLitter(o.config.JobID, func(d dataset.Dataset) bool { return o.cache.Find(d.ID()) != nil })
	}
	return written, nil
}

// savedIn reports whether another program does not need a dataset in the cache any more: its prefix directory
// has the dataset, or a newer checkpoint, or is gone.
func savedIn(dir string, d dataset.Dataset) bool {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	x, err := prefix.ReadIndex(dir)
	if err != nil {
		return false
	}
	return x.HasComplete(d) || d.Flags().Has(dataset.Checkpoint) && x.HasNewer(d.ID())
}

// compareWithIndex finds out which datasets of the cache are already in the prefix
// directory, and the highest id of any dataset, after which new datasets are numbered. It passes over checkpoints
// of the cache from which no run could restart. written says whether the index has checkpoints that a program has written
// to the prefix directory.
func (o *opening) compareWithIndex() (written bool, err error) {
	list := o.cache.List()
	condemned := restart.NewCondemned(o.restart)
	most := make([]int64, len(list)+3+len(condemned.Marks))
	// 1: complete in the index; then the highest id, the id of the checkpoint that scr_index has chosen, and written
	there := most[:len(list)+3]
	condemned.Marks = most[len(there):]
	highest, chosen, direct := &there[len(list)], &there[len(list)+1], &there[len(list)+2]
	var take string // the name of the chosen one, if this run restarts from it; on rank 0, as is
	var record prefix.Choice
	find := func() error {
		x, err := prefix.CheckedIndex(o.prefix.Dir)
		if err != nil {
			return err
		}
		*highest = int64(max(x.Highest(), o.cache.Highest()))
		if record, take, err = o.choice(o.prefix.Ours.Of(x)); err != nil {
			return err
		}
		*chosen = int64(record.Of.ID)
		if prefix.HasWritten(o.prefix.Ours.Of(x)) {
			*direct = 1
		}
		var cached []prefix.Cached
		for i, c := range list {
			cached = append(cached, flush.Cached(c))
			if x.HasComplete(c.Dataset) {
				there[i] = 1
			}
		}
		every := o.config.FlushPolicy().Every
		if o.protection.weakest() == nil { // there is nothing to flush
			every = 0
		}
		if !o.config.CachePurge { // the user wants nothing of the caches
			if err := restart.SeekLost(o.restart, x, list); err != nil {
				return err
			}
		}
		if err := o.prefix.Spare(prefix.BeginRun(o.prefix.Dir, cached, every, time.Now())); err != nil {
			return err
		}
		progress, err := prefix.ReadProgress(o.prefix.Dir)
		if o.numbers.latest = progress.Latest; err != nil {
			return err
		}
		if *chosen > 0 { // it is not passed over
			o.restart.TakeChoice(take, int(*chosen), record)
		}
		return condemned.Find(o.restart)
	}
	if o.world.Rank() == 0 {
		err = find()
	}
	*highest = max(*highest, int64(o.cache.Highest()))
	// Only rank 0 has read the index: the other ranks have 0 for each dataset of the list.
	if err := mpi.AgreeMax(o.world, err, most); err != nil {
		return false, err
	}
	o.numbers.id = int(*highest)
	if *chosen > 0 {
		o.restart.TakeChoice(string(mpi.BcastBytes(o.world, []byte(take), 0)), int(*chosen), record)
	}
	for i, c := range list {
		if there[i] == 1 {
			o.cache.Happened(c, life.FoundFlushed)
		}
	}
	return *direct == 1, o.restart.PassOver(condemned)
}

// choice returns what a user has chosen with scr_index, with the ID 0 if that is nothing, and the name of the checkpoint, "" if the run
// does not restart from it. x is the index without what is of other jobs. Rank 0 calls it.
func (o *opening) choice(x *prefix.Index) (record prefix.Choice, name string, err error) {
	record, ok := prefix.Chosen(x)
	if !ok || record.Of.ID <= 0 || record.Of.Name == "" || o.config.Current != "" {
		return record, "", nil
	}
	located, err := prefix.Locations(o.prefix.Dir)
	if err != nil {
		return record, "", err
	}
	if ours := o.prefix.Ours; ours != nil {
		located = slices.DeleteFunc(located, func(l prefix.Located) bool { return !ours(l.Dataset) })
	}
	var cached []dataset.Dataset
	for _, c := range o.cache.List() {
		cached = append(cached, c.Dataset)
	}
	if !record.Holds(x, located, cached) {
		o.log.Warn("scr_index --current has chosen %s, but a job has written another dataset since, or it cannot be used: the choice has no effect", record.Of.Name)
		return record, "", nil
	}
	return record, record.Of.Name, nil
}

// giveUp ends what the steps have begun, after one has failed.
func (o *opening) giveUp() error {
	var err error
	if o.advisor != nil {
		o.advisor.StopAnswering("SCR_Init has failed")
	}
	if o.flusher != nil {
		err = o.flusher.Background.Stop()
	}
	if o.cache != nil {
		err = errors.Join(err, o.cache.Close())
	}
	return err
}

// compression returns the method by which a flush compresses files. A run that reads its
// checkpoints in the prefix directory (SCR_FETCH_BYPASS) does not compress them.
func compression(cfg *config.Config) compress.Method {
	if cfg.FetchBypass || cfg.GlobalRestart || cfg.FlushOnRestart {
		return compress.Method{}
	}
	m, _ := compress.Parse(cfg.FlushCompress) // was checked when it was set
	return m
}

// bufferSize returns the requested size of a buffer in bytes, limited to a range that
// works: with a few bytes the overhead would dominate, and since there are several buffers,
// a size that was requested by mistake could exceed the memory.
func bufferSize(asked int64) int {
	const least, most = 64, 16 << 20
	return int(min(max(asked, least), most))
}

// metadata returns the path of a file of goscr in the prefix directory.
func (o *opening) metadata(name string) string {
	return filepath.Join(o.prefix.Dir, prefix.Metadata, name)
}

// openPrefix makes the directory for metadata in the prefix directory. Rank 0 calls it.
func (o *opening) openPrefix() error {
	dir := o.metadata("")
	if _, err := os.Stat(o.config.Prefix); errors.Is(err, fs.ErrNotExist) {
		o.log.Warn("SCR_PREFIX is %s, a directory that did not exist and is created: is the name right?", o.config.Prefix)
	}
	if err := hash.MakeDirs(dir); err != nil {
		return fmt.Errorf("prefix directory: %w (SCR_PREFIX says where it is)", err)
	}
	// A run need not write much there before its first flush, which is late for an error.
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("prefix directory: %s: %w", dir, err)
	}
	report.Forget(dir)
	return errors.Join(o.setAside("halt.scr", halt.Read), o.setAside("flush.scr", hash.ReadFile), o.setAside("nodes.scr", hash.ReadFile), o.setAside("ranks.scr", hash.ReadFile),
		o.setAside("restart.scr", hash.ReadFile), o.setAside("runs.scr", hash.ReadFile),
		o.setAside("request.scr", hash.ReadFile), o.setAside("records.scr", hash.ReadFile))
}

// setAside renames a damaged file that the job does not need, so that the job can start.
// It is not used for the index: without it, a job with checkpoints would start from the
// beginning.
func (o *opening) setAside(name string, read func(path string) (*hash.Hash, error)) error {
	path := o.metadata(name)
	_, err := read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, hash.ErrCorrupt) {
		o.log.Warn("%v", err) // an error again where the file is used, if it is used and cannot be read there
	}
	if !errors.Is(err, hash.ErrCorrupt) {
		return nil
	}
	aside := path + ".damaged"
	o.log.Warn("%v; it is now %s, and a new one is begun", err, aside)
	if err := os.Rename(path, aside); !errors.Is(err, fs.ErrNotExist) { // another job may have done it
		return err
	}
	return nil
}

// readInput returns a digest of files, those of SCR_JOB_INPUT, "" if there are none. Their names
// do not count, since the same input may be in another place. Rank 0 reads the files. It is
// collective; all ranks get the same.
func readInput(world mpi.Comm, files string) (digest string, err error) {
	names := strings.Fields(files) // the same on all ranks
	if len(names) == 0 {
		return "", nil
	}
	text, err := mpi.BytesFromRoot(world, func() ([]byte, error) {
		all := sha256.New()
		for _, name := range names {
			one, err := digestOf(name)
			if err != nil {
				return nil, fmt.Errorf("SCR_JOB_INPUT: %w", err)
			}
			all.Write(one)
		}
		return []byte(hex.EncodeToString(all.Sum(nil)[:16])), nil
	})
	return string(text), err
}

func digestOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	one := sha256.New()
	_, err = io.Copy(one, f)
	return one.Sum(nil), err
}
