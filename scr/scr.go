package scr

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/compress"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/mover"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/reddesc"
)

// Version of the interface, which is that of SCR 3.1.
const Version = "v3.1.0"

// MaxFilename is the longest path Route returns, with room for C's final NUL.
const MaxFilename = 1024

// Flags say what a dataset is for. They can be combined.
type Flags = dataset.Flags

// What a dataset is for.
const (
	None       = dataset.None
	Checkpoint = dataset.Checkpoint // the program can restart from it
	Output     = dataset.Output     // wanted in the prefix directory in any case
)

// Settings are parameters that a program sets before Init, in the syntax of
// SCR_Config. Environment and the user's configuration file win over them.
type Settings = config.Settings

// ErrDisabled is returned by Init if SCR_ENABLE=0.
var ErrDisabled = errors.New("goscr is turned off by SCR_ENABLE=0")

// Options change how Init begins a session. The zero value serves most
// programs.
type Options struct {
	Settings *Settings
	// Environ looks environment variables up; nil is os.LookupEnv.
	Environ func(name string) (string, bool)
	// Log takes the lines that tell what happens; nil is os.Stderr.
	Log io.Writer

	launch func(control string) error // for tests: see Session
}

// state is what the program is doing, which decides what it may call.
type state int

const (
	idle          state = iota
	restarting          // StartRestart to CompleteRestart
	checkpointing       // StartCheckpoint to CompleteCheckpoint
	writing             // StartOutput to CompleteOutput
	finished
)

// The names that SCR has for the states, with what to do in each.
var states = map[state]struct{ name, advice string }{
	idle: {"IDLE", "nothing is under way that could be completed; StartRestart (if HaveRestart offers a checkpoint), " +
		"StartCheckpoint and StartOutput begin something"},
	restarting:    {"RESTART", "a restart is under way; end it with CompleteRestart first"},
	checkpointing: {"CHECKPOINT", "a checkpoint is under way; end it with CompleteCheckpoint first"},
	writing:       {"OUTPUT", "an output is under way; end it with CompleteOutput first"},
	finished:      {"UNINIT", "the session has been finalized; only a new Init can follow"},
}

// Session is a rank's use of goscr between Init and Finalize. Its methods are
// collective, except Route. An error of a collective method is an error on all
// ranks, and leaves the program running.
type Session struct {
	world  mpi.Comm
	config *config.Config
	log    *report.Logger
	groups *reddesc.Groups
	stores []*reddesc.Store // the first is that of SCR_CACHE_BASE
	descs  []*reddesc.Descriptor
	cache  *cache.Cache
	prefix prefix.Prefix
	real   string // the prefix directory without symbolic links

	state   state
	started bool         // a dataset has been begun in this run
	restart *source      // the checkpoint that a restart is offered
	useless map[int]bool // checkpoints that the program could not restart from
	byPath  map[string]string
	byName  map[string][]string

	current    *cache.Cached // being written
	direct     *direct       // being written, in the prefix directory
	written    int           // id of the newest checkpoint there that is complete
	routeError error         // of a Route since it was begun
	began      time.Time
	id         int         // of the newest dataset, ever
	latest     time.Time   // when it was begun, as rank 0 has recorded
	checkpoint int         // number of the newest checkpoint
	watch      watch       // of rank 0
	traffic    mpi.Traffic // counted if somebody wants to know

	events    *eventlog.Log
	computes  time.Time    // since when the program computes
	beginning bool         // it has been told that there is no checkpoint
	halting   string       // the reason to halt that was logged
	flushed   map[int]bool // datasets of the cache that are in the prefix directory

	node    mpi.Comm // ranks of the node
	movers  map[mover.Kind]mover.Mover
	limits  transfer.Limits            // of what they take of a node
	launch  func(control string) error // starts what copies for the node; nil: the command
	flights []*flight                  // oldest first, the same on all ranks
	looked  time.Time                  // when it was looked whether they have arrived
}

