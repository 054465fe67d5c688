package session

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/advice"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/version"
	"github.com/goscr/goscr/mpi"
)

// Version of the interface, which is that of SCR 3.1.
const Version = "v3.1.0"

// MaxFilename is the size in bytes of a buffer that holds any path that Route returns,
// including the NUL that ends it in C.
const MaxFilename = 1024

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
// A Session keeps track of the state of the program, and leaves the work to its parts and the
// packages below.
type Session struct {
	job job
	services

	state    state
	numbers  numbers
	writer   writer
	reader   reader
	requests requests
	record   record
}

// services are what a session uses of the packages below. Init opens them one after the other, and Finalize closes them.
type services struct {
	common
	protection *protection
	cache      *cache.Cache
	flusher    *flush.Flusher
	room       *flush.Room
	restart    *restart.Restart
	advisor    *advice.Advisor
}

// common is what all code of a session uses.
type common struct {
	world  mpi.Comm // all ranks of the session
	config *config.Config
	log    *report.Logger
	events events
	prefix *prefix.Prefix
	paths  paths // below the prefix directory
}

// Init begins a session on the ranks of world. It duplicates world; if a rank cannot continue
// later, world is not affected, unless it is an mpi.Revocable: then it is revoked. Init
// makes datasets of earlier runs in the cache usable: it migrates files to the nodes where
// their ranks now run, and rebuilds files that were lost with a node.
func Init(world mpi.Comm, opt Options) (*Session, error) {
	if opt.Log == nil {
		opt.Log = os.Stderr
	}
	s := &Session{job: job{faults: opt.faults, given: opt}}
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
		s.world = mpi.Count(s.world, &s.events.traffic)
	}
	for _, w := range append(warnings, opt.Warnings...) {
		s.log.WarnJob("%s", w)
	}
	if !cfg.CRCOnCopy {
		s.log.WarnJob("SCR_CRC_ON_COPY=0 has no effect: what is rebuilt in the cache has to be checked")
	}
	o := &opening{services: &s.services, given: opt, start: start, numbers: &s.numbers}
	if err := s.begin(o); err != nil {
		s.events.Result(eventlog.InitEnd, eventlog.InitFail, dataset.Dataset{}, start, err)
		err = errors.Join(err, o.giveUp())
		s.free()
		return err
	}
	s.events.Add(eventlog.Record{Type: eventlog.InitEnd, Start: start, Seconds: eventlog.Since(start), Note: s.protection.logged()})
	if err := s.haltIfAsked(); err != nil {
		return err
	}
	s.flusher.Background.BeginCopies()
	s.prefix.Note(func() error { return migration.Ready(s.prefix.Dir, time.Since(start)) })
	s.events.computing()
	s.events.tellTraffic(s.log, "Init", mpi.Traffic{})
	s.log.Info("goscr %s: %s, prefix %s, %s; ready in %.3f s",
		version.Goscr(), report.Count(s.world.Size(), "rank"), s.prefix.Dir, s.protection, time.Since(start).Seconds())
	return nil
}

// begin does the part of Init that needs the configuration.
func (s *Session) begin(o *opening) error {
	if err := o.usePrefix(); err != nil {
		return err
	}
	if s.world.Rank() == 0 && o.probed {
		defer o.run.Remove(o.metadata(""), 0) // when all nodes have looked, or this has failed before
	}
	if err := o.openCache(); err != nil {
		return err
	}
	s.log.Share(s.cache.ControlDir(), filepath.Join(s.paths.real, prefix.Metadata))
	o.openFlusher(s.writer.protectionEnded)
	if err := o.openRestart(); err != nil {
		return err
	}
	s.record = record{common: &s.common, node: s.cache.Config.Node}
	s.requests = requests{common: &s.common, node: s.cache.Config.Node, cache: s.cache, flusher: s.flusher, advisor: s.advisor, pause: o.given.pause, gate: o.given.Gate}
	s.reader = reader{common: &s.common, restart: s.restart, flusher: s.flusher, numbers: &s.numbers}
	s.writer = writer{services: &s.services, numbers: &s.numbers, requests: &s.requests, record: &s.record}
	missing, err := s.record.begin(s.cache.Nodes(), s.protection.groups.NodeRanks(), s.advisor, o.given)
	if err != nil {
		return err
	}
	written, err := o.recoverCache(missing)
	if err != nil {
		return err
	}
	if err := s.reader.offer(restart.FindFirst(s.restart, s.config.FetchOnInit, written)); err != nil || !s.config.FetchOnInit || s.restart.Offered() != nil {
		return err
	}
	return mustRestart(s.world, s.config)
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
