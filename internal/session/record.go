package session

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/advice"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/snapshot"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/internal/sys/version"
	"github.com/goscr/goscr/mpi"
)

// record has what commands that run before and after the program need to know of the run. Rank 0
// writes it to the prefix directory.
type record struct {
	*common
	node  mpi.Comm         // the ranks on the caller's node
	facts *snapshot.Stored // what is recorded with each checkpoint, on rank 0; nil if nothing is
}

// begin records the nodes and their ranks, the parameters that the program has set,
// and that the run has begun. nodes is the number of nodes, and local has the ranks of the caller's. It completes what earlier runs were flushing, of which it returns the datasets with missing
// files. It is collective.
func (r *record) begin(nodes int, local []int, advisor *advice.Advisor, opt Options) (missing []dataset.Dataset, err error) {
	ranks := r.ranksOfNodes(nodes, local)
	var started snapshot.Start
	if r.config.Record {
		started = snapshot.OfThisProcess()
	}
	digest := started.Digest()
	// One reduction tells what rank 0 has met, and whether all ranks were started alike.
	most := []int64{digest, ^digest, 0}
	var interrupted *hash.Hash
	if r.world.Rank() == 0 {
		if err = r.beginOnRoot(ranks, advisor, opt); err == nil {
			interrupted, err = r.prefix.Interrupted()
		}
		most[2] = int64(interrupted.Size())
	}
	if err := mpi.AgreeMax(r.world, err, most); err != nil {
		return nil, err
	}
	if err := r.gatherFacts(ranks, started, most[0] == ^most[1]); err != nil {
		return nil, err
	}
	if most[2] == 0 {
		return nil, nil
	}
	return r.prefix.CompleteFlushes(interrupted)
}

// beginOnRoot is the part of begin that rank 0 does. It passes all nodes.
func (r *record) beginOnRoot(nodes []nodeRanks, advisor *advice.Advisor, opt Options) error {
	byName := map[string][]int{}
	var names []string
	for _, n := range nodes {
		byName[n.Name] = n.Ranks
		names = append(names, n.Name)
	}
	r.events.Add(eventlog.Record{Type: eventlog.Nodes, Run: &eventlog.Run{Nodes: len(nodes), Ranks: r.world.Size(), NodeList: hostlist.Compress(names)}})
	// Nodes with the same name cannot be told apart.
	if len(byName) < len(nodes) || !request.Restarts(r.prefix.Dir) {
		byName = nil
	}
	if err := r.prefix.Spare(prefix.RecordNodes(r.prefix.Dir, len(nodes), byName)); err != nil {
		return err
	}
	if err := r.prefix.Spare(r.settings(opt.Settings)); err != nil {
		return err
	}
	return r.prefix.Spare(advisor.Begin(r.config, opt.environ()))
}

// nodeRanks is a node with its ranks.
type nodeRanks struct {
	Name  string `hash:"NAME"`
	Ranks []int  `hash:"RANK,set"`
}

// ranksOfNodes returns all nodes of the job on rank 0, and nothing on other ranks. The
// first rank of each node sends its name and its ranks. It is collective.
func (r *record) ranksOfNodes(nodes int, local []int) []nodeRanks {
	var mine *hash.Hash
	if r.node.Rank() == 0 {
		mine = hash.Marshal(nodeRanks{r.config.NodeName, local})
	}
	var list []nodeRanks
	for _, h := range hash.Collect(mine, nodes, r.world) {
		list = append(list, hash.As[nodeRanks](h))
	}
	return list
}

// gatherFacts records how the job was started, in a file to which checkpoints refer. Rank 0
// passes the nodes, and all ranks how they were started, and whether they were so alike. It is collective. It is no error if that cannot
// be recorded.
func (r *record) gatherFacts(nodes []nodeRanks, started snapshot.Start, alike bool) error {
	if !r.config.Record {
		return nil
	}
	var list []snapshot.Node
	for _, n := range nodes {
		list = append(list, snapshot.Node{Name: n.Name, Ranks: len(n.Ranks)})
	}
	facts, err := snapshot.Gather(r.world, started, alike, list, r.config, version.Goscr())
	if err != nil || facts == nil {
		return err
	}
	r.prefix.Note(func() (err error) {
		r.facts, err = facts.Store(r.prefix.Dir)
		return err
	})
	return nil
}

// refer records with a checkpoint how the job was started, and how it restarts.
func (r *record) refer(d dataset.Dataset, command string) {
	if r.facts != nil && d.Flags().Has(dataset.Checkpoint) {
		r.prefix.Note(func() error { return r.facts.Refer(d, time.Now(), command) })
	}
}

// settings writes the parameters that the program has set to app.conf, without
// secrets, for the commands. If there are none, or there is no room for them, it removes
// the file: it would hold those of another run.
func (r *record) settings(settings *Settings) error {
	path := filepath.Join(r.prefix.Dir, prefix.Metadata, "app.conf")
	var text string
	if settings != nil {
		text = settings.public()
	}
	below := trust.Root(r.prefix.Dir)
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