// Init begins a session on the ranks of world, which it duplicates. It takes
// up what earlier runs have left in the cache: files go to the nodes where
// their ranks now are, and what was lost with a node is rebuilt.
func Init(world mpi.Comm, opt Options) (*Session, error) {
	if opt.Log == nil {
		opt.Log = os.Stderr
	}
	cfg, warnings, err := config.Load(world, opt.Settings, opt.Environ)
	if err != nil {
		return nil, err
	}
	if !cfg.Bool("SCR_ENABLE") {
		return nil, ErrDisabled
	}
	s := &Session{config: cfg, flushed: map[int]bool{}, useless: map[int]bool{}, watch: watch{environ: environ(opt)}, launch: opt.launch}
	if s.world, err = mpi.Dup(world); err != nil {
		return nil, err
	}
	node := cfg.String("SCR_NODE_NAME")
	s.log = &report.Logger{Out: opt.Log, Rank: world.Rank(), Node: node, Debug: cfg.Int("SCR_DEBUG")}
	if s.log.Debug >= 2 {
		s.world = mpi.Count(s.world, &s.traffic)
	}
	if world.Rank() == 0 {
		for _, w := range warnings {
			s.log.Warn("%s", w)
		}
	}
	s.prefix = prefix.Prefix{
		Comm: s.world, Dir: cfg.String("SCR_PREFIX"), Buffer: s.bufferSize("SCR_FILE_BUF_SIZE"),
		Compress: compression(cfg), Bare: !cfg.Bool("SCR_COPY_METADATA"), Blind: !cfg.Bool("SCR_CRC_ON_FLUSH"), Width: cfg.Int("SCR_FLUSH_WIDTH"), Log: s.log,
	}
	if world.Rank() == 0 && !cfg.Bool("SCR_CRC_ON_COPY") {
		s.log.Warn("SCR_CRC_ON_COPY=0 has no effect: what is rebuilt in the cache has to be checked")
	}
	start := time.Now()
	if err := s.begin(node, start, opt.Settings); err != nil {
		s.result("INIT", "END", dataset.Dataset{}, start, err)
		for _, f := range s.flights {
			err = errors.Join(err, f.transfer.Cancel())
		}
		if s.cache != nil {
			err = errors.Join(err, s.cache.Close())
		}
		return nil, errors.Join(err, s.free())
	}
	s.result("INIT", "END", dataset.Dataset{}, start, nil)
	if err := s.haltIfAsked(); err != nil {
		return nil, err
	}
	s.takeOff()
	s.computing()
	s.tellTraffic("Init", mpi.Traffic{})
	s.log.Info("goscr %s: %s, prefix %s, %s; ready in %.3f s",
		Version, report.Count(world.Size(), "rank"), s.prefix.Dir, s.describe(), time.Since(start).Seconds())
	return s, nil
}

// compression is how a flush stores files. A run that is told to have its
// checkpoints read where they are has them stored as they are.
func compression(cfg *config.Config) compress.Method {
	for _, mode := range []string{"SCR_FETCH_BYPASS", "SCR_GLOBAL_RESTART", "SCR_FLUSH_ON_RESTART"} {
		if cfg.Bool(mode) {
			return compress.Method{}
		}
	}
	m, _ := compress.Parse(cfg.String("SCR_FLUSH_COMPRESS")) // was checked when it was set
	return m
}

// environ is where a session looks environment variables up.
func environ(opt Options) func(name string) (string, bool) {
	switch {
	case opt.Environ != nil:
		return opt.Environ
	case opt.Settings != nil && opt.Settings.Environ != nil:
		return opt.Settings.Environ
	}
	return os.LookupEnv
}

// bufferSize is the value of a parameter for the size of buffers, or the next to
// it that works: a few bytes would be lost in overhead, and there are several
// buffers, which no size asked for by mistake shall make larger than memory.
func (s *Session) bufferSize(name string) int {
	const least, most = 64, 16 << 20
	return int(min(max(s.config.Size(name), least), most))
}

