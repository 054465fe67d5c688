package session

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/advice"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/metrics"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/probe"
	"github.com/goscr/goscr/internal/sys/version"
	"github.com/goscr/goscr/mpi"
)

// Version of the interface, which is that of SCR 3.1.
const Version = "v3.1.0"

// MaxFilename is the size in bytes of a buffer that holds any path that Route returns,
// including the NUL that ends it in C.
const MaxFilename = 1024

// Options change how Init begins a session. The zero value serves most
// programs.
type Options struct {
	Settings *Settings
	// Environ looks up environment variables. If it is nil, that of Settings is used, or
	// else os.LookupEnv.
	Environ func(name string) (string, bool)
	// Log receives the messages of the library; if it is nil they go to os.Stderr.
	Log io.Writer

	// Warnings are lines of the caller about the settings, which rank 0 logs.
	Warnings []string

	// Gate reports whether the caller waits for a debugger after a checkpoint if Session.Gate says
	// so; nil: it does not. scr_checkpoint --attach stops the processes else.
	Gate func() bool

	// Exclusive says that world is an mpi.Revocable which the caller does not use while a method of the session
	// runs, and frees after the session. The session then uses it itself: a copy would take all ranks time to make.
	Exclusive bool

	launch func(control string) error // for tests: see flush.Config
	pause  func()                     // for tests: stops the process; nil: by SIGSTOP
	booted time.Time                  // for tests: see cache.Config
	faults faults                     // for tests
}

// environ returns the function with which a session looks up environment variables.
func (o Options) environ() func(name string) (string, bool) {
	switch {
	case o.Environ != nil:
		return o.Environ
	case o.Settings != nil && o.Settings.Environ != nil:
		return o.Settings.Environ
	}
	return os.LookupEnv
}

// Session is a rank's use of goscr between Init and Finalize. Its methods are
// collective, except Route. An error of a collective method is an error on all
// ranks, and leaves the program running.
//
// If a rank cannot continue, because of a bug in goscr or a failure of MPI, its call returns
// an error. Each of the other ranks gets an error from the call that it is in, or from its
// next call: a *mpi.RevokedError, which names the rank that failed. The session is then
// over, as if the job had been killed at that instant, and all further calls return that
// error at once.
//
// A Session keeps track of the state of the program, and leaves the work to the packages
// below.
type Session struct {
	job     job
	world   mpi.Comm // all ranks of the session
	config  *config.Config
	log     *report.Logger
	events  events
	traffic mpi.Traffic // counted if SCR_DEBUG is at least 2

	prefix     *prefix.Prefix
	paths      paths
	protection *protection
	cache      *cache.Cache
	flusher    *flush.Flusher
	restart    *restart.Restart
	advisor    *advice.Advisor

	state     state
	output    *unfinished // the dataset that is being written, nil if there is none
	numbers   numbers
	started   bool      // a dataset has been begun in this run
	began     time.Time // when the restart that is under way began
	computes  time.Time // when the program began to compute, after its last call
	beginning bool      // it has been logged that there is no checkpoint to restart from
}

