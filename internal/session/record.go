package session

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/snapshot"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/internal/sys/version"
	"github.com/goscr/goscr/mpi"
)

// At the start of a run, rank 0 records properties of the run in the prefix directory,
// for the commands that run before and after the program.

func (s *Session) metadata(name string) string {
	return filepath.Join(s.prefix.Dir, prefix.Metadata, name)
}

// openPrefix makes the directory for metadata in the prefix directory. Rank 0 calls it.
func (s *Session) openPrefix() error {
	dir := s.metadata("")
	if _, err := os.Stat(s.config.Prefix); errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("SCR_PREFIX is %s, a directory that did not exist and is created: is the name right?", s.config.Prefix)
	}
	if err := hash.MakeDirs(dir); err != nil {
		return fmt.Errorf("prefix directory: %w (SCR_PREFIX says where it is)", err)
	}
	// A run need not write much there before its first flush, which is late for an error.
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("prefix directory: %s: %w", dir, err)
	}
	report.Forget(dir)
	return errors.Join(s.setAside("halt.scr", halt.Read), s.setAside("flush.scr", hash.ReadFile), s.setAside("nodes.scr", hash.ReadFile), s.setAside("ranks.scr", hash.ReadFile),
		s.setAside("restart.scr", hash.ReadFile), s.setAside("runs.scr", hash.ReadFile),
		s.setAside("request.scr", hash.ReadFile), s.setAside("records.scr", hash.ReadFile))
}

// setAside renames a damaged file that the job does not need, so that the job can start.
// It is not used for the index: without it, a job with checkpoints would start from the
// beginning.
func (s *Session) setAside(name string, read func(path string) (*hash.Hash, error)) error {
	path := s.metadata(name)
	_, err := read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, hash.ErrCorrupt) {
		s.log.Warn("%v", err) // an error again where the file is used, if it is used and cannot be read there
	}
	if !errors.Is(err, hash.ErrCorrupt) {
		return nil
	}
	aside := path + ".damaged"
	s.log.Warn("%v; it is now %s, and a new one is begun", err, aside)
	if err := os.Rename(path, aside); !errors.Is(err, fs.ErrNotExist) { // another job may have done it
		return err
	}
	return nil
}

// recordRun records the nodes and their ranks, the parameters that the program has set,
// and that the run has begun. node is the communicator of the ranks on the caller's node, and
// nodes is the number of nodes. It completes what earlier runs were flushing, of which it returns the datasets with missing
// files. It is collective.
func (s *Session) recordRun(node mpi.Comm, nodes int, settings *Settings, environ func(string) (string, bool)) (missing []dataset.Dataset, err error) {
	ranks := s.ranksOfNodes(node, nodes)
	var started snapshot.Start
	if s.config.Record {
		started = snapshot.OfThisProcess()
	}
	digest := started.Digest()
	// One reduction tells what rank 0 has met, and whether all ranks were started alike.
	most := []int64{digest, ^digest, 0}
	var interrupted *hash.Hash
	if s.world.Rank() == 0 {
		if err = recordOnRoot(s, ranks, settings, environ); err == nil {
			interrupted, err = s.prefix.Interrupted()
		}
		most[2] = int64(interrupted.Size())
	}
	if err := mpi.AgreeMax(s.world, err, most); err != nil {
		return nil, err
	}
	if err := s.gatherFacts(ranks, started, most[0] == ^most[1]); err != nil {
		return nil, err
	}
	if most[2] == 0 {
		return nil, nil
	}
	return s.prefix.CompleteFlushes(interrupted)
}

// recordOnRoot is the part of recordRun that rank 0 does. It passes all nodes.
func recordOnRoot(s *Session, nodes []nodeRanks, settings *Settings, environ func(string) (string, bool)) error {
	byName := map[string][]int{}
	var names []string
	for _, n := range nodes {
		byName[n.Name] = n.Ranks
		names = append(names, n.Name)
	}
	s.events.Add(eventlog.Record{Type: eventlog.Nodes, Run: &eventlog.Run{Nodes: len(nodes), Ranks: s.world.Size(), NodeList: hostlist.Compress(names)}})
	// Nodes with the same name cannot be told apart.
	if len(byName) < len(nodes) || !request.Restarts(s.prefix.Dir) {
		byName = nil
	}
	if err := s.prefix.Spare(prefix.RecordNodes(s.prefix.Dir, len(nodes), byName)); err != nil {
		return err
	}
	if err := s.prefix.Spare(s.recordSettings(settings)); err != nil {
		return err
	}
	return s.prefix.Spare(s.advisor.Begin(s.config, environ))
}