// begin is Init once the configuration is known.
func (s *Session) begin(node string, start time.Time, settings *Settings) error {
	err := s.onRoot(func() error {
		if err := os.MkdirAll(filepath.Join(s.prefix.Dir, prefix.Metadata), 0o777); err != nil {
			return fmt.Errorf("prefix directory: %w (SCR_PREFIX says where it is)", err)
		}
		report.Forget(filepath.Join(s.prefix.Dir, prefix.Metadata))
		return errors.Join(s.setAside("halt.scr"), s.setAside("flush.scr"), s.setAside("nodes.scr"))
	})
	if err != nil {
		return err
	}
	s.openLog(start)
	if s.real, err = filepath.EvalSymlinks(s.prefix.Dir); err != nil {
		err = fmt.Errorf("prefix directory: %w (it must be the same directory on all nodes)", err)
	}
	if err := mpi.Agree(s.world, err); err != nil {
		return err
	}

	if s.groups, err = reddesc.NewGroups(s.world, node); err != nil {
		return err
	}
	if err := s.addGroups(node); err != nil {
		return err
	}
	nodeComm, err := s.groups.Comm(reddesc.Node)
	if err != nil {
		return err
	}
	if err := s.describeStores(); err != nil {
		return err
	}
	if err := s.describeRedundancy(); err != nil {
		return err
	}
	// Rank 0's, in case links differ between nodes.
	text, err := mpi.BcastBytes(s.world, []byte(s.real), 0)
	if err != nil {
		return err
	}
	real := string(text)
	s.cache, err = cache.Open(cache.Config{
		World: s.world, Node: nodeComm,
		Stores: s.stores, ControlBase: s.config.String("SCR_CNTL_BASE"),
		User: s.config.String("SCR_USER_NAME"), JobID: s.config.String("SCR_JOB_ID"), Prefix: real,
		Piece: s.bufferSize("SCR_MPI_BUF_SIZE"), Distribute: s.config.Bool("SCR_DISTRIBUTE"), Log: s.log,
		VerifyEvicted: s.config.Bool("SCR_CRC_ON_DELETE"), Events: s.events,
	})
	if err != nil {
		return err
	}
	s.log.Shared = []string{s.cache.Control(), filepath.Join(real, prefix.Metadata)}
	if err := s.openMovers(); err != nil {
		return err
	}
	if err := s.recordRun(nodeComm, settings); err != nil {
		return err
	}
	if err := s.takeUp(); err != nil {
		return err
	}
	if err := s.choose(); err != nil {
		return err
	}
	if s.config.Bool("SCR_FETCH_ON_INIT") {
		return s.fetchIfNone()
	}
	return nil
}

// addGroups makes the failure groups of GROUPS= lines. A node that no line
// speaks of is a group of its own.
func (s *Session) addGroups(node string) error {
	items := s.config.Items("GROUPS")
	names := map[string]bool{}
	for _, fields := range items.All() {
		for name := range fields.All() {
			names[name] = true
		}
	}
	if err := s.warnOfGroups(items, node); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		value := items.Get(node).Text(name)
		if value == "" {
			value = "node " + node
		}
		if err := s.groups.Add(name, value); err != nil {
			return err
		}
	}
	return nil
}

// warnOfGroups says that nodes of the job are in no GROUPS= line while lines speak
// of nodes that it does not have: one of the names is likely to be mistyped. Lines
// for nodes of other jobs alone are nothing unusual.
func (s *Session) warnOfGroups(items *hash.Hash, node string) error {
	if items.Size() == 0 {
		return nil
	}
	lines := items.Keys()
	has := make([]int64, len(lines)+1) // last: the highest rank on a node without a line
	has[len(lines)] = -1
	if i := slices.Index(lines, node); i >= 0 {
		has[i] = 1
	} else {
		has[len(lines)] = int64(s.world.Rank())
	}
	if err := s.world.Allreduce(has, mpi.Max); err != nil {
		return err
	}
	without, other := int(has[len(lines)]), slices.Index(has[:len(lines)], 0)
	if without < 0 || other < 0 {
		return nil
	}
	name, err := mpi.BcastBytes(s.world, []byte(node), without)
	if err == nil && s.world.Rank() == 0 {
		s.log.Warn("no GROUPS= line is for node %s, which counts as a group of its own, but there is one for %s, which is no node of this job: "+
			"are they the same? SCR_NODE_NAME, else the host name, is what a node is called", name, lines[other])
	}
	return err
}

// recordRun leaves what the commands around the job have to know.
func (s *Session) recordRun(node mpi.Comm, settings *Settings) error {
	leaders := []int64{0}
	if node.Rank() == 0 {
		leaders[0] = 1
	}
	if err := s.world.Allreduce(leaders, mpi.Sum); err != nil {
		return err
	}
	return s.onRoot(func() error {
		if err := prefix.RecordNodes(s.prefix.Dir, int(leaders[0])); err != nil {
			return err
		}
		if err := s.recordSettings(settings); err != nil {
			return err
		}
		return s.beginWatch()
	})
}