// Init begins a session on the ranks of world. It duplicates world; if a rank cannot continue
// later, world is not affected, unless it is an mpi.Revocable: then it is revoked. Init
// makes datasets of earlier runs in the cache usable: it migrates files to the nodes where
// their ranks now run, and rebuilds files that were lost with a node.
func Init(world mpi.Comm, opt Options) (*Session, error) {
	if opt.Log == nil {
		opt.Log = os.Stderr
	}
	s := &Session{job: job{faults: opt.faults, pause: opt.pause, gate: opt.Gate, given: opt}}
	if s.job.faults == nil {
		s.job.faults = builtIn
	}
	var err error
	if ranks, ok := world.(mpi.Revocable); ok {
		s.job.ranks = ranks
		err = mpi.Guard(ranks, func() error {
			if s.world = ranks; !opt.Exclusive {
				s.world = mpi.Dup(world)
			}
			return nil
		})
	} else {
		err = mpi.Try(func() error { // there is nothing to revoke yet
			s.job.ranks = world.Revocable()
			s.world = s.job.ranks
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	if s.job.faults != nil {
		s.world = s.job.faults.Wrap(s.world)
	}
	ready := false
	defer func() { // also if this rank ends in Init: the process may live on, and would keep the lock of the job
		if !ready && s.advisor != nil {
			s.advisor.Abandon()
		}
	}()
	if err := s.call("Init", func() error { return s.init(opt) }); err != nil {
		return nil, err
	}
	ready = true
	return s, nil
}

// init does the work of Init once the session has its communicator.
func (s *Session) init(opt Options) error {
	start := time.Now()
	cfg, warnings, err := config.Load(s.world, opt.Settings.internal(), opt.Environ)
	if err == nil && !cfg.Enable {
		err = ErrDisabled
	}
	if err != nil {
		s.free()
		return err
	}
	s.config = cfg
	s.log = &report.Logger{Out: opt.Log, Rank: s.world.Rank(), Node: cfg.NodeName, Debug: cfg.Debug}
	meta.OnRefusal(func(err error) { s.log.WarnFirst("%v", err) })
	lock.SetPatience(lock.Patience{Limit: cfg.WaitTime, Tell: func(line string) { s.log.Warn("%s", line) }})
	if s.log.Debug >= 2 {
		s.world = mpi.Count(s.world, &s.traffic)
	}
	for _, w := range append(warnings, opt.Warnings...) {
		s.log.WarnJob("%s", w)
	}
	if !cfg.CRCOnCopy {
		s.log.WarnJob("SCR_CRC_ON_COPY=0 has no effect: what is rebuilt in the cache has to be checked")
	}
	if err := s.begin(opt, start); err != nil {
		s.events.Result(eventlog.InitEnd, eventlog.InitFail, dataset.Dataset{}, start, err)
		return errors.Join(err, s.giveUp())
	}
	s.events.Add(eventlog.Record{Type: eventlog.InitEnd, Start: start, Seconds: eventlog.Since(start), Note: s.protection.logged()})
	if err := s.haltIfAsked(); err != nil {
		return err
	}
	s.flusher.Background.BeginCopies()
	s.prefix.Note(func() error { return migration.Ready(s.prefix.Dir, time.Since(start)) })
	s.computing()
	s.tellTraffic("Init", mpi.Traffic{})
	s.log.Info("goscr %s: %s, prefix %s, %s; ready in %.3f s",
		version.Goscr(), report.Count(s.world.Size(), "rank"), s.prefix.Dir, s.protection, time.Since(start).Seconds())
	return nil
}

// begin does the part of Init that needs the configuration. start is the time at which
// Init was called.
func (s *Session) begin(opt Options, start time.Time) error {
	known, err := s.usePrefix(start, opt)
	if err != nil {
		return err
	}
	if s.world.Rank() == 0 && known.probed {
		defer known.run.Remove(s.metadata(""), 0) // when all nodes have looked, or this has failed before
	}
	find := func(first bool) error { return s.findPrefix(first, known) }
	if s.protection, err = newProtection(s.world, known.cache, s.config, s.log, find); err != nil {
		return err
	}
	node, err := s.protection.groups.Comm(reddesc.Node)
	if err != nil {
		return err
	}
	if err := s.openCache(node, known, opt); err != nil {
		return err
	}
	if err := s.protection.addDescriptors(s.config, s.log); err != nil {
		return err
	}
	s.log.Share(s.cache.ControlDir(), filepath.Join(s.paths.real, prefix.Metadata))
	s.openFlusher(node, opt)
	input, err := s.readInput()
	if err != nil {
		return err
	}
	s.restart = restart.New(restart.Config{
		Input: input,
		World: s.world, Cache: s.cache, Prefix: s.prefix, Flusher: s.flusher, Log: s.log, Events: s.events.Log, Phases: s.events.phases,
		JobID: s.config.JobID, Fetch: s.config.Fetch, Width: s.config.FetchWidth, InPlace: s.config.FetchBypass, Never: s.config.Restart == "NEVER", Global: s.config.GlobalRestart,
		Current: restart.Choice{Name: s.config.Current, By: "SCR_CURRENT"}, DropAfter: s.config.DropAfterCurrent,
		Protect: func(d dataset.Dataset) (*reddesc.Descriptor, *reddesc.Store) {
			desc := s.protection.descriptor(Flags(d.Flags()), d.Checkpoint())
			return desc, s.protection.store(desc.Store)
		},
	})
	missing, err := s.recordRun(node, s.cache.Nodes(), opt.Settings, opt.environ())
	if err != nil {
		return err
	}
	written, err := s.recoverCache(missing)
	if err != nil {
		return err
	}
	if err := s.offerRestart(restart.FindFirst(s.restart, s.config.FetchOnInit, written)); err != nil || !s.config.FetchOnInit || s.restart.Offered() != nil {
		return err
	}
	return mustRestart(s.world, s.config)
}

// shared is what all ranks know from rank 0: the paths by which they know directories that have
// other paths elsewhere, and the run, for probes.
type shared struct {
	prefix string // without symbolic links
	cache  string // SCR_CACHE_BASE
	run    probe.Run
	probed bool // rank 0 has made a probe in the prefix directory
}

// usePrefix prepares the prefix directory and the event log of the run, which began at
// start.
func (s *Session) usePrefix(start time.Time, opt Options) (shared, error) {
	cfg := s.config
	s.prefix = &prefix.Prefix{
		Comm: s.world, Dir: cfg.Prefix, Buffer: bufferSize(cfg.FileBufSize), Compress: compression(cfg),
		Bare: !cfg.CopyMetadata, Blind: !cfg.CRCOnFlush, Width: cfg.FlushWidth, Log: s.log,
	}
	if cfg.PrefixShared {
		s.prefix.Ours = func(d dataset.Dataset) bool {
			if cfg.JobName != "" {
				return d.Owner().JobName == cfg.JobName
			}
			return d.Owner().JobID == cfg.JobID
		}
	}
	var requests *request.Answers // on rank 0
	defer func() {
		if s.advisor == nil {
			requests.Close()
		}
	}()
	texts, err := mpi.BytesFromRoot(s.world, func() (_ []byte, err error) {
		if err := s.openPrefix(); err != nil {
			return nil, err
		}
		if requests, err = request.Begin(cfg.Prefix, describeJob(cfg, opt.environ(), start), cfg.PrefixShared); errors.As(err, new(*request.TakenError)) {
			return nil, err
		}
		s.prefix.Note(func() error { return err })
		real, err := realPrefix(cfg.Prefix)
		if err != nil {
			return nil, err
		}
		run, probed := probe.NewRun(), ""
		if err := run.Put(s.metadata(""), 0); err == nil {
			probed = "1"
		} else if err := s.prefix.Spare(err); err != nil {
			return nil, err
		}
		return []byte(strings.Join([]string{real, cfg.CacheBase, string(run), probed}, "\x00")), nil
	})
	if err != nil {
		return shared{}, err
	}
	if s.world.Rank() == 0 {
		s.events.Log = eventlog.Open(cfg, s.log, metrics.Of(cfg))
	}
	s.events.phases = phases.New(s.world, cfg.NodeName, cfg.LogEnable || cfg.MetricsDir != "", s.events.Log)
	s.advisor = advice.New(s.world, s.prefix, s.log, s.events.Log)
	s.advisor.Answer(requests)
	s.events.Add(eventlog.Record{Type: eventlog.InitStart, Start: start,
		Note: fmt.Sprintf("goscr %s, %s", version.Goscr(), report.Count(s.world.Size(), "rank"))})
	known := strings.Split(string(texts), "\x00")
	return shared{prefix: known[0], cache: known[1], run: probe.Run(known[2]), probed: known[3] != ""}, nil
}

// describeJob describes the job to others that work in the prefix directory. If the program has given it an id, it may be
// a part of its launch, beside others.
func describeJob(cfg *config.Config, environ func(string) (string, bool), since time.Time) request.Job {
	j := request.Job{ID: cfg.JobID, User: cfg.UserName, Since: since}
	if cfg.Source(&cfg.JobID).Level == config.Program {
		j.Launch = config.Launch(environ)
	}
	return j
}

// findPrefix finds the prefix directory on the caller's node. It is an error if a node does not see what rank 0 has made
// there: its files would be in a directory of its own. The first rank of the node looks for that.
func (s *Session) findPrefix(first bool, known shared) error {
	real, err := realPrefix(s.config.Prefix)
	s.paths = paths{dir: s.config.Prefix, real: real}
	if err != nil || !first || !known.probed {
		return err
	}
	return seesPrefix(known.run, s.metadata(""), s.config)
}

// seesPrefix returns nil if the caller's node sees the probe of rank 0 in the prefix directory. dir
// is that of its metadata.
func seesPrefix(run probe.Run, dir string, cfg *config.Config) error {
	if err := run.Sees(dir, 0); err != nil {
		return fmt.Errorf("node %s does not see what rank 0 makes in the prefix directory %s: %w; it must be the same directory on all nodes: is its file system mounted there?",
			cfg.NodeName, cfg.Prefix, err)
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

// openCache opens the cache. node is the communicator of the ranks on the caller's node. All ranks use the path of the prefix directory that rank 0 knows, because symbolic links may
// differ between nodes.
func (s *Session) openCache(node mpi.Comm, known shared, opt Options) (err error) {
	cfg := s.config
	s.cache, err = cache.Open(cache.Config{
		World: s.world, Node: node, NodeRanks: s.protection.groups.NodeRanks(), Stores: s.protection.stores,
		Control: cache.Base{Dir: cfg.CntlBase, SetBy: setting(cfg, "SCR_CNTL_BASE", &cfg.CntlBase)},
		User:    cfg.UserName, JobID: cfg.JobID, Allocation: config.Allocation(opt.environ()), Prefix: known.prefix, Piece: bufferSize(cfg.MPIBufSize),
		Distribute: cfg.Distribute, VerifyEvicted: cfg.CRCOnDelete, Checksums: !cfg.CRCOnFlush, Booted: opt.booted, Log: s.log, Events: s.events.Log, Phases: s.events.phases,
	}, known.run, mover.Reset)
	return err
}

// openFlusher makes the Protector, and opens the Flusher, which decides when datasets are flushed and
// evicted.
func (s *Session) openFlusher(node mpi.Comm, opt Options) {
	cfg := s.config
	if cfg.FlushAsync && cfg.FlushPoststage && cfg.FlushType != string(mover.ByDaemon) {
		s.log.WarnJob("SCR_FLUSH_POSTSTAGE=1 has an effect with SCR_FLUSH_TYPE=DAEMON only: other copies end with the program, and SCR_Finalize waits for them")
	}
	limits := transfer.Limits{Bandwidth: float64(cfg.FlushAsyncBW), CPU: cfg.FlushAsyncPercent / 100}
	protector := protect.New(protect.Config{
		World: s.world, Node: node, Cache: s.cache, Queue: &background.Queue{}, Log: s.log, Async: cfg.EncodeAsync,
		Carrier: protect.Carrier(cfg.EncodeCarrier), Interface: cfg.NetInterface, Limits: limits, Protected: s.protected, SizeName: s.sizeName,
	})
	s.flusher = flush.Open(flush.Config{
		World: s.world, Node: node, Cache: s.cache, Protector: protector, Prefix: s.prefix, Log: s.log, Events: s.events.Log, Phases: s.events.phases,
		Policy: cfg.FlushPolicy(), Keep: cfg.PrefixSize, Fetch: cfg.Fetch, Async: cfg.FlushAsync, Poststage: cfg.FlushPoststage,
		Kind:         func(store string) mover.Kind { return mover.Kind(cfg.Store(store).Flush.Or(cfg.FlushType)) },
		PollInterval: time.Duration(cfg.FlushAsyncUsleep) * time.Microsecond,
		Limits:       limits, Launch: opt.launch,
		Stopping: s.advisor.Stopping,
		Taken:    func(err error) { s.numbers.passOver(s.world, err) },
		SizeName: s.sizeName,
	})
}

// sizeName returns the parameter that says how many datasets a store keeps.
func (s *Session) sizeName(store string) string {
	if s.config.Store(store).Count.Set {
		return "STORE=" + store + " COUNT"
	}
	return "SCR_CACHE_SIZE"
}

// recoverCache makes the datasets of earlier runs usable, or deletes them if a purge is asked
// for, and flushes those that should be in the prefix directory by now. Of the datasets in missing an earlier run
// has not flushed all files. written says whether the index has checkpoints that a program has written to the prefix directory.
func (s *Session) recoverCache(missing []dataset.Dataset) (written bool, err error) {
	if s.config.PrefixPurge {
		if err := s.prefix.Purge(); err != nil {
			return false, err
		}
	}
	if s.config.CachePurge {
		s.cache.Purge()
	} else {
		s.cache.Recovery.Rebuild(s.protection.descs...)
	}
	s.cache.WarnOfRoom(s.sizeName)
	s.cache.Unused.CheckOthers(savedIn)
	if written, err = s.compareWithIndex(); err != nil {
		return false, err
	}
	s.restart.WithholdOtherInput()
	if err := s.flusher.Left.Flush(s.config.FlushOnRestart || s.config.GlobalRestart); err != nil {
		return false, err
	}
	s.flusher.Left.Resume(missing)
	if s.world.Rank() == 0 {
		s.prefix.RemoveLitter(s.config.JobID, func(d dataset.Dataset) bool { return s.cache.Find(d.ID()) != nil })
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
func (s *Session) compareWithIndex() (written bool, err error) {
	list := s.cache.List()
	exposed := s.cache.Exposed(list)
	condemned := restart.NewCondemned(s.restart)
	most := make([]int64, len(list)+3+len(condemned.Marks))
	// 1: complete in the index; then the highest id, the id of the checkpoint that scr_index has chosen, and written
	there := most[:len(list)+3]
	condemned.Marks = most[len(there):]
	highest, chosen, direct := &there[len(list)], &there[len(list)+1], &there[len(list)+2]
	var take string // the name of the chosen one, if this run restarts from it; on rank 0, as is
	var record prefix.Choice
	find := func() error {
		x, err := prefix.CheckedIndex(s.prefix.Dir)
		if err != nil {
			return err
		}
		*highest = int64(max(x.Highest(), s.cache.Highest()))
		if record, take, err = choice(s, s.prefix.Ours.Of(x)); err != nil {
			return err
		}
		*chosen = int64(record.Of.ID)
		if prefix.HasWritten(s.prefix.Ours.Of(x)) {
			*direct = 1
		}
		var cached []prefix.Kept
		for i, c := range list {
			cached = append(cached, prefix.Kept{Dataset: c.Dataset, Protected: c.Desc.Protection.String(),
				Read: !c.Postponed() && !c.Unchecked(), Exposed: exposed[i]})
			if x.HasComplete(c.Dataset) {
				there[i] = 1
			}
		}
		every := s.config.FlushPolicy().Every
		if s.protection.weakest() == nil { // there is nothing to flush
			every = 0
		}
		if !s.config.CachePurge { // the user wants nothing of the caches
			if err := restart.SeekLost(s.restart, x, list); err != nil {
				return err
			}
		}
		if err := s.prefix.Spare(prefix.BeginRun(s.prefix.Dir, cached, every, time.Now())); err != nil {
			return err
		}
		progress, err := prefix.ReadProgress(s.prefix.Dir)
		if s.numbers.latest = progress.Latest; err != nil {
			return err
		}
		if *chosen > 0 { // it is not passed over
			s.restart.TakeChoice(take, int(*chosen), record)
		}
		return condemned.Find(s.restart)
	}
	if s.world.Rank() == 0 {
		err = find()
	}
	*highest = max(*highest, int64(s.cache.Highest()))
	// Only rank 0 has read the index: the other ranks have 0 for each dataset of the list.
	if err := mpi.AgreeMax(s.world, err, most); err != nil {
		return false, err
	}
	s.numbers.id = int(*highest)
	if *chosen > 0 {
		s.restart.TakeChoice(string(mpi.BcastBytes(s.world, []byte(take), 0)), int(*chosen), record)
	}
	for i, c := range list {
		s.flusher.Contents.SetFlushed(c.ID(), there[i] == 1)
	}
	return *direct == 1, s.restart.PassOver(condemned)
}

// choice returns what a user has chosen with scr_index, with the ID 0 if that is nothing, and the name of the checkpoint, "" if the run
// does not restart from it. x is the index without what is of other jobs. Rank 0 calls it.
func choice(s *Session, x *prefix.Index) (record prefix.Choice, name string, err error) {
	record, ok := prefix.Chosen(x)
	if !ok || record.Of.ID <= 0 || record.Of.Name == "" || s.config.Current != "" {
		return record, "", nil
	}
	located, err := prefix.Locations(s.prefix.Dir)
	if err != nil {
		return record, "", err
	}
	if ours := s.prefix.Ours; ours != nil {
		located = slices.DeleteFunc(located, func(l prefix.Located) bool { return !ours(l.Dataset) })
	}
	var cached []dataset.Dataset
	for _, c := range s.cache.List() {
		cached = append(cached, c.Dataset)
	}
	if !record.Holds(x, located, cached) {
		s.log.Warn("scr_index --current has chosen %s, but a job has written another dataset since, or it cannot be used: the choice has no effect", record.Of.Name)
		return record, "", nil
	}
	return record, record.Of.Name, nil
}

// giveUp closes a session whose Init has failed.
func (s *Session) giveUp() error {
	var err error
	if s.advisor != nil {
		s.advisor.StopAnswering("SCR_Init has failed")
	}
	if s.flusher != nil {
		err = s.flusher.Background.Stop()
	}
	if s.cache != nil {
		err = errors.Join(err, s.cache.Close())
	}
	s.free()
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

// Agree returns an error on all ranks if any rank passes one, so that all ranks of a
// program can respond in the same way to a failure on one of them. It is collective.
func (s *Session) Agree(err error) error {
	const call = "Agree"
	return s.call(call, func() error {
		if s.state == finished {
			return s.state.expect(call, idle)
		}
		return mpi.Agree(s.world, err)
	})
}

// Warn writes a warning to the log of the session (see Options). Of warnings that are
// alike only some are written, which is also true of those that the library writes.
func (s *Session) Warn(format string, args ...any) { s.log.Warn(format, args...) }

// Query answers a query in the syntax of SCR_Config: see Settings.Config. A string that would
// change a setting is an error.
func (s *Session) Query(text string) (value string, ok bool, err error) { return s.config.Query(text) }

// Copying reports whether threads of the process copy in the background. A caller that
// limits the process must leave processors for them.
func (s *Session) Copying() bool { return s.job.over == nil && s.flusher.Background.Copying() }