// nodeRanks is a node with its ranks.
type nodeRanks struct {
	Name  string `hash:"NAME"`
	Ranks []int  `hash:"RANK,set"`
}

// ranksOfNodes returns all nodes of the job on rank 0, and nothing on other ranks. The
// first rank of each node sends its name and its ranks. It is collective.
func (s *Session) ranksOfNodes(node mpi.Comm, nodes int) []nodeRanks {
	var mine *hash.Hash
	if node.Rank() == 0 {
		mine = hash.Marshal(nodeRanks{s.config.NodeName, s.protection.groups.NodeRanks()})
	}
	var list []nodeRanks
	for _, h := range hash.Collect(mine, nodes, s.world) {
		list = append(list, hash.As[nodeRanks](h))
	}
	return list
}

// gatherFacts records how the job was started, in a file to which checkpoints refer. Rank 0
// passes the nodes, and all ranks how they were started, and whether they were so alike. It is collective. It is no error if that cannot
// be recorded.
func (s *Session) gatherFacts(nodes []nodeRanks, started snapshot.Start, alike bool) error {
	if !s.config.Record {
		return nil
	}
	var list []snapshot.Node
	for _, n := range nodes {
		list = append(list, snapshot.Node{Name: n.Name, Ranks: len(n.Ranks)})
	}
	facts, err := snapshot.Gather(s.world, started, alike, list, s.config, version.Goscr())
	if err != nil || facts == nil {
		return err
	}
	s.prefix.Note(func() (err error) {
		s.numbers.facts, err = facts.Store(s.prefix.Dir)
		return err
	})
	return nil
}

// SetRestartCommand says how the program is started to restart from the checkpoint that it is
// writing: a command for a shell, which scr_restart then runs on each rank in place of the program;
// "" for the program as it was started. If it is not the same on all ranks, that is logged, and
// none is recorded. It is collective.
func (s *Session) SetRestartCommand(command string) error {
	return s.call("SetRestartCommand", func() error {
		if s.output == nil {
			return s.state.misplaced("SetRestartCommand", states[idle].advice)
		}
		first := mpi.BcastBytes(s.world, []byte(command), 0)
		if mpi.Any(s.world, string(first) != command) {
			s.log.WarnJob("the ranks give different commands to restart, rank 0 %q: scr_restart starts the program as it was started", first)
			command = ""
		}
		s.output.command = command
		return nil
	})
}

// recordFacts records with a checkpoint how the job was started, and how it restarts.
func (s *Session) recordFacts(d dataset.Dataset, command string) {
	if s.numbers.facts != nil && d.Flags().Has(dataset.Checkpoint) {
		s.prefix.Note(func() error { return s.numbers.facts.Refer(d, time.Now(), command) })
	}
}

// recordSettings writes the parameters that the program has set to app.conf, without
// secrets, for the commands. If there are none, or there is no room for them, it removes
// the file: it would hold those of another run.
func (s *Session) recordSettings(settings *Settings) error {
	path := s.metadata("app.conf")
	var text string
	if settings != nil {
		text = settings.public()
	}
	below := trust.Root(s.prefix.Dir)
	if there, err := readOwn(below, path); err == nil && string(there) == text && text != "" {
		return nil
	}
	if err := below.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text == "" {
		return nil
	}
	return hash.ReplaceFile(path, []byte(text), 0o644) // others must not write to it: commands obey it
}

// readOwn reads a file, unless another user has written it, or may have.
func readOwn(below trust.Root, path string) ([]byte, error) {
	f, err := below.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = trust.Users{}.Check(path, info)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}