// recordSettings leaves what the program has set to the commands; nothing, if it
// has set nothing.
func (s *Session) recordSettings(settings *Settings) error {
	path := s.metadata("app.conf")
	if settings == nil || settings.Text() == "" {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return hash.ReplaceFile(path, []byte(settings.Text()), 0o666)
}

// setAside renames a damaged file, which a job can do without, so that it does
// not keep the job from starting. The index is another matter: without it a job
// would begin from step 0 where it has checkpoints.
func (s *Session) setAside(name string) error {
	path := s.metadata(name)
	_, err := hash.ReadWithLock(path)
	if !errors.Is(err, hash.ErrCorrupt) {
		return nil // others are reported where the file is used
	}
	aside := path + ".damaged"
	s.log.Warn("%v; it is now %s, and a new one is begun", err, aside)
	if err := os.Rename(path, aside); !errors.Is(err, fs.ErrNotExist) { // another job may have done it
		return err
	}
	return nil
}

func (s *Session) metadata(name string) string {
	return filepath.Join(s.prefix.Dir, prefix.Metadata, name)
}

// recordCache brings what is known about cached datasets up to date after a
// restart: which of them the prefix directory has already, and where to go on
// counting.
func (s *Session) recordCache() error {
	there := make([]int64, len(s.cache.List())+1) // last: highest id in the index
	err := s.onRoot(func() error {
		if err := prefix.CheckIndex(s.prefix.Dir); err != nil {
			return err
		}
		x, err := prefix.ReadIndex(s.prefix.Dir)
		if err != nil {
			return err
		}
		there[len(there)-1] = int64(x.Highest())
		var list []dataset.Dataset
		for i, c := range s.cache.List() {
			list = append(list, c.Dataset)
			for _, e := range x.Entries() {
				if e.ID == c.ID() && e.Name == c.Name() && e.Complete {
					there[i] = 1
				}
			}
		}
		if err := prefix.OnlyCached(s.prefix.Dir, list); err != nil {
			return err
		}
		progress, err := prefix.ReadProgress(s.prefix.Dir)
		s.latest = progress.Latest
		return err
	})
	if err != nil {
		return err
	}
	// Only rank 0 has anything but zeros.
	if err := s.world.Allreduce(there, mpi.Max); err != nil {
		return err
	}
	highest := []int64{int64(s.cache.Highest())}
	if err := s.world.Allreduce(highest, mpi.Max); err != nil {
		return err
	}
	s.id = int(max(highest[0], there[len(there)-1]))
	for i, c := range s.cache.List() {
		s.flushed[c.ID()] = there[i] == 1
	}
	return nil
}

// onRoot runs f on rank 0 and agrees on its result.
func (s *Session) onRoot(f func() error) error {
	var err error
	if s.world.Rank() == 0 {
		err = f()
	}
	return mpi.Agree(s.world, err)
}

// note runs f on rank 0, which records something for the commands around the job
// in the prefix directory. That its file system is full is no reason not to
// write checkpoints to the cache.
func (s *Session) note(f func() error) {
	if s.world.Rank() != 0 {
		return
	}
	if err := f(); err != nil {
		s.log.WarnOnce("%v; what the prefix directory says of this job is not up to date", err)
	}
}

// StateError says that a call is not possible where it was made.
type StateError struct {
	Call   string
	State  string // in which the program was, as SCR calls it
	Advice string // what would have been possible
}

func (e *StateError) Error() string {
	return fmt.Sprintf("%s called in the wrong place (state %s): %s", e.Call, e.State, e.Advice)
}

// ArgumentError says that the program called with what cannot be, in the same
// way on all ranks.
type ArgumentError struct{ Text string }

func (e *ArgumentError) Error() string { return e.Text }

// Agree makes an error that one rank has met an error on all ranks, so that a
// program can decide on its failures as goscr does on its own. It is
// collective.
func (s *Session) Agree(err error) error { return mpi.Agree(s.world, err) }

// expect is an error unless the program is in the state in which call is
// possible.
func (s *Session) expect(call string, want state) error {
	if s.state == want {
		return nil
	}
	return s.misplaced(call, states[s.state].advice)
}

func (s *Session) misplaced(call, advice string) error {
	return &StateError{call, states[s.state].name, advice}
}

// open reports whether a dataset is being written.
func (s *Session) open() bool { return s.state == writing || s.state == checkpointing }

// Warn writes a line on stderr that needs attention. As with all such lines, of
// those that are alike only some are written.
func (s *Session) Warn(format string, args ...any) { s.log.Warn(format, args...) }

// Query returns the value of a parameter, in the syntax of SCR_Config.
func (s *Session) Query(text string) (value string, ok bool, err error) { return s.config.Query(text) }

// tellTraffic says in detail what the rank has sent and received since before.
func (s *Session) tellTraffic(what string, before mpi.Traffic) {
	t := s.traffic
	s.log.Detail("%s: sent %d bytes in %d messages, received %d bytes", what,
		t.Sent-before.Sent, t.Messages-before.Messages, t.Received-before.Received)
}

// Finalize ends the session, whatever state it is in. What has to be in the
// prefix directory and is not yet is flushed: outputs, and the newest checkpoint
// unless flushing is turned off. A restart or a dataset that the program has
// begun and not completed is an error, and the dataset is dropped.
func (s *Session) Finalize() error {
	if s.state == finished {
		return s.expect("Finalize", idle)
	}
	if !s.open() {
		s.computed()
	}
	var unfinished error
	if s.state != idle {
		unfinished = s.expect("Finalize", idle)
		s.abandon(unfinished)
	}
	err := s.end(func() error { return errors.Join(halt.End(s.prefix.Dir), s.endWatch()) })
	return errors.Join(unfinished, err)
}

// abandon ends the restart or the dataset that is under way. What the program
// wrote to the prefix directory itself stays there, and in the index as
// incomplete.
func (s *Session) abandon(why error) {
	c, d := s.current, s.direct
	s.state, s.current, s.direct = idle, nil, nil
	switch {
	case c != nil:
		_ = s.cache.Complete(c, why) // it says why again, or on which rank the dataset could not be deleted
		s.result(kindOf(c.Dataset), "END", c.Dataset, s.began, why)
	case d != nil:
		s.result(kindOf(d.Dataset), "END", d.Dataset, s.began, why)
	default:
		s.result("RESTART", "SUCCESS", s.restart.Dataset, s.began, why)
	}
}

// end brings what is waiting for it to the prefix directory, lets rank 0 record
// how the run has ended, and closes the session. It goes on after an error, and
// returns the first.
func (s *Session) end(record func() error) error {
	start := time.Now()
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	keep(s.land())
	for _, c := range s.waiting(s.config.Int("SCR_FLUSH") > 0) {
		if s.outlives(c) && s.depart(c) == nil {
			if keep(s.land()); s.flightOf(c) != nil {
				continue
			}
		}
		keep(s.flush(c))
	}
	keep(s.closeMovers())
	err := s.onRoot(func() error {
		report.Forget(filepath.Join(s.prefix.Dir, prefix.Metadata))
		return record()
	})
	s.result("FINALIZE", "END", dataset.Dataset{}, start, first)
	keep(err)
	keep(s.close())
	return first
}

// close gives back what the session holds.
func (s *Session) close() error {
	s.state = finished
	err := mpi.Agree(s.world, s.cache.Close())
	if e := s.free(); err == nil {
		err = e
	}
	return err
}

// free gives all communicators of the session back, as far as it has come. It
// is collective.
func (s *Session) free() error {
	s.events.Close()
	var err error
	if s.cache != nil {
		err = s.cache.Free()
	}
	for _, d := range s.descs {
		err = errors.Join(err, d.Free())
	}
	if s.groups != nil {
		err = errors.Join(err, s.groups.Free())
	}
	return errors.Join(err, s.world.Free())
}

// newestCheckpoint returns the newest checkpoint in the cache, nil if there is
// none.
func (s *Session) newestCheckpoint() *cache.Cached {
	for _, c := range s.cache.List() {
		if c.Flags().Has(Checkpoint) {
			return c
		}
	}
	return nil
}

// sameEverywhere checks that all ranks gave the same name and flags.
func (s *Session) sameEverywhere(call, name string, flags Flags) error {
	mine := fmt.Sprintf("%d %s", flags, name)
	text, err := mpi.BcastBytes(s.world, []byte(mine), 0)
	if err != nil {
		return err
	}
	if string(text) != mine {
		err = fmt.Errorf("%s called with %q (name and flags), rank 0 called it with %q", call, mine, text)
	}
	return mpi.Agree(s.world, err)
}
